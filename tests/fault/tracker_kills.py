#!/usr/bin/env python3
"""The tracker dies wherever its promises and its words could come apart, and at any time.

    tracker_kills.py [--kills 6] [--seed S] [--folder DIR]          SKEP_LONG=1: 60 kills

tests/support/led_tracker.c is `skep track` that ends itself, as SIGKILL would, the n-th time it
comes to a named place: before or after each durable write and each kind of sending. Every place has
its turn, then times are drawn. Started again after a moment, it must bring the next round to all
members within PAUSE_S; no committed round may be lost; there must be one history.
"""
import argparse
import contextlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import oracle
from links import Link, Network
from namespaces import why_not
from small_swarm import LED_TRACKER, TRACKER, Swarm, make_run
from swarm_faults import SKIPPED, percentile

LONG = os.environ.get("SKEP_LONG", "") not in ("", "0")
PAUSE_S = 5.0
REACH_S = 15.0  # for a place to be come to
ACCIDENT_S = 1.0  # between accidents on the way there
STOPPED_S = 3.0  # of members, so that a round has no quorum
FINISH_S = 60  # for a round after all kills
SHRINK_S = 1  # until it is then aborted
DOWN_S = (0.0, 1.0)  # between death and the next start
PARAMETERS = 1 << 18
AT_ANY_TIME = "at any time"
RARE = ("session", "welcome", "ask", "goodbye", "abort", "known")  # things that need an accident


def places():
    done = subprocess.run([LED_TRACKER, "--places"], text=True, check=True, capture_output=True)
    return done.stdout.splitlines()


class Accidents:
    """What brings a tracker to places that undisturbed rounds do not come to."""

    def __init__(self, swarm, chance):
        self.swarm, self.chance = swarm, chance
        self.leaving, self.stopped = [], []
        self.wake_s = 0

    def any_member(self):
        return self.chance.choice(list(self.swarm.members.values()))

    def happen(self, place):
        """One that may help to come to the place."""
        thing = place.rpartition(" ")[2]
        if thing in ("session", "welcome", "ask", "known"):
            member = self.any_member()
            if member.is_running() and not self.leaving:
                member.kill()
                if thing == "known":
                    member.move()
                member.start()
        elif thing == "goodbye" and not self.leaving:
            self.leaving.append(self.any_member())
            self.leaving[0].signal(signal.SIGTERM)
        elif thing == "abort" and not self.stopped:
            self.stopped = list(self.swarm.members.values())[1:]
            self.wake_s = time.monotonic() + STOPPED_S
            for member in self.stopped:
                member.signal(signal.SIGSTOP)

    def pass_by(self, at_once=False):
        """Stopped members wake at their time, members that left come back."""
        if self.stopped and (at_once or time.monotonic() >= self.wake_s):
            for member in self.stopped:
                member.signal(signal.SIGCONT)
            self.stopped = []
        if self.leaving and not self.leaving[0].is_running():
            self.leaving.pop().start()


