"""A tracker and its members on loopback, for one run of the learning bench."""

import json
import os
import pathlib
import subprocess
import time

from learning_processes import Interrupted


def last_loss(metrics):
    losses = [line["loss"] for line in map(json.loads, metrics.open()) if line["kind"] == "eval"]
    return losses[-1]


def rounds_of(commits, full):
    """Committed rounds, rounds in which samples or slices of a contribution are missing, and tokens
    of all rounds; a whole round has `full` tokens."""
    tokens = [sum(member["tokens"] for member in entry["members"]) for entry in commits]
    slices = [[member["contributed"] for member in entry["members"]] for entry in commits]
    short = sum(total < full or min(counts) < max(counts)
                for total, counts in zip(tokens, slices))
    return {"rounds": len(commits), "short": short, "tokens": sum(tokens)}


class Swarm:
    """A swarm of named members; each has a folder for its identity and state.

    A run that was interrupted resumes when the folder of the run is used again."""

    def __init__(self, skep, folder, text, made, processes):
        self.skep, self.folder, self.text, self.made = skep, folder, text, made
        self.processes = processes
        self.log = (folder / "log").open("ab")
        self.members = {}  # folder: process
        self.started = 0
        self.tracker = None
        self.string = ""

    def start(self):
        homes = [self.folder / f"member{i + 1}" for i in range(self.made["members"])]
        for home in homes:
            self.name_member(home)
        self.start_tracker()
        for home in homes:
            self.join(home)

    def name_member(self, home):
        """Create the identity of a member and add its key to the allow-list."""
        home.mkdir(exist_ok=True)
        self.started += 1
        shown = subprocess.run([self.skep, "keys", "--identity", home / "identity"], check=True,
                               capture_output=True, text=True, stdin=subprocess.DEVNULL)
        roster = self.folder / "roster.yaml"
        key = shown.stdout.strip()
        if not roster.exists() or key not in roster.read_text():
            subprocess.run([self.skep, "roster", "add", key, "--name", home.name, "--roster",
                            roster], check=True, stdout=self.log, stderr=self.log)

    def start_tracker(self):
        folder = self.folder
        self.tracker = subprocess.Popen(
            [self.skep, "track", folder / "run.yaml", "--listen", "tcp://127.0.0.1:0", "--state",
             folder / "tracker", "--roster", folder / "roster.yaml", "--operator-key",
             folder / "operator.key", "--identity", folder / "tracker.identity"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        while not self.string.startswith("tcp://"):
            line = self.tracker.stdout.readline()
            if not line:
                raise RuntimeError("the tracker ended")
            self.string = line.strip()

    def join(self, home):
        # All members end with the same weights, so without churn only the first one evaluates.
        evaluates = self.made["churn"] > 0 or home.name == "member1"
        self.members[home] = subprocess.Popen(
            [self.skep, "join", self.string, "--identity", home / "identity", "--listen",
             "tcp://127.0.0.1:0", f"data.train={self.text}/train.txt",
             f"data.validation={self.text}/validation.txt", "threads=1",
             f"metrics={home}/metrics.jsonl", f"export={home}/model", "export.dtype=f32",
             f"batch.microbatch={self.made['microbatch']}",
             f"eval.tokens={262144 if evaluates else 1024}"],
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
            while self.processes.is_running(process):
                time.sleep(0.01)
            successor = self.folder / f"member{self.started + 1}"
            self.name_member(successor)
            self.join(successor)

    def train(self, churn, chance):
        """Wait for the end of all members; `churn` is the probability that one is replaced in a
        round. Returns the loss and the counts of `rounds_of`."""
        seen = 0
        while self.are_running():
            if self.processes.stop.wait(0.2):
                raise Interrupted
            now = self.rounds() if churn else 0
            while seen < now:
                seen += 1
                for home, process in list(self.members.items()):
                    if chance.random() < churn and self.processes.is_running(process):
                        self.replace(home)
        ended = {home.name: process.returncode for home, process in self.members.items()}
        if any(ended.values()):
            raise RuntimeError(f"members ended with {ended}")
        home = next(iter(self.members))
        return {"loss": last_loss(home / "metrics.jsonl"), **self.rounds_done(home)}

    def are_running(self):
        if not self.processes.is_running(self.tracker):
            raise RuntimeError("the tracker ended")
        return any([self.processes.is_running(process) for process in self.members.values()])

    def rounds_done(self, home):
        with (pathlib.Path(home) / "ledger.jsonl").open() as lines:
            commits = [entry for entry in map(json.loads, lines) if entry["kind"] == "commit"]
        return rounds_of(commits, self.made["tokens"] * self.made["inner_steps"])

    def stop(self):
        """Members first: they leave after their round, for which they need the tracker."""
        self.processes.end([*self.members.values()])
        if self.tracker is not None:
            self.processes.end([self.tracker])
        self.log.close()
