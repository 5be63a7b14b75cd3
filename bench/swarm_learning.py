#!/usr/bin/env python3
"""What a swarm learns beside data parallel on the same tokens, by paired seeds.

    python3 bench/swarm_learning.py TEXT [--skep build/skep] [--seeds 1 2 3 4 5] [--json OUT]

TEXT holds train.txt and validation.txt (tools/demo_text), read as bytes. The model is a Llama of
about a million parameters. For each seed:

    M times the batch   `skep train`, M x the tokens a step: data parallel, M = 2 and 4
    a swarm of M        `skep track` and M x `skep join` on loopback, the same number of inner steps
    the others          M = 4 again with other codecs, and with members that die and are replaced

Reported for each is the validation loss after the last step, its distance from data parallel of
the same seed, and the mean distance over seeds with its 95 % confidence interval (Student's t).
"""

import argparse
import json
import math
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
}

RUN = """model: model
init: random
seed: {seed}
steps: {steps}
threads: {threads}
data:
  train: {text}/train.txt
  validation: {text}/validation.txt
batch:
  sequence: 128
  microbatch: {microbatch}
  tokens: {tokens}
optimizer.lr: {lr}
schedule:
  kind: cosine
  warmup_steps: 20
eval.every: {steps}
snapshot.every: 1000000
swarm:
  name: learning
  inner_steps: {inner_steps}
  codec: {codec}
  members_max: 8
"""

