"""The report of the learning bench: tables of losses and paired differences, and missing runs."""

import statistics

import learning_grid as grid
from learning_runs import text_hash_of
from learning_settings import family_of, key_of, words_of
from learning_store import (best_setting, by_setting, difference_words, is_same_program, losses_of,
                            paired_difference, read_records, reference_program)

BASELINE = "data parallel"
# CPU seconds of a step of 1,024 tokens, where no result of that kind is stored: 422 s for 6,000
# steps of data parallel on a busy machine.
STEP_CPU_S = 0.07
SEED_GROUPS = (("tuning", grid.TUNING_SEEDS), ("result", grid.RESULT_SEEDS),
               ("confirmation", grid.CONFIRM_SEEDS))


def print_report(arguments):
    records = read_records(arguments.results)
    text = text_hash_of(arguments.text) if arguments.text else main_text(records)
    records, left_out = usable_records(records, arguments.mix)
    if left_out:
        print(f"{left_out} results are of programs that compute other bits than the newest one; "
              "--mix counts them too\n")
    for line in tables(records) + missing_lines(records, text):
        print(line)


def main_text(records):
    """The text of most results."""
    texts = [record["setting"]["text"] for record in records]
    return max(set(texts), key=texts.count) if texts else None


def usable_records(records, mix):
    """The records to compare, and the number of those left out."""
    if mix or not records:
        return records, 0
    reference = reference_program(records)
    kept = [record for record in records if is_same_program(record["program"], reference)]
    return kept, len(records) - len(kept)


def tables(records):
    """One table for each model, text, length and group of seeds."""
    lines, table = [], by_setting(records)
    groups = sorted({(made["model"], made["text"], made["steps"])
                     for made in (record["setting"] for record in records)})
    for model, text, steps in groups:
        settings = distinct([record["setting"] for record in records
                             if (record["setting"]["model"], record["setting"]["text"],
                                 record["setting"]["steps"]) == (model, text, steps)])
        grouped = set()
        for name, seeds in SEED_GROUPS:
            grouped |= set(seeds)
            lines += one_table(f"{model}, text {text}, {steps} steps, {name} seeds", settings,
                               table, seeds)
        others = {record["seed"] for record in records} - grouped
        lines += one_table(f"{model}, text {text}, {steps} steps, other seeds", settings, table,
                           sorted(others))
    return lines


def distinct(settings):
    return list({key_of(made): made for made in settings}.values())


def one_table(title, settings, table, seeds):
    settings = [made for made in settings if losses_of(table, made, seeds)]
    if not settings:
        return []
    by_family = {}
    for made in settings:
        by_family.setdefault(family_of(made), []).append(made)
    baseline = best_of(table, by_family.get(BASELINE, []), seeds)
    lines = [title] + ([f"  compared with data parallel at {words_of(baseline)}"]
                       if baseline else [])
    for family, members in sorted(by_family.items()):
        runs = sum(len(losses_of(table, made, seeds)) for made in members)
        lines.append(f"  {family}: {runs} runs of {len(members)} settings")
        best = best_of(table, members, seeds)
        for made in sorted(members, key=lambda made: mean_loss(table, made, seeds)):
            lines.append("    " + row(made, table, seeds, baseline, best))
    return lines + [""]


def best_of(table, settings, seeds):
    """The best setting of those with the most seeds."""
    counts = [len(losses_of(table, made, seeds)) for made in settings]
    if not settings:
        return None
    most = [made for made, count in zip(settings, counts) if count == max(counts)]
    common = [seed for seed in seeds
              if all(losses_of(table, made, [seed]) for made in most)]
    return best_setting(table, most, common) if common else most[0]


def mean_loss(table, made, seeds):
    return statistics.mean(losses_of(table, made, seeds).values())


def row(made, table, seeds, baseline, best):
    losses = losses_of(table, made, seeds)
    line = f"{statistics.mean(losses.values()):.4f}  {words_of(made)}"
    if baseline is not None and made is not baseline:
        line += "; to baseline " + difference_words(
            paired_difference(losses, losses_of(table, baseline, seeds)))
    if made is not best and best is not baseline:
        line += "; to best of family " + difference_words(
            paired_difference(losses, losses_of(table, best, seeds)))
    records = [record for seed, record in table[key_of(made)].items() if seed in seeds]
    short, rounds = (sum(record.get(name, 0) for record in records) for name in ("short", "rounds"))
    resumed = sum(record.get("resumed", 0) for record in records)
    line += f"; {short} of {rounds} rounds short" if short else ""
    return line + (f"; resumed {resumed} times" if resumed else "")


def missing_lines(records, text):
    """For each stage the number of missing runs of each grid and their estimated CPU time."""
    if text is None:
        return ["no results"]
    table, lines = by_setting(records), [f"missing runs, text {text}"]
    for stage in grid.STAGES:
        waiting = []
        for name in grid.GRIDS:
            wanted = grid.cells(stage, [name], text, table, text)
            missing = grid.missing_cells(wanted, table)
            hours = sum(expected_cpu_s(made, records) for made, _ in missing) / 3600
            if not wanted:
                waiting.append(name)
            elif stage != "confirm":
                lines.append(f"  {stage:8} {name:14} {len(missing):3} of {len(wanted):3}, "
                             f"{hours:.1f} core-hours")
        if waiting:
            lines.append(f"  {stage:8} not known until the stage before is complete: "
                         f"{', '.join(waiting)}")
    return lines


def expected_cpu_s(made, records):
    """From stored results of the kind that are not short, scaled by steps."""
    rates = [record["cpu_s"] / record["setting"]["steps"] for record in records
             if record["setting"]["kind"] == made["kind"] and
             record["setting"]["steps"] >= grid.SCREEN_STEPS]
    return made["steps"] * (statistics.median(rates) if rates else STEP_CPU_S)
