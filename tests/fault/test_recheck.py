"""recheck_round against arithmetic of Python's own: a right round passes, and one wrong bit in a
contribution, a list of contributors or the state is seen. The same with the sparse codec, whose
results are lists of contributions."""
import hashlib
import math
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


# With the sparse codec. The last slice has a block that is not full.
BLOCK, KEEP, GAP_BITS = 4096, 32, 6
SPARSE_SLICES = [(0, BLOCK), (BLOCK, 2 * BLOCK), (2 * BLOCK, 2 * BLOCK + 1000)]
SPARSE_COUNT = SPARSE_SLICES[-1][1]
SEATS = [0, 2, 5]
LEVELS = [(1.0, 1.5), (0.75, 2.5), (1.25, 3.0)]  # of each member; the last one exceeds the limit
REFERENCE = 2.5 * math.sqrt(3 * KEEP) / 8
LIMIT = 8 * REFERENCE / math.sqrt(3 * KEEP)


def bits_to_bytes(numbers, width, size):
    """Numbers of `width` bits one after another, least significant bits first."""
    whole = sum(number << i * width for i, number in enumerate(numbers))
    return whole.to_bytes(size, "little")


def encode_sparse(values):
    """One block with two bits a value, and its squares. All magnitudes are one of two levels."""
    sent = [i for i, value in enumerate(values) if value != 0]
    low, high = sorted({abs(values[i]) for i in sent})
    codes = [(abs(values[i]) == high) + 2 * (values[i] < 0) for i in sent]
    gaps = [i - last - 1 for last, i in zip([-1, *sent], sent)]
    quotients, at = 0, 0
    for gap in gaps:
        at += gap >> GAP_BITS
        quotients |= 1 << at
        at += 1
    data = struct.pack("<2H", *(struct.unpack("<I", struct.pack("<f", level))[0] >> 16
                                for level in (low, high)))
    data += bits_to_bytes(codes, 2, KEEP // 4)
    data += bits_to_bytes([gap % (1 << GAP_BITS) for gap in gaps], GAP_BITS, KEEP * GAP_BITS // 8)
    highs = sum(code & 1 for code in codes)
    energy = (len(sent) - highs) * (low * low) + highs * (high * high)
    return data + quotients.to_bytes(12, "little"), energy


class SparseRound:
    """What three members contributed to, the lists of their contributions, and the step."""

    def __init__(self):
        chance = random.Random(5)
        self.params = [f32(chance.gauss(0, 1)) for _ in range(SPARSE_COUNT)]
        self.contributions = [self.draw(chance, levels) for levels in LEVELS]
        self.named = [[0, 1, 2], [0, 2], [1, 2]]
        trees = [self.tree(values) for values in self.contributions]
        self.hashes = [self.list_hash(trees, s) for s in range(len(SPARSE_SLICES))]
        mean = [value for s in range(len(SPARSE_SLICES)) for value in self.mean(s)]
        self.next_params = [f32(p - f32(f32(RATE) * g)) for p, g in zip(self.params, mean)]
        state = packed(self.next_params)
        self.root = blake(b"\2", struct.pack("<Q", len(state)), blake(b"\0", state)).hex()

    @staticmethod
    def draw(chance, levels):
        values = [0.0] * SPARSE_COUNT
        for begin, end in SPARSE_SLICES:
            for k, i in enumerate(sorted(chance.sample(range(begin, end), KEEP))):
                values[i] = levels[k % 3 == 0] * chance.choice([-1, 1])
        return values

    @staticmethod
    def tree(values):
        """Encodings, norms and paths of all slices of a contribution."""
        encoded = [encode_sparse(values[begin:end]) for begin, end in SPARSE_SLICES]
        norms = [math.sqrt(energy) for _, energy in encoded]
        leaves = [blake(b"\4", blake(data), struct.pack("<d", norm))
                  for (data, _), norm in zip(encoded, norms)]
        paths = [[leaves[1], leaves[2]], [leaves[0], leaves[2]],
                 [blake(b"\1", leaves[0], leaves[1])]]
        return [data for data, _ in encoded], norms, paths

    def list_hash(self, trees, s):
        heads, encodings = b"", b""
        for i in self.named[s]:
            data, norms, paths = trees[i]
            heads += struct.pack("<QdfI", WEIGHTS[i], norms[s], CLIPS[i], len(paths[s]))
            heads += b"".join(paths[s]).ljust(64, b"\0")
            encodings += data[s]
        seats = sum(1 << SEATS[i] for i in self.named[s])
        return blake(struct.pack("<Qd", seats, LIMIT), heads, encodings).hex()

    def mean(self, s):
        begin, end = SPARSE_SLICES[s]
        total = sum(WEIGHTS[i] for i in self.named[s])
        sums, shares = [0.0] * (end - begin), [0.0] * (end - begin)
        for i in self.named[s]:
            values = self.contributions[i][begin:end]
            share, peak = f32(WEIGHTS[i] / total), max(map(abs, values))
            clip = f32(CLIPS[i])
            factor = f32(share * (f32(LIMIT / peak) if peak * clip > LIMIT else clip))
            for k, value in enumerate(values):
                if value != 0:
                    sums[k] = f32(sums[k] + f32(factor * value))
                    shares[k] = f32(shares[k] + share)
        return [f32(a / b) if b else 0.0 for a, b in zip(sums, shares)]


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="skep-recheck-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def place(self, name, values):
        path = self.folder / name
        path.write_bytes(bytes(12) + packed(values))
        return f"{path}@12"


class Sparse(Scratch):
    def setUp(self):
        super().setUp()
        self.round = SparseRound()

    def recheck(self, step=True, reference=REFERENCE):
        made = self.round
        lines = [f"{begin} {end} {digest} {len(named)} "
                 + " ".join(f"{i} {WEIGHTS[i]} {CLIPS[i]!r}" for i in named)
                 for (begin, end), digest, named in zip(SPARSE_SLICES, made.hashes, made.named)]
        command = [RECHECK, "sparse", str(SPARSE_COUNT), str(KEEP), "2", repr(reference)]
        command += [f"{seat}:{self.place(f'c{seat}', values)}"
                    for seat, values in zip(SEATS, made.contributions)]
        if step:
            command += ["--step", str(RATE), self.place("p", made.params),
                        self.place("np", made.next_params)]
        done = subprocess.run(command, input="\n".join(lines) + "\n", text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def sent(self, member, s):
        """The first element that a member sent in a slice."""
        begin, end = SPARSE_SLICES[s]
        return next(i for i in range(begin, end) if self.round.contributions[member][i] != 0)

    def test_a_right_round_passes_and_its_root_is_named(self):
        self.assertEqual(self.recheck(), (0, [f"root {self.round.root}", "recheck: 0 wrong"]))
        self.assertEqual(self.recheck(step=False), (0, ["recheck: 0 wrong"]))

    def test_another_sign_is_seen_in_all_lists_with_its_member(self):
        self.round.contributions[1][self.sent(1, 2)] *= -1  # the leaf is in the path of slice 0
        code, lines = self.recheck(step=False)
        self.assertEqual((code, lines[-1]), (1, "recheck: 2 wrong"))
        self.assertTrue(lines[0].startswith("slice [0, 4096)"), lines)
        self.assertTrue(lines[1].startswith("slice [8192, 9192)"), lines)

    def test_a_value_between_the_levels_cannot_be_sent(self):
        at = self.sent(2, 1)
        self.round.contributions[2][at] = 2.0
        code, lines = self.recheck(step=False)
        self.assertEqual(code, 1)
        self.assertEqual(lines[0], f"seat 5: element {at} cannot be sent")

    def test_another_limit_of_values_is_seen_in_all_lists(self):
        code, lines = self.recheck(step=False, reference=REFERENCE * 2)
        self.assertEqual((code, lines[-1]), (1, "recheck: 3 wrong"))

    def test_one_bit_of_the_state_is_seen(self):
        at = SPARSE_COUNT - 1
        bits = struct.unpack("<I", struct.pack("<f", self.round.next_params[at]))[0] ^ 1
        self.round.next_params[at] = struct.unpack("<f", struct.pack("<I", bits))[0]
        code, lines = self.recheck()
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(f"parameter {at}:"), lines)


class Recheck(Scratch):
    def setUp(self):
        super().setUp()
        self.round = Round()

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
