#!/usr/bin/env python3
"""Compile one family of CUDA kernels for each architecture, and list the resources of each kernel.

    fatbin.py NVCC FAMILY.cu FAMILY.fatbin FAMILY.resources FAMILY.d --include ROOT
              --architectures 80 86 90 120 [--ptxas PTXAS]

The fatbin holds machine code for each architecture. It also holds PTX of the first one, which the
driver compiles for any other GPU that is at least as new. FAMILY.resources has one line for each
kernel and architecture: registers, and bytes of stack, spills and static shared memory. FAMILY.d
lists the headers, for ninja.

With --ptxas, nvcc compiles to PTX only. PTXAS of CUDA 12.9 makes the machine code, which drivers of
CUDA 12 load too, and the fatbin is compressed as they expect it.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMPILING = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, "
                        r"(\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
HEADER = ("kernel", "architecture", "registers", "stack", "spill_stores", "spill_loads", "shared")
PTX_VERSION = re.compile(r"^\.version .*$", re.MULTILINE)
PTX_VERSION_OF_PTXAS = ".version 8.8"  # the newest that CUDA 12.9 knows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("nvcc", "source", "fatbin", "resources", "depfile"):
        parser.add_argument(name)
    parser.add_argument("--include", required=True)
    parser.add_argument("--architectures", nargs="+", required=True)
    parser.add_argument("--ptxas")
    return parser.parse_args()


def run(command):
    """What the command prints; if it fails, the end of this program."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def nvcc_command(arguments):
    return [arguments.nvcc, "-std=c++17", "-O3", "--expt-relaxed-constexpr", "--Werror",
            "all-warnings", "-I", arguments.include]


def compile_with_nvcc(arguments):
    """The output of nvcc's own ptxas -v."""
    command = nvcc_command(arguments) + [
        "-fatbin", "--compress-mode", "size", "-Xptxas", "-v", "-MD", "-MF", arguments.depfile,
        "-o", arguments.fatbin]
    for architecture in arguments.architectures:
        command += ["-gencode", f"arch=compute_{architecture},code=sm_{architecture}"]
    oldest = arguments.architectures[0]
    command += ["-gencode", f"arch=compute_{oldest},code=compute_{oldest}", arguments.source]
    return run(command)


def lower_version(ptx):
    text, count = PTX_VERSION.subn(PTX_VERSION_OF_PTXAS, ptx.read_text())
    if count != 1:
        sys.exit(f"{ptx}: expected one .version, found {count}")
    ptx.write_text(text)


def find_fatbinary(nvcc):
    beside = pathlib.Path(nvcc).resolve().with_name("fatbinary")
    found = str(beside) if beside.exists() else shutil.which("fatbinary")
    if found is None:
        sys.exit(f"fatbinary is neither beside {nvcc} nor on the PATH")
    return found


def compile_with_ptxas(arguments, folder):
    """The output of ptxas -v for all architectures."""
    output = ""
    # The mode `size` would be half as large, but only drivers of CUDA 12.4 and newer read it.
    # `speed` compresses machine code only with --compress-all.
    pack = [find_fatbinary(arguments.nvcc), f"--create={arguments.fatbin}", "-64",
            "--compress-mode=speed", "--compress-all"]
    for architecture in arguments.architectures:
        ptx = folder / f"{architecture}.ptx"
        cubin = folder / f"{architecture}.cubin"
        run(nvcc_command(arguments) + [
            "-ptx", "-arch", f"compute_{architecture}", "-MD", "-MF", arguments.depfile, "-MT",
            arguments.fatbin, "-o", str(ptx), arguments.source])
        lower_version(ptx)
        output += run([arguments.ptxas, f"-arch=sm_{architecture}", "-v", "--warning-as-error",
                       str(ptx), "-o", str(cubin)])
        if architecture == arguments.architectures[0]:
            pack.append(f"--image3=kind=ptx,sm={architecture},file={ptx}")
        pack.append(f"--image3=kind=elf,sm={architecture},file={cubin}")
    run(pack)
    return output


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
    if arguments.ptxas is None:
        output = compile_with_nvcc(arguments)
    else:
        with tempfile.TemporaryDirectory(dir=pathlib.Path(arguments.fatbin).parent) as folder:
            output = compile_with_ptxas(arguments, pathlib.Path(folder))
    widths = (40, 14, 10, 8, 13, 12, 0)
    with open(arguments.resources, "w") as out:
        for row in [HEADER] + resources_of(output):
            line = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths))
            out.write(line.rstrip() + "\n")


if __name__ == "__main__":
    main()
