#!/usr/bin/env python3
"""Measure the exchange of a round over emulated links, and gloo's all-reduce of the same bytes.

Reports the share of the link rate that is payload. Skep and gloo use the same nodes in turns.

    python bench/exchange.py [--python VENV/bin/python] [--members 2 4 8] [--rate 25mbit]
                             [--round-trip 60] [--queue 150] [--parameters 16Mi]
                             [--turns 3] [--congestion cubic] [--json FILE]

--python names a Python with PyTorch; without it gloo is not measured. Run as root, after building
tests/support/tun_relay. Each of N members sends (N-1)/N of the encoded bytes to the owners. As an
owner it sends as much to the other members. A ring all-reduce sends the same amount. Two times are
measured:

    transfer   from 0.5 % to 99.5 % of the bytes of a round on the wire
    exchange   from TABLE to COMMIT on the slowest member, with votes and durable writes

Link rates count Ethernet bytes with headers. The overhead compares all bytes on the links with the
payload.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TREE = pathlib.Path(__file__).parents[1]
sys.path.append(str(TREE / "tests" / "fault"))

from links import DEVICE, Link, Network, bits_per_s  # noqa: E402
from small_swarm import TRACKER, Swarm, make_run  # noqa: E402
from swarm_faults import amount  # noqa: E402

GLOO_PORT = 29500
SAMPLE_S = 0.005
WARM_ROUNDS = 2  # uplinks are measured, TCP windows have grown
ROUNDS = 3
TIMELINE_S = 0.1
EDGE = 0.005  # share of the bytes that `transfer` omits at both ends
INT8_BITS = 8.125  # per parameter


class Gloo:
    """One rank on each node; the ranks run through all turns."""

    def __init__(self, network, names, python):
        self.ranks = []
        for rank, name in enumerate(names):
            where = {"RANK": str(rank), "WORLD_SIZE": str(len(names)), "OMP_NUM_THREADS": "1",
                     "MASTER_ADDR": network.address(names[0]), "MASTER_PORT": str(GLOO_PORT),
                     "GLOO_SOCKET_IFNAME": DEVICE}
            self.ranks.append(network.start(
                name, ["env", *(f"{key}={value}" for key, value in where.items()), python,
                       TREE / "bench" / "exchange_gloo.py"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for rank in self.ranks:
            if rank.stdout.readline() != "ready\n":
                raise RuntimeError("a rank of gloo did not start")

    def all_reduce(self, count):
        """Time of the slowest rank, in seconds."""
        for rank in self.ranks:
            rank.stdin.write(f"{count}\n")
            rank.stdin.flush()
        return max(float(rank.stdout.readline()) for rank in self.ranks)


def gloo_turn(gloo, network, names, count):
    """The measurements of each round."""
    found = []
    for turn in range(1 + ROUNDS):
        before = [network.counters(name).received_bytes for name in names]
        seconds = gloo.all_reduce(count)
        passed = [network.counters(name).received_bytes - start
                  for name, start in zip(names, before)]
        if turn >= 1:
            found.append({"transfer_s": seconds, "exchange_s": seconds,
                          "passed_bytes": statistics.mean(passed)})
    return found


def sampled_rounds(swarm, count):
    """Run the swarm for `count` rounds. Return a list of (time when all members had committed the
    round, round, metrics line of each member) and a list of (time, bytes that all members have
    received, counters of each member)."""
    members = list(swarm.members.values())
    samples, rounds = [], []
    while len(rounds) < count and all(member.is_running() for member in members):
        counters = [swarm.network.counters(name) for name in swarm.names]
        samples.append((time.monotonic(), sum(c.received_bytes for c in counters), counters))
        shared = set.intersection(*(set(member.read()) for member in members))
        for number in sorted(shared - {number for _, number, _ in rounds}):
            rounds.append((time.monotonic(), number,
                           [member.rounds[number] for member in members]))
        time.sleep(SAMPLE_S)
    return rounds, samples


def show_timeline(samples, begin, end, names, rate):
    """Print the use of each link: one digit for each TIMELINE_S, in tenths of the link rate."""
    inside = [sample for sample in samples if begin <= sample[0] <= end]
    for at, name in enumerate(names):
        for way, field in (("out", "sent_bytes"), ("in", "received_bytes")):
            digits, start = [], inside[0]
            for sample in inside:
                if sample[0] - start[0] >= TIMELINE_S:
                    passed = getattr(sample[2][at], field) - getattr(start[2][at], field)
                    share = passed / (sample[0] - start[0]) / rate
                    digits.append("0123456789X"[min(10, int(share * 10 + 0.5))])
                    start = sample
            print(f"    {name} {way:3} {''.join(digits)}")


def transfer(samples, begin, end):
    """(transfer time in seconds, bytes on the links) between the times begin and end."""
    inside = [sample for sample in samples if begin <= sample[0] <= end]
    first, last = inside[0][1], inside[-1][1]
    low, high = first + EDGE * (last - first), last - EDGE * (last - first)
    return (next(when for when, passed, _ in inside if passed >= high)
            - next(when for when, passed, _ in inside if passed >= low)), last - first


def skep_turn(network, names, folder, parameters, rate=None):
    steps = WARM_ROUNDS + ROUNDS
    make_run(folder, parameters, steps=steps, swarm__inner_steps=1, swarm__patience=30,
             swarm__members_min=len(names))
    swarm = Swarm(network, folder, names)
    swarm.start()
    rounds, samples = sampled_rounds(swarm, steps)
    for process in swarm.processes():  # the work after their last round takes long
        if process.is_running():
            process.kill()
    if len(rounds) < steps:
        raise RuntimeError(f"{len(rounds)} of {steps} rounds\n"
                           + "\n".join(process.text()[-1000:] for process in swarm.processes()))
    found = []
    for (begin, _, _), (end, _, lines) in list(zip(rounds, rounds[1:]))[WARM_ROUNDS - 1:]:
        if any(line["contributors"] < len(names) for line in lines):
            continue  # a member was late, so fewer bytes were exchanged
        seconds, passed = transfer(samples, begin, end)
        if rate:
            show_timeline(samples, begin, end, names, rate)
        found.append({"transfer_s": seconds / (1 - 2 * EDGE),
                      "exchange_s": max(line["exchange_ms"] for line in lines) / 1000,
                      "passed_bytes": passed / len(names)})
    return found


def measure(chosen, members):
    """{engine: measurements of each round} for one number of members."""
    names = [f"m{i}" for i in range(members)]
    link = Link.of(chosen.rate, delay_ms=chosen.round_trip / 4, queue_ms=chosen.queue)
    links = {TRACKER: Link.of(delay_ms=chosen.round_trip / 4)} | {name: link for name in names}
    found = {"Skep": [], "gloo": []}
    with Network(links, congestion=chosen.congestion) as network, \
            tempfile.TemporaryDirectory(prefix="skep-exchange-") as scratch:
        gloo = Gloo(network, names, chosen.python) if chosen.python else None
        for turn in range(chosen.turns):
            found["Skep"] += skep_turn(network, names, pathlib.Path(scratch) / str(turn),
                                       chosen.parameters,
                                       chosen.timeline and bits_per_s(chosen.rate) / 8)
            if gloo:
                found["gloo"] += gloo_turn(gloo, network, names, encoded_bytes(chosen))
    return {engine: rounds for engine, rounds in found.items() if rounds}


def encoded_bytes(chosen):
    return int(chosen.parameters * INT8_BITS / 8)


def report(chosen, members, found):
    payload = 2 * (members - 1) / members * encoded_bytes(chosen)
    rate = bits_per_s(chosen.rate) / 8
    rows = {}
    for engine, rounds in found.items():
        middle = {key: statistics.median(row[key] for row in rounds) for key in rounds[0]}
        rows[engine] = middle | {
            "rounds": len(rounds),
            "payload_share": payload / middle["transfer_s"] / rate,
            "payload_share_exchange": payload / middle["exchange_s"] / rate,
            "overhead": middle["passed_bytes"] / payload - 1}
        print(f"{members:7} {engine:6} {payload / 1e6:10.1f} {middle['transfer_s']:10.2f} "
              f"{rows[engine]['payload_share']:8.1%} {middle['exchange_s']:10.2f} "
              f"{rows[engine]['payload_share_exchange']:8.1%} {rows[engine]['overhead']:9.1%}",
              flush=True)
    return rows


def machines_congestion():
    path = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return path.read_text(encoding="ascii").strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", help="a Python with PyTorch, for gloo")
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rate", default="25mbit")
    parser.add_argument("--round-trip", type=float, default=60, help="ms between any two members")
    parser.add_argument("--queue", type=float, default=150,
                        help="ms of data that the sender of a link buffers")
    parser.add_argument("--parameters", type=amount, default=16 << 20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--congestion", help="TCP congestion control; default: that of the machine")
    parser.add_argument("--timeline", action="store_true",
                        help="print the use of each link, every 100 ms")
    parser.add_argument("--json")
    chosen = parser.parse_args()
    print(f"{chosen.rate} both ways, {chosen.round_trip:g} ms round trip, "
          f"{chosen.queue:g} ms of buffer, "
          f"{chosen.parameters} parameters, int8, TCP {chosen.congestion or machines_congestion()}")
    print(f"{'members':>7} {'':6} {'payload MB':>10} {'transfer s':>10} {'of rate':>8} "
          f"{'exchange s':>10} {'of rate':>8} {'overhead':>9}")
    found = {members: report(chosen, members, measure(chosen, members))
             for members in chosen.members}
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
