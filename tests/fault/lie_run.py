"""One run of a swarm on loopback with members that lie, and what came of it."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import oracle
from loopback import Loopback
from small_swarm import SKEP, Swarm, make_run

LIAR = os.environ.get("LIAR", str(
    pathlib.Path(__file__).parents[2] / "build/tests/support/liar"))
SETTLED_ROUND = 3  # a lie may cost rounds up to this one; speed is measured after it
SETTLED_S = 120  # until it is committed
LOSS_COMMITS = 10  # the final loss is the mean over so many
POLL_S = 0.05
STATUS_S = 1.0  # between two looks at the deadlines
START_S = 30
SPARSE = (256, 2)  # values of each 4,096, bits a value: as many slices as a small model can have
COPIED = re.compile(r"liar: copies the contribution of another member to round (\d+)")


@dataclasses.dataclass(frozen=True)
class Lie:
    """What the members of a run are started with."""
    name: str
    group: str  # control, sums, lists, swaps, stalls, claims, values, ...: how it is judged
    is_of_program: bool = True  # liar --lie NAME; otherwise only the settings below differ
    delay_rounds: int = 0  # from the member's first round to the first one that can hold the lie
    slow_uplink: int = 1  # the part of the others' uplink that it has: 1 / slow_uplink
    step_ms: int = 0  # pause of each honest member before each step
    slow_steps: int = 1  # the multiple of this pause that it makes
    codec: str = "int8"
    told: str = ""  # the name of the lie for the program, if it is another one

    def baseline(self):
        """Equal baselines need only one run."""
        return self.step_ms, self.is_recorded(), self.codec

    def is_recorded(self):
        return self.group in ("sums", "lists")

    def codec_settings(self):
        return {"swarm__sparse_values": SPARSE[0],
                "swarm__sparse_bits": SPARSE[1]} if self.codec == "sparse" else {}

    def program(self, is_liar):
        options = ["--lie", self.told or self.name] if is_liar and self.is_of_program else []
        if self.step_ms:
            options += ["--step-ms", self.step_ms * (self.slow_steps if is_liar else 1)]
        return [LIAR, *options] if options else [SKEP]

    def settings(self, is_liar, uplink):
        """uplink: bytes per second of the honest members; 0: no limit."""
        return [f"limits.up={uplink // (self.slow_uplink if is_liar else 1)}"] if uplink else []


LIES = [
    Lie("none", "control", False),  # one more honest member: what the measurement can tell
    Lie("sum", "sums"), Lie("sum-one", "sums"), Lie("contributors", "sums"),
    Lie("wrong-sketch", "sums"), Lie("swap", "swaps"),
    Lie("sum-int4", "swaps", codec="int4", told="sum"),
    Lie("toggle", "stalls"), Lie("withhold", "stalls"), Lie("drip", "stalls"),
    Lie("trickle", "stalls"), Lie("hold", "stalls"), Lie("mute", "stalls"),
    Lie("idle-owner", "stalls"), Lie("leave-out", "stalls"),
    Lie("come-and-go", "stalls"),
    Lie("reject", "stalls"), Lie("unreachable", "stalls"),
    Lie("false-refusal", "stalls"),
    Lie("up-max", "claims"), Lie("up-zero", "claims"), Lie("step-day", "claims"),
    Lie("tokens-max", "claims"), Lie("samples-max", "claims"), Lie("awaited-max", "claims"),
    Lie("stale-table", "claims"), Lie("stale-round", "claims"),
    Lie("nan", "values"), Lie("huge", "values"), Lie("x1000", "values"), Lie("flip", "values"),
    Lie("replay", "values", delay_rounds=1), Lie("patched-replay", "values", delay_rounds=1),
    Lie("copy", "values", delay_rounds=1), Lie("late-copy", "values", delay_rounds=1),
    Lie("zeros", "values"),
    # With the sparse codec, whose owners list contributions.
    Lie("sum-sparse", "lists", codec="sparse", told="sum"),
    Lie("sum-one-sparse", "lists", codec="sparse", told="sum-one"),
    Lie("contributors-sparse", "lists", codec="sparse", told="contributors"),
    Lie("swap-sparse", "lists", codec="sparse", told="swap"),
    Lie("leave-out-sparse", "stalls", codec="sparse", told="leave-out"),
    Lie("spelling", "values", codec="sparse"),
    Lie("nan-sparse", "values", codec="sparse", told="nan"),
    Lie("huge-sparse", "values", codec="sparse", told="huge"),
    Lie("x1000-sparse", "values", codec="sparse", told="x1000"),
    Lie("flip-sparse", "values", codec="sparse", told="flip"),
    Lie("replay-sparse", "values", delay_rounds=1, codec="sparse", told="replay"),
    Lie("zeros-sparse", "values", codec="sparse", told="zeros"),
    # Honest members whose training data are unlike those of the others.
    Lie("mirrored-text", "unlike"), Lie("constant-text", "unlike"),
    # With half a second for each of four steps, a round is not all exchange.
    Lie("slow-up-20", "slow", False, slow_uplink=20, step_ms=500),
    Lie("slow-up-5", "slow", False, slow_uplink=5, step_ms=500),
    Lie("slow-compute-5", "slow", False, step_ms=500, slow_steps=5),
]


@dataclasses.dataclass
class Outcome:
    """Figures of one run. Rounds are the ledger's."""
    liars: list = dataclasses.field(default_factory=list)  # names
    commits: int = 0
    start_seconds: float = 0.0  # from the admission of all honest members to SETTLED_ROUND
    settled_commits: int = 0  # after it
    seconds: float = 0.0  # from then on
    aborts: int = 0  # after SETTLED_ROUND
    ended: list = dataclasses.field(default_factory=list)  # honest members, with their exit codes
    named: dict = dataclasses.field(default_factory=dict)  # member: [round, reason]
    first_round: int = 0  # with a liar in its roster; 0: none
    took_effect: bool = False  # the test build has lied
    late_copies: int = 0  # committed copies of contributions to the same round
    losses: list = dataclasses.field(default_factory=list)  # honest members' mean, by commit
    ledger_faults: list = dataclasses.field(default_factory=list)
    rechecked: int = 0
    wrong_rounds: list = dataclasses.field(default_factory=list)  # committed with a wrong sum
    owned: float = 0.0  # most slices of one liar in a commit, as a multiple of the fair share
    counted: float = 0.0  # part of all committed slices that hold the contribution of one liar
    deadlines_ms: dict = dataclasses.field(default_factory=dict)  # the longest of each

    def commits_per_hour(self):
        return self.settled_commits / self.seconds * 3600 if self.seconds else 0.0

    def final_loss(self, commits):
        """The mean of the last losses, when so many rounds were committed."""
        last = [loss for loss in self.losses[:commits][-LOSS_COMMITS:] if loss is not None]
        return statistics.fmean(last) if last else None


