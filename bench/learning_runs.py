"""Run one setting of the learning bench: a data parallel run, a swarm on loopback, or PyTorch.

Each run has a folder that its setting, seed and program name, and that is deleted when the run is
complete. After an interruption the same call continues there: `skep train`, PyTorch and all
processes of a swarm resume from their own files. Only swarms with churn start again.
"""

import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time

from learning_settings import (MODELS, chance_per_round, family_of, key_of, run_file, setting,
                               short_hash)
from learning_processes import Interrupted, Processes
from learning_swarm import Swarm, last_loss

PIECE_BYTES = 2048
TORCH_SCRIPT = pathlib.Path(__file__).with_name("learning.py")


def mixed_text(text):
    """train.txt in pieces of about PIECE_BYTES, divided at blank lines, in random order."""
    pieces = [b""]
    for paragraph in (text / "train.txt").read_bytes().split(b"\n\n"):
        pieces[-1] += paragraph + b"\n\n"
        if len(pieces[-1]) >= PIECE_BYTES:
            pieces.append(b"")
    random.Random(1).shuffle(pieces)
    return b"".join(pieces)


def text_hash(train, validation):
    return short_hash(hashlib.sha256(train).digest() + hashlib.sha256(validation).digest())


def text_hash_of(folder):
    """The name in settings of the text in `folder`."""
    return text_hash(mixed_text(folder), (folder / "validation.txt").read_bytes())


