#!/usr/bin/env python3
"""Compare the loss of swarms with that of equally tuned baselines on the same tokens.

    python3 bench/swarm_learning.py TEXT --stage screen [--grids "data parallel" "swarm of 4"]
    python3 bench/swarm_learning.py TEXT --kind swarm --set members=4 lr=7e-4 steps=6000 --seeds 11
    python3 bench/swarm_learning.py --report [TEXT]

TEXT holds train.txt and validation.txt (tools/demo_text), read as bytes. The script divides the
training text at blank lines into pieces of about 2 KiB and shuffles them. Skep trains on a text in
blocks of 1 MiB, and after the shuffle each block is like the whole text. The kinds of runs are:

    data parallel   `skep train`. The sum of gradients is the same for any number of ranks, so one
                    run is compared with all swarms.
    swarm           `skep track` and `skep join` of each member on loopback, with tokens / members
                    per step of a member, for the same number of steps and tokens. All members are
                    named in the roster. A swarm of one is data parallel with the outer step.
    muon            PyTorch (bench/learning.py) on the rows and from the first weights of Skep, in
                    fp32; --python names an interpreter with torch and transformers.

Each finished run is stored as one line in --results, with its whole setting, its seed and the
program. A later call skips the runs that are stored, so calls on separate days add up. The stages
are described in bench/learning_grid.py, the identity of a program in bench/learning_store.py. An
interrupted run (Ctrl-C, --until) continues where it was if its files in --work still exist. The
number of times is stored as `resumed`.

--report prints for each length the mean loss of each setting, its difference from the best data
parallel setting and from the best setting of its family, paired by seed, with 95 % intervals
(Student's t), the number of missing runs of each stage, and their CPU time. Seeds used for tuning
are reported apart from those of the result.
"""

import argparse
import concurrent.futures
import datetime
import json
import pathlib
import signal
import sys
import threading

import learning_grid as grid
from learning_processes import Interrupted
from learning_report import print_report
from learning_runs import Runner
from learning_settings import DEFAULTS, family_of, setting, words_of
from learning_store import append_record, by_setting, is_same_program, read_records

RESULTS = pathlib.Path(__file__).parent / "results" / "learning"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path, nargs="?")
    parser.add_argument("--other-text", type=pathlib.Path, help="text of stage confirm")
    parser.add_argument("--stage", choices=grid.STAGES)
    parser.add_argument("--grids", nargs="+", choices=list(grid.GRIDS), default=list(grid.GRIDS))
    parser.add_argument("--kind", choices=list(DEFAULTS), help="run one setting, see --set")
    parser.add_argument("--set", nargs="*", default=[], help="name=value of the setting, in JSON")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: those of the stage")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--mix", action="store_true",
                        help="count results of programs that compute other bits")
    parser.add_argument("--list", action="store_true", help="print the missing runs and exit")
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent runs")
    parser.add_argument("--runs", type=int, help="largest number of runs to start")
    parser.add_argument("--until", help="time of day, HH:MM, at which to stop and keep the state")
    parser.add_argument("--skep", type=pathlib.Path, default=pathlib.Path("build/skep"))
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/learning"),
                        help="folder for the files of runs")
    arguments = parser.parse_args()
    if not arguments.report and (arguments.text is None or
                                 bool(arguments.stage) == bool(arguments.kind)):
        parser.error("give TEXT with either --stage or --kind, or --report")
    return arguments


def value_of(word):
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word


def one_setting(arguments, text):
    changes = dict(pair.split("=", 1) for pair in arguments.set)
    changes = {name: value_of(value) for name, value in changes.items()}
    return setting(arguments.kind, **{"text": text, **changes})


class Queue:
    """Decides which run is next: the missing cells, chosen again after each result."""

    def __init__(self, arguments, runner):
        self.arguments, self.runner = arguments, runner
        self.text = runner.add_text(arguments.text)
        self.other = runner.add_text(arguments.other_text) if arguments.other_text else None
        self.programs = {}
        self.taken = []  # started by this call, also if they failed
        self.lock = threading.Lock()

    def usable(self):
        """The stored results of the wanted kinds that the present program would give too."""
        arguments = self.arguments
        wanted = ({arguments.kind} if arguments.kind else
                  {grid.GRIDS[name][0]["kind"] for name in arguments.grids})
        records = [record for record in read_records(arguments.results)
                   if record["setting"]["kind"] in wanted]
        if arguments.mix:
            return records
        return [record for record in records
                if is_same_program(record["program"], self.present(record["setting"]))]

    def present(self, made):
        """The identity of the present program for runs of one kind and codec."""
        kind = (made["kind"], made.get("codec"))
        if kind not in self.programs:
            self.programs[kind] = self.runner.program(made)
        return self.programs[kind]

    def missing(self):
        arguments, table = self.arguments, by_setting(self.usable())
        if arguments.kind:
            seeds = arguments.seeds or grid.TUNING_SEEDS
            wanted = [(one_setting(arguments, self.text), seed) for seed in seeds]
        else:
            wanted = grid.cells(arguments.stage, arguments.grids, self.text, table, self.other)
            if arguments.seeds:
                wanted = [(made, seed) for made, seed in wanted if seed in arguments.seeds]
        return grid.missing_cells(wanted, table)

    def take(self):
        """The next run, or None."""
        with self.lock:
            most = self.arguments.runs
            if self.runner.stop.is_set() or (most is not None and len(self.taken) >= most):
                return None
            for cell in self.missing():
                if cell not in self.taken:
                    self.taken.append(cell)
                    return cell
        return None

    def work(self):
        """Run cells until none is left; returns the number that failed."""
        failed = 0
        while (cell := self.take()) is not None:
            try:
                record = self.runner.run(*cell)
            except Interrupted:
                return failed
            except (RuntimeError, OSError, ValueError) as failure:
                print(failure, file=sys.stderr, flush=True)
                failed += 1
                continue
            if record is not None:
                append_record(self.arguments.results, record)
                log_record(record)
        return failed


def log_record(record):
    made = record["setting"]
    line = (f"{made['steps']} steps, seed {record['seed']}  {family_of(made)}: {words_of(made)}  "
            f"{record['loss']:.4f}  CPU {record['cpu_s']} s")
    if record.get("short"):
        line += f"  {record['short']} of {record['rounds']} rounds short"
    print(line, file=sys.stderr, flush=True)


def stop_at(time_of_day, stop):
    """Set `stop` at the next HH:MM."""
    now = datetime.datetime.now()
    hour, minute = map(int, time_of_day.split(":"))
    end = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    timer = threading.Timer((end - now).total_seconds() % 86400, stop.set)
    timer.daemon = True
    timer.start()


def main():
    arguments = parse_arguments()
    if arguments.report:
        print_report(arguments)
        return 0
    runner = Runner(arguments)
    queue = Queue(arguments, runner)
    if arguments.list:
        for made, seed in queue.missing():
            print(f"{made['steps']} steps, seed {seed}  {family_of(made)}: {words_of(made)}")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: runner.stop.set())
    if arguments.until:
        stop_at(arguments.until, runner.stop)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as jobs:
        workers = [jobs.submit(queue.work) for _ in range(arguments.jobs)]
    return 1 if sum(worker.result() for worker in workers) else 0


if __name__ == "__main__":
    sys.exit(main())
