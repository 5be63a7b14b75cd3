"""The contract of the command line, against commands.txt: commands and their flags, run keys with
class, default and unit, names of JSON fields, files of a run, and exit codes. Prose is left out."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

import frozen

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
from loopback_swarm import SwarmTest, json_lines  # noqa: E402
from small_ledger import Ledger  # noqa: E402
from small_run import skep  # noqa: E402

KEY_ROW = re.compile(r"^(\S+) +(shared|local) +(\S+) +(\S+) +(.*)$")
CHOICES = re.compile(r"\((\w+(?:\|\w+)+)\)$")
PROBLEM = "id,lower,upper,size\n1,0,5,64\n2,3,9,100\n"
# Arguments and the exit code; in a folder with a run that has ended.
EXITS = [
    ("", 2), ("help", 0), ("help keys", 0), ("help plan", 0), ("help plam", 2), ("--version", 0),
    ("--help", 0), ("plam", 2), ("plan", 2), ("plan run.yaml", 0), ("plan none.yaml", 2),
    ("plan model", 0), ("plan none", 2), ("plan run.yaml --jsn", 2), ("plan run.yaml --target", 2),
    ("plan run.yaml --target none", 2), ("plan run.yaml --target h100-80g", 0),
    ("plan run.yaml limits.device=64KiB", 3), ("plan run.yaml limits.device=64KiB --json", 3),
    ("plan run.yaml nokey=1", 2), ("plan run.yaml steps=x", 2), ("plan run.yaml --ranks 0", 2),
    ("plan run.yaml --ranks 3 strategy.replicate=2", 2), ("plan run.yaml batch.microbatch=0", 2),
    ("plan run.yaml strategy.zero=4", 2), ("plan run.yaml precision.params=f64", 2),
    ("plan run.yaml precision.params=bf16", 0), ("plan -- run.yaml", 0),
    ("plan run.yaml precision.params=bf16 precision.compute=f32", 2),
    ("plan run.yaml precision.params=bf16 precision.compute=bf16", 0),
    ("plan run.yaml optimizer.clip_norm=-1", 2), ("plan run.yaml batch.sequence=65", 2),
    ("train run.yaml", 0), ("train run.yaml -q", 0), ("train run.yaml steps=2", 2),
    ("train run.yaml seed=4", 2), ("train none.yaml", 2), ("train", 2), ("train model", 2),
    ("train run.yaml data.train=none.u16", 2), ("train run.yaml limits.device=64KiB", 3),
    ("train run.yaml snapshot.folder=fresh steps=1 optimizer.lr=nan", 2),
    ("inspect model", 0), ("inspect model/config.json", 0), ("inspect none", 2), ("inspect", 2),
    ("inspect model --shards 2", 0), ("inspect model --shards 0", 2),
    ("mesh shard=4", 0), ("mesh replicate=2,shard=2 --per-node 2", 0), ("mesh", 2),
    ("mesh shard=0", 2), ("mesh shard", 2), ("mesh shard=4 --table 0,1,2,2", 2),
    ("mesh shard=4 --table 3,2,1,0", 0), ("mesh shard=4 --per-node 3", 0),
    ("pack problem.csv", 0), ("pack problem.csv --capacity 100", 3), ("pack none.csv", 2),
    ("pack problem.csv --capacity 164", 0), ("pack run.yaml", 2), ("pack problem.csv --json", 0),
    ("data", 2), ("data text.txt", 2), ("data text.txt -o out", 2), ("data --ids text.txt", 2),
    ("data text.txt --model none -o out", 2), ("data text.txt --model model -o out", 2),
    ("eval run/model --data valid.u16 batch.sequence=16", 0), ("eval run/model", 2),
    ("eval none --data valid.u16", 2), ("eval run/model --data none.u16", 2),
    ("generate run/model --prompt 1,2,3 --ids --tokens 4", 0), ("generate run/model", 2),
    ("generate run/model --prompt 1,2,999 --ids --tokens 4", 2),
    ("generate run/model --prompt 1,2 --ids --stop x", 2),
    ("generate run/model --prompt a --top-p 0", 2),
    ("dump model none.safetensors -o out.safetensors", 2), ("dump model", 2),
    ("snapshot list run/snapshots", 0), ("snapshot verify run/snapshots", 0),
    ("snapshot inspect run/snapshots", 0), ("snapshot lst run/snapshots", 2),
    ("snapshot list none", 2), ("snapshot", 2), ("snapshot list", 2),
    ("snapshot export run/snapshots -o exported", 0), ("snapshot export run/snapshots", 0),
    ("snapshot export run/snapshots -o exported2 --dtype f64", 2),
    ("keys --identity identity", 0), ("keys x", 2), ("keys --identity run.yaml", 2),
    ("roster list --roster roster.yaml", 0), ("roster list", 2), ("roster", 2),
    ("roster add x --roster roster.yaml", 2), ("roster remove x --roster roster.yaml", 2),
    ("ledger small.jsonl", 0), ("ledger small.jsonl --verify", 0), ("ledger none.jsonl", 2),
    ("ledger changed.jsonl --verify", 2), ("ledger run.yaml", 2), ("ledger", 2),
    ("train run.yaml steps=6 metrics=/dev/full", 0), ("plan run.yaml --svg /dev/full", 1),
    ("snapshot export run/snapshots -o /dev/full", 2),
    ("probe x", 2), ("probe --target none", 2), ("comm --ranks 0", 2), ("comm x", 2),
    ("track", 2), ("track none.yaml", 2), ("status", 2), ("status none.skep", 2), ("join", 2),
    ("version", 0), ("version x", 2), ("doctor x", 2),
    ("pack problem.csv --capacity 100 --json", 3),
    ("join none.skep", 2), ("join tcp://127.0.0.1:1#x", 2),
]


def paths_of(value, place=""):
    """Every field's path in a JSON value; [] stands for any element."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{place}.{name}"
            yield from paths_of(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner, f"{place}[]")


