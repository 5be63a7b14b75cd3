#!/usr/bin/env python3
"""Compare the loss of swarms with that of data parallel training on the same tokens.

    python3 bench/swarm_learning.py TEXT [--skep build/skep] [--seeds 1 2 3 4 5] [--json OUT]

TEXT holds train.txt and validation.txt (tools/demo_text), read as bytes. The script divides the
training text at blank lines into pieces of about 2 KiB and shuffles them. Skep trains on a text in
blocks of 1 MiB, and after the shuffle each block is like the whole text. The model is a Llama with
about a million parameters. For each seed these cases run:

    data parallel   `skep train` with --tokens per step. The sum of gradients is the same for any
                    number of ranks, so one run is compared with all swarms.
    swarm of M      `skep track` and M times `skep join` on loopback, with --tokens / M per step of
                    a member, for the same number of steps and tokens.
    other cases     M = 4 with other codecs, and with members that are killed and replaced. Those
                    run --churn-length times the steps, because the work of a killed member in a
                    round is lost and its samples return to the ledger. The report has the tokens
                    that were committed.

Data parallel and swarms have separate learning rates. The script reports the validation loss after
the last step, the difference from the paired case with the same seed, and the mean difference over
seeds with its 95 % confidence interval (Student's t). It also reports runs with rounds in which a
member did not train on all of its samples, according to the ledger.

With --json the script skips runs whose results are in the file, so an interrupted call can resume.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
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
    "initializer_range": 0.06,
    "tie_word_embeddings": False,
}

RUN = """model: model
init: random
seed: {seed}
steps: {steps}
threads: 1
data:
  train: {text}/train.txt
  validation: {text}/validation.txt
batch:
  sequence: 128
  microbatch: {microbatch}
  tokens: {tokens}
optimizer: {{lr: {lr}, betas: [0.9, 0.99]}}
schedule:
  kind: cosine
  warmup_steps: {warmup}
precision: {{params: {precision}, compute: {precision}}}
snapshot.every: 1000000
swarm:
  name: learning
  inner_steps: {inner_steps}
  codec: {codec}
  members_max: 8
  members_min: {members_min}
  patience: 20
  shrink_after: 2
  outer_lr: {outer_lr}
  outer_momentum: {outer_momentum}
