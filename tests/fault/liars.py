#!/usr/bin/env python3
"""Members that lie by name (tests/support/liar.c), and honest ones that are slow.

    liars.py --lie NAME... [--members 8] [--liars 1] [--rounds 60] [--minutes 2] [--pairs 3]
             [--parameters 256Ki] [--uplink 1Mi] [--json FILE]      --lie all: every lie
    liars.py --quick         the lies that members withstand, a few rounds each: the test
    liars.py --table FILE... the table of what several runs have written with --json

A swarm of real processes on loopback runs with the lying members, and without: they are then never
started. The two alternate; runs end after so many committed rounds or minutes. Every uplink is
limited to so many bytes per second, so that a round takes its time there and not on this machine's
processors. Prints a row for each lie and the bars that it misses; exit 1 when there is one.

The lie `none` is one more honest member: a figure of what the measurement can tell.

bars of every lie: committed rounds per hour, after round 3, at least 90 % of those without the lie
(95 % for slow members); round 3 within half a minute; no honest member is named or ends; all
ledgers verify.
    sums    no committed round has a wrong sum; the member is named in its first round
    lists   the same, and the member is named within three rounds: an owner that lies has no result
    swaps   the member is named within 60 rounds
    stalls  no round after the third is aborted
    claims  the member owns at most twice its fair share of slices; no deadline is longer than twice
            that of the run without it
    values  the member is named within three rounds; the final loss is at most 1 % higher; no
            commit has a copy of another contribution to the same round
    unlike  the member, which is honest, is not named
"""
import argparse
import concurrent.futures
import dataclasses
import functools
import json
import pathlib
import statistics
import subprocess
import sys

from lie_run import LIAR, LIES, LOSS_COMMITS, SETTLED_ROUND, Lie, Outcome, run_lie
from small_swarm import SKEP
from swarm_faults import amount

