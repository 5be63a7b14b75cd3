"""A swarm of processes on loopback: a tracker and members, each with folders of its own."""
import functools
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from small_run import TIMEOUT_S, RunTest, skep, wait_until, write_tokens

SWARM = {"swarm__name": "heather", "swarm__inner_steps": 10, "swarm__members_max": 4,
         "swarm__codec": "int8", "swarm__shrink_after": 2, "batch__tokens": 256,
         "batch__microbatch": 4}

# Members of these names are on the allow-list from the start; member() adds others.
NAMED = ("me", "anna", "bert", "carl", "early", "late", "alone", "stays", "leaves", "dies", "site",
         "one", "first", "second", "third")


@functools.lru_cache(maxsize=64)
def parsed_lines(path, *_):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1] if line.startswith("{")]


def json_lines(path):
    """The whole lines of a file; one cut off by a kill is left out. Tests ask for them many times a
    second, so an unchanged file is not read again."""
    if not path.exists():
        return []
    state = path.stat()
    return parsed_lines(path, state.st_ino, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=None)
def identity_of(name):
    """(Its file's content, its key) of a member of that name. It has the same identity in all tests
    of a process, so that few processes are started to make them."""
    with tempfile.TemporaryDirectory(prefix="skep-identity-") as folder:
        path = pathlib.Path(folder) / name
        made = skep("keys", "--identity", path)
        return path.read_bytes(), made.stdout.strip()


class Process:
    """One `skep` in a folder of its own, which it finds again when it is started again."""

    def __init__(self, site, name, command):
        self.site, self.name, self.command = site, name, command
        self.folder = site.path / name
        self.folder.mkdir(exist_ok=True)
        self.process = None

    def start(self, *more, **environment):
        own = {"STATE_DIRECTORY": str(self.folder / "state"),
               "XDG_CONFIG_HOME": str(self.folder / "config"),
               "XDG_CACHE_HOME": str(self.folder / "cache")}
        with open(self.folder / "output", "ab") as output, open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *more], cwd=self.site.path, stdout=output, stderr=log,
                stdin=subprocess.DEVNULL, env={**os.environ, **own, **environment})
        return self

    def log(self):
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()

    def ask_to_stop(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds=TIMEOUT_S):
        return self.process.wait(timeout=seconds)


class Member(Process):
    def lines(self, kind):
        return [line for line in json_lines(self.folder / "state" / "metrics.jsonl")
                if line["kind"] == kind]

    def rounds(self):
        """Number of the round -> its last line; assert_one_root_a_round looks at all of them."""
        return {line["round"]: line for line in self.lines("round")}

    def last(self):
        return max(self.rounds(), default=0)

    def ledger(self):
        return self.folder / "state" / "ledger.jsonl"


