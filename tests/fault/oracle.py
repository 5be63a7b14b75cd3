"""What must hold after every fault: equal roots, sums that are those of the ledger's contributors,
ledgers that verify and tell one history."""
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import time

from small_swarm import SKEP

RECHECK = os.environ.get("RECHECK_ROUND", str(
    pathlib.Path(__file__).parents[2] / "build/tests/support/recheck_round"))
CODEC, OUTER_LR, OUTER_MOMENTUM = "int8", 0.7, 0.9  # the run's, by SETTINGS or default

RECORDED_S = 10  # for a record to be whole
OUTER_KEPT = 2  # members whose outer states are kept: all are equal, by their roots


def roots_differ(swarm, number):
    """Everybody who committed the round must name the same root."""
    roots = {name: member.rounds[number]["root"] for name, member in swarm.members.items()
             if number in member.rounds}
    return [] if len(set(roots.values())) == 1 else [f"unlike roots {roots}"]


# ---- ledgers ----

def ledger_lines(member):
    """The entries that a member has written down."""
    if not member.ledger.exists():
        return []
    with open(member.ledger, encoding="ascii") as file:
        return [json.loads(line) for line in file if line.endswith("}\n")]


def commit_of(swarm, number):
    """The ledger's line that committed the round, from any member's copy, with the slices that a
    member has recorded."""
    for member in swarm.members.values():
        for line in reversed(ledger_lines(member)):
            if line["kind"] == "commit" and line["round"] == number:
                return {**line, "slices": recorded_slices(swarm, line)}
    return None


def recorded_slices(swarm, commit):
    """The slices of a commit, which ledgers lack; [] when no member has recorded the round."""
    for member in swarm.members.values():
        path = record_of(member, commit["round"]) / "commit.json"
        text = path.read_text() if path.exists() else ""
        if text.endswith("\n") and json.loads(text)["hash"] == commit["hash"]:
            return json.loads(text)["slices"]
    return []


def slice_count(swarm):
    member = next(iter(swarm.members.values()))
    return next(line for line in ledger_lines(member) if line["kind"] == "commit")["slice_count"]


def identity_of(member):
    """The signing key of a member, as the ledger has it."""
    path = member.folder / "config" / "skep" / "identity"
    text = subprocess.run([SKEP, "keys", "--identity", path], text=True, check=True,
                          capture_output=True).stdout.strip()
    return base64.b32decode(text.upper())[33:65].hex()  # kind 1, curve key 32, signing key 32


def ledgers(swarm):
    """Each must verify; all must be beginnings of one history that has every committed round."""
    found, histories = [], {}
    for name, member in swarm.members.items():
        done = subprocess.run([SKEP, "ledger", member.ledger, "--verify"], text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            found.append(f"the ledger of {name}: {done.stderr.strip()}")
        histories[name] = [line["hash"] for line in ledger_lines(member)]
    longest = max(histories.values(), key=len)
    for name, history in histories.items():
        if history != longest[:len(history)]:
            found.append(f"the ledger of {name} tells another history")
    return found + lost_rounds(swarm)


def lost_rounds(swarm):
    """What any member has ever reported as committed must stand in the history with that root."""
    roots = {}
    for member in swarm.members.values():
        roots.update((line["round"], line["root"]) for line in ledger_lines(member)
                     if line["kind"] == "commit")
    return [f"round {number} of {name} is not in the ledger, or with another root"
            for name, member in swarm.members.items() for number in member.read()
            if {roots.get(number)} != member.roots[number]]


# ---- records ----

def record_of(member, number):
    return member.record / f"round-{number}"


def forget_records(swarm, newest):
    """Remove what was recorded before the round before that one, and most copies of the outer
    state: it is large."""
    for member in swarm.members.values():
        for folder in member.record.glob("round-*"):
            if int(folder.name.rpartition("-")[2]) < newest - 1:
                shutil.rmtree(folder, ignore_errors=True)
    for member in list(swarm.members.values())[OUTER_KEPT:]:
        for state in member.record.glob("round-*/outer.safetensors"):
            state.unlink(missing_ok=True)


def array(path, name):
    """PATH@OFFSET of a tensor, as recheck_round takes it."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    return f"{path}@{8 + size + header[name]['data_offsets'][0]}"


def step_arrays(swarm, commit, names=("params", "momentum")):
    """The outer state before and after a commit, from one member that recorded both; or None."""
    for member in swarm.members.values():
        before, after = (record_of(member, number) / "outer.safetensors"
                         for number in (commit["round"] - 1, commit["round"]))
        if before.exists() and after.exists():
            return [array(path, name) for path in (before, after)
                    for name in names]
    return None


def recheck(swarm, number, parameters):
    """(violations, 1 when the round could be computed again): every slice's sum from the decoded
    contributions, and the outer step where both states were recorded. A record may still be
    written when its round is reported, so what is wrong is looked at again for a while."""
    deadline = time.monotonic() + RECORDED_S
    while True:
        found = recheck_once(swarm, number, parameters)
        if not found[0] or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def clip_of(commit, seat):
    """The factor that scales a contribution down to twice the reference norm."""
    norm, most = commit["members"][seat]["norm"], 2 * commit["reference_norm"]
    return most / norm if norm > most else 1.0


def recheck_command(swarm, commit, parameters, arrays, sparse):
    """arrays: places of the contributions by seat. sparse: values of each 4,096 that are sent, and
    bits of a value; or None."""
    if sparse is None:
        command = [RECHECK, CODEC, str(parameters), *arrays.values()]
        steps = step_arrays(swarm, commit)
        return command + ["--step", str(OUTER_LR), str(OUTER_MOMENTUM), *steps] if steps \
            else command
    command = [RECHECK, "sparse", str(parameters), *map(str, sparse),
               repr(commit["reference_norm"]),
               *(f"{seat}:{place}" for seat, place in arrays.items())]
    steps = step_arrays(swarm, commit, ["params"])
    return command + ["--step", str(OUTER_LR), *steps] if steps else command


def recheck_once(swarm, number, parameters, sparse=None):
    commit = commit_of(swarm, number)
    if commit is None:
        return [f"no ledger has round {number}"], 0
    if len(commit["slices"]) != commit["slice_count"]:
        return [f"no member has recorded the slices of round {number}"], 0
    seats = [member["id"] for member in commit["members"]]
    who = {identity_of(member): member for member in swarm.members.values()}
    named = sorted({seat for row in commit["slices"] for seat in row["contributors"]})
    paths = [record_of(who[seats[seat]], number) / "declared.safetensors" for seat in named]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        return [f"contributors without a record: {', '.join(missing)}"], 0
    lines = []
    for row in commit["slices"]:
        addends = " ".join(f"{named.index(seat)} {commit['members'][seat]['weight']} "
                           f"{clip_of(commit, seat)!r}" for seat in row["contributors"])
        lines.append(f"{row['begin']} {row['end']} {row['hash']} {len(row['contributors'])} "
                     f"{addends}\n")
    arrays = {seat: array(path, "contribution") for seat, path in zip(named, paths)}
    command = recheck_command(swarm, commit, parameters, arrays, sparse)
    done = subprocess.run(command, input="".join(lines), text=True, capture_output=True,
                          check=False)
    wrong = [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()
    if "--step" in command and f"root {commit['root']}" not in done.stdout.splitlines():
        wrong.append(f"the root computed again is not the ledger's {commit['root']}")
    return wrong, 1