RATE_MIN = {"slow": 0.95}  # committed rounds per hour with the lie, as a part of those without
RATE_MIN_OTHERS = 0.90
START_MAX_S = 30  # until SETTLED_ROUND; a part of the first round takes at most a few seconds
CLEAN_USES = 4  # lies that are compared with one run without: the machine's load changes
# Rounds after the first one that holds the lie.
NAMED_WITHIN = {"sums": 0, "lists": 2, "values": 2, "swaps": 60}
LOSS_MAX = 1.01
OWNED_MAX = 2.0
DEADLINE_MAX = 2.0
QUICK = {"members": 4, "liars": 1, "rounds": 12, "minutes": 0.5, "uplink": 0}
# In rounds of milliseconds a member's first misses may fall into rounds that nobody judges yet.
QUICK_NAMED_WITHIN = {"sums": 0, "lists": 8, "values": 10}
QUICK_WORKERS = 4  # most of a run waits
# Lies that members do not withstand yet, and how. Each is for --quick only.
NOT_WITHSTOOD = {
    "swap": "is named by audits, of which there are none below five voters",
    "sum-int4": "is named by audits",
    "flip": "is named when it has opposed the others in four of eight rounds",
    "flip-sparse": "is not named: there are no sketches",
    **dict.fromkeys(("sum-sparse", "sum-one-sparse", "contributors-sparse", "swap-sparse"),
                    "has no result, but is named only if that happens twice in three rounds"),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lie", nargs="+", default=[], metavar="NAME",
                        choices=["all", *(lie.name for lie in LIES)])
    for name, default in (("members", 8), ("liars", 1), ("rounds", 60), ("pairs", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--parameters", type=amount, default=1 << 18)
    parser.add_argument("--uplink", type=amount, default=1 << 20)
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", nargs="+", metavar="FILE")
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update(QUICK, lie=[lie.name for lie in LIES if lie.name not in NOT_WITHSTOOD
                                        and lie.is_of_program and lie.group != "unlike"])
    elif "all" in chosen.lie:
        chosen.lie = [lie.name for lie in LIES]
    chosen.seconds = 60 * chosen.minutes
    return chosen


# ---- bars ----

@dataclasses.dataclass
class Row:
    """The runs of one lie, and those without it that alternated with them."""
    lie: Lie
    lying: list
    clean: list  # empty: not compared
    commits_min: int = 1  # that each run must reach
    named_within: dict = dataclasses.field(default_factory=lambda: NAMED_WITHIN)

    def rates(self):
        return [statistics.median(run.commits_per_hour() for run in runs) if runs else None
                for runs in (self.lying, self.clean)]

    def ratio(self):
        """The median of the pairs' ratios."""
        ratios = [lying.commits_per_hour() / clean.commits_per_hour()
                  for lying, clean in zip(self.lying, self.clean) if clean.commits_per_hour()]
        return statistics.median(ratios) if ratios else None

    def losses(self):
        """Final losses after equally many committed rounds: (with the lie, without)."""
        pairs = [(lying.final_loss(commits), clean.final_loss(commits))
                 for lying, clean in zip(self.lying, self.clean)
                 if (commits := min(lying.commits, clean.commits)) >= LOSS_COMMITS]
        pairs = [pair for pair in pairs if None not in pair]
        return tuple(map(statistics.fmean, zip(*pairs))) if pairs else (None, None)

    def honest_named(self):
        return sorted({name for run in [*self.lying, *self.clean]
                       for name in set(run.named) - set(run.liars)})

    def named(self):
        """Rounds until each run named all of its liars; None for a run that did not."""
        found = []
        for run in self.lying:
            rounds = [run.named[name][0] for name in run.liars if name in run.named]
            first = run.first_round + self.lie.delay_rounds
            found.append(max(rounds) - first if len(rounds) == len(run.liars) else None)
        return found

    def deadline_ratio(self):
        """The largest multiple of a deadline of the runs without the lie."""
        def longest(runs, name):
            return max(run.deadlines_ms[name] for run in runs)
        names = set.intersection(*(set(run.deadlines_ms) for run in [*self.lying, *self.clean]))
        return max((longest(self.lying, name) / longest(self.clean, name)
                    for name in names if self.clean), default=None)

    def missed(self):
        """The bars that this lie misses."""
        return [*self.missed_by_all(), *{
            "sums": self.missed_sums, "lists": self.missed_sums,
            "swaps": self.missed_naming, "stalls": self.missed_stalls,
            "claims": self.missed_claims, "values": self.missed_values,
            "unlike": self.missed_unlike, "slow": self.missed_stalls,
            "control": self.missed_stalls}[self.lie.group]()]

    def missed_by_all(self):
        ratio, least = self.ratio(), RATE_MIN.get(self.lie.group, RATE_MIN_OTHERS)
        if ratio is not None and ratio < least:
            yield f"{ratio:.0%} of the commits per hour"
        start = statistics.median(run.start_seconds for run in self.lying)
        if start > START_MAX_S:
            yield f"{start:.0f} s until round {SETTLED_ROUND}"
        fewest = min(run.commits for run in self.lying)
        if fewest < self.commits_min:
            yield f"{fewest} commits"
        for name in self.honest_named():
            yield f"honest {name} is named"
        for fault in sorted({fault for run in self.lying for fault in run.ended}):
            yield f"honest member ended: {fault}"
        for fault in sorted({fault for run in self.lying for fault in run.ledger_faults}):
            yield fault
        if self.lie.is_of_program and not all(run.took_effect for run in self.lying):
            yield "the lie took no effect: is its function still called?"

    def missed_sums(self):
        wrong = sum(len(run.wrong_rounds) for run in self.lying)
        if wrong:
            yield f"{wrong} of {sum(run.rechecked for run in self.lying)} commits have wrong sums"
        yield from self.missed_naming()

    def missed_stalls(self):
        aborts = sum(run.aborts for run in self.lying)
        if aborts:
            yield f"{aborts} aborts"

    def missed_claims(self):
        owned, ratio = max(run.owned for run in self.lying), self.deadline_ratio()
        if owned > OWNED_MAX:
            yield f"owns {owned:.1f} x its fair share"
        if ratio is not None and ratio > DEADLINE_MAX:
            yield f"deadlines x {ratio:.1f}"

    def missed_values(self):
        copies = sum(run.late_copies for run in self.lying)
        if copies:
            yield f"{copies} commits have copies of contributions to the same round"
        lying, clean = self.losses()
        if lying is not None and lying > LOSS_MAX * clean:
            yield f"loss {lying / clean - 1:+.1%}"
        yield from self.missed_naming()

    def missed_unlike(self):
        named = sum(bool(set(run.named) & set(run.liars)) for run in self.lying)
        if named:
            yield f"named in {named} of {len(self.lying)} runs"

    def missed_naming(self):
        late = [rounds for rounds in self.named()
                if rounds is None or rounds > self.named_within[self.lie.group]]
        if late:
            yield "not named" if None in late else f"named {max(late)} rounds late"


# ---- tables ----

def text_of(value, form):
    return "-" if value is None else format(value, form)


def print_header():
    print(f"{'lie':14} {'start s':>7} {'commits/h':>9} {'without':>9} {'ratio':>6} {'aborts':>6} "
          f"{'ended':>5} {'named after':>11} {'honest':>6} {'loss':>7} {'without':>7} "
          f"{'wrong':>7} {'owned':>5} {'counted':>7}  missed bars")


def print_row(row):
    rate, clean_rate = row.rates()
    loss, clean_loss = row.losses()
    rechecked = sum(run.rechecked for run in row.lying)
    wrong = sum(len(run.wrong_rounds) for run in row.lying)
    named = "/".join(text_of(rounds, "d") for rounds in row.named())
    start = statistics.median(run.start_seconds for run in row.lying)
    print(f"{row.lie.name:14} {start:7.1f} {text_of(rate, '9.0f'):>9} "
          f"{text_of(clean_rate, '9.0f'):>9} {text_of(row.ratio(), '6.0%'):>6} "
          f"{sum(run.aborts for run in row.lying):6} "
          f"{sum(len(run.ended) for run in row.lying):5} {named:>11} "
          f"{len(row.honest_named()):6} {text_of(loss, '7.4f'):>7} "
          f"{text_of(clean_loss, '7.4f'):>7} "
          f"{f'{wrong}/{rechecked}' if rechecked else '-':>7} "
          f"{max(run.owned for run in row.lying):5.1f} "
          f"{statistics.fmean(run.counted for run in row.lying):7.0%}  "
          f"{'; '.join(row.missed()) or 'none'}", flush=True)


def print_table(rows):
    print_header()
    for row in rows:
        print_row(row)


# ---- runs ----

def run_all(chosen):
    """Alternate runs without any lie with runs of each; the rows, printed as they are complete."""
    lies = [lie for lie in LIES if lie.name in chosen.lie]
    rows = {lie.name: Row(lie, [], []) for lie in lies}
    for pair in range(chosen.pairs):
        clean = {}  # by baseline: the newest run without a lie, and how often it was used
        for lie in lies:
            row = rows[lie.name]
            run, uses = clean.get(lie.baseline(), (None, CLEAN_USES))
            if uses == CLEAN_USES:
                run, uses = run_lie(lie, chosen, with_liars=False), 0
            clean[lie.baseline()] = run, uses + 1
            row.clean.append(run)
            row.lying.append(run_lie(lie, chosen, with_liars=True))
            if pair + 1 == chosen.pairs:
                print_row(row)
            save(chosen, rows)
    return list(rows.values())


def run_quick(chosen):
    """One run of each lie, several at a time; the rows, printed as they are complete."""
    lies = [lie for lie in LIES if lie.name in chosen.lie]
    run = functools.partial(run_lie, chosen=chosen, with_liars=True)
    rows = []
    with concurrent.futures.ProcessPoolExecutor(QUICK_WORKERS) as pool:
        for lie, outcome in zip(lies, pool.map(run, lies)):
            rows.append(Row(lie, [outcome], [], chosen.rounds, QUICK_NAMED_WITHIN))
            print_row(rows[-1])
    for name, reason in NOT_WITHSTOOD.items():
        print(f"{name:14} not asserted: {reason}")
    return rows


def save(chosen, rows):
    if chosen.json:
        pathlib.Path(chosen.json).write_text(json.dumps([
            {"lie": row.lie.name, "members": chosen.members,
             "lying": [dataclasses.asdict(run) for run in row.lying],
             "clean": [dataclasses.asdict(run) for run in row.clean]}
            for row in rows.values() if row.lying]), encoding="utf-8")


def load(paths):
    lies = {lie.name: lie for lie in LIES}
    return [Row(lies[row["lie"]], *([Outcome(**run) for run in row[key]]
                                    for key in ("lying", "clean")))
            for path in paths for row in json.loads(pathlib.Path(path).read_text("utf-8"))]


def program_faults():
    """No lie is in the released program; the list of lies here is that of the test build."""
    listed = subprocess.run([LIAR, "--list"], text=True, check=True, capture_output=True).stdout
    if listed.split() != [lie.name for lie in LIES if lie.is_of_program and not lie.told]:
        yield f"the lies of {LIAR} are others: {listed.split()}"
    for marker in (b"__wrap_member_step", b"the lie %s takes effect", b"come-and-go"):
        if marker not in pathlib.Path(LIAR).read_bytes():
            yield f"{LIAR} does not contain {marker}: this check cannot fail"
        if marker in pathlib.Path(SKEP).read_bytes():
            yield f"{SKEP} contains {marker}"


def main():
    chosen = arguments()
    if chosen.table:
        print_table(load(chosen.table))
        return 0
    faults = list(program_faults())
    for fault in faults:
        print(f"VIOLATION {fault}")
    print_header()
    rows = run_quick(chosen) if chosen.quick else run_all(chosen)
    return 1 if faults or any(row.missed() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
