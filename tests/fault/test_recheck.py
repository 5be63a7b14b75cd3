"""recheck_round against arithmetic of Python's own: a right round passes, and one wrong bit in a
contribution, a list of contributors or the state is seen."""
import hashlib
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

RECHECK = os.environ["RECHECK_ROUND"]
COUNT = 1700
SLICES = [(0, 1024), (1024, COUNT)]
WEIGHTS = [300, 500, 1]
CLIPS = [1.0, 2 / 3, 0.25]
RATE, MOMENTUM = 0.7, 0.9


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def blake(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def encode_int8(values):
    """Bytes, and what they decode to. Python rounds halves to even, as the codec does."""
    data, decoded = b"", []
    for at in range(0, len(values), 256):
        block = values[at:at + 256]
        scale = f32(max(map(abs, block)) / 127)
        inverse = f32(1 / scale)
        codes = [round(f32(value * inverse)) for value in block]
        data += struct.pack(f"<f{len(codes)}b", scale, *codes)
        decoded += [f32(code * scale) for code in codes]
    return data, decoded


def packed(values):
    return struct.pack(f"<{len(values)}f", *values)


class Round:
    """What three members contributed to, and what came of it."""

    def __init__(self):
        chance = random.Random(3)
        self.params = [f32(chance.gauss(0, 1)) for _ in range(COUNT)]
        self.momentum = [f32(chance.gauss(0, 0.1)) for _ in range(COUNT)]
        self.contributions = [
            encode_int8([f32(chance.gauss(0, 0.01)) for _ in range(COUNT)])[1] for _ in WEIGHTS]
        self.named = [[0, 1, 2], [0, 2]]  # contributors of each slice
        mean, self.hashes = [], []
        for (begin, end), named in zip(SLICES, self.named):
            total = sum(WEIGHTS[i] for i in named)
            sums = [0.0] * (end - begin)
            for i in named:
                share = f32(f32(WEIGHTS[i] / total) * f32(CLIPS[i]))
                sums = [f32(have + f32(share * value)) for have, value in
                        zip(sums, self.contributions[i][begin:end])]
            data, decoded = encode_int8(sums)
            self.hashes.append(blake(data).hex())
            mean += decoded
        rate, keep = f32(RATE), f32(MOMENTUM)
        self.next_momentum = [f32(f32(keep * v) + g) for v, g in zip(self.momentum, mean)]
        self.next_params = [f32(p - f32(rate * f32(g + f32(keep * v)))) for p, g, v in
                            zip(self.params, mean, self.next_momentum)]
        state = packed(self.next_params) + packed(self.next_momentum)
        self.root = blake(b"\2", struct.pack("<Q", len(state)), blake(b"\0", state)).hex()


class Recheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="skep-recheck-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.round = Round()

    def place(self, name, values):
        path = self.folder / name
        path.write_bytes(bytes(12) + packed(values))
        return f"{path}@12"

    def recheck(self, step=True):
        made = self.round
        lines = [f"{begin} {end} {digest} {len(named)} "
                 + " ".join(f"{i} {WEIGHTS[i]} {CLIPS[i]!r}" for i in named)
                 for (begin, end), digest, named in zip(SLICES, made.hashes, made.named)]
        command = [RECHECK, "int8", str(COUNT),
                   *(self.place(f"c{i}", values) for i, values in enumerate(made.contributions))]
        if step:
            command += ["--step", str(RATE), str(MOMENTUM), self.place("p", made.params),
                        self.place("v", made.momentum), self.place("np", made.next_params),
                        self.place("nv", made.next_momentum)]
        done = subprocess.run(command, input="\n".join(lines) + "\n", text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_a_right_round_passes_and_its_root_is_named(self):
        self.assertEqual(self.recheck(), (0, [f"root {self.round.root}", "recheck: 0 wrong"]))
        self.assertEqual(self.recheck(step=False), (0, ["recheck: 0 wrong"]))

    def test_another_contribution_is_seen_in_its_slices(self):
        self.round.contributions[1] = [-value for value in self.round.contributions[1]]
        code, lines = self.recheck(step=False)
        self.assertEqual((code, lines[-1]), (1, "recheck: 1 wrong"))
        self.assertTrue(lines[0].startswith("slice [0, 1024)"), lines)

    def test_a_contributor_left_out_is_seen(self):
        self.round.named[1] = [0, 1, 2]
        code, lines = self.recheck(step=False)
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(f"slice [1024, {COUNT})"), lines)

    def test_one_bit_of_the_state_is_seen(self):
        for values, word in ((self.round.next_params, "parameter"),
                             (self.round.next_momentum, "momentum")):
            right = values[COUNT - 1]
            bits = struct.unpack("<I", struct.pack("<f", right))[0] ^ 1
            values[COUNT - 1] = struct.unpack("<f", struct.pack("<I", bits))[0]
            code, lines = self.recheck()
            values[COUNT - 1] = right
            self.assertEqual(code, 1)
            self.assertTrue(lines[0].startswith(f"{word} {COUNT - 1}:"), lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
