#!/usr/bin/env python3
"""One family of kernels, compiled by tools/fatbin.py with ptxas of CUDA 12.9, is code that every
driver of CUDA 12 loads: python3 tests/kernels/gpu_ptxas.py NVCC TEST_DRIVER_FLOOR

The environment variable SKEP_PTXAS names ptxas; without it, it is that of the Python package
nvidia-cuda-nvcc-cu12, if this Python has it. Exit 77: there is no ptxas of CUDA 12.9.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILY = "wire_sum"  # the one that compiles fastest
ARCHITECTURES = ["80", "120"]  # 12.9 writes another ABI for the second one
SKIPPED = 77


def find_ptxas():
    named = os.environ.get("SKEP_PTXAS")
    if named is not None:
        return named
    try:
        package = importlib.util.find_spec("nvidia.cuda_nvcc")
    except ModuleNotFoundError:
        return None
    for folder in package.submodule_search_locations if package is not None else ():
        ptxas = pathlib.Path(folder) / "bin" / "ptxas"
        if ptxas.exists():
            return str(ptxas)
    return None


def main():
    nvcc, test_driver_floor = sys.argv[1:]
    ptxas = find_ptxas()
    if ptxas is None:
        print("skipped: no ptxas of CUDA 12.9; see SKEP_PTXAS")
        return SKIPPED
    version = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True)
    if "release 12.9" not in version.stdout:
        print(f"skipped: {ptxas} is not of CUDA 12.9")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"{folder}/{FAMILY}.{suffix}" for suffix in ("fatbin", "resources", "d")]
        source = ROOT / "kernels" / "cuda" / "device" / f"{FAMILY}.cu"
        subprocess.run(
            [sys.executable, ROOT / "tools" / "fatbin.py", nvcc, source, *outputs, "--include",
             ROOT, "--architectures", *ARCHITECTURES, "--ptxas", ptxas], check=True)
        rows = pathlib.Path(outputs[1]).read_text().splitlines()
        depends = pathlib.Path(outputs[2]).read_text()
        if len(rows) < 1 + len(ARCHITECTURES) or f"{FAMILY}.fatbin" not in depends.split(":")[0]:
            print(f"unexpected {outputs[1]} or {outputs[2]}:\n{rows}\n{depends[:200]}")
            return 1
        return subprocess.run([test_driver_floor, outputs[0], str(len(ARCHITECTURES))]).returncode


if __name__ == "__main__":
    sys.exit(main())
