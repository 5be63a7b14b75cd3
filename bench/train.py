#!/usr/bin/env python3
"""Measure speed and memory of training steps: Skep and three modes of PyTorch, in one run.

    python bench/train.py [--skep build/skep] [--case NAME...] [--engine NAME...]
                          [--turns N] [--json FILE]

Each engine has its own process. Engines take turns, so that a slow period of the machine affects
all alike. The script reports the median step and the peak resident memory. A step is forward,
backward, clipping by the global norm and AdamW. The PyTorch engines are transformers models with
sdpa attention and fused AdamW; Skep runs through `skep train` on random tokens.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import baseline

STEPS_A_TURN = 3
WARM_STEPS = 2

PYTORCH_ENGINES = {
    "eager f32": {"compile": False, "autocast": False},
    "compile f32": {"compile": True, "autocast": False},
    "eager bf16": {"compile": False, "autocast": True},
}
SKEP_ENGINES = {
    "skep f32": {"params": "f32", "compute": "f32"},
    "skep bf16": {"params": "bf16", "compute": "bf16"},
}


class PytorchEngine:
    """A process that runs through all turns and sleeps during those of other engines."""

    def __init__(self, case, options, threads):
        command = [sys.executable, baseline.__file__, json.dumps({"case": case, **options})]
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.turn(WARM_STEPS)

    def turn(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the PyTorch process ended with exit code {self.process.wait()}")
        return json.loads(line)

    def finish(self):
        self.process.stdin.close()
        self.process.wait()


class SkepEngine:
    """One `skep train` for each turn, because a run cannot pause; starting it is fast."""

    def __init__(self, case, options, threads, skep):
        self.skep = skep
        self.scratch = tempfile.TemporaryDirectory(prefix="skep-bench-")
        folder = pathlib.Path(self.scratch.name)
        model, rows, length = baseline.CASES[case]
        (folder / "config.json").write_text(json.dumps(model))
        write_random_tokens(folder / "train.u16", 64 * rows * (length + 1), model["vocab_size"])
        self.metrics = folder / "metrics.jsonl"
        self.run_file = folder / "run.yaml"
        self.extra = []
        self.run = {
            "model": "config.json",
            "init": "random",
            "seed": 1,
            "threads": threads,
            "data": {"train": "train.u16"},
            "batch": {"sequence": length, "microbatch": rows, "tokens": rows * length},
            "optimizer": {"lr": baseline.LEARNING_RATE},
            "schedule": {"kind": "constant", "warmup_steps": 0},
            "precision": options,
            "metrics": str(self.metrics),
        }

    def turn(self, steps):
        # Each JSON document is also YAML.
        self.run_file.write_text(json.dumps(self.run | {"steps": WARM_STEPS + steps}, indent=1))
        self.metrics.unlink(missing_ok=True)
        command = [self.skep, "train", "--fresh", "-q", str(self.run_file), *self.extra]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"exit {process.returncode}: {' '.join(command)}")
        records = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        done = [record for record in records if record["kind"] == "step"]
        return {
            "ms": [record["step_ms"] for record in done[WARM_STEPS:]],
            "rss_bytes": usage.ru_maxrss * 1024,
            "first_loss": done[0]["loss"],
        }

    def finish(self):
        self.scratch.cleanup()


def write_random_tokens(path, count, vocab):
    import numpy

    numpy.random.default_rng(1).integers(0, vocab, count).astype("<u2").tofile(path)


def start_engine(name, case, arguments):
    if name in PYTORCH_ENGINES:
        return PytorchEngine(case, PYTORCH_ENGINES[name], arguments.threads)
    return SkepEngine(case, SKEP_ENGINES[name], arguments.threads, arguments.skep)


def measure(case, arguments):
    """{engine: summary}; the engines take turns."""
    engines, samples = {}, {}
    try:
        for name in arguments.engine:
            print(f"  starting {name}", file=sys.stderr)
            engines[name] = start_engine(name, case, arguments)
            samples[name] = []
        for turn in range(arguments.turns):
            print(f"  turn {turn + 1} of {arguments.turns}", file=sys.stderr)
            for name, engine in engines.items():
                samples[name].append(engine.turn(STEPS_A_TURN))
    finally:
        for engine in engines.values():
            engine.finish()
    return {name: summary(case, turns) for name, turns in samples.items()}


def summary(case, turns):
    _, rows, length = baseline.CASES[case]
    times = [ms for turn in turns for ms in turn["ms"]]
    step_ms = statistics.median(times)
    return {
        "tokens_per_s": rows * length / step_ms * 1e3,
        "step_ms": step_ms,
        "fastest_ms": min(times),
        "slowest_ms": max(times),
        "rss_bytes": max(turn["rss_bytes"] for turn in turns),
        "first_loss": turns[0]["first_loss"],
    }


def print_table(case, results):
    print(f"\n{case}")
    header = f"{'engine':12} {'tokens/s':>9} {'ms/step':>8} {'fastest':>8} {'slowest':>8}"
    print(f"{header} {'peak MiB':>9} {'loss':>7}", end="")
    yardsticks = [name for name in PYTORCH_ENGINES if name in results]
    print("".join(f" {'x ' + name:>21}" for name in yardsticks), "  (speed, memory)")
    for name, row in results.items():
        print(
            f"{name:12} {row['tokens_per_s']:9.1f} {row['step_ms']:8.1f}"
            f" {row['fastest_ms']:8.1f} {row['slowest_ms']:8.1f}"
            f" {row['rss_bytes'] / 2**20:9.0f} {row['first_loss']:7.3f}",
            end="",
        )
        for yardstick in yardsticks:
            speed = row["tokens_per_s"] / results[yardstick]["tokens_per_s"]
            memory = row["rss_bytes"] / results[yardstick]["rss_bytes"]
            print(f" {speed:14.2f} {memory:6.2f}", end="")
        print()


def machine():
    name = "unknown CPU"
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            name = line.split(":")[1].strip()
            break
    return {"cpu": name, "load": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M")}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skep", help="the Skep program; default: measure only PyTorch")
    parser.add_argument("--case", action="append", choices=baseline.CASES)
    parser.add_argument("--engine", action="append", choices=[*PYTORCH_ENGINES, *SKEP_ENGINES])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    arguments.case = arguments.case or list(baseline.CASES)
    if not arguments.engine:
        arguments.engine = [*PYTORCH_ENGINES, *(SKEP_ENGINES if arguments.skep else ())]
    return arguments


def main():
    arguments = parse_arguments()
    document = {"machine": machine(), "threads": arguments.threads, "cases": {}}
    where = document["machine"]
    print(f"{where['cpu']}, {arguments.threads} threads, {where['time']}, "
          f"load {where['load']:.1f} at the start")
    for case in arguments.case:
        print(f"{case}:", file=sys.stderr)
        document["cases"][case] = measure(case, arguments)
        print_table(case, document["cases"][case])
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
