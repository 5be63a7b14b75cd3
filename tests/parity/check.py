#!/usr/bin/env python3
"""Compare `skep dump` with the fixtures: transformers in fp64, within its own fp32 error.

    python3 tests/parity/check.py build/skep [FIXTURE...] [--bf16] [--verbose] [--set KEY=VALUE...]

Standard library only. Prints one line for each kind of quantity, naming its worst tensor, and with
--verbose one for each tensor. With --bf16 the model runs in bf16, and its error is held to that of
transformers in bf16. Exit 0 when everything is within its bound, 1 when something is not.
"""

import argparse
import array
import ctypes
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent / "fixtures"

# How the fixtures were trained (make_fixtures.py).
RUN_KEYS = (
    "optimizer.lr=1e-3",
    "optimizer.betas=[0.9, 0.95]",
    "optimizer.eps=1e-8",
    "optimizer.weight_decay=0.1",
    "optimizer.clip_norm=1.0",
    "schedule.kind=constant",
    "schedule.warmup_steps=0",
)

# kind: (floor, ceiling). The bound of a quantity is twice the error of transformers' own fp32 run,
# but not below the floor (two correct orders of summation differ by that much) and never above the
# ceiling. A loss is a mean of logits' logarithms, so it is held to the logits' figures.
BOUNDS = {
    "logits": (1e-6, 5e-6),
    "losses": (1e-6, 5e-6),
    "gradients": (2e-6, 1e-5),
    "weights": (5e-6, 5e-5),
}
# The true gradient of a bias added to every key is nought or nearly so (softmax does not see a
# shift), and AdamW divides its rounding noise by its own size. Chance decides which layer gets
# most of it, so the reference's error is the largest over the key biases of the model.
KEY_BIAS_CEILING = 1e-3
KEY_BIASES = ("k_proj.bias", "c_attn.bias")

# In bf16 the error is all rounding; it may be a little more than the reference's own, by chance.
BF16_KEYS = ("precision.params=bf16", "precision.compute=bf16")
BF16_SHARE = 1.1

SKIPPED = 77  # as Meson reads it

ELEMENT_FORMATS = {"F32": "f", "F64": "d", "I32": "i"}


class Failure(Exception):
    """The program under test did not deliver what the contract says."""