"""

PIECE_BYTES = 2048

# Student's t for 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
CASES = (  # name, members, codec, probability to replace a member in a round, compared with
    ("data parallel", 1, None, 0, None),
    ("swarm of 2, int8", 2, "int8", 0, "data parallel"),
    ("swarm of 4, int8", 4, "int8", 0, "data parallel"),
    ("swarm of 4, fp32", 4, "fp32", 0, "data parallel"),
    ("swarm of 4, int4", 4, "int4", 0, "swarm of 4, fp32"),
    ("swarm of 4, int8, churn", 4, "int8", 0.1, "swarm of 4, int8"),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--skep", type=pathlib.Path, default=pathlib.Path("build/skep"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--inner-steps", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=1024,
                        help="tokens per step of all members together")
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of data parallel")
    parser.add_argument("--swarm-lr", type=float, default=1e-3)
    parser.add_argument("--outer-lr", type=float, default=1)
    parser.add_argument("--outer-momentum", type=float, default=0.5)
    parser.add_argument("--churn-length", type=float, default=1.125,
                        help="factor on the steps of runs with churn")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent runs")
    parser.add_argument("--cases", nargs="+", help="suffixes of case names; default: all cases")
    parser.add_argument("--set", nargs="*", default=[], help="key=value settings for each run")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def mix(text, mixed):
    pieces = [b""]
    for paragraph in (text / "train.txt").read_bytes().split(b"\n\n"):
        pieces[-1] += paragraph + b"\n\n"
        if len(pieces[-1]) >= PIECE_BYTES:
            pieces.append(b"")
    random.Random(1).shuffle(pieces)
    (mixed / "train.txt").write_bytes(b"".join(pieces))
    shutil.copy(text / "validation.txt", mixed)


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.skep = arguments.skep.resolve()
        self.text = pathlib.Path(tempfile.mkdtemp(prefix="skep-learning-text-"))
        mix(arguments.text, self.text)

    def close(self):
        shutil.rmtree(self.text)

    def write_run(self, folder, seed, case):
        _, members, codec, churn, _ = case
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "config.json").write_text(json.dumps(CONFIG))
        run = folder / "run.yaml"
        arguments = self.arguments
        tokens = arguments.tokens // members
        steps = round(arguments.steps * (arguments.churn_length if churn else 1))
        run.write_text(RUN.format(
            seed=seed, steps=steps, text=self.text, tokens=tokens,
            microbatch=min(tokens // 128, 8), warmup=arguments.warmup,
            lr=arguments.lr if codec is None else arguments.swarm_lr,
            inner_steps=arguments.inner_steps, codec=codec or "int8",
            members_min=members - 1 if churn else members, precision=arguments.precision,
            outer_lr=arguments.outer_lr, outer_momentum=arguments.outer_momentum))
        for pair in arguments.set:
            key, value = pair.split("=", 1)
            with run.open("a") as file:
                file.write(f"{key}: {value}\n")
        return run

    def run(self, seed, case):
        """Run one case and return its result; its files are deleted."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="skep-learning-"))
        begin = time.monotonic()
        try:
            run = self.write_run(folder, seed, case)
            result = self.data_parallel(run) if case[2] is None else self.swarm(run, seed, case)
        finally:
            shutil.rmtree(folder)
        result.update(seed=seed, case=case[0], seconds=round(time.monotonic() - begin))
        return result

    def data_parallel(self, run):
        subprocess.run([self.skep, "-q", "train", run], check=True)
        return {"loss": last_loss(run.parent / "run" / "metrics.jsonl")}

    def swarm(self, run, seed, case):
        _, members, _, churn, _ = case
        swarm = Swarm(self, run)
        try:
            return swarm.train(members, churn, random.Random(seed))
        finally:
            swarm.stop()


def last_loss(metrics):
    losses = [line["loss"] for line in map(json.loads, metrics.open()) if line["kind"] == "eval"]
    return losses[-1]


