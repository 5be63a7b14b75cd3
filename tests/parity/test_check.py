#!/usr/bin/env python3
"""The comparison itself: it accepts the truth and refuses every planted defect."""

import contextlib
import io
import json
import math
import pathlib
import stat
import struct
import sys
import tempfile
import unittest

import check

FIXTURE = "llama-odd"
EXPECTED = check.FOLDER / FIXTURE / "expected.safetensors"
ONE_WEIGHT = "weights.model.layers.0.mlp.up_proj.weight"

# Stands in for `skep dump`: writes the prepared file where -o says, exits as told.
IMPOSTOR = """#!/bin/sh
[ {exit_code} = 0 ] || {{ echo "skep: planted: failure" >&2; exit {exit_code}; }}
while [ "$1" != -o ]; do shift; done
cp {prepared} "$2"
"""


def write_safetensors(path, tensors):
    header, blobs, offset = {}, [], 0
    for name, (shape, values) in tensors.items():
        blob = values.tobytes()
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class CheckTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.tensors = check.read_safetensors(EXPECTED)

    def outcome(self, exit_code=0, options=()):
        """Exit code and output of check.py against an impostor that delivers self.tensors."""
        prepared = self.folder / "prepared.safetensors"
        write_safetensors(prepared, self.tensors)
        impostor = self.folder / "skep"
        impostor.write_text(IMPOSTOR.format(exit_code=exit_code, prepared=prepared))
        impostor.chmod(impostor.stat().st_mode | stat.S_IXUSR)
        arguments, sys.argv = sys.argv, ["check.py", str(impostor), FIXTURE, *options]
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                code = check.main()
        finally:
            sys.argv = arguments
        return code, output.getvalue()

    def scale(self, name, factor):
        values = self.tensors[name][1]
        for index, value in enumerate(values):
            values[index] = value * factor

    def test_truth_passes(self):
        self.assertEqual(self.outcome()[0], 0)

    def test_every_tensor_is_compared(self):
        for name in list(self.tensors):
            with self.subTest(name):
                self.tensors = check.read_safetensors(EXPECTED)
                self.scale(name, 1.0 + 2e-4)
                code, output = self.outcome()
                self.assertEqual(code, 1)
                self.assertIn(name, output)

    def test_one_wrong_logit_is_seen(self):
        shape, logits = self.tensors["logits"]
        logits[-1] += 1e-5 * max(map(abs, logits))
        self.assertEqual(self.outcome()[0], 1)

    def test_nan_is_seen(self):
        self.tensors["losses"][1][3] = math.nan
        self.assertEqual(self.outcome()[0], 1)

    def test_missing_and_extra_tensors_are_seen(self):
        self.tensors["weights.lm_head.weight"] = self.tensors.pop(ONE_WEIGHT)
        code, output = self.outcome()
        self.assertEqual(code, 1)
        self.assertIn(ONE_WEIGHT, output)
        self.assertIn("weights.lm_head.weight", output)

    def test_transposed_shape_is_seen(self):
        shape, values = self.tensors[ONE_WEIGHT]
        self.tensors[ONE_WEIGHT] = (shape[::-1], values)
        self.assertEqual(self.outcome()[0], 1)

    def test_failing_program_is_reported_with_its_message(self):
        code, output = self.outcome(exit_code=2)
        self.assertEqual(code, 1)
        self.assertIn("exit 2", output)
        self.assertIn("skep: planted: failure", output)

    def test_bf16_is_held_to_the_reference_in_bf16(self):
        self.assertEqual(self.outcome(options=["--bf16"])[0], 0)
        for kind in ("logits", "gradients"):
            for factor, code in ((1.01, 0), (1.03, 1)):
                with self.subTest(kind, factor=factor):
                    self.tensors = check.read_safetensors(EXPECTED)
                    for name in self.tensors:
                        if name.startswith(kind):
                            self.scale(name, factor)
                    self.assertEqual(self.outcome(options=["--bf16"])[0], code)

    def test_bounds_keep_floor_and_ceiling(self):
        self.assertEqual(check.bound_of("logits", 1e-7), 1e-6)
        self.assertEqual(check.bound_of("logits", 2e-6), 4e-6)
        self.assertEqual(check.bound_of("gradients.a.weight", 1.0), 1e-5)
        self.assertEqual(check.bound_of("weights.a.v_proj.bias", 1.0), 5e-5)
        self.assertEqual(check.bound_of("weights.a.k_proj.bias", 1.0), 1e-3)

    def test_key_biases_share_the_largest_of_their_errors(self):
        errors = {"weights.0.k_proj.bias": 1e-5, "weights.1.k_proj.bias": 3e-5,
                  "gradients.1.k_proj.bias": 1.0, "weights.1.q_proj.bias": 2e-5}
        self.assertEqual(check.own_error_of("weights.0.k_proj.bias", errors), 3e-5)
        self.assertEqual(check.own_error_of("weights.1.q_proj.bias", errors), 2e-5)

    def test_every_fixture_is_whole(self):
        for fixture in check.FOLDER.iterdir():
            with self.subTest(fixture.name):
                reference = json.loads((fixture / "tolerances.json").read_text())
                expected = check.read_safetensors(fixture / "expected.safetensors")
                self.assertEqual(set(expected), set(reference["fp32_error"]))
                self.assertEqual(len(expected["losses"][1]), reference["steps"] + 1)


if __name__ == "__main__":
    unittest.main()
