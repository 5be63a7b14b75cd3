#!/usr/bin/env python3
"""Honest members only, for many rounds: none of them may lose weight.

    honest.py [--members 2 4 8] [--data like constant-text mirrored-text] [--seeds 1 2 3 4 5]
              [--rounds 600] [--steps 16] [--minutes M] [--json FILE]

Runs a swarm of real processes on loopback for each number of members, kind of data and seed. With
other data than `like`, the text of the last member differs from that of the others as the lie of
that name says (tests/support/liar.c): one byte repeated, or bytes that no other member has. The
model is a Llama of 37,024 parameters, the codec int8.

Prints how many contributions with tokens have no weight, how many were opposed to the others, and
the suspensions. Exit 1 if a member has lost weight, was suspended or has failed, if a ledger does
not verify, or if there are fewer rounds. With --json, a run that the file has is not repeated. No
run begins after M minutes.
"""
import argparse
import contextlib
import json
import pathlib
import re
import sys
import tempfile
import time

import oracle
from lie_run import LIAR
from loopback import Loopback
from small_swarm import SKEP, VOCAB, Swarm, make_run

CONFIG = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
PARAMETERS = 37_024
RUN_S = 3600  # until all members have ended
POLL_S = 0.5
LIKE = "like"
OPPOSED = re.compile(r"round (\d+): contribution of member (\w+) is opposed")
WINDOW = 8  # commits, of which four with an opposed contribution suspend


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--data", nargs="+", default=[LIKE, "constant-text", "mirrored-text"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--steps", type=int, default=16, help="inner steps of a round")
    parser.add_argument("--minutes", type=float, default=24 * 60.0)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def make_small_run(folder, chosen, members, seed):
    make_run(folder, PARAMETERS, seed=seed, steps=chosen.rounds * chosen.steps,
             swarm__inner_steps=chosen.steps, swarm__members_min=members,
             swarm__patience=None, swarm__shrink_after=None)
    path = folder / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CONFIG | {"vocab_size": VOCAB}))


def wait_for_ends(swarm):
    """Until all members have ended; their exit codes by name, None for one that runs on."""
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline and swarm.running():
        time.sleep(POLL_S)
    return {name: member.process.poll() for name, member in swarm.members.items()}


def figures(swarm):
    """What the longest ledger says of the members."""
    names = {oracle.identity_of(member): name for name, member in swarm.members.items()}
    lines = max(map(oracle.ledger_lines, swarm.members.values()), key=len)
    commits = [line for line in lines if line["kind"] == "commit"]
    seats = [(line["round"], names[seat["id"]], seat) for line in commits
             for seat in line["members"]]
    return {"commits": len(commits), "aborts": sum(line["kind"] == "abort" for line in lines),
            "contributions": sum(seat["tokens"] > 0 for _, _, seat in seats),
            "without_tokens": sum(seat["tokens"] == 0 for _, _, seat in seats),
            "without_weight": [[number, name] for number, name, seat in seats
                               if seat["tokens"] > 0 and seat["weight"] == 0],
            "suspensions": [[line["round"], names[line["suspended"]], line["reason"]]
                            for line in lines if line["kind"] == "suspend"]}


def run_once(chosen, members, data, seed):
    names = [f"m{number}" for number in range(members)]
    programs = {} if data == LIKE else {names[-1]: [LIAR, "--lie", data]}
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="skep-honest-")))
        make_small_run(folder, chosen, members, seed)
        network = stack.enter_context(Loopback())
        swarm = Swarm(network, folder, names, programs=programs, inner_steps=chosen.steps)
        began = time.monotonic()
        swarm.start()
        codes = wait_for_ends(swarm)
        found = {"members": members, "data": data, "seed": seed, "program": SKEP,
                 "seconds": round(time.monotonic() - began)} | figures(swarm)
        found["opposed"] = opposed_rounds(swarm)
        found["losses"] = final_losses(swarm)
        found["faults"] = [f"{name} ended with {code}" for name, code in codes.items() if code]
        found["faults"] += [f"{name} did not end" for name, code in codes.items() if code is None]
        found["faults"] += oracle.ledgers(swarm)
        if found["commits"] < chosen.rounds:
            found["faults"].append(f"{found['commits']} of {chosen.rounds} rounds")
        if data != LIKE and f"the lie {data} takes effect" not in swarm.members[names[-1]].text():
            found["faults"].append(f"the data of {names[-1]} were not {data}")
    return found


def opposed_rounds(swarm):
    """{member: rounds in which it was opposed}, as the first member found."""
    found = {}
    names = {oracle.identity_of(member)[:12]: name for name, member in swarm.members.items()}
    for number, key in OPPOSED.findall(next(iter(swarm.members.values())).text()):
        found.setdefault(names[key], []).append(int(number))
    return found


def most_in_window(opposed):
    """The most opposed rounds of a member in eight, of all members."""
    return max((sum(first <= number < first + WINDOW for number in rounds)
                for rounds in opposed.values() for first in rounds), default=0)


def final_losses(swarm):
    return {name: member.rounds[member.last()].get("loss")
            for name, member in swarm.members.items() if member.read()}


def is_bad(found):
    return bool(found["without_weight"] or found["suspensions"] or found["faults"])


def show(found):
    print(f"{found['members']} members, {found['data']}, seed {found['seed']}: "
          f"{found['commits']} rounds in {found['seconds']} s, {found['aborts']} aborts, "
          f"{found['contributions']} contributions, "
          f"{len(found['without_weight'])} without weight, "
          f"{len(found['suspensions'])} suspensions, "
          f"{sum(map(len, found['opposed'].values()))} opposed, at most "
          f"{most_in_window(found['opposed'])} in {WINDOW} rounds", flush=True)
    for key in ("without_weight", "suspensions", "faults"):
        for one in found[key]:
            print(f"  {key}: {one}", flush=True)


def main():
    chosen = arguments()
    stored = chosen.json is not None and chosen.json.exists()
    done = json.loads(chosen.json.read_text(encoding="utf-8")) if stored else []
    made = {(found["members"], found["data"], found["seed"]) for found in done}
    until = time.monotonic() + 60 * chosen.minutes
    for case in [(members, data, seed) for seed in chosen.seeds for data in chosen.data
                 for members in chosen.members]:
        if case in made or time.monotonic() > until:
            continue
        done.append(run_once(chosen, *case))
        show(done[-1])
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(done), encoding="utf-8")
    return 1 if any(map(is_bad, done)) else 0


if __name__ == "__main__":
    sys.exit(main())