class SwarmTest(RunTest):
    """A test with one swarm: self.site is the tracker's folder."""

    def swarm(self, config=None, listen="tcp://127.0.0.1:0", held_out=None, roster=None,
              **settings):
        """roster: the text of the allow-list; None: members and the operator's own identity."""
        self.site = self.folder(config, **{**SWARM, **settings})
        write_tokens(self.site.path / "train.u16", 200000, 97, 1)  # more than any test trains on
        if held_out:
            (self.site.path / "valid.u16").write_bytes(held_out)
        self.roster = self.site.path / "roster.yaml"
        self.roster.write_text(self.rows_of_all() if roster is None else roster)
        self.adds_members = roster is None
        self.tracker = Process(self.site, "tracker", self.site.command(
            "track", "run.yaml", "--state", "tracker", "--roster", "roster.yaml", "--json"))
        self.addCleanup(self.tracker.kill)
        self.members = {}
        self.start_tracker(listen)

    def key_of(self, config=None):
        """The key of the identity in this folder; None: of the user's own."""
        environment = {"XDG_CONFIG_HOME": str(self.site.path / config)} if config else {}
        return self.site.run("keys", env=environment).stdout.strip()

    def give_identity(self, name):
        """The key of the member, which has its identity from now on."""
        path = self.site.path / name / "config" / "skep" / "identity"
        if path.exists():
            return self.key_of(f"{name}/config")
        content, key = identity_of(name)
        path.parent.mkdir(parents=True)
        path.touch(0o600)
        path.write_bytes(content)
        return key

    def rows(self, *names):
        return "".join(f"  - key: {self.give_identity(name)}\n    name: {name}\n"
                       for name in names)

    def rows_of_all(self):
        return f"members:\n  - key: {self.key_of()}\n  - key: {self.key_of('config')}\n" \
            + self.rows(*NAMED)

    def set_roster(self, text):
        """Replace the allow-list, and wait until the tracker has read and signed it."""
        signed = self.site.path / "roster.yaml.signed"
        before = signed.read_bytes()
        beside = self.site.path / "roster.new"
        beside.write_text(text)
        beside.replace(self.roster)
        self.wait_for(lambda: signed.read_bytes() != before, "a signed list", 10)

    def start_tracker(self, listen, *more):
        output = self.tracker.folder / "output"
        output.unlink(missing_ok=True)
        self.tracker.start("--listen", listen, *more)
        self.assertTrue(wait_until(lambda: output.exists() and output.read_text().endswith("\n") or
                                   not self.tracker.is_running()))
        self.assertTrue(self.tracker.is_running(), self.tracker.log())
        self.told = json.loads(output.read_text())
        self.join_string = self.told["join"]

    def restart_tracker(self):
        self.tracker.kill()
        before = self.join_string
        self.start_tracker(before.partition("#")[0])
        self.assertEqual(self.join_string, before)

    def member(self, name, *settings, listen="tcp://127.0.0.1:*"):
        """A member that is not started yet; it listens at the default with listen=None."""
        place = ("--listen", listen) if listen else ()
        member = Member(self.site, name, self.site.command(
            "join", self.join_string, *place, "threads=1", "data.train=train.u16",
            "data.validation=valid.u16", *settings))
        self.members[name] = member
        if self.adds_members and f"    name: {name}\n" not in self.roster.read_text():
            self.set_roster(self.roster.read_text() + self.rows(name))
        self.addCleanup(member.kill)
        return member

    def logs(self):
        return "\n".join(f"--- {process.name}\n{process.log()[-3000:]}"
                         for process in [self.tracker, *self.members.values()])

    def wait_for(self, condition, what, seconds=60):
        value = wait_until(condition, seconds)
        self.assertTrue(value, f"no {what} within {seconds} s\n{self.logs()}")
        return value

    def wait_for_end(self, *members, seconds=TIMEOUT_S):
        for member in members:
            try:
                code = member.wait(seconds)
            except subprocess.TimeoutExpired:
                self.fail(f"{member.name} does not end\n{self.logs()}")
            self.assertEqual(code, 0, self.logs())

    # ---- what must hold ----

    def assert_one_root_a_round(self):
        """Whoever applied a round, as often as it did, has the same root after it; gives the name
        of each who applied it, by round."""
        roots = {}
        for member in self.members.values():
            for line in member.lines("round"):
                roots.setdefault(line["round"], {}).setdefault(line["root"], []).append(member.name)
        for number, found in roots.items():
            self.assertEqual(len(found), 1, f"round {number}: {found}")
        return {number: next(iter(found.values())) for number, found in roots.items()}

    def assert_one_history(self):
        """Every ledger verifies with the tracker's key, and none contradicts another."""
        key = self.join_string.partition("#")[2]
        longest = []
        for member in self.members.values():
            result = self.site.run("ledger", member.ledger(), "--verify", "--operator", key)
            self.assert_exit(result, 0)
            lines = member.ledger().read_text().splitlines()
            common = min(len(lines), len(longest))
            self.assertEqual(lines[:common], longest[:common], member.name)
            longest = max(lines, longest, key=len)
        history = [json.loads(line) for line in longest]
        roots = {entry["round"]: entry["root"] for entry in history if entry["kind"] == "commit"}
        for member in self.members.values():
            for line in member.lines("round"):
                self.assertEqual(line["root"], roots.get(line["round"]),
                                 f"round {line['round']} of {member.name} is not in the ledger")
        self.assert_no_sample_twice(history)
        return history

    def assert_no_sample_twice(self, history):
        """What members named in any slice of a commit have trained, no other commit has."""
        used = []
        for commit in (entry for entry in history if entry["kind"] == "commit"):
            named = {seat for seat, member in enumerate(commit["members"])
                     if member["contributed"]}
            for seat in named:
                left = commit["members"][seat]["samples"]  # the first ones of the ranges
                for begin, end in commit["members"][seat]["ranges"]:
                    count = min(left, end - begin)
                    used += [(begin, begin + count, commit["round"])] if count > 0 else []
                    left -= count
                self.assertEqual(left, 0, f"round {commit['round']}, seat {seat}")
        used.sort()
        for (_, end, one), (begin, _, other) in zip(used, used[1:]):
            self.assertLessEqual(end, begin, f"rounds {one} and {other} share samples")

    def exported(self, member):
        return (member.folder / "state" / "model" / "model.safetensors").read_bytes()
