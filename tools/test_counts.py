#!/usr/bin/env python3
"""Count the results of a Meson test run, and collect the output of failed tests.

    tools/test_counts.py MESON-LOGS LINES

Reads MESON-LOGS/testlog.json. Prints "PASSED FAILED SKIPPED" and the names of the failed tests.
Writes MESON-LOGS/failed.txt: for each failed test, one line and the last LINES lines of its output.
Exit 1 when testlog.json does not exist.
"""
import collections
import json
import pathlib
import sys

KINDS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def failure_report(test, lines):
    """The name, result and duration of a failed test, and the last lines of its output."""
    output = [line for stream in ("stdout", "stderr") for line in test.get(stream, "").splitlines()]
    head = f"-- failed: {test['name']} ({test['result']}, {test['duration']:.1f} s)"
    return "\n".join([head, *output[-lines:]]) + "\n"


def main():
    logs, lines = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    record = logs / "testlog.json"
    if not record.exists():
        sys.exit(f"{record} does not exist: Meson ran no test")
    tests = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    counts = collections.Counter(KINDS.get(test["result"], "failed") for test in tests)
    failed = [test for test in tests if test["result"] not in KINDS]
    (logs / "failed.txt").write_text("".join(failure_report(test, lines) for test in failed))
    names = [test["name"].rpartition(" / ")[2] for test in failed]
    print(counts["passed"], counts["failed"], counts["skipped"], *names)


if __name__ == "__main__":
    main()
