#!/usr/bin/env python3
"""Counts of a Meson test run, and the ends of what its failed tests said.

    tools/test_counts.py MESON-LOGS LINES

Prints "PASSED FAILED SKIPPED" of MESON-LOGS/testlog.json and the names of the failed tests, and
writes MESON-LOGS/failed.txt: a line for each of them and the last LINES lines of its output. Exit 1
when there is no record.
"""
import collections
import json
import pathlib
import sys

KINDS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def ending(test, lines):
    """What a failed test is remembered by: name, result, time, and its last lines."""
    said = [line for stream in ("stdout", "stderr") for line in test.get(stream, "").splitlines()]
    head = f"-- failed: {test['name']} ({test['result']}, {test['duration']:.1f} s)"
    return "\n".join([head, *said[-lines:]]) + "\n"


def main():
    logs, lines = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    record = logs / "testlog.json"
    if not record.exists():
        sys.exit(f"{record} is not there: Meson ran no test")
    tests = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    counts = collections.Counter(KINDS.get(test["result"], "failed") for test in tests)
    failed = [test for test in tests if test["result"] not in KINDS]
    (logs / "failed.txt").write_text("".join(ending(test, lines) for test in failed))
    names = [test["name"].rpartition(" / ")[2] for test in failed]
    print(counts["passed"], counts["failed"], counts["skipped"], *names)


if __name__ == "__main__":
    main()