def write_text(folder, train, validation):
    """Write the files of a text; another process never sees half of one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("train.txt", train), ("validation.txt", validation)):
        fresh = folder / f"{name}.{os.getpid()}"
        fresh.write_bytes(content)
        fresh.rename(folder / name)


class Runner:
    """Runs settings with one program, one text and one folder for files of runs."""

    def __init__(self, arguments):
        self.skep = arguments.skep.resolve()
        self.python = arguments.python
        self.stop = threading.Event()
        self.work = arguments.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.lock = threading.Lock()  # probes run once
        self.texts = {}
        version = subprocess.run([self.skep, "version", "--json"], check=True,
                                 capture_output=True, text=True)
        self.version = json.loads(version.stdout)
        self.build = short_hash(self.skep.read_bytes())
        self.probe_text = self.work / "text-probe"
        write_text(self.probe_text, random.Random(1).randbytes(1 << 17),
                   random.Random(2).randbytes(1 << 12))

    def add_text(self, folder):
        """Mix the text in `folder`; returns its hash, the name of the text in settings."""
        train, validation = mixed_text(folder), (folder / "validation.txt").read_bytes()
        name = text_hash(train, validation)
        self.texts[name] = self.work / f"text-{name}"
        write_text(self.texts[name], train, validation)
        return name

    def run(self, made, seed):
        """The record of a run; None if another process has it. Interrupted: it can continue."""
        program = self.program(made)
        folder = self.work / f"run-{key_of(made)}-{seed}-{short_hash(str(program).encode())}"
        with (self.work / f"{folder.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            result = self.run_in(folder, made, seed, self.texts[made["text"]])
        shutil.rmtree(folder)
        (self.work / f"{folder.name}.lock").unlink()
        return {"setting": made, "seed": seed, "loss": result.pop("loss"), "program": program,
                **result, "date": datetime.datetime.now().isoformat(timespec="seconds")}

    def run_in(self, folder, made, seed, text):
        """Start or continue a run. A run that fails leaves only its log."""
        if made.get("churn") and folder.exists():
            shutil.rmtree(folder)
        spent = read_spent(folder)
        (folder / "model").mkdir(parents=True, exist_ok=True)
        (folder / "model" / "config.json").write_text(json.dumps(MODELS[made["model"]]))
        (folder / "run.yaml").write_text(run_file(made, seed, text))
        processes, begin = Processes(self.stop), time.monotonic()
        run = {"swarm": self.swarm, "muon": self.torch, "data parallel": self.train}[made["kind"]]
        try:
            result = run(processes, folder, made, seed, text)
        except Interrupted:
            spent["parts"] += 1
            raise
        except (RuntimeError, OSError, ValueError):
            log = self.work / f"{folder.name}.log"
            if (folder / "log").exists():
                shutil.copy(folder / "log", log)
            shutil.rmtree(folder)
            print(f"{family_of(made)}, seed {seed} failed: see {log}", file=sys.stderr)
            raise
        finally:
            spent["cpu_s"] += processes.cpu_seconds
            spent["wall_s"] += time.monotonic() - begin
            if folder.exists():
                (folder / "spent.json").write_text(json.dumps(spent))
        return {**result, "resumed": spent["parts"], "cpu_s": round(spent["cpu_s"]),
                "wall_s": round(spent["wall_s"])}

    def train(self, processes, folder, made, seed, text):
        with (folder / "log").open("ab") as log:
            processes.run([self.skep, "-q", "train", folder / "run.yaml", "export.dtype=f32"],
                          stderr=log)
        return {"loss": last_loss(folder / "run" / "metrics.jsonl")}

    def swarm(self, processes, folder, made, seed, text):
        swarm = Swarm(self.skep, folder, text, made, processes)
        try:
            swarm.start()
            return swarm.train(chance_per_round(made), random.Random(seed))
        finally:
            swarm.stop()

    def torch(self, processes, folder, made, seed, text):
        """PyTorch on the rows and from the first weights of Skep."""
        with (folder / "log").open("ab") as log:
            if not (folder / "init").exists():
                processes.run([self.skep, "-q", "train", folder / "run.yaml", "--fresh", "steps=1",
                               "optimizer.lr=0", f"export={folder}/init", "export.dtype=f32"],
                              stderr=log)
            rows = folder / f"rows-{seed}.i32"
            count = made["steps"] * made["tokens"] // made["sequence"]
            with rows.open("wb") as output:
                processes.run([self.skep.parent / "bench" / "sample_order", folder / "run.yaml",
                               str(count)], stdout=output, stderr=log)
            processes.run(torch_command(self.python, folder, made, seed, text, rows),
                          stdout=log, stderr=log)
        curves = json.loads((folder / "result.json").read_text())["curves"]
        return {"loss": curves[str(seed)][-1][1]}

    # ---- the program's identity ----

    def program(self, made):
        """Commit, instruction set and probes of the program that runs this setting."""
        names = {"swarm": ["data parallel", made.get("codec")], "muon": ["muon"],
                 "data parallel": ["data parallel"]}[made["kind"]]
        with self.lock:
            probes = {name: self.probe(name) for name in names}
        return {"commit": self.version["commit"],
                "instruction_set": self.version["instruction_set"], "probes": probes}

    def probe(self, name):
        """A hash of what the program computes in a few steps of a fixed run; kept for each build.

        "data parallel": the weights after 20 steps. A codec: those of a swarm of two after three
        rounds of five steps. "muon": the validation loss of PyTorch after five steps."""
        memory = self.work / "probes.json"
        known = json.loads(memory.read_text()) if memory.exists() else {}
        build = self.build + (short_hash(TORCH_SCRIPT.read_bytes()) if name == "muon" else "")
        if f"{build} {name}" not in known:
            known[f"{build} {name}"] = self.run_probe(name)
            memory.write_text(json.dumps(known, indent=1))
        return known[f"{build} {name}"]

    def run_probe(self, name):
        fixed = {"text": "probe", "warmup": 5, "lr": 2e-3}
        if name == "data parallel":
            made = setting("data parallel", **fixed, steps=20)
        elif name == "muon":
            made = setting("muon", **fixed, steps=5)
        else:
            made = setting("swarm", **fixed, steps=15, members=2, inner_steps=5, codec=name)
        folder = self.work / f"probe-{os.getpid()}"
        try:
            result = self.run_in(folder, made, 1, self.probe_text)
            if name == "muon":
                return short_hash(repr(result["loss"]).encode())
            model = "run/model" if name == "data parallel" else "member1/model"
            return short_hash(weights_of(folder / model / "model.safetensors"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def read_spent(folder):
    """CPU and wall time of the earlier parts of a run, and their number."""
    path = folder / "spent.json"
    return json.loads(path.read_text()) if path.exists() else {"cpu_s": 0, "wall_s": 0, "parts": 0}


def weights_of(safetensors):
    """The bytes of all tensors, without the header."""
    content = safetensors.read_bytes()
    return content[8 + int.from_bytes(content[:8], "little"):]


def torch_command(python, folder, made, seed, text, rows):
    options = {
        "config": folder / "model" / "config.json", "optimizer": "muon", "samples": rows,
        "weights": folder / "init", "steps": made["steps"], "stop": made["steps"],
        "sequence": made["sequence"], "rows": made["tokens"] // made["sequence"],
        "schedule": "cosine", "warmup": made["warmup"], "lr": made["lr"],
        "embedding-lr": made["embedding_lr"], "momentum": made["momentum"],
        "weight-decay": made["weight_decay"], "eps": made["eps"],
        "clip-norm": made["clip_norm"], "seeds": seed, "threads": 1,
        "eval-every": made["steps"], "checkpoint": folder / "checkpoint.pt",
        "json": folder / "result.json"}
    command = [python, TORCH_SCRIPT, text, "--betas", *map(str, made["betas"])]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return command