class LieRun:
    def __init__(self, swarm, honest, parameters, lie):
        self.swarm, self.honest, self.parameters, self.lie = swarm, honest, parameters, lie
        self.outcome = Outcome()
        self.next_recheck = 1
        self.status_s = 0.0

    def honest_members(self):
        return [self.swarm.members[name] for name in self.honest]

    def poll(self):
        """Look at everything once; whether an honest member is running."""
        time.sleep(POLL_S)
        self.look_at_deadlines()
        self.recheck_settled()
        self.outcome.commits = max(len(member.read()) for member in self.honest_members())
        return any(member.is_running() for member in self.honest_members())

    def poll_until(self, condition, seconds):
        """How long it took; the condition may still be false at the end."""
        began = time.monotonic()
        while self.poll() and not condition() and time.monotonic() < began + seconds:
            pass
        return time.monotonic() - began

    def newest_round(self):
        return max(member.last() for member in self.honest_members())

    def run(self, rounds, seconds):
        """Until SETTLED_ROUND is committed, and then until so many rounds are committed or the time
        is over."""
        outcome = self.outcome
        self.swarm.wait_for(
            lambda: all("joined " in member.text() for member in self.honest_members()),
            START_S, "admission of all honest members")
        outcome.start_seconds = self.poll_until(lambda: self.newest_round() >= SETTLED_ROUND,
                                                SETTLED_S)
        if self.newest_round() >= SETTLED_ROUND:
            begun = outcome.commits
            outcome.seconds = self.poll_until(lambda: outcome.commits >= rounds, seconds)
            outcome.settled_commits = outcome.commits - begun
        outcome.ended = [f"{member.name}: {member.process.returncode}"
                         for member in self.honest_members() if not member.is_running()]

    def look_at_deadlines(self):
        if time.monotonic() < self.status_s:
            return
        done = subprocess.run(
            [SKEP, "status", self.swarm.join_string(), "--json"], text=True, check=False,
            capture_output=True,
            env={**os.environ, "XDG_CONFIG_HOME": str(self.swarm.folder / "status")})
        self.status_s = time.monotonic() + STATUS_S
        if done.returncode == 0:
            for name, value in json.loads(done.stdout)["deadlines"].items():
                if name.endswith("_ms"):
                    longest = self.outcome.deadlines_ms
                    longest[name] = max(value, longest.get(name, 0))

    def recheck_settled(self):
        """Compute the sums of rounds again whose records are written: the members have since
        committed a later round."""
        newest = min(member.last() for member in self.honest_members())
        while self.lie.is_recorded() and self.next_recheck < newest - 1:
            number = self.next_recheck
            self.next_recheck += 1
            if oracle.commit_of(self.swarm, number) is None:
                continue  # aborted
            wrong, rechecked = oracle.recheck_once(self.swarm, number, self.parameters,
                                                   SPARSE if self.lie.codec == "sparse" else None)
            self.outcome.rechecked += rechecked
            if wrong:
                self.outcome.wrong_rounds.append(number)
            oracle.forget_records(self.swarm, number + 1)

    # ---- afterwards ----

    def conclude(self):
        """Read what the members have left; the outcome."""
        outcome = self.outcome
        names = {oracle.identity_of(member): name for name, member in self.swarm.members.items()}
        liars = {key for key, name in names.items() if name not in self.honest}
        outcome.liars = [names[key] for key in liars]
        lines = max((oracle.ledger_lines(member) for member in self.honest_members()), key=len)
        for line in lines:
            if line["kind"] == "abort":
                outcome.aborts += line["round"] > SETTLED_ROUND
            elif line["kind"] == "suspend":
                outcome.named.setdefault(names[line["suspended"]],
                                         [line["round"], line["reason"]])
            elif line["kind"] == "open" and not outcome.first_round \
                    and liars & {seat["id"] for seat in line["members"]}:
                outcome.first_round = line["round"]
        self.read_commits([line for line in lines if line["kind"] == "commit"], liars)
        outcome.ledger_faults = oracle.ledgers(self.swarm)
        outcome.losses = self.losses()
        outcome.took_effect = all(
            f"the lie {self.lie.told or self.lie.name} takes effect" in member.text()
            for name, member in self.swarm.members.items() if name not in self.honest)
        return outcome

    def read_commits(self, commits, liars):
        copied = {int(number) for name, member in self.swarm.members.items()
                  if name not in self.honest for number in COPIED.findall(member.text())}
        slices = counted = 0
        for line in commits:
            seats = [seat for seat, member in enumerate(line["members"]) if member["id"] in liars]
            fair = line["slice_count"] / len(line["members"])
            for seat in seats:
                self.outcome.owned = max(self.outcome.owned, line["members"][seat]["owned"] / fair)
            slices += line["slice_count"]
            self.outcome.late_copies += line["round"] in copied and any(
                line["members"][seat]["contributed"] for seat in seats)
            counted += max((line["members"][seat]["contributed"] for seat in seats), default=0)
        self.outcome.counted = counted / slices if slices else 0.0

    def losses(self):
        numbers = sorted(set().union(*(member.rounds for member in self.honest_members())))
        found = []
        for number in numbers:
            values = [member.rounds[number]["loss"] for member in self.honest_members()
                      if member.rounds.get(number, {}).get("loss") is not None]
            found.append(statistics.fmean(values) if values else None)
        return found


def run_lie(lie, chosen, with_liars):
    """One run of `chosen` (members, liars, parameters, uplink, rounds, seconds): its Outcome."""
    names = [f"m{number}" for number in range(chosen.members)]
    honest, liars = names[:-chosen.liars], names[-chosen.liars:]
    started = names if with_liars else honest
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-liars-")))
        parameters = make_run(folder, chosen.parameters, swarm__members_min=len(honest),
                              swarm__codec=lie.codec, **lie.codec_settings(),
                              swarm__patience=None, swarm__shrink_after=None)
        network = stack.enter_context(Loopback())
        swarm = Swarm(network, folder, started, record=lie.is_recorded(),
                      programs={name: lie.program(name in liars) for name in started},
                      settings={name: lie.settings(name in liars, chosen.uplink)
                                for name in started})
        swarm.start()
        run = LieRun(swarm, honest, parameters, lie)
        run.run(chosen.rounds, chosen.seconds)
        for process in swarm.processes():
            process.kill()
        return run.conclude()
