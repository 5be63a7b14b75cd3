#!/usr/bin/env python3
"""No CUDA kernel spills registers or has arrays in memory that was meant to be registers:
python3 tests/kernels/cuda_resources.py FAMILY.resources ...

Both are memory traffic that nobody asked for. EXCEPTED has the kernels that may, with the reason;
an entry that is no longer needed is a failure too.
"""

import sys

# kernel: why its stack does not matter.
EXCEPTED = {
    "clip_scalars": "one thread, which takes the digits of a sum by index",
    "tally_take": "one thread, which takes the digits of a sum by index",
}


def rows_of(path):
    with open(path) as lines:
        header = next(lines).split()
        return [dict(zip(header, line.split())) for line in lines]


def findings_of(rows):
    spilling = {}
    for row in rows:
        taken = int(row["spill_stores"]) + int(row["spill_loads"]) + int(row["stack"])
        if taken > 0:
            spilling.setdefault(row["kernel"], []).append(f"{row['architecture']} {taken} bytes")
    for kernel, places in spilling.items():
        if kernel not in EXCEPTED:
            yield f"{kernel} spills registers, or has a stack: {', '.join(places)}: fewer values " \
                  "at once, fewer blocks in BOUNDED_KERNEL, or indices known when it compiles"
    for kernel in EXCEPTED:
        if kernel not in spilling:
            yield f"{kernel} spills nothing any more: remove it from EXCEPTED"


def main():
    rows = [row for path in sys.argv[1:] for row in rows_of(path)]
    findings = list(findings_of(rows))
    for finding in findings:
        print(finding)
    print(f"{len(rows)} rows, {len(findings)} findings")
    return 1 if findings or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
