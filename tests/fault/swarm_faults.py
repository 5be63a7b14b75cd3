#!/usr/bin/env python3
"""Real members killed and cut off at random bytes of their exchanges.

    swarm_faults.py [--kills N] [--partitions N] [--pairs N] [--members 6] [--rate 100mbit]
                    [--parameters 16Mi] [--seed S] [--minutes M] [--no-record] [--folder DIR]
                    [--json FILE]
    swarm_faults.py --quick         a few faults, three members, a small model: the test
    swarm_faults.py --sum FILE...   what several runs have written with --json, taken together

Prints medians and 99th percentiles of the extra time and the extra Ethernet bytes of one fault, and
every violation; exit 1 when there is one, or a bound is missed. A run ends after M minutes with
what it has reached: many short ones with seeds of their own are as good as a long one.
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
from small_swarm import PATIENCE, TRACKER, Swarm, make_run

SKIPPED = 77  # as Meson reads it
BOUNDS_S = {"kill": 1.5, "cut": 3.0, "pair": 3.0}  # of the 99th percentile of the extra time
BYTES_BOUND = 1.5  # extra bytes of one fault, in Nths of a fault-free exchange
QUICK = {"kills": 2, "partitions": 1, "pairs": 1, "members": 3, "rate": "50mbit",
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
    parser.add_argument("--minutes", type=float, default=24 * 60.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sum", nargs="+", metavar="FILE")
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update(QUICK)
    return chosen


def percentile(values, part):
    """The smallest value that at least this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * part // 1) - 1)]


def outcome(campaign):
    """What a run has to say, for its JSON file; extra bytes in Nths of a fault-free exchange."""
    usual = campaign.usual("sent_bytes") / len(campaign.swarm.names) if campaign.clean else None
    return {"members": len(campaign.swarm.names), "parameters": campaign.parameters,
            "clean": [[clean.exchange_s, clean.sent_bytes] for clean in campaign.clean],
            "rechecked_rounds": campaign.rechecked, "violations": campaign.violations,
            "strikes": [{"kind": strike.kind, "extra_s": strike.extra_s,
                         "extra_nths": strike.extra_bytes / usual, "aborted": strike.aborted}
                        for strike in campaign.strikes]}


def summary(outcomes):
    """Of all runs; they have the same sizes."""
    first = outcomes[0]
    clean = [pair for outcome in outcomes for pair in outcome["clean"]]
    strikes = [strike for outcome in outcomes for strike in outcome["strikes"]]
    found = {"runs": len(outcomes), "members": first["members"], "parameters": first["parameters"],
             "clean_rounds": len(clean),
             "exchange_s": statistics.median(seconds for seconds, _ in clean),
             "sent_bytes": statistics.median(sent for _, sent in clean),
             "rechecked_rounds": sum(outcome["rechecked_rounds"] for outcome in outcomes),
             "violations": [line for outcome in outcomes for line in outcome["violations"]],
             "faults": {}}
    for kind in BOUNDS_S:
        of_kind = [strike for strike in strikes if strike["kind"] == kind]
        if of_kind:
            times = [strike["extra_s"] for strike in of_kind]
            parts = [strike["extra_nths"] for strike in of_kind]
            found["faults"][kind] = {
                "count": len(of_kind), "aborted": sum(strike["aborted"] for strike in of_kind),
                "extra_s_p50": statistics.median(times), "extra_s_p99": percentile(times, 0.99),
                "extra_nths_p50": statistics.median(parts),
                "extra_nths_p99": percentile(parts, 0.99)}
    return found


def print_summary(found):
    print(f"{found['runs']} runs, {found['members']} members, {found['parameters']} parameters, "
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


def verdict(outcomes, is_timed):
    """Print it all; the exit code."""
    found = summary(outcomes)
    print_summary(found)
    dear = list(over_bounds(found)) if is_timed else []
    for line in dear:
        print(f"OVER THE BOUND {line}")
    return 1 if found["violations"] or dear else 0


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


def attack(chosen):
    """One run; its outcome."""
    names = [f"m{i}" for i in range(chosen.members)]
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(chosen.folder or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-faults-")))
        parameters = make_run(folder, chosen.parameters, swarm__members_min=chosen.members,
                              swarm__inner_steps=1, swarm__patience=4 * PATIENCE)
        network = stack.enter_context(Network(
            {TRACKER: Link()} | {name: Link.of(chosen.rate) for name in names}))
        swarm = Swarm(network, folder, names, record=not chosen.no_record, inner_steps=1)
        campaign = Campaign(swarm, parameters, chosen.seed)
        swarm.start()
        campaign.run(plan_of(chosen), chosen.minutes, show)
        codes = swarm.stop()
    campaign.violations += [f"{name} ended with {code}" for name, code in codes.items() if code]
    return outcome(campaign)


def main():
    chosen = arguments()
    if chosen.sum:
        return verdict([json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
                        for name in chosen.sum], is_timed=True)
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    found = attack(chosen)
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps(found), encoding="utf-8")
    return verdict([found], is_timed=not chosen.quick)


if __name__ == "__main__":
    sys.exit(main())
