"""Four readers of README.md run every command of their section, in a folder of their own.

The commands come out of README.md, so a command that does not work there fails here. What a reader
has to fill in is replaced: the address and the key in JOIN=, the address behind --public, and the
key in KEY=. A reader has a home folder of its own, and `skep` is the program of this build.
"""
import array
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import readme

ROOT = pathlib.Path(__file__).parents[2]
SKEP = os.environ.get("SKEP", str(ROOT / "build" / "skep"))
LONG = os.environ.get("SKEP_LONG", "") not in ("", "0")
TIMEOUT_S = 240 if not LONG else 900
STEPS_OF_A_ROUND, ROUNDS = 20, 25  # of the swarm in README.md
SHORT_ROUNDS = 5
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
          "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
          "rms_norm_eps": 1e-5, "initializer_range": 0.1, "tie_word_embeddings": False,
          "hidden_act": "silu"}
TEXT = "".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
LLM_C_MAGIC, LLM_C_HEADER_INTS = 20240520, 256


class Reader:
    """A person with a folder and a home of their own, who types commands into one shell."""

    def __init__(self, test, name):
        self.test, self.name = test, name
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"skep-{name}-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "skep").symlink_to(SKEP)
        self.environment = {
            "HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SKEP": str(ROOT), "LANG": "C.UTF-8", "NO_COLOR": "1"}
        self.variables = ""  # lines of the shell that later commands use
        self.background = []
        test.addCleanup(shutil.rmtree, self.folder)
        test.addCleanup(self.stop)

    def stop(self):
        for process in self.background:
            process.terminate()
        for process in self.background:
            process.wait(timeout=TIMEOUT_S)

    def start(self, command):
        """Runs a command in the background; its standard error goes to NAME.log."""
        log = open(self.folder / f"{self.name}.log", "ab")
        self.test.addCleanup(log.close)
        process = subprocess.Popen(["bash", "-ec", f"{self.variables}exec {command}"],
                                   cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=log)
        self.background.append(process)
        return process

    def log(self):
        return (self.folder / f"{self.name}.log").read_text()

    def types(self, command, code=0):
        """Runs a command in the foreground; its standard output."""
        if re.match(r"[A-Z]+=", command):
            self.variables += command
            return ""
        result = subprocess.run(["bash", "-ec", "set -o pipefail\n" + self.variables + command],
                                cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=TIMEOUT_S)
        self.test.assertEqual(result.returncode, code,
                              f"{self.name}: {command}{result.stdout}{result.stderr}")
        return result.stdout


def write_model(folder, **changes):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))


def write_tokenizer(folder):
    """The small tokenizer with the control tokens of ChatML, and the template of docs/DATA.md."""
    small = ROOT / "tests/support/small_tokenizer"
    tokenizer = json.loads((small / "tokenizer.json").read_text())
    first = len(tokenizer["model"]["vocab"])
    for i, text in enumerate(("<|im_start|>", "<|im_end|>")):
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": first + i,
                                          "content": text})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    names = json.loads((small / "tokenizer_config.json").read_text())
    template = next(text for text in readme.examples("docs/DATA.md") if "message.role" in text)
    (folder / "tokenizer_config.json").write_text(json.dumps({**names, "chat_template": template}))


def write_shard(path, text):
    """The bytes of a text as tokens, in the form of llm.c."""
    path.parent.mkdir(exist_ok=True)
    tokens = array.array("H", list(text.encode()))
    header = [LLM_C_MAGIC, 1, len(tokens)] + [0] * (LLM_C_HEADER_INTS - 3)
    path.write_bytes(struct.pack(f"<{LLM_C_HEADER_INTS}i", *header) + tokens.tobytes())


def has_python_module(name):
    return subprocess.run(["python3", "-c", f"import {name}"], capture_output=True,
                          check=False).returncode == 0


def quickened(command):
    """A command of the engineer. The tiny model learns its conversations at a higher rate."""
    rate = "optimizer.lr: 2e-5\n"
    if not command.startswith("cat >chat.yaml"):
        return command
    assert command.count(rate) == 1, command
    return command.replace(rate, "optimizer.lr: 1e-2\n")


