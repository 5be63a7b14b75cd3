#!/usr/bin/env python3
"""A swarm among outsiders without a key: floods of TCP connections to the tracker and all members.

    outsiders.py [--members 8] [--seconds 60] [--pairs 3] [--rate 10000] [--hold 1000]
                 [--parameters 256Ki] [--uplink 1Mi]        --quick: a few seconds, the test

A generator (tests/support/connection_flood.c) offers so many connections per second from 127.0.0.9,
in the network of the members' own address, 127.0.0.1, and holds others open from 250 networks. The
swarm runs on loopback. Three kinds of windows take turns: clean; decoy, with the same flood to a
listener of this test, because the generator, unlike real outsiders, uses this machine's processors;
and flood. Uplinks are limited, so that a round takes its time there. In all windows a member is
killed and started again every few seconds, and `skep status` runs all the time.

bars: `skep status` ends within 2 s at p99; a killed member is admitted again within 5 s of its
start; no process ends with exit code 2, or at all unless it was killed; with the flood, at least
90 % of the committed rounds per hour with the decoy (not with --quick: its windows are too short).
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import oracle
from loopback import Loopback
from small_swarm import SKEP, TRACKER_PORT, Swarm, make_run
from swarm_faults import amount, percentile

FLOOD = os.environ.get("CONNECTION_FLOOD", str(
    pathlib.Path(__file__).parents[2] / "build/tests/support/connection_flood"))
FLOODER = "127.0.0.9"
STATUS_S = 2.0  # bar: p99
BACK_S = 5.0  # bar: a killed member
RATE_MIN = 0.9  # bar: committed rounds per hour
KILL_EVERY_S = 10.0
START_S = 60
KINDS = ("clean", "decoy", "flood")
QUICK = {"members": 3, "seconds": 3, "pairs": 1, "uplink": 0}


class Asker(threading.Thread):
    """Runs `skep status` again and again; how long each run took, and the exit codes."""

    def __init__(self, swarm):
        super().__init__()
        self.command = [SKEP, "status", swarm.join_string(), "--json"]
        self.environment = {**os.environ, "XDG_CONFIG_HOME": str(swarm.folder / "status")}
        self.seconds, self.codes = [], []
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.1):
            began = time.monotonic()
            done = subprocess.run(self.command, env=self.environment, check=False,
                                  capture_output=True)
            self.seconds.append(time.monotonic() - began)
            self.codes.append(done.returncode)

    def end(self):
        self.ended.set()
        self.join()


class Window:
    """Some seconds of the swarm, and what was measured in them."""

    def __init__(self, trial, kind):
        self.trial, self.kind = trial, kind
        self.rounds_per_hour = 0.0
        self.back_s, self.status_s, self.status_codes = [], [], []
        self.flood = {}

    def targets(self):
        """The decoy; or the tracker and every member, by the addresses that it announces."""
        swarm = self.trial.swarm
        if self.kind == "decoy":
            return ["--to", "%s:%d" % self.trial.decoy.getsockname()]
        done = subprocess.run([SKEP, "status", swarm.join_string(), "--json", "--identity",
                               swarm.tracker.folder / "state" / "identity"],
                              text=True, check=True, capture_output=True)
        found = [member["address"] for member in json.loads(done.stdout)["members"]]
        found.append(f"tcp://{swarm.network.own_address}:{TRACKER_PORT}")
        return [word for address in found if address
                for word in ("--to", address.removeprefix("tcp://"))]

    def start_flood(self):
        chosen = self.trial.chosen
        return subprocess.Popen(
            [FLOOD, "--seconds", str(int(chosen.seconds)), "--from", FLOODER,
             "--rate", str(chosen.rate), "--hold", str(chosen.hold), *self.targets()],
            text=True, stdout=subprocess.PIPE)

    def kill_one(self, index):
        """Seconds from the start of a killed member until the tracker has admitted it again."""
        member = list(self.trial.swarm.members.values())[index % self.trial.chosen.members]
        member.kill()
        known = len(member.text())
        member.start()
        began = time.monotonic()
        self.trial.swarm.wait_for(lambda: "joined " in member.text()[known:],
                                  START_S, f"admission of {member.name} after its kill")
        self.back_s.append(time.monotonic() - began)

    def run(self):
        swarm, seconds = self.trial.swarm, self.trial.chosen.seconds
        flood = self.start_flood() if self.kind != "clean" else None
        asker = Asker(swarm)
        asker.start()
        first, began = swarm_rounds(swarm), time.monotonic()
        kill_s = min(KILL_EVERY_S, seconds / 3)
        next_s = began + kill_s
        while time.monotonic() < began + seconds:
            if time.monotonic() >= next_s and next_s < began + seconds - kill_s / 2:
                self.kill_one(self.trial.kills)
                self.trial.kills += 1
                next_s += kill_s
            swarm.wait_for(lambda: True, 1, "the processes")  # none has ended
            time.sleep(0.05)
        self.rounds_per_hour = (swarm_rounds(swarm) - first) * 3600 / (time.monotonic() - began)
        asker.end()
        self.status_s, self.status_codes = asker.seconds, asker.codes
        if flood is not None:
            self.flood = json.loads(flood.communicate()[0])

    def row(self):
        median, p99 = statistics.median(self.status_s), percentile(self.status_s, 0.99)
        return (f"{self.kind}  {self.rounds_per_hour:8.0f} rounds/h  "
                f"status {len(self.status_s)} runs, median {median:.2f} s, p99 {p99:.2f} s, "
                f"{sum(map(bool, self.status_codes))} failed  "
                f"back {max(self.back_s, default=0):.2f} s at most, of {len(self.back_s)}  "
                f"{json.dumps(self.flood) if self.flood else ''}")


def swarm_rounds(swarm):
    return max(member.last() for member in swarm.members.values())


class Trial:
    def __init__(self, swarm, chosen):
        self.swarm, self.chosen = swarm, chosen
        self.kills = 0
        self.windows = []
        self.decoy = socket.create_server((FLOODER, 0), backlog=1)  # its queue is soon full

    def run(self):
        self.swarm.wait_for(lambda: swarm_rounds(self.swarm) >= 2, START_S, "first rounds")
        for _ in range(self.chosen.pairs):
            for kind in KINDS:
                if kind == "decoy" and self.chosen.quick:
                    continue
                window = Window(self, kind)
                window.run()
                print(window.row(), flush=True)
                self.windows.append(window)

    def of(self, kind):
        return [window for window in self.windows if window.kind == kind]

    def rate(self, kind):
        return statistics.fmean(window.rounds_per_hour for window in self.of(kind))

    def violations(self):
        found = []
        flooded = self.of("flood")
        status_s = [seconds for window in flooded for seconds in window.status_s]
        codes = [code for window in flooded for code in window.status_codes]
        back_s = max(seconds for window in flooded for seconds in window.back_s)
        offered = sum(window.flood["offered"] / window.flood["seconds"] for window in flooded)
        rate = self.rate("flood")
        decoy = self.rate("clean" if self.chosen.quick else "decoy")
        if any(codes) or percentile(status_s, 0.99) > STATUS_S:
            found.append(f"status: p99 {percentile(status_s, 0.99):.2f} s, exit codes {set(codes)}")
        if back_s > BACK_S:
            found.append(f"a killed member is back after {back_s:.2f} s")
        if rate <= 0 or (not self.chosen.quick and rate < RATE_MIN * decoy):
            found.append(f"{rate:.0f} rounds/h with the flood, {decoy:.0f} with the decoy")
        if not self.chosen.quick and offered < 0.9 * self.chosen.rate * len(flooded):
            found.append(f"the generator offered only {offered / len(flooded):.0f} per second")
        percents = " and ".join(f"{100 * rate / self.rate(kind):.1f} % of those of the {kind}"
                                for kind in KINDS[:2] if self.of(kind))
        print(f"rounds per hour with the flood: {percents} windows; status p99 "
              f"{percentile(status_s, 0.99):.2f} s of {len(status_s)} runs; killed members back "
              f"within {back_s:.2f} s", flush=True)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--hold", type=int, default=1_000)
    parser.add_argument("--parameters", type=amount, default=1 << 18)
    parser.add_argument("--uplink", type=amount, default=1 << 20)
    parser.add_argument("--folder")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update(QUICK)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-outsiders-")))
        make_run(folder, chosen.parameters, swarm__members_min=chosen.members - 1)
        names = [f"m{i}" for i in range(chosen.members)]
        limits = [f"limits.up={chosen.uplink}"] if chosen.uplink else []
        network = stack.enter_context(Loopback())
        swarm = Swarm(network, folder, names, settings={name: limits for name in names})
        swarm.start()
        trial = Trial(swarm, chosen)
        trial.run()
        codes = swarm.stop()
        violations = trial.violations() + oracle.ledgers(swarm)
        violations += [f"{name} ended with {code}" for name, code in codes.items() if code]
    for violation in violations:
        print(f"VIOLATION {violation}")
    print(f"{len(violations)} violations", flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
