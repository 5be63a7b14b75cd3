"""Small models, data and run files in a scratch folder, and the program run on them.

Standard library only. Every whole-process test builds upon this file.
"""
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SKEP = os.environ.get("SKEP", str(pathlib.Path(__file__).parents[2] / "build" / "skep"))
LONG = os.environ.get("SKEP_LONG", "") not in ("", "0")
SANITIZED = os.environ.get("SKEP_SANITIZED", "") != ""
SKIPPED = 77  # as Meson reads it
TIMEOUT_S = 120 if not LONG else 900

LLAMA = {"model_type": "llama", "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "initializer_range": 0.1,
         "tie_word_embeddings": False, "hidden_act": "silu"}
GPT2 = {"model_type": "gpt2", "vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4,
        "n_positions": 64, "initializer_range": 0.1}

SETTINGS = {"model": "model", "init": "random", "seed": 3, "steps": 20, "threads": 1,
            "data.train": "train.u16", "data.validation": "valid.u16", "batch.sequence": 16,
            "batch.microbatch": 2, "batch.tokens": 64, "optimizer.lr": 0.01, "eval.tokens": 64}


@functools.lru_cache(maxsize=16)
def tokens_of(count, vocab, seed):
    """Most tests of a process need the same ones."""
    chance = random.Random(seed)
    token, tokens = 1, []
    for _ in range(count):
        token = (token * 5 + 3 + (chance.randrange(vocab) if chance.random() < 0.2 else 0)) % vocab
        tokens.append(token)
    return struct.pack(f"<{count}H", *tokens)


def write_tokens(path, count, vocab, seed):
    """A learnable stream: an id depends on the one before, with some noise."""
    path.write_bytes(tokens_of(count, vocab, seed))


def nested(settings):
    """{"a.b": 1} as run.yaml has it."""
    lines, groups = [], {}
    for key, value in settings.items():
        group, _, name = key.rpartition(".")
        groups.setdefault(group, []).append((name, value))
    for group, entries in groups.items():
        if group:
            lines.append(f"{group}:")
        lines += [("  " if group else "") + f"{name}: {value}" for name, value in entries]
    return "\n".join(lines) + "\n"


class Folder:
    """A scratch folder with a model, token files and run.yaml; its outputs land in run/."""

    def __init__(self, config=None, **settings):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="skep-"))
        self.write_model(config or LLAMA)
        write_tokens(self.path / "train.u16", 6000, 97, 1)
        write_tokens(self.path / "valid.u16", 2100, 97, 2)
        self.settings = dict(SETTINGS)
        self.settings.update({key.replace("__", "."): value for key, value in settings.items()})
        self.write_run()

    def write_model(self, config):
        (self.path / "model").mkdir(exist_ok=True)
        (self.path / "model" / "config.json").write_text(json.dumps(config))

    def write_run(self, **changes):
        self.settings.update({key.replace("__", "."): value for key, value in changes.items()})
        (self.path / "run.yaml").write_text(nested(self.settings))

    def command(self, *arguments):
        return [SKEP, *map(str, arguments)]

    def run(self, *arguments, env=None, prefix=(), **options):
        return subprocess.run([*prefix, *self.command(*arguments)], cwd=self.path, text=True,
                              capture_output=True, timeout=TIMEOUT_S,
                              env={**os.environ, **(env or {})}, check=False, **options)

    def train(self, *arguments, **options):
        return self.run("train", "run.yaml", *arguments, **options)

    def start(self, *arguments, **options):
        """`skep train` in the background, its standard error in run.log."""
        with open(self.path / "run.log", "w", encoding="utf-8") as log:
            return subprocess.Popen(self.command("train", "run.yaml", *arguments), cwd=self.path,
                                    stdout=subprocess.DEVNULL, stderr=log, **options)

    def log(self):
        """run.log. mpirun can split a character where it mixes the lines of two ranks."""
        return (self.path / "run.log").read_text(errors="replace")

    def metrics(self, kind=None):
        """The whole lines of metrics.jsonl; a line cut off by a kill is left out."""
        path = self.path / "run" / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.split("\n")[:-1] if line.startswith("{")
                 and line.endswith("}")]
        return [line for line in lines if kind is None or line["kind"] == kind]

    def snapshots(self):
        return sorted(path for path in (self.path / "run" / "snapshots").glob("step-*")
                      if (path / "snapshot.json").exists())

    def state(self):
        """Bytes of the newest snapshot's tensors, by file name."""
        newest = self.snapshots()[-1]
        return {path.name: path.read_bytes() for path in sorted(newest.glob("*.safetensors"))}

    def forget(self):
        """Remove all outputs."""
        shutil.rmtree(self.path / "run", ignore_errors=True)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def skep(*arguments):
    return subprocess.run([SKEP, *map(str, arguments)], text=True, capture_output=True,
                          timeout=TIMEOUT_S, check=False)


class RunTest(unittest.TestCase):
    """A test with scratch folders that are removed at its end."""

    def folder(self, config=None, **settings):
        folder = Folder(config, **settings)
        self.addCleanup(folder.remove)
        return folder

    def assert_exit(self, result, code):
        self.assertEqual(result.returncode, code,
                         f"{result.args}\nstdout: {result.stdout}\nstderr: {result.stderr}")

    def document(self, result, *codes):
        """The one JSON document on standard output."""
        self.assertIn(result.returncode, codes or (0,), result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(document["format"], 1)
        return document


def wait_until(condition, seconds=60.0):
    """Poll under a deadline; the condition's value, or None."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    return None


def launched(folder, ranks, arguments=(), env=None):
    """`skep train` as a launcher of another kind starts it: one process a rank; (code, errors)."""
    port = str(20000 + os.getpid() % 10000)
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        extra = env(rank) if env else {}
        processes.append(subprocess.Popen(
            folder.command("train", "run.yaml", *arguments), cwd=folder.path, text=True,
            env={**os.environ, **own, **extra}, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    return [(code, errors) for errors, code in ended]


def children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except OSError:
        return []


def rank_of(pid):
    """What the launcher told a child; None when it is gone."""
    try:
        for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                return int(entry[5:])
    except OSError:
        pass
    return None


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def ranks_of(launcher):
    """rank -> process number of what a `skep --ranks` has started and is there."""
    found = {rank_of(pid): pid for pid in children(launcher)}
    found.pop(None, None)
    return found


def tensors_of(path):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"],
                   data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def raw_safetensors(header, data, length=None):
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def safetensors(tensors):
    """Bytes of a safetensors file of name -> (dtype, shape, data)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return raw_safetensors(json.dumps(header).encode(), data)


def kill_group(process, number=signal.SIGKILL):
    process.send_signal(number)
    return process.wait(timeout=TIMEOUT_S)


def main():
    """Run the tests of the calling file, or those that its arguments name; 77 when all skip."""
    result = unittest.main(module="__main__", verbosity=2, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.testsRun <= len(result.skipped) else 0)