class Kills:
    def __init__(self, swarm, seed):
        self.swarm = swarm
        self.chance = random.Random(seed)
        self.accidents = Accidents(swarm, self.chance)
        self.command = swarm.tracker.command[1:]
        self.pauses = []  # (place, seconds)
        self.unreached = []
        self.violations = []

    def newest(self):
        """The newest round that a member has committed."""
        return max(member.last() for member in self.swarm.members.values())

    def start(self, place):
        times = 1 if place.rpartition(" ")[2] in RARE else self.chance.randrange(1, 4)
        where = [] if place == AT_ANY_TIME else ["--die", place, str(times)]
        self.swarm.tracker.command = [LED_TRACKER, *where, *self.command]
        self.swarm.tracker.start()

    def wait_for_death(self, place):
        """Until the tracker has come to the place; it is dead then in any case."""
        begin = time.monotonic()
        end = begin + (self.chance.uniform(0, 2) if place == AT_ANY_TIME else REACH_S)
        accident_s = begin + ACCIDENT_S
        while self.swarm.tracker.is_running() and time.monotonic() < end:
            if time.monotonic() >= accident_s:
                self.accidents.happen(place)
                accident_s += ACCIDENT_S
            self.accidents.pass_by()
            time.sleep(0.001)
        self.accidents.pass_by(at_once=True)
        code = self.swarm.tracker.process.poll()
        if code is None:
            self.swarm.tracker.kill()
            if place != AT_ANY_TIME:
                self.unreached.append(place)
        elif code != -signal.SIGKILL:
            self.violations.append(f"{place}: the tracker ended with {code}:\n"
                                   f"{self.swarm.tracker.text()[-2000:]}")

    def look_at_members(self, place):
        for member in self.swarm.members.values():
            if not member.is_running() and member not in self.accidents.leaving:
                self.violations.append(f"{place}: {member.name} ended:\n{member.text()[-2000:]}")
                member.start()

    def waits(self):
        """By process number, the seconds that each process had to wait for a processor."""
        return {process.process.pid: process.waits_s() for process in self.swarm.processes()}

    def measure(self, place, before):
        """From the start on until there is a new round. One that died again before has made no
        pause that could be told. Other work on the machine is no part of a pause: the time in
        which a process of the swarm is ready to run, and waits for a processor, does not count."""
        began, waits = time.monotonic(), self.waits()
        while self.newest() <= before and self.swarm.tracker.is_running() \
                and time.monotonic() < began + 4 * PAUSE_S:
            self.accidents.pass_by()
            time.sleep(0.002)
        seconds = time.monotonic() - began
        waited = sum(after - waits.get(pid, 0) for pid, after in self.waits().items())
        seconds = max(0, seconds - waited)
        if self.newest() > before:
            self.pauses.append(seconds)
            print(f"{place}: {seconds:.2f} s, and {waited:.2f} s without a processor", flush=True)
        if seconds > PAUSE_S:
            self.violations.append(f"{place}: {seconds:.1f} s until the next round")

    def run(self, order):
        self.swarm.tracker.kill()
        self.start(order[0])
        for place, following in zip(order, [*order[1:], AT_ANY_TIME]):
            self.wait_for_death(place)
            self.look_at_members(place)
            before = self.newest()
            time.sleep(self.chance.uniform(*DOWN_S))
            self.start(following)
            self.measure(place, before)
        self.finish()

    def finish(self):
        """One more round. A member that an accident let leave comes back for it."""
        last = self.newest()
        end = time.monotonic() + FINISH_S
        while self.newest() <= last and time.monotonic() < end:
            self.accidents.pass_by()
            time.sleep(0.002)
        self.look_at_members("the end")
        if self.newest() <= last:
            self.violations.append(f"the end: no round within {FINISH_S} s:\n" + "\n".join(
                f"--- {process.name}\n{process.text()[-1500:]}"
                for process in self.swarm.processes()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=60 if LONG else 6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    chosen = parser.parse_args()
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    order = random.Random(chosen.seed).sample(2 * places(), len(2 * places()))
    order = (order + [AT_ANY_TIME] * chosen.kills)[:chosen.kills]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-tracker-")))
        make_run(folder, PARAMETERS, swarm__shrink_after=SHRINK_S)
        names = ["m0", "m1", "m2"]
        network = stack.enter_context(Network({name: Link() for name in [TRACKER, *names]}))
        swarm = Swarm(network, folder, names)
        swarm.start()
        kills = Kills(swarm, chosen.seed)
        swarm.wait_for(lambda: kills.newest() >= 1, 60, "first rounds")
        kills.run(order)
        swarm.stop()
        violations = kills.violations + oracle.ledgers(swarm)
    print(f"{len(order)} kills at {len(set(order))} places; until the next round: median "
          f"{statistics.median(kills.pauses):.2f} s, p99 {percentile(kills.pauses, 0.99):.2f} s, "
          f"bound {PAUSE_S} s; never come to: {', '.join(sorted(set(kills.unreached))) or 'none'}")
    for violation in violations:
        print(f"VIOLATION {violation}")
    print(f"{len(violations)} violations", flush=True)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
