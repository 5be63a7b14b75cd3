"""Results of learning runs, one JSON line each, and the statistics of their report.

A record is {"setting", "seed", "loss", "program", ...}. `program` has the commit, the instruction
set and `probes`: hashes of the weights after short runs of that program (learning_runs.py). Results
of different commits may be compared when the probes that both have are equal, because the programs
then compute the same bits in those runs. A change that acts only elsewhere stays unseen.
"""

import fcntl
import json
import math
import os
import statistics

from learning_settings import key_of

# Student's t for 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
        10: 2.228, 11: 2.201}


def read_records(folder):
    """All records below `folder`; a last line that was cut off is left out."""
    records = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text().split("\n")[:-1]
        records += [json.loads(line) for line in lines if line]
    return records


def append_record(folder, record):
    """Append durably to the file of the record's kind; a line that was cut off is removed first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (record["setting"]["kind"].replace(" ", "_") + ".jsonl")
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def reference_program(records):
    """The instruction set of the newest record, and of each probe the newest value."""
    newest_first = sorted(records, key=lambda record: record["date"], reverse=True)
    reference = {"instruction_set": None, "probes": {}}
    for record in newest_first:
        program = record["program"]
        reference["instruction_set"] = reference["instruction_set"] or program["instruction_set"]
        if program["instruction_set"] == reference["instruction_set"]:
            reference["probes"] = {**program["probes"], **reference["probes"]}
    return reference


def is_same_program(program, reference):
    """The same instruction set, and equal values of all probes that both have."""
    return (program["instruction_set"] == reference["instruction_set"] and
            all(reference["probes"].get(name, value) == value
                for name, value in program["probes"].items()))


def by_setting(records):
    """Key of a setting -> seed -> the newest record."""
    table = {}
    for record in sorted(records, key=lambda record: record["date"]):
        table.setdefault(key_of(record["setting"]), {})[record["seed"]] = record
    return table


def losses_of(table, made, seeds):
    """Seed -> loss of a setting, for those of `seeds` that have a result."""
    found = table.get(key_of(made), {})
    return {seed: found[seed]["loss"] for seed in seeds if seed in found}


def paired_difference(losses, reference):
    """Mean and 95 % interval, in percent of the reference, over the seeds that both have.

    Returns (mean, half width, count); the half width is None for fewer than two seeds, and the
    whole is None without a common seed. Source: the paired t-test, on relative differences.
    """
    both = sorted(losses.keys() & reference.keys())
    if not both:
        return None
    percent = [100 * (losses[seed] - reference[seed]) / reference[seed] for seed in both]
    half = None
    if len(both) > 1:
        half = T_95[len(both) - 1] * statistics.stdev(percent) / math.sqrt(len(both))
    return statistics.mean(percent), half, len(both)


def best_setting(table, settings, seeds):
    """The setting with the lowest mean loss among those with a result for every seed, or None."""
    complete = [(statistics.mean(losses.values()), index) for index, made in enumerate(settings)
                if len(losses := losses_of(table, made, seeds)) == len(seeds)]
    return settings[min(complete)[1]] if complete else None


def difference_words(difference):
    if difference is None:
        return "no common seed"
    mean, half, count = difference
    return f"{mean:+.2f} %" + (f" +- {half:.2f}" if half is not None else "") + f" (n = {count})"
