#!/usr/bin/env python3
"""Compile one family of CUDA kernels for every architecture, and list what each kernel takes.

    fatbin.py NVCC FAMILY.cu FAMILY.fatbin FAMILY.resources FAMILY.d --include ROOT
              --architectures 80 86 90 120

The fatbin holds machine code for each architecture and PTX of the first, for all others from that
one on: cards between the named ones, devices that are yet to come. The resources are one line for
each kernel and architecture: registers, bytes of stack, of spills and of static shared memory. The
.d file names the headers, for ninja.
"""

import argparse
import re
import subprocess
import sys

COMPILING = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
HEADER = ("kernel", "architecture", "registers", "stack", "spill_stores", "spill_loads", "shared")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("nvcc", "source", "fatbin", "resources", "depfile"):
        parser.add_argument(name)
    parser.add_argument("--include", required=True)
    parser.add_argument("--architectures", nargs="+", required=True)
    return parser.parse_args()


def command_of(arguments):
    command = [arguments.nvcc, "-fatbin", "-std=c++17", "-O3", "--expt-relaxed-constexpr",
               "--compress-mode", "size", "-Xptxas", "-v", "--Werror", "all-warnings",
               "-I", arguments.include, "-MD", "-MF", arguments.depfile, "-o", arguments.fatbin]
    for architecture in arguments.architectures:
        command += ["-gencode", f"arch=compute_{architecture},code=sm_{architecture}"]
    oldest = arguments.architectures[0]
    return command + ["-gencode", f"arch=compute_{oldest},code=compute_{oldest}", arguments.source]


def resources_of(text):
    """Rows of HEADER out of what ptxas -v says."""
    rows = []
    for part in COMPILING.split(text)[1:]:
        rows.append(part)
    table = []
    for kernel, architecture, body in zip(rows[0::3], rows[1::3], rows[2::3]):
        stack, stores, loads = PROPERTIES.search(body).groups()
        shared = SHARED.search(body)
        table.append((kernel, f"sm_{architecture}", USED.search(body).group(1), stack, stores,
                      loads, shared.group(1) if shared else "0"))
    return sorted(table)


def main():
    arguments = parse_arguments()
    done = subprocess.run(command_of(arguments), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    widths = (40, 14, 10, 8, 13, 12, 0)
    with open(arguments.resources, "w") as out:
        for row in [HEADER] + resources_of(done.stdout + done.stderr):
            line = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths))
            out.write(line.rstrip() + "\n")


if __name__ == "__main__":
    main()
