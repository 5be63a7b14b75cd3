#!/usr/bin/env python3
"""Compile one family of CUDA kernels for each architecture, and list the resources of each kernel.

    fatbin.py NVCC FAMILY.cu FAMILY.fatbin FAMILY.resources FAMILY.d --include ROOT
              --architectures 80 86 90 120

The fatbin holds machine code for each architecture. It also holds PTX of the first one, which the
driver compiles for any other GPU that is at least as new. FAMILY.resources has one line for each
kernel and architecture: registers, and bytes of stack, spills and static shared memory. FAMILY.d
lists the headers, for ninja.
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
    """Rows with the columns of HEADER, from the output of ptxas -v."""
    parts = COMPILING.split(text)[1:]
    table = []
    for kernel, architecture, body in zip(parts[0::3], parts[1::3], parts[2::3]):
        stack, stores, loads = PROPERTIES.search(body).groups()
        shared = SHARED.search(body)
        table.append((kernel, f"sm_{architecture}", USED.search(body).group(1), stack, stores,
                      loads, shared.group(1) if shared else "0"))
    return sorted(table)


def main():
    arguments = parse_arguments()
    result = subprocess.run(command_of(arguments), capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    widths = (40, 14, 10, 8, 13, 12, 0)
    with open(arguments.resources, "w") as out:
        for row in [HEADER] + resources_of(result.stdout + result.stderr):
            line = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths))
            out.write(line.rstrip() + "\n")


if __name__ == "__main__":
    main()
