#!/usr/bin/env python3
"""Compare Skep's safetensors reader with the `safetensors` Python package on mutated files.

    compare_safetensors.py VERDICTS [--files N] [--seed S]

VERDICTS is the program built from tests/unit/checkpoint/safetensors_verdicts.c. For every file both
readers must give the same verdict, and for accepted files the same names, types, shapes and bytes.
Where Skep is stricter on purpose the file is counted under a named exception (EXCEPTIONS, explained
in docs/FORMATS.md); Skep accepting what the package refuses is always a failure.
Exit 0: no disagreement; 1: some, printed; 77: the package is not installed.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import safetensors
    from safetensors import deserialize
except ImportError:
    sys.exit(77)

# Skep's reason -> the name of the exception.
EXCEPTIONS = {
    "duplicate tensor name": "is a tensor that the header contains twice",
    "duplicate metadata key": "'__metadata__': contains a key twice",
    "header does not start with '{'": "does not start with '{'",
    "tensor described by a list": "expected the start of an object",
    "dtype not a string": "dtype is not a string",
    "NUL in a string": "a NUL character inside a string",
    "more than 8 dimensions": "more dimensions or offsets",
    "number above 2^63-1": "a number above 2^63-1",
    "shape above 2^63": "its shape has more than 2^63",
    "nested deeper than 32": "nested too deeply",
}

WIDTHS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8,
          "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16,
          "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64,
          "C64": 64}
# The names the package gives types in its tables.
PACKAGE_NAMES = {"bool": "BOOL", "uint8": "U8", "int8": "I8"}


def sample(rng):
    """A legal table and its data."""
    header, end = {}, 0
    if rng.random() < 0.5:
        header["__metadata__"] = {rng.choice(["format", "é", "k\\", ""]): rng.choice(["pt", "\n"])}
    for index in range(rng.randint(0, 4)):
        dtype = rng.choice(list(WIDTHS))
        shape = [rng.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(rng.randint(0, 3))]
        if WIDTHS[dtype] < 8:
            shape.append(8)
        bits = WIDTHS[dtype]
        for size in shape:
            bits *= size
        header[rng.choice(["w%d", "层.%d", "a b.%d", "\"%d", "😀%d"]) % index] = {
            "dtype": dtype, "shape": shape, "data_offsets": [end, end + bits // 8]}
        end += bits // 8
    return header, bytes(rng.getrandbits(8) for _ in range(end))


def spell(rng, header):
    separators = rng.choice([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")])
    text = json.dumps(header, separators=separators, ensure_ascii=rng.random() < 0.5)
    return text.encode("utf-8", "surrogatepass") + b" " * rng.choice([0, 0, 1, 7])


def pack(text, data, length=None):
    return struct.pack("<Q", (len(text) if length is None else length) % 2**64) + text + data


def tensors(header):
    return [name for name in header if name != "__metadata__"]


# Each mutation takes (rng, header, data) and gives a file's bytes.
def unchanged(rng, header, data):
    return pack(spell(rng, header), data)


def flip_bits(rng, header, data):
    text = bytearray(spell(rng, header))
    for _ in range(rng.choice([1, 1, 2, 5])):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return pack(bytes(text), data)


def replace_byte(rng, header, data):
    text = bytearray(spell(rng, header))
    text[rng.randrange(len(text))] = rng.choice(b"{}[]\",:0123456789-+.eEntf\\u \n\t\0\x7f\xc3\xff")
    return pack(bytes(text), data)


def delete_or_insert(rng, header, data):
    text = bytearray(spell(rng, header))
    at = rng.randrange(len(text))
    if rng.random() < 0.5:
        del text[at:at + rng.choice([1, 1, 2, 6])]
    else:
        text[at:at] = rng.choice([b"{", b"}", b"[", b"]", b"\"", b",", b":", b"0", b"1", b" ", b"-",
                                  b".0", b"e0", b"\\", b"\\u0000", b"\\ud800", b"\\u0041",
                                  b"null", b"true", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"//"])
    return pack(bytes(text), data)


def edit_length(rng, header, data):
    text = spell(rng, header)
    length = rng.choice([0, 1, len(text) - 1, len(text) + 1, len(text) + len(data),
                         len(text) + len(data) + 1, 100_000_000, 100_000_001, 2**31, 2**32,
                         2**63 - 8, 2**63, 2**64 - 1, 2**64 - 8, rng.getrandbits(64)])
    return pack(text, data, length)


def edit_offsets(rng, header, data):
    if tensors(header):
        entry = header[rng.choice(tensors(header))]
        side = rng.randrange(2)
        entry["data_offsets"][side] = rng.choice(
            [entry["data_offsets"][side] + d for d in (-8, -4, -1, 1, 4, 8)] +
            [0, len(data), 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, 1.0, "0", None])
    return pack(spell(rng, header), data)


def swap_offsets(rng, header, data):
    if tensors(header):
        one, two = rng.choice(tensors(header)), rng.choice(tensors(header))
        header[one]["data_offsets"], header[two]["data_offsets"] = (
            header[two]["data_offsets"], header[one]["data_offsets"])
    return pack(spell(rng, header), data)


def edit_dtype(rng, header, data):
    if tensors(header):
        header[rng.choice(tensors(header))]["dtype"] = rng.choice(
            list(WIDTHS) + ["f32", "", "F33", "float32", "F32 ", None, 1, ["F32"], {"F32": None}])
    return pack(spell(rng, header), data)


def edit_shape(rng, header, data):
    if tensors(header):
        entry = header[rng.choice(tensors(header))]
        entry["shape"] = rng.choice(
            [entry["shape"][::-1], entry["shape"] + [1], [1] * rng.randint(5, 12), [0], [],
             entry["shape"] + [0], [2**32, 2**32], [0, 2**63, 2], [2**63, 2, 0], [2**64], [-1],
             [2**61], [2**60, 0], [2**62, 2, 0], [1.0], ["1"], None, {}, [[1]], [True]])
    return pack(spell(rng, header), data)


def edit_fields(rng, header, data):
    if tensors(header):
        name = rng.choice(tensors(header))
        entry = header[name]
        choice = rng.randrange(6)
        if choice == 0:
            del entry[rng.choice(list(entry))]
        elif choice == 1:
            entry[rng.choice(["x", "", "Dtype", "strides"])] = rng.choice(
                [1, None, "\ud83d", [[], {"a": [1, 2.5e3]}], True, 10**30, {"b": {}}])
        elif choice == 2:
            header[name] = [entry["dtype"], entry["shape"], entry["data_offsets"]]
        elif choice == 3:
            header[name] = rng.choice([None, 1, "x", [], {}, True])
        elif choice == 4:
            nest = rng.choice([1, 20, 40, 120, 130])
            text = spell(rng, header).decode()
            return pack(text.replace('"dtype"', '"x":' + "[" * nest + "]" * nest + ',"dtype"',
                                     1).encode(), data)
        else:
            entry["data_offsets"] = rng.choice([[], [0], entry["data_offsets"] + [0], None, "",
                                                {"0": 0}])
    return pack(spell(rng, header), data)


def duplicate_key(rng, header, data):
    text = spell(rng, header).decode()
    names = tensors(header)
    choice = rng.randrange(5)
    if choice == 0 and names:
        name = rng.choice(names)
        text = "{%s:%s," % (json.dumps(name), json.dumps(header[name])) + text.lstrip()[1:]
    elif choice == 1 and names:
        field = rng.choice(["dtype", "shape", "data_offsets"])
        entry = json.dumps(header[names[0]][field])
        text = text.replace('"%s"' % field, '"%s":%s,"%s"' % (field, entry, field), 1)
    elif choice == 2:
        text = '{"__metadata__":{},' + text.lstrip()[1:]
    elif choice == 3:
        text = '{"__metadata__":{"a":"1","a":"2"},' + text.lstrip()[1:]
    elif names:
        text = text.replace('"dtype"', '"x":1,"x":2,"dtype"', 1)
    if text.endswith(",}"):
        text = text[:-2] + "}"
    return pack(text.encode(), data)


def edit_metadata(rng, header, data):
    header["__metadata__"] = rng.choice(
        [None, {}, [], "x", 1, {"a": 1}, {"a": None}, {"a": {}}, {"a": "\0"}, {"\0": "a"},
         {"a": "\ud800"}, {str(i): "v" for i in range(50)}])
    text = json.dumps(header)
    if rng.random() < 0.3:
        text = text.replace("__metadata__", rng.choice(["\\u005f_metadata__", "__Metadata__", ""]))
    return pack(text.encode(), data)


def unicode_names(rng, header, data):
    text = spell(rng, header)
    name = rng.choice([b"\\u0041", b"\\ud83d\\ude00", b"\\ud83d", b"\\ude00", b"\\ud83d\\u0041",
                       b"\\uD83d\\uDE00", b"\\u00", b"\\x41", b"\xc0\x80", b"\xff", b"\xe2\x82",
                       b"\xed\xa0\x80", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\x1f", b"\x7f",
                       b"\\u0000", b"\0", b"\\/", b"\\'", "\u2028\ufeff".encode()])
    return pack(text.replace(b'"w', b'"' + name).replace(b'"a', b'"' + name), data)


def white_space(rng, header, data):
    text = spell(rng, header)
    before = rng.choice([b"", b"", b" ", b"\n", "\ufeff".encode(), b"\0", b"\v"])
    behind = rng.choice([b"", b" ", b" \t\r\n", b"\0", b"\0\0\0", b"x", b"{}", b"\v", b"\xc2\xa0"])
    return pack(before + text + behind, data)


def truncate(rng, header, data):
    file = pack(spell(rng, header), data)
    return file[:rng.randrange(len(file) + 1)]


def extend(rng, header, data):
    return pack(spell(rng, header), data) + bytes(rng.choice([1, 2, 4, 8, 100]))


def number_forms(rng, header, data):
    text = spell(rng, header).decode()
    digits = [i for i, c in enumerate(text) if c.isdigit() and text[i - 1] in "[, \n"]
    if digits:
        at = rng.choice(digits)
        text = text[:at] + rng.choice(["0", "00", "-", "+", "0x", " ", "1e", "."]) + text[at:]
    return pack(text.encode(), data)


MUTATIONS = [unchanged, flip_bits, replace_byte, delete_or_insert, edit_length, edit_offsets,
             swap_offsets, edit_dtype, edit_shape, edit_fields, duplicate_key, edit_metadata,
             unicode_names, white_space, truncate, extend, number_forms]


def package_verdict(file):
    """None when refused, else {name: (dtype, shape, bytes)}."""
    try:
        table = deserialize(file)
    except safetensors.SafetensorError:
        return None
    return {name: (PACKAGE_NAMES.get(str(t["dtype"]), str(t["dtype"])), list(t["shape"]),
                   bytes(t["data"])) for name, t in table}


def skep_table(words):
    table = {}
    for word in words:
        name, dtype, shape, data = word.split(":")
        table[bytes.fromhex(name).decode()] = (
            dtype, [int(size) for size in shape.split(",") if size], bytes.fromhex(data))
    return table


def exception_of(reason):
    found = [name for name, part in EXCEPTIONS.items() if part in reason]
    return found[0] if found else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verdicts")
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    files = []
    for index in range(options.files):
        mutation = MUTATIONS[index % len(MUTATIONS)]
        files.append((mutation.__name__, mutation(rng, *sample(rng))))
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, str(index)) for index in range(len(files))]
        for path, (_, content) in zip(paths, files):
            with open(path, "wb") as out:
                out.write(content)
        answer = subprocess.run([options.verdicts], input="\n".join(paths) + "\n", text=True,
                                capture_output=True, check=True)
    lines = answer.stdout.split("\n")[:-1]
    if len(lines) != len(files):
        sys.exit("%d verdicts for %d files" % (len(lines), len(files)))

    accepted = refused = 0
    excepted = dict.fromkeys(EXCEPTIONS, 0)
    disagreements = []
    for index, ((mutation, content), line) in enumerate(zip(files, lines)):
        theirs = package_verdict(content)
        ours = skep_table(line.split(" ")[1:]) if line.startswith("ok") else None
        name = exception_of(line)
        if theirs is None and ours is None:
            refused += 1
        elif theirs is not None and ours == theirs:
            accepted += 1
        elif ours is None and name is not None:
            excepted[name] += 1
        else:
            disagreements.append("file %d of seed %d (%s): skep: %s\n  package: %s\n  file: %r" % (
                index, options.seed, mutation, line, theirs, content[:400]))
    print("%d files, seed %d, safetensors %s: both accept %d, both refuse %d, Skep stricter %d, "
          "disagree %d" % (len(files), options.seed, safetensors.__version__, accepted, refused,
                           sum(excepted.values()), len(disagreements)))
    for name, count in excepted.items():
        print("  stricter: %-36s %d" % (name, count))
    for text in disagreements[:10]:
        print(text)
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
