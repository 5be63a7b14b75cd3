#!/usr/bin/env python3
"""A running swarm is told anything by processes whose keys are let in; and what strangers get.

    live_frames.py [--frames 300] [--seed S] [--folder DIR]       SKEP_LONG=1: 100,000 frames

The tracker and three members train. A thrower (tests/support/frame_thrower.c) sends them frames of
which most are spoiled. Nobody may end, no sanitizer may find anything, rounds must go on, all roots
must stay equal. A key that is not on the roster is told the manifest and why it is refused, nothing
else; who does not speak CURVE gets nothing but the greeting that comes before any mechanism.
"""
import argparse
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import oracle
from links import Link, Network
from namespaces import why_not
from small_swarm import MEMBER_PORT, TRACKER, TRACKER_PORT, Swarm, make_run
from swarm_faults import SKIPPED

LONG = os.environ.get("SKEP_LONG", "") not in ("", "0")
THROWER = os.environ.get("FRAME_THROWER", str(
    pathlib.Path(__file__).parents[2] / "build/tests/support/frame_thrower"))
FINDINGS = ("ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer", "failed: ")
# The only kinds (runtime/swarm/wire/wire.h) that a tracker sends to a peer it has not admitted.
REFUSED, MANIFEST = 33, 36
ROSTER_S = 60  # until a changed roster is seen
ZMTP_GREETING_BYTES = 64
ROUNDS_AFTER = 3
PARAMETERS = 1 << 18


def greeting(mechanism):
    """ZMTP 3.0's first 64 bytes: signature, version, mechanism, as-server, filler."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32)


def heard_without_key(network, client, address, mechanism, said):
    """Bytes that a peer of this mechanism is sent before it is let alone."""
    with network.inside(client):
        near = socket.create_connection(address, timeout=2)
    heard = b""
    with near, contextlib.suppress(OSError):
        near.sendall(greeting(mechanism))
        near.sendall(said)
        near.settimeout(1)
        while data := near.recv(4096):
            heard += data
    return heard


class Judge:
    """What was wrong so far."""

    def __init__(self, swarm):
        self.swarm = swarm
        self.violations = []

    def demand(self, holds, what):
        if not holds:
            self.violations.append(what)

    def everybody_lives(self, when):
        for process in self.swarm.processes():
            self.demand(process.is_running(), f"{process.name} ended {when}:\n"
                        f"{process.text()[-3000:]}")

    def nothing_was_found(self):
        for process in self.swarm.processes():
            for line in process.text().splitlines():
                self.demand(not any(finding in line for finding in FINDINGS),
                            f"{process.name}: {line}")

    def rounds_go_on(self, count):
        members = list(self.swarm.members.values())
        first = max(member.last() for member in members)
        self.swarm.wait_for(lambda: min(member.last() for member in members) >= first + count,
                            120, f"{count} more rounds")
        for number in set.union(*(set(member.read()) for member in members)):
            self.violations += oracle.roots_differ(self.swarm, number)

    def without_key(self, network):
        """NULL and PLAIN, and a CURVE client without any proof."""
        ready = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
        for name, port in ((TRACKER, TRACKER_PORT), (self.swarm.names[0], MEMBER_PORT)):
            for mechanism in (b"NULL", b"PLAIN", b"CURVE", b""):
                heard = heard_without_key(network, "stranger", (network.address(name), port),
                                          mechanism, ready)
                self.demand(len(heard) <= ZMTP_GREETING_BYTES,
                            f"{name} says {heard[ZMTP_GREETING_BYTES:]!r} to {mechanism!r}")

    def stranger(self, network, join):
        """Once the tracker has seen that the roster is closed."""
        closed = f"roster.yaml: {len(self.swarm.members) + 1} keys\n"
        self.swarm.wait_for(lambda: closed in self.swarm.tracker.text(), ROSTER_S,
                            "a closed roster")
        done = run_on(network, "stranger", [THROWER, join, "stranger"])
        self.demand(done.returncode == 0, done.stderr)
        heard = {int(line.split()[0]) for line in done.stdout.splitlines()}
        self.demand(heard == {REFUSED, MANIFEST}, f"a stranger hears frames of kinds {heard}")


def run_on(network, node, command, **options):
    process = network.start(node, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)
    out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def throw(judge, network, join, chosen):
    swarm = judge.swarm
    slices, members_max = oracle.slice_count(swarm), 8
    done = run_on(network, "thrower", [THROWER, join, chosen.frames, chosen.seed, slices,
                                       members_max])
    print(done.stdout + done.stderr, end="", flush=True)
    judge.demand(done.returncode == 0, f"the thrower ended with {done.returncode}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100_000 if LONG else 300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    chosen = parser.parse_args()
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-frames-")))
        names = ["m0", "m1", "m2"]
        network = stack.enter_context(Network(
            {name: Link() for name in [TRACKER, *names, "thrower", "stranger"]}))
        make_run(folder, PARAMETERS, swarm__shrink_after=2, swarm__members_min=3)
        swarm = Swarm(network, folder, names)
        swarm.open_roster()  # the thrower is a guest with ever new keys
        swarm.start()
        judge = Judge(swarm)
        judge.rounds_go_on(1)
        judge.without_key(network)
        began = time.monotonic()
        throw(judge, network, swarm.join_string(), chosen)
        print(f"{time.monotonic() - began:.1f} s", flush=True)
        judge.everybody_lives("while frames were thrown")
        if not judge.violations:
            judge.rounds_go_on(ROUNDS_AFTER)
        swarm.close_roster()
        judge.stranger(network, swarm.join_string())
        judge.everybody_lives("when a stranger asked")
        codes = swarm.stop()
        judge.demand(not any(codes.values()), f"exit codes {codes}")
        judge.nothing_was_found()
    for violation in judge.violations:
        print(f"VIOLATION {violation}")
    print(f"{len(judge.violations)} violations", flush=True)
    return 1 if judge.violations else 0


if __name__ == "__main__":
    sys.exit(main())
