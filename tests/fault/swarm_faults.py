#!/usr/bin/env python3
"""Real members killed and cut off at random bytes of their exchanges.

    swarm_faults.py [--kills N] [--partitions N] [--pairs N] [--members 6] [--rate 100mbit]
                    [--parameters 16Mi] [--seed S] [--no-record] [--folder DIR] [--json FILE]
    swarm_faults.py --quick         three faults, three members, a small model: the test

Prints medians and 99th percentiles of the extra time and the extra Ethernet bytes of one fault, and
every violation; exit 1 when there is one.
"""
import argparse
import contextlib
import json
import pathlib
import random
import statistics
import sys
import tempfile

from campaign import Campaign
from links import Link, Network
from namespaces import why_not
from small_swarm import TRACKER, Swarm, make_run

SKIPPED = 77  # as Meson reads it
BOUNDS_S = {"kill": 1.5, "cut": 3.0, "pair": 3.0}  # of the 99th percentile of the extra time
BYTES_BOUND = 1.5  # extra bytes of one fault, in Nths of a fault-free exchange
QUICK = {"kills": 2, "partitions": 1, "pairs": 0, "members": 3, "rate": "50mbit",
         "parameters": 1 << 20}


def amount(text):
    """16Mi as a number."""
    for suffix, factor in (("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)):
        if text.endswith(suffix):
            return int(text[:-2]) * factor
    return int(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("kills", 10), ("partitions", 10), ("pairs", 0), ("members", 6),
                          ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--parameters", type=amount, default=16 << 20)
    parser.add_argument("--no-record", action="store_true", help="leave out the exact recheck")
    parser.add_argument("--folder", help="keep everything there")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update(QUICK)
    return chosen


def percentile(values, part):
    """The smallest value that at least this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)]


def shares(campaign, strikes):
    """Extra bytes in Nths of a fault-free exchange."""
    usual = campaign.usual("sent_bytes") / len(campaign.swarm.names)
    return [strike.extra_bytes / usual for strike in strikes]


def summary(campaign):
    found = {"members": len(campaign.swarm.names), "parameters": campaign.parameters,
             "clean_rounds": len(campaign.clean), "exchange_s": campaign.usual("exchange_s"),
             "sent_bytes": campaign.usual("sent_bytes"), "rechecked_rounds": campaign.rechecked,
             "violations": campaign.violations, "faults": {}}
    for kind in BOUNDS_S:
        strikes = [strike for strike in campaign.strikes if strike.kind == kind]
        if strikes:
            times, parts = [strike.extra_s for strike in strikes], shares(campaign, strikes)
            found["faults"][kind] = {
                "count": len(strikes), "aborted": sum(strike.aborted for strike in strikes),
                "extra_s_p50": statistics.median(times), "extra_s_p99": percentile(times, 0.99),
                "extra_nths_p50": statistics.median(parts),
                "extra_nths_p99": percentile(parts, 0.99)}
    return found


def print_summary(found):
    print(f"{found['members']} members, {found['parameters']} parameters, "
          f"{found['clean_rounds']} rounds without a fault: exchange {found['exchange_s']:.2f} s, "
          f"{found['sent_bytes'] / 1e6:.1f} MB sent (medians)")
    print(f"{'fault':6} {'count':>5} {'aborts':>6} {'extra s p50':>12} {'p99':>7} {'bound':>6} "
          f"{'extra bytes x N p50':>20} {'p99':>6} {'bound':>6}")
    for kind, row in found["faults"].items():
        print(f"{kind:6} {row['count']:5} {row['aborted']:6} {row['extra_s_p50']:12.2f} "
              f"{row['extra_s_p99']:7.2f} {BOUNDS_S[kind]:6.1f} {row['extra_nths_p50']:20.2f} "
              f"{row['extra_nths_p99']:6.2f} {BYTES_BOUND:6.1f}")
    print(f"{found['rechecked_rounds']} rounds computed again from their records")
    for violation in found["violations"]:
        print(f"VIOLATION {violation}")
    print(f"{len(found['violations'])} violations", flush=True)


def over_bounds(found):
    """What is too slow or too dear: looked at in full runs, on links slow enough to tell."""
    for kind, row in found["faults"].items():
        if row["extra_s_p99"] > BOUNDS_S[kind]:
            yield f"{kind}: extra time p99 {row['extra_s_p99']:.2f} s"
        if row["extra_nths_p99"] > BYTES_BOUND:
            yield f"{kind}: extra bytes p99 {row['extra_nths_p99']:.2f} Nths of an exchange"


def show(strike):
    print(f"{strike.kind} of {strike.victim} at byte {strike.offset} before round {strike.round}: "
          f"{strike.extra_s:+.2f} s, {strike.extra_bytes / 1e6:+.2f} MB"
          f"{', aborted first' if strike.aborted else ''}", flush=True)


def plan_of(chosen):
    plan = ["kill"] * chosen.kills + ["cut"] * chosen.partitions + ["pair"] * chosen.pairs
    random.Random(chosen.seed).shuffle(plan)
    return plan


def main():
    chosen = arguments()
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    names = [f"m{i}" for i in range(chosen.members)]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-faults-")))
        parameters = make_run(folder, chosen.parameters, swarm__members_min=chosen.members)
        network = stack.enter_context(Network(
            {TRACKER: Link()} | {name: Link.of(chosen.rate) for name in names}))
        swarm = Swarm(network, folder, names, record=not chosen.no_record)
        campaign = Campaign(swarm, parameters, chosen.seed)
        swarm.start()
        campaign.run(plan_of(chosen), show)
        codes = swarm.stop()
    campaign.violations += [f"{name} ended with {code}" for name, code in codes.items() if code]
    found = summary(campaign)
    print_summary(found)
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps(found, indent=1))
    dear = [] if chosen.quick else list(over_bounds(found))
    for line in dear:
        print(f"OVER THE BOUND {line}")
    return 1 if found["violations"] or dear else 0


if __name__ == "__main__":
    sys.exit(main())
