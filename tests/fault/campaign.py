"""Faults in the middle of exchanges, one after the other, and what each of them cost.

    everybody has committed ── next exchange ── the victim has passed so many bytes: fault ── all
    survivors have committed ── what it cost ── repair, and meanwhile: whether it is right ── ...

Now and then a round goes by without one, to compare with.

Times are those of members' metrics (from TABLE to COMMIT); bytes are Ethernet's, of all members.
"""
import concurrent.futures
import dataclasses
import random
import statistics
import time

import oracle

JUDGED_S = 30  # for survivors to commit the round of a fault
ROUND_S = 120  # no round takes so long, on any machine that this runs on
REJOIN_S = 300
CLEAN_LEAST = 2  # rounds without a fault: before the first one,
CLEAN_EVERY = 10  # and one more for so many faults


@dataclasses.dataclass
class Strike:
    """One fault and what it cost."""
    kind: str
    victim: str
    offset: int  # bytes that the victim had passed since the round before
    round: int = -1
    extra_s: float = 0.0
    extra_bytes: int = 0
    aborted: bool = False


@dataclasses.dataclass
class Clean:
    """One round without a fault."""
    exchange_s: float
    period_s: float
    sent_bytes: int
    passed_bytes: dict


class Campaign:
    def __init__(self, swarm, parameters, seed):
        self.swarm, self.parameters = swarm, parameters
        self.chance = random.Random(seed)
        self.clean, self.strikes, self.violations = [], [], []
        self.rechecked = 0
        self.aside = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.begun = []  # what goes on there

    # ---- rounds ----

    def common(self, members):
        """The newest round that all of these have committed; None before the first."""
        shared = set.intersection(*(set(member.read()) for member in members))
        return max(shared, default=None)

    def next_round(self, members, after, seconds=ROUND_S):
        """Wait until all of these have committed a round after that one; its number."""
        def newer():
            found = self.common(members)
            return found is not None and found > after and found
        return self.swarm.wait_for(newer, seconds, f"round after {after}")

    def mark(self):
        return time.monotonic(), self.swarm.sent_bytes(), \
            {name: self.swarm.passed_bytes(name) for name in self.swarm.names}

    def whole(self, number):
        """Everybody's work is in the round."""
        members = self.swarm.members.values()
        return all(member.rounds[number]["contributors"] == len(members) for member in members)

    def is_together(self):
        """Everybody has committed the newest round that anybody has. No other is opened before: it
        takes as many members as there are."""
        newest = [member.last() for member in self.swarm.members.values()]
        return min(newest) == max(newest) >= 0

    def boundary(self):
        """Wait until everybody has just committed a round, and so none is under way; its number and
        the mark of then."""
        members = list(self.swarm.members.values())
        if self.is_together():
            self.next_round(members, members[0].last(), REJOIN_S)
        self.swarm.wait_for(self.is_together, REJOIN_S, "round that everybody is in")
        place = members[0].last(), self.mark()
        self.finish()
        return place

    def clean_round(self, place):
        """Wait for a round with everybody in it after that boundary, and remember what it cost; the
        boundary at its end."""
        members = list(self.swarm.members.values())
        deadline = time.monotonic() + REJOIN_S
        while time.monotonic() < deadline:
            last, before = place
            number = self.next_round(members, last, REJOIN_S)
            after = self.mark()
            self.begin(oracle.forget_records, self.swarm, number)
            if number == last + 1 and self.whole(number):
                self.clean.append(self.cost(number, before, after))
                return number, after
            place = self.boundary()
        raise TimeoutError(f"not everybody is in a round within {REJOIN_S} s")

    def cost(self, number, before, after):
        exchange_ms = max(member.rounds[number]["exchange_ms"]
                          for member in self.swarm.members.values())
        return Clean(exchange_ms / 1000, after[0] - before[0], after[1] - before[1],
                     {name: after[2][name] - before[2][name] for name in after[2]})

    def usual(self, field):
        return statistics.median(getattr(clean, field) for clean in self.clean)

    # ---- faults ----

    def aim(self, kind, place):
        """Wait until a victim has passed so many bytes of the round after that boundary: the
        strike, the round before and the mark of then. If the round is over first, of the next."""
        members = list(self.swarm.members.values())
        while True:
            last, before = place
            victim = self.chance.choice(self.swarm.names)
            usual = statistics.median(clean.passed_bytes[victim] for clean in self.clean)
            strike = Strike(kind, victim, int(usual * self.chance.uniform(0.02, 0.98)))
            self.swarm.wait_for(
                lambda: self.swarm.passed_bytes(victim) - before[2][victim] >= strike.offset,
                ROUND_S, f"{strike.offset} bytes of {victim}")
            if max(member.last() for member in members) == last:
                return strike, last, before
            place = self.boundary()

    def strike(self, kind):
        place = self.boundary()
        while len(self.clean) < CLEAN_LEAST + len(self.strikes) // CLEAN_EVERY:
            place = self.clean_round(place)
        strike, last, before = self.aim(kind, place)
        victim = strike.victim
        other = self.chance.choice([name for name in self.swarm.names if name != victim])
        self.apply(kind, victim, other)
        self.strikes.append(strike)
        survivors = [member for name, member in self.swarm.members.items()
                     if name != victim or kind == "pair"]
        try:
            self.judge(strike, survivors, last, before)
        except TimeoutError as stuck:
            strike.extra_s = JUDGED_S
            self.violations.append(f"{kind} of {victim} at {strike.offset}: {stuck}")
        self.repair(kind, victim, other)
        if strike.round >= 0:
            self.begin(oracle.forget_records, self.swarm, strike.round)
            self.begin(self.check, strike)

    def apply(self, kind, victim, other):
        if kind == "kill":
            self.swarm.members[victim].kill()
        elif kind == "cut":
            self.swarm.network.cut(victim)
        elif kind == "pair":
            self.swarm.network.cut(victim, other)

    def repair(self, kind, victim, other):
        if kind == "kill":
            self.swarm.members[victim].start()
        elif kind == "cut":
            self.swarm.network.heal(victim)
        elif kind == "pair":
            self.swarm.network.heal(victim, other)

    def judge(self, strike, survivors, last, before):
        strike.round = self.next_round(survivors, last, JUDGED_S)
        now = self.mark()
        strike.aborted = strike.round > last + 1
        strike.extra_bytes = int(now[1] - before[1] - self.usual("sent_bytes"))
        strike.extra_s = now[0] - before[0] - self.usual("period_s")
        if not strike.aborted:
            slowest = max(member.rounds[strike.round]["exchange_ms"] for member in survivors)
            strike.extra_s = slowest / 1000 - self.usual("exchange_s")

    def begin(self, work, *arguments):
        """Beside what the swarm does meanwhile; one after the other."""
        self.begun.append(self.aside.submit(work, *arguments))

    def finish(self):
        """Before anything is measured again."""
        while self.begun:
            self.begun.pop(0).result()

    def check(self, strike):
        """The oracles on its round."""
        number = strike.round
        found = oracle.roots_differ(self.swarm, number)
        if self.swarm.record:
            wrong, steps = oracle.recheck(self.swarm, number, self.parameters)
            found += wrong
            self.rechecked += steps
        self.violations += [f"round {number}, {strike.kind} of {strike.victim} at {strike.offset}: "
                            f"{violation}" for violation in found]

    # ---- the whole ----

    def run(self, plan, minutes, progress):
        """plan: kinds of faults, in this order; as many of them as so many minutes have room for.
        A swarm that does not come together again ends it, and is a violation."""
        deadline = time.monotonic() + 60 * minutes
        try:
            for kind in plan:
                if time.monotonic() > deadline:
                    break
                self.strike(kind)
                progress(self.strikes[-1])
            self.swarm.wait_for(self.is_together, REJOIN_S, "round that everybody is in")
        except (TimeoutError, RuntimeError) as stuck:
            self.violations.append(str(stuck))
        self.finish()
        self.violations += oracle.ledgers(self.swarm)