class Swarm:
    """A tracker and its members; each member has a folder for its identity and state."""

    def __init__(self, bench, run):
        self.bench = bench
        self.folder = folder = run.parent
        self.roster = folder / "roster.yaml"
        self.log = (folder / "log").open("ab")
        self.tracker = subprocess.Popen(
            [bench.skep, "track", run, "--listen", "tcp://127.0.0.1:0", "--state",
             folder / "tracker", "--roster", self.roster, "--operator-key",
             folder / "operator.key", "--identity", folder / "tracker.identity"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.string = ""
        while not self.string.startswith("tcp://"):
            line = self.tracker.stdout.readline()
            if not line:
                raise RuntimeError(f"the tracker ended: see {folder / 'log'}")
            self.string = line.strip()
        self.started = 0
        self.members = {}  # folder: process

    def skep(self, *arguments):
        done = subprocess.run([self.bench.skep, *arguments], stdout=subprocess.PIPE,
                              stderr=self.log, check=True, text=True)
        return done.stdout.strip()

    def join(self):
        self.started += 1
        home = self.folder / f"member{self.started}"
        home.mkdir()
        text = self.bench.text
        key = self.skep("keys", "--identity", home / "identity")
        self.skep("roster", "add", key, "--roster", self.roster)
        self.members[home] = subprocess.Popen(
            [self.bench.skep, "join", self.string, "--identity", home / "identity", "--listen",
             "tcp://127.0.0.1:0", f"data.train={text}/train.txt",
             f"data.validation={text}/validation.txt", "threads=1", f"metrics={home}/metrics.jsonl",
             f"export={home}/model"],
            stdout=self.log, stderr=self.log, env={**os.environ, "STATE_DIRECTORY": str(home)})

    def last_round(self, home):
        """The last round that a member completed, or 0."""
        metrics = home / "metrics.jsonl"
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        return max((json.loads(line)["round"] for line in lines
                    if '"round"' in line and line.endswith("}")), default=0)

    def rounds(self):
        """The highest round that a member has completed."""
        return max(self.last_round(home) for home in self.members)

    def replace(self, home):
        """Kill and replace a member, unless it alone has the newest state."""
        newest = self.rounds()
        if any(other != home and self.last_round(other) == newest for other in self.members):
            process = self.members.pop(home)
            process.kill()
            process.wait()
            self.join()

    def rounds_done(self, members, home):
        """Committed rounds, rounds in which samples are missing, and tokens of all rounds."""
        arguments = self.bench.arguments
        full = arguments.tokens * arguments.inner_steps
        with (home / "ledger.jsonl").open() as lines:
            commits = [entry for entry in map(json.loads, lines) if entry["kind"] == "commit"]
        tokens = [sum(member["tokens"] for member in entry["members"]) for entry in commits]
        return {"rounds": len(commits), "short": sum(one < full for one in tokens),
                "tokens": sum(tokens)}

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
                        self.replace(home)
        ended = {home: process.returncode for home, process in self.members.items()}
        if any(ended.values()):
            raise RuntimeError(f"members ended with {ended}: see {self.folder / 'log'}")
        home = next(iter(self.members))
        return {"loss": last_loss(home / "metrics.jsonl"), **self.rounds_done(members, home)}

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


def report_of(results, wanted):
    """The rows by case; differences use the seeds that both cases have."""
    losses = {case[0]: {} for case in wanted}
    for result in results:
        if result["case"] in losses:
            losses[result["case"]][result["seed"]] = result["loss"]
    report = {}
    for name, _, _, _, beside in wanted:
        if not losses[name]:
            continue
        report[name] = {"losses": losses[name], "mean": statistics.mean(losses[name].values())}
        both = sorted(losses[name].keys() & losses.get(beside, {}).keys())
        if both:
            report[name]["beside"] = beside
            report[name].update(summary([losses[name][seed] for seed in both],
                                        [losses[beside][seed] for seed in both]))
    return report


def print_report(report):
    for name, row in report.items():
        line = f"{name:24}  {row['mean']:.4f}"
        if "beside" in row:
            line += f"  {row['mean_percent']:+.2f} %"
            if "interval_percent" in row:
                line += f" +- {row['interval_percent']:.2f}"
            line += f" of {row['beside']}"
        print(line)


def settings_of(arguments):
    settings = vars(arguments).copy()
    for name in ("text", "skep", "json", "seeds", "cases", "jobs"):
        settings.pop(name)
    return settings


def results_before(arguments):
    if arguments.json is None or not arguments.json.exists():
        return []
    before = json.loads(arguments.json.read_text())
    if before["settings"] != settings_of(arguments):
        sys.exit(f"{arguments.json} was written with other settings; use another file")
    return before["results"]


def main():
    arguments = parse_arguments()
    bench = Bench(arguments)
    wanted = [case for case in CASES
              if not arguments.cases or case[0].endswith(tuple(arguments.cases))]
    results = results_before(arguments)
    try:
        run_all(bench, wanted, results)
    finally:
        bench.close()
    print_report(report_of(results, wanted))


def run_all(bench, wanted, results):
    arguments = bench.arguments
    done = {(result["seed"], result["case"]) for result in results}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as jobs:
        waiting = [jobs.submit(bench.run, seed, case) for case in wanted
                   for seed in arguments.seeds if (seed, case[0]) not in done]
        for one in concurrent.futures.as_completed(waiting):
            try:
                results.append(one.result())
            except (RuntimeError, OSError, subprocess.CalledProcessError) as failure:
                print(failure, file=sys.stderr, flush=True)
                continue
            log_result(results[-1])
            if arguments.json:
                arguments.json.write_text(json.dumps(
                    {"settings": settings_of(arguments), "results": results,
                     "rows": report_of(results, CASES)}, indent=1) + "\n")


def log_result(result):
    line = (f"seed {result['seed']}  {result['case']:24}  {result['loss']:.4f}  "
            f"{result['seconds']} s")
    if result.get("short"):
        line += f"  {result['short']} of {result['rounds']} rounds short, {result['tokens']} tokens"
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
