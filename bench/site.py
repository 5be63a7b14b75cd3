#!/usr/bin/env python3
"""Measure a site of two ranks, one thread each: Skep and PyTorch's FSDP2 on gloo.

Also measures Skep with one rank and two threads.

    python bench/site.py --skep build/skep [--case NAME] [--engine NAME...] [--turns N]
                         [--json FILE]

All engines have the same global batch, and each of two ranks has half of its rows. Engines take
turns. The script reports the median step and the peak resident memory of the largest rank.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys

import baseline
import baseline_fsdp
import train

RANKS = 2
STEPS_A_TURN = 5
PYTORCH = "PyTorch FSDP2, 2 ranks"
# name: (ranks, threads a rank, settings)
SKEP_ENGINES = {
    "Skep, 1 rank x 2 threads": (1, 2, []),
    "Skep, 2 ranks, ZeRO 0": (RANKS, 1, ["strategy.zero=0"]),
    "Skep, 2 ranks, ZeRO 2": (RANKS, 1, ["strategy.zero=2"]),
    "Skep, 2 ranks, ZeRO 3": (RANKS, 1, ["strategy.zero=3"]),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class FsdpEngine:
    """Two processes that run through all turns and sleep during those of other engines."""

    def __init__(self, case):
        where = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, baseline_fsdp.__file__, json.dumps({"case": case})]
        self.ranks = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=os.environ | where | {"RANK": str(rank)})
            for rank in range(RANKS)
        ]
        self.turn(train.WARM_STEPS)

    def turn(self, steps):
        for rank in self.ranks:
            rank.stdin.write(f"{steps}\n")
            rank.stdin.flush()
        lines = [rank.stdout.readline() for rank in self.ranks]
        if not all(lines):
            raise RuntimeError("an FSDP rank ended")
        answers = [json.loads(line) for line in lines]
        return answers[0] | {"rss_bytes": max(answer["rss_bytes"] for answer in answers)}

    def finish(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


class SkepSite(train.SkepEngine):
    """`skep train --ranks N`; wait4 reports the peak memory of the largest process."""

    def __init__(self, case, skep, ranks, threads, settings):
        super().__init__(case, {}, threads, skep)
        rows = self.run["batch"]["microbatch"]
        self.run["batch"]["microbatch"] = rows // ranks
        self.extra = ["--ranks", str(ranks), *settings]


def start_engine(name, case, skep):
    if name == PYTORCH:
        return FsdpEngine(case)
    ranks, threads, settings = SKEP_ENGINES[name]
    return SkepSite(case, skep, ranks, threads, settings)


def measure(arguments):
    engines, samples = {}, {}
    try:
        for name in arguments.engine:
            print(f"  starting {name}", file=sys.stderr)
            engines[name] = start_engine(name, arguments.case, arguments.skep)
            samples[name] = []
        for turn in range(arguments.turns):
            print(f"  turn {turn + 1} of {arguments.turns}", file=sys.stderr)
            for name, engine in engines.items():
                samples[name].append(engine.turn(STEPS_A_TURN))
    finally:
        for engine in engines.values():
            engine.finish()
    return {name: train.summary(arguments.case, turns) for name, turns in samples.items()}


def print_table(results):
    print(f"{'engine':26} {'tokens/s':>9} {'ms/step':>8} {'fastest':>8} {'slowest':>8}"
          f" {'peak MiB':>9}")
    for name, row in results.items():
        print(f"{name:26} {row['tokens_per_s']:9.1f} {row['step_ms']:8.1f}"
              f" {row['fastest_ms']:8.1f} {row['slowest_ms']:8.1f}"
              f" {row['rss_bytes'] / 2**20:9.0f}")


def main():
    names = [PYTORCH, *SKEP_ENGINES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skep", required=True)
    parser.add_argument("--case", default="Llama 15M, 8x256", choices=baseline.CASES)
    parser.add_argument("--engine", action="append", choices=names)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    arguments = parser.parse_args()
    arguments.engine = arguments.engine or names
    where = train.machine()
    print(f"{where['cpu']}, {where['time']}, load {where['load']:.1f} at the start")
    results = measure(arguments)
    print_table(results)
    if arguments.json:
        document = {"machine": where, "case": arguments.case, "engines": results}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