# Student's t for 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
CASES = (  # name, members, codec, chance of each member to be replaced in a round, beside which
    ("data parallel, 2", 2, None, 0, None),
    ("data parallel, 4", 4, None, 0, None),
    ("swarm of 2, int8", 2, "int8", 0, "data parallel, 2"),
    ("swarm of 4, int8", 4, "int8", 0, "data parallel, 4"),
    ("swarm of 4, fp32", 4, "fp32", 0, "data parallel, 4"),
    ("swarm of 4, int4", 4, "int4", 0, "swarm of 4, fp32"),
    ("swarm of 4, int8, churn", 4, "int8", 0.1, "swarm of 4, int8"),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--skep", type=pathlib.Path, default=pathlib.Path("build/skep"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--inner-steps", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=512, help="a member's step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--cases", nargs="+", help="parts of names; all by default")
    parser.add_argument("--set", nargs="*", default=[], help="key=value for every run")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.skep = arguments.skep.resolve()
        self.text = arguments.text.resolve()

    def write_run(self, folder, seed, tokens, codec, threads):
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
        run = folder / "run.yaml"
        arguments = self.arguments
        run.write_text(RUN.format(seed=seed, steps=arguments.steps, text=self.text, tokens=tokens,
                                  microbatch=min(tokens // 128, 8), lr=arguments.lr,
                                  inner_steps=arguments.inner_steps, codec=codec or "int8",
                                  threads=threads))
        for pair in arguments.set:
            key, value = pair.split("=", 1)
            with run.open("a") as file:
                file.write(f"{key}: {value}\n")
        return run

    def data_parallel(self, folder, seed, members):
        run = self.write_run(folder, seed, members * self.arguments.tokens, None, 2)
        subprocess.run([self.skep, "-q", "train", run], check=True)
        return last_loss(folder / "run" / "metrics.jsonl")

    def swarm(self, folder, seed, members, codec, churn):
        swarm = Swarm(self, folder, seed, codec)
        try:
            return swarm.train(members, churn, random.Random(seed))
        finally:
            swarm.stop()


def last_loss(metrics):
    losses = [line["loss"] for line in map(json.loads, metrics.open()) if line["kind"] == "eval"]
    return losses[-1]


class Swarm:
    """A tracker and its members; each member has a folder of its own for identity and state."""

    def __init__(self, bench, folder, seed, codec):
        self.bench = bench
        self.folder = folder
        run = bench.write_run(folder, seed, bench.arguments.tokens, codec, 1)
        (folder / "roster.yaml").write_text("open: true\n")
        self.log = (folder / "log").open("ab")
        self.tracker = subprocess.Popen(
            [bench.skep, "track", run, "--listen", "tcp://127.0.0.1:0", "--state",
             folder / "tracker", "--roster", folder / "roster.yaml", "--identity",
             folder / "tracker.identity"], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.string = ""
        while not self.string.startswith("tcp://"):
            line = self.tracker.stdout.readline()
            if not line:
                raise RuntimeError(f"the tracker ended: see {folder / 'log'}")
            self.string = line.strip()
        self.started = 0
        self.members = {}  # process by folder

    def join(self):
        self.started += 1
        home = self.folder / f"member{self.started}"
        home.mkdir()
        text = self.bench.text
        self.members[home] = subprocess.Popen(
            [self.bench.skep, "join", self.string, "--identity", home / "identity", "--listen",
             "tcp://127.0.0.1:0", f"data.train={text}/train.txt",
             f"data.validation={text}/validation.txt", "threads=1", f"metrics={home}/metrics.jsonl",
             f"export={home}/model"],
            stdout=self.log, stderr=self.log, env={**os.environ, "STATE_DIRECTORY": str(home)})

    def rounds(self):
        """Of the member that has come furthest."""
        most = 0
        for home in self.members:
            metrics = home / "metrics.jsonl"
            if metrics.exists():
                lines = metrics.read_text().splitlines()
                most = max([most] + [json.loads(line)["round"] for line in lines
                                     if '"round"' in line and line.endswith("}")])
        return most

    def train(self, members, churn, chance):
        for _ in range(members):
            self.join()
        seen = 0
        while any(process.poll() is None for process in self.members.values()):
            time.sleep(0.2)
            now = self.rounds() if churn else 0
            while seen < now:
                seen += 1
                for home, process in list(self.members.items()):
                    if chance.random() < churn and process.poll() is None:
                        process.send_signal(signal.SIGKILL)
                        process.wait()
                        del self.members[home]
                        self.join()
        ended = {home: process.returncode for home, process in self.members.items()}
        if any(ended.values()):
            raise RuntimeError(f"members ended with {ended}: see {self.folder / 'log'}")
        return last_loss(next(iter(self.members)) / "metrics.jsonl")

    def stop(self):
        for process in [*self.members.values(), self.tracker]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.log.close()


def summary(losses, beside):
    distances = [100 * (a - b) / b for a, b in zip(losses, beside)]
    row = {"mean_percent": statistics.mean(distances), "percent": distances}
    if len(distances) > 1:
        spread = statistics.stdev(distances) / math.sqrt(len(distances))
        row["interval_percent"] = T_95[len(distances) - 1] * spread
    return row


def main():
    arguments = parse_arguments()
    bench = Bench(arguments)
    wanted = [case for case in CASES
              if not arguments.cases or any(part in case[0] for part in arguments.cases)]
    losses = {case[0]: [] for case in wanted}
    for seed in arguments.seeds:
        for name, members, codec, churn, _ in wanted:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="skep-learning-"))
            begin = time.monotonic()
            loss = (bench.data_parallel(folder, seed, members) if codec is None
                    else bench.swarm(folder, seed, members, codec, churn))
            losses[name].append(loss)
            print(f"seed {seed}  {name:24}  {loss:.4f}  {time.monotonic() - begin:.0f} s",
                  file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    report = {}
    for name, _, _, _, beside in wanted:
        report[name] = {"losses": losses[name], "mean": statistics.mean(losses[name])}
        if beside in losses:
            report[name]["beside"] = beside
            report[name].update(summary(losses[name], losses[beside]))
    for name, row in report.items():
        line = f"{name:24}  {row['mean']:.4f}"
        if "beside" in row:
            line += f"  {row['mean_percent']:+.2f} %"
            if "interval_percent" in row:
                line += f" +- {row['interval_percent']:.2f}"
            line += f" of {row['beside']}"
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps({"arguments": vars(arguments), "rows": report},
                                             default=str, indent=1) + "\n")


if __name__ == "__main__":
    main()