def field_lines(title, *values):
    for path in sorted({path for value in values for path in paths_of(value)}):
        yield f"{title} {path}"


def kind_lines(title, lines):
    """Fields by the kind of line."""
    for kind in sorted({line["kind"] for line in lines}):
        yield from field_lines(f"{title} {kind}", *(line for line in lines if line["kind"] == kind))


def command_lines():
    for command in re.findall(r"^  ([a-z]+) ", skep("help").stdout, re.MULTILINE):
        if command == "keys":
            usage = skep("keys", "--help").stdout.splitlines()[0]
        else:
            usage = skep("help", command).stdout.splitlines()[0]
        flags = " ".join(sorted(set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))))
        yield f"command {command} {flags}".rstrip()


def key_lines():
    for row in skep("help", "keys").stdout.splitlines():
        found = KEY_ROW.match(row)
        if found:
            choices = CHOICES.search(found[5])
            yield f"key {' '.join(found.groups()[:4])} {choices[1] if choices else ''}".rstrip()


class Commands(SwarmTest):
    maxDiff = None

    def small(self):
        """A folder with a run that has ended, a ledger, a damaged one, and a packing problem."""
        folder = self.folder(steps=4, target="cpu", snapshot__every=2, eval__every=2,
                             trace="run/trace.json", trace_steps="1:2")
        self.assert_exit(folder.train(), 0)
        ledger = Ledger(3)
        ledger.round(1, [0, 2])
        ledger.round(2, [], end="abort")
        (folder.path / "small.jsonl").write_text(ledger.text())
        ledger.lines[1]["round"] += 1
        (folder.path / "changed.jsonl").write_text(ledger.text())
        (folder.path / "problem.csv").write_text(PROBLEM)
        return folder

    def document_lines(self, folder):
        for title, arguments in (
                ("inspect", "inspect run/model"), ("plan", "plan run.yaml --ranks 4"),
                ("plan GPU", "plan run.yaml --target h100-80g"),
                ("plan blamed", "plan run.yaml limits.device=64KiB"),
                ("mesh", "mesh replicate=2,shard=2 --per-node 2 --bytes shard=1e9"),
                ("pack", "pack problem.csv"), ("version", "version"), ("doctor", "doctor"),
                ("eval", "eval run/model --data valid.u16 batch.sequence=16"),
                ("snapshot list", "snapshot list run/snapshots"),
                ("snapshot verify", "snapshot verify run/snapshots"),
                ("snapshot inspect", "snapshot inspect run/snapshots"),
                ("keys", "keys --identity identity"),
                ("ledger", "ledger small.jsonl"), ("ledger verify", "ledger small.jsonl --verify"),
                ("roster", "roster list --roster roster.yaml")):
            result = folder.run(*arguments.split(), "--json")
            self.assertIn(result.returncode, (0, 3), result.stderr)
            values = [json.loads(line) for line in result.stdout.splitlines()] \
                if title == "ledger" else [json.loads(result.stdout)]
            yield from field_lines(f"json {title}", *values)

    def file_lines(self, folder):
        yield from kind_lines("metrics", folder.metrics())
        snapshot = json.loads((folder.snapshots()[-1] / "snapshot.json").read_text())
        yield from field_lines("snapshot.json", snapshot)
        keys = [line.partition(":")[0] for line in snapshot["keys"].splitlines()]
        yield f"snapshot.json keys {' '.join(keys)}"
        trace = json.loads((folder.path / "run" / "trace.json").read_text())
        yield from field_lines("trace.json", trace)
        for path in sorted((folder.path / "run").rglob("*")):
            yield f"file {path.relative_to(folder.path)}"

    def exit_lines(self, folder):
        for arguments, _ in EXITS:
            result = folder.run(*arguments.split())
            yield f"exit {result.returncode} skep {arguments}".rstrip()

    def swarm_lines(self):
        """A tracker and one member, up to the run's end."""
        self.swarm(steps=20)
        member = self.member("one")
        self.wait_for_end(member.start())
        lines = [line for kind in ("start", "round", "end") for line in member.lines(kind)]
        yield from kind_lines("swarm metrics", lines)
        yield from field_lines("json track", self.told)
        yield from kind_lines("ledger line", json_lines(member.ledger()))
        report = self.site.run("join", self.join_string, "--check", "--json", "--identity",
                               self.site.path / "tracker" / "identity", "data.train=train.u16")
        yield from field_lines("json join", json.loads(report.stdout))
        status = self.site.run("status", self.join_string, "--identity",
                               self.site.path / "tracker" / "identity", "--json")
        yield from field_lines("json status", {**json.loads(status.stdout), "members": []})

    def test_commands_keys_fields_files_and_exit_codes_stay(self):
        folder = self.small()
        lines = [*command_lines(), *key_lines(), *self.file_lines(folder),
                 *self.document_lines(folder), *self.swarm_lines(), *self.exit_lines(folder)]
        self.assertTrue(frozen.holds("commands", lines))

    def test_exit_codes_are_the_contracts(self):
        """The file cannot be written anew with another code."""
        path = frozen.FOLDER / "commands.txt"
        expected = [f"exit {code} skep {arguments}".rstrip() for arguments, code in EXITS]
        found = [line for line in path.read_text().splitlines() if line.startswith("exit ")]
        self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