def shortened(command):
    """A command of the operator. Its swarm trains for fewer rounds, unless the test is long."""
    if LONG or not command.startswith("cat >austen.yaml"):
        return command
    steps = f"steps: {STEPS_OF_A_ROUND * ROUNDS}\n"
    assert command.count(steps) == 1, command
    return command.replace(steps, f"steps: {STEPS_OF_A_ROUND * SHORT_ROUNDS}\n")


def two_free_ports():
    """A port that is free together with the one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            try:
                second.bind(("127.0.0.1", first.getsockname()[1] + 1))
                return first.getsockname()[1]
            except OSError:
                continue


class Walks(unittest.TestCase):
    def wait_for(self, condition, what):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def test_sections_have_at_most_a_dozen_commands(self):
        for section in ("Lend a machine", "Train a model", "Run a swarm", "Package it"):
            self.assertIn(len(readme.commands(section)), range(4, 13), section)

    def test_an_engineer_trains_a_model(self):
        reader = Reader(self, "engineer")
        write_model(reader.work / "pretrained", vocab_size=512)
        (reader.work / "first.yaml").write_text(
            "model: pretrained\ninit: random\nsteps: 1\nexport: my-model\n"
            "data: {train: t.bin}\nbatch.sequence: 128\n")
        write_shard(reader.work / "t.bin", TEXT[:4096])
        reader.types("skep train first.yaml\n")
        write_tokenizer(reader.work / "my-model")
        (reader.work / "book.txt").write_text(TEXT)
        losses = []
        outputs = {}
        for command in readme.commands("Train a model"):
            output = reader.types(quickened(command))
            outputs[command.split(" --")[0]] = output
            if command.startswith("skep eval"):
                losses.append(float(re.search(r"loss ([\d.]+)", output)[1]))
            if command.startswith("skep plan"):
                self.assertTrue(output.startswith("fits"), output)
        self.assertGreater(len(outputs["skep generate tune/model"].strip()), 10)
        self.assertEqual(outputs["skep generate chat/model"], "Clever.\n")
        before, after = losses
        self.assertLess(after, before - 0.1)

    def test_a_reader_of_the_page_on_data_runs_its_commands(self):
        reader = Reader(self, "collector")
        (reader.work / "my-model").mkdir()
        write_tokenizer(reader.work / "my-model")
        (reader.work / "book.txt").write_text(TEXT)
        for name in ("a.txt", "b.txt", "c/d.md"):
            (reader.work / "library" / name).parent.mkdir(parents=True, exist_ok=True)
            (reader.work / "library" / name).write_text(TEXT * 2)
        for command in readme.commands(None, "docs/DATA.md"):
            output = reader.types(command)
        self.assertEqual(output, "It is a truth\n")
        self.assertEqual((reader.work / "tokens/posts/train_000000.bin").read_bytes(),
                         (reader.work / "tokens/piped/train_000000.bin").read_bytes())
        for path in ("book", "library"):
            self.assertEqual(len(list((reader.work / "tokens" / path).iterdir())), 3, path)
        self.assertEqual((reader.work / "tokens/chats/train_000000.bin").read_bytes(),
                         (reader.work / "tokens/chatml/train_000000.bin").read_bytes())

    def converter(self, program):
        """A reader with a data set, and the lines of the page on data that use this program."""
        reader = Reader(self, "converter")
        (reader.work / "my-model").mkdir()
        write_tokenizer(reader.work / "my-model")
        text = next(text for text in readme.examples("docs/DATA.md") if program in text)
        return reader, text

    @unittest.skipUnless(has_python_module("pyarrow"), "the Python package pyarrow is missing")
    def test_parquet_is_read_with_pyarrow(self):
        reader, text = self.converter("pyarrow")
        reader.types("mkdir -p dataset/data && python3 -c 'import pyarrow, pyarrow.parquet as p; "
                     "p.write_table(pyarrow.table({\"text\": [\"One.\", \"Two.\\n\"]}), "
                     "\"dataset/data/a.parquet\")'\n")
        reader.types(text)
        self.assertEqual(len(list((reader.work / "tokens/dataset").glob("train_*.bin"))), 1)

    @unittest.skipUnless(shutil.which("duckdb"), "the program duckdb is missing")
    def test_parquet_is_converted_by_duckdb(self):
        reader, text = self.converter("duckdb -c")
        reader.types("mkdir dataset && duckdb -c \"COPY (SELECT * FROM (VALUES ('One.'), ('Two.')) "
                     "AS t(text)) TO 'dataset/a.parquet' (FORMAT parquet)\"\n")
        reader.types(text)
        lines = (reader.work / "dataset.jsonl").read_text().splitlines()
        texts = [json.loads(line) for line in lines]
        self.assertEqual(texts, [{"text": "One."}, {"text": "Two."}])

    def operator(self, port):
        """The operator's commands up to the tracker; the reader, the rest, and the join string."""
        reader = Reader(self, "operator")
        (reader.work / "train.txt").write_text(TEXT[20000:])
        (reader.work / "validation.txt").write_text(TEXT[:20000])
        rest = readme.commands("Run a swarm")
        while rest:
            command = rest.pop(0)
            if command.startswith("skep track"):
                typed, background, _ = command.partition(" &")
                self.assertTrue(background, "the tracker runs in the background")
                typed = re.sub(r"--public \S+", f"--listen tcp://127.0.0.1:{port}", typed)
                reader.start(typed)
                break
            reader.types(shortened(command))
        join = reader.work / "join.txt"
        self.wait_for(lambda: join.exists() and join.read_text().endswith("\n"), "join string")
        return reader, rest, join.read_text().strip()

    def volunteer(self, name, operator, add, join):
        """The volunteer's commands up to the last, which runs on; returns the process."""
        reader = Reader(self, name)
        shutil.copy(operator.work / "train.txt", reader.work)
        *first, last = readme.commands("Lend a machine")
        for command in first:
            if command.startswith("JOIN="):
                reader.types(re.sub("'.*?'", f"'{join}'", command, count=1))
            elif command.startswith("skep keys"):
                key = reader.types(command).split()[0]
                self.assertRegex(reader.types(readme.commands("Lend a machine")[-2], code=2),
                                 "access +MISSING")
                operator.variables += f"KEY='{key}'\n"
                operator.types(add.replace("anna", name))
                time.sleep(1.5)  # the tracker reads its allow-list once a second
            else:
                reader.types(command)
        return reader, reader.start(last)

    def test_an_operator_runs_a_swarm_and_volunteers_lend_machines(self):
        operator, rest, join = self.operator(two_free_ports())
        placeholder, add, *queries = rest
        self.assertTrue(placeholder.startswith("KEY='p..."), placeholder)
        volunteers = [self.volunteer(name, operator, add, join)
                      for name in ("anna", "emma", "jane")]
        for command in queries:
            operator.types(command)
        models = []
        for reader, process in volunteers:
            self.assertEqual(process.wait(timeout=TIMEOUT_S), 0, reader.log())
            model = reader.folder / ".local/state/skep/austen/model/model.safetensors"
            models.append(model.read_bytes())
        self.assertEqual(models, models[:1] * 3)
        verified = operator.types(queries[-1])
        rounds = ROUNDS if LONG else SHORT_ROUNDS
        self.assertIn(f"{rounds} commits, 0 aborts: chain, signatures and quorums are valid",
                      verified)

    @unittest.skipUnless(LONG, "set SKEP_LONG=1: it builds the whole program, which takes minutes")
    def test_a_packager_installs_into_a_folder(self):
        reader = Reader(self, "packager")
        tree = reader.work / "skep"
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
        reader.work = tree
        reader.environment["PATH"] = os.environ["PATH"]
        for command in readme.commands("Package it"):
            if not command.startswith("man ") or shutil.which("man"):
                reader.types(command)

    @unittest.skipUnless(LONG, "set SKEP_LONG=1: it builds the whole program, which takes minutes")
    def test_the_demo_prints_what_it_does_every_five_seconds(self):
        reader = Reader(self, "visitor")
        tree = reader.work / "skep"
        subprocess.run(["git", "clone", "-q", ROOT, tree], check=True)
        start = last = time.monotonic()
        longest = 0.0
        with subprocess.Popen([tree / "tools/demo"], cwd=tree, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=os.environ) as demo:
            for line in demo.stdout:
                now = time.monotonic()
                longest, last = max(longest, now - last), now
            self.assertEqual(demo.wait(), 0, line)
        print(f"the demo took {time.monotonic() - start:.0f} s", file=sys.stderr)
        self.assertLessEqual(longest, 5.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