def read_safetensors(path):
    """name -> (shape, array of values)"""
    data = pathlib.Path(path).read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_bytes])
    body = memoryview(data)[8 + header_bytes :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        values = array.array(ELEMENT_FORMATS[entry["dtype"]])
        begin, end = entry["data_offsets"]
        values.frombytes(body[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        if len(values) != math.prod(entry["shape"]):
            raise Failure(f"{path}: {name}: shape {entry['shape']} but {len(values)} elements")
        tensors[name] = (entry["shape"], values)
    return tensors


def kind_of(name):
    return name.split(".")[0]


def error_of(name, values, truth):
    """logits: largest error over largest logit; everything else: relative L2."""
    if not all(map(math.isfinite, values)):
        return math.inf
    if kind_of(name) == "logits":
        return max(abs(a - b) for a, b in zip(values, truth)) / max(map(abs, truth))
    return math.dist(values, truth) / max(math.hypot(*truth), 1e-30)


def own_error_of(name, reference_errors):
    if not name.endswith(KEY_BIASES):
        return reference_errors[name]
    return max(error for other, error in reference_errors.items()
               if other.endswith(KEY_BIASES) and kind_of(other) == kind_of(name))


def bound_of(name, reference_error):
    floor, ceiling = BOUNDS[kind_of(name)]
    if kind_of(name) == "weights" and name.endswith(KEY_BIASES):
        ceiling = KEY_BIAS_CEILING
    return min(max(2.0 * reference_error, floor), ceiling)


def run_dump(skep, fixture, output, options):
    command = [skep, "dump", str(fixture / "model"), str(fixture / "batch.safetensors")]
    command += ["-o", str(output), "--gradients", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Failure(f"exit {done.returncode}: {' '.join(command)}\n{done.stderr.strip()}")


def compare(found, expected, reference_errors):
    """[(name, error, bound, own)] for every quantity; other names or shapes are a failure."""
    missing = sorted(set(expected) - set(found))
    extra = sorted(set(found) - set(expected))
    if missing or extra:
        raise Failure(f"missing tensors {missing}; tensors that should not be there {extra}")
    rows = []
    for name, (shape, truth) in expected.items():
        found_shape, values = found[name]
        if found_shape != shape:
            raise Failure(f"{name}: shape {found_shape}, expected {shape}")
        own = own_error_of(name, reference_errors)
        rows.append((name, error_of(name, values, truth), bound_of(name, own), own))
    return rows


def worst_of_each_kind(rows):
    for kind in BOUNDS:
        of_kind = [row for row in rows if kind_of(row[0]) == kind]
        yield max(of_kind, key=lambda row: row[1] / row[2])


def compare_bf16(found, expected, reference_errors):
    """The same for a run in bf16: logits, and all gradients as one vector, both relative L2."""
    rows = []
    for kind, own in reference_errors.items():
        names = [name for name in expected if kind_of(name) == kind]
        if set(names) - set(found):
            raise Failure(f"missing tensors {sorted(set(names) - set(found))}")
        values, truth = (
            [value for name in names for value in tensors[name][1]] for tensors in (found, expected)
        )
        error = math.dist(values, truth) / math.hypot(*truth)
        rows.append((kind, error, BF16_SHARE * own, own))
    return rows


def check_fixture(fixture, arguments):
    """Prints the fixture's lines; gives the number of quantities out of bounds."""
    reference = json.loads((fixture / "tolerances.json").read_text())
    expected = read_safetensors(fixture / "expected.safetensors")
    if arguments.bf16:
        options, own_errors = BF16_KEYS, reference["bf16_error"]
    else:
        options = ("--steps", str(reference["steps"]), *RUN_KEYS)
        own_errors = reference["fp32_error"]
    with tempfile.TemporaryDirectory() as scratch:
        output = pathlib.Path(scratch) / "dump.safetensors"
        run_dump(arguments.skep, fixture, output, (*options, *arguments.set))
        found = read_safetensors(output)
    rows = (compare_bf16 if arguments.bf16 else compare)(found, expected, own_errors)
    failed = [row for row in rows if not row[1] <= row[2]]
    shown = rows
    if not arguments.verbose and not arguments.bf16:
        shown = list(dict.fromkeys([*worst_of_each_kind(rows), *failed]))
    for row in shown:
        name, error, bound, own = row
        mark = "FAILED" if row in failed else "ok"
        figures = f"{error:8.1e} {bound:8.1e} {own:8.1e}"
        print(f"{fixture.name:20} {name:62} {figures}  {mark}")
    return len(failed)


def finds_gpu():
    """Whether NVIDIA's driver is here and finds a device."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return (driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
                and count.value > 0)
    except OSError:
        return False


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("skep", help="the program under test")
    parser.add_argument("fixture", nargs="*", help="names of fixtures; all when none is given")
    parser.add_argument("--bf16", action="store_true", help="logits and gradients in bf16")
    parser.add_argument("--gpu", action="store_true", help="exit 77 where there is no GPU")
    parser.add_argument("--verbose", action="store_true", help="one line for every tensor")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a further run key for the program, such as strategy.recompute=block")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.gpu and not finds_gpu():
        print("skipped: no GPU is here")
        return SKIPPED
    names = arguments.fixture or sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
    print(f"{'fixture':20} {'quantity':62} {'error':>8} {'bound':>8} {'own':>8}")
    failures = 0
    for name in names:
        try:
            failures += check_fixture(FOLDER / name, arguments)
        except (Failure, OSError, subprocess.TimeoutExpired) as failure:
            print(f"{name:20} FAILED: {failure}")
            failures += 1
    print(f"{len(names)} fixtures, {failures} quantities out of bounds")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
