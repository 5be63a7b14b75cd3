#!/usr/bin/env python3
"""A swarm lives through a scenario: its links, its shares, its faults at their times and bytes.

    play.py SCENARIO [--rounds 30] [--parameters 1Mi] [--folder DIR]

SCENARIO: a file, or the name of one in scenarios/. The clock starts when everybody is in a round.
Ends when every running member has committed so many rounds more; exit 1 on a violation.
"""
import argparse
import contextlib
import pathlib
import signal
import sys
import tempfile
import time

import oracle
import scenario
from links import Link
from namespaces import why_not
from small_swarm import TRACKER, Swarm, make_run
from swarm_faults import SKIPPED, amount

PERIOD_S = 0.05  # of stopping and waking a member with a share below 1
LIMIT_S = 1800


class Shares:
    """Members with a share below 1 run for that part of every period only."""

    def __init__(self, swarm, members):
        self.swarm = swarm
        self.parts = {member.name: member.share for member in members if member.share < 1}
        self.stopped = set()

    def tick(self, held):
        """held: members that are stopped for another reason."""
        phase = time.monotonic() % PERIOD_S / PERIOD_S
        for name, part in self.parts.items():
            member = self.swarm.members[name]
            if name in held or not member.is_running():
                self.stopped.discard(name)
            elif phase >= part and name not in self.stopped:
                member.signal(signal.SIGSTOP)
                self.stopped.add(name)
            elif phase < part and name in self.stopped:
                member.signal(signal.SIGCONT)
                self.stopped.discard(name)


class Play:
    def __init__(self, swarm, found):
        self.swarm, self.found = swarm, found
        self.shares = Shares(swarm, found.members)
        self.waiting = list(found.faults)
        self.held = set()

    def apply(self, fault):
        member, network = self.swarm.members[fault.who], self.swarm.network
        if fault.do in ("cut", "heal"):
            getattr(network, fault.do)(fault.who, fault.other)
        elif fault.do in ("plug", "unplug"):
            getattr(network, fault.do)(fault.who)
        elif fault.do == "stop":
            self.held.add(fault.who)
            member.signal(signal.SIGSTOP)
        elif fault.do == "wake":
            self.held.discard(fault.who)
            member.signal(signal.SIGCONT)
        elif fault.do == "leave":
            member.signal(signal.SIGTERM)
        else:
            getattr(member, fault.do)()  # kill, start

    def tick(self, seconds, passed_bytes):
        for fault in [fault for fault in self.waiting if fault.is_due(seconds, passed_bytes)]:
            self.waiting.remove(fault)
            self.apply(fault)
            print(f"{seconds:8.2f} s  {fault.do} {fault.who} {fault.other or ''}", flush=True)
        self.shares.tick(self.held)

    def newest(self):
        """The newest round of every running member, oldest of them."""
        return min((member.last() for member in self.swarm.running()), default=-1)

    def run(self, rounds):
        """Violations."""
        count = len(self.swarm.members)
        self.swarm.wait_for(
            lambda: any(row["contributors"] == count for member in self.swarm.members.values()
                        for row in member.read().values()), 120, "round with everybody in it")
        began, first = time.monotonic(), self.newest()
        start = {name: self.swarm.passed_bytes(name) for name in self.swarm.names}
        while self.newest() < first + rounds or self.waiting:
            seconds = time.monotonic() - began
            if seconds > LIMIT_S:
                return [f"round {self.newest()} of {first + rounds} after {LIMIT_S} s"]
            self.tick(seconds, lambda name: self.swarm.passed_bytes(name) - start[name])
            time.sleep(0.002)
        for name in self.shares.stopped:
            self.swarm.members[name].signal(signal.SIGCONT)
        numbers = {number for member in self.swarm.members.values() for number in member.read()}
        wrong = [f"round {number}: {violation}" for number in sorted(numbers)
                 for violation in oracle.roots_differ(self.swarm, number)]
        return wrong + oracle.ledgers(self.swarm)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--parameters", type=amount, default=1 << 20)
    parser.add_argument("--folder")
    chosen = parser.parse_args()
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    found = scenario.load(chosen.scenario)
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-play-")))
        make_run(folder, chosen.parameters, found.run)
        network = stack.enter_context(found.network(**{TRACKER: Link()}))
        swarm = Swarm(network, folder, [member.name for member in found.members])
        swarm.start()
        violations = Play(swarm, found).run(chosen.rounds)
        swarm.stop()
    for violation in violations:
        print(f"VIOLATION {violation}")
    print(f"{len(violations)} violations", flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
