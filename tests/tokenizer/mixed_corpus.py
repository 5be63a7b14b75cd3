#!/usr/bin/env python3
"""Write a corpus of mixed text for compare_corpus.py.

    mixed_corpus.py FOLDER [--megabytes 100] [--seed 1] [SOURCE...]

alone.jsonl has every scalar value as a text of its own, between.jsonl has each between letters,
digits, marks and spaces. documents/ has texts of 1 to 10 KiB, and long/ some of several MB: parts
of the files under each SOURCE (message catalogues, documents, manual pages and programs of this
machine) between generated parts, which are words of many scripts, emoji, long runs of spaces and
the texts of special tokens. A third of them then gets bytes that are not UTF-8.

The same seed and the same files under SOURCE give the same corpus; its digest is printed.
"""
import argparse
import gzip
import hashlib
import json
import pathlib
import random
import sysconfig

import texts

SOURCES = ["/usr/share/locale", "/usr/share/doc", "/usr/share/man", "/usr/share/perl",
           "/usr/share/vim", sysconfig.get_paths()["stdlib"]]
SUFFIXES = (".mo", ".gz", ".txt", ".md", ".rst", ".html", ".xml", ".vim", ".pm", ".py", ".c", ".js",
            ".json", ".css", ".sh")
SOURCE_BYTES_MAX = 4 << 20
DOCUMENT_BYTES = (1 << 10, 10 << 10)
LONG_BYTES = (2_000_000, 3_000_000, 4_000_000, 6_000_000)
BROKEN_SHARE = 1 / 3
# First and last characters of 18 scripts and of emoji.
SCRIPTS = [(0x61, 0x7a), (0xc0, 0x17f), (0x391, 0x3c9), (0x410, 0x44f), (0x531, 0x586),
           (0x5d0, 0x5ea), (0x621, 0x64a), (0x905, 0x939), (0x985, 0x9b9), (0xb85, 0xbb9),
           (0xe01, 0xe30), (0x10d0, 0x10f0), (0x1200, 0x1248), (0x1780, 0x17a2), (0x3041, 0x3096),
           (0x30a1, 0x30fa), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0x1f300, 0x1f5ff),
           (0x1f600, 0x1f64f)]
# Starts of characters, overlong and surrogate forms, bytes that are never in UTF-8.
BROKEN = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xe2\x82", b"\xc3", b"\x80",
          b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80"]


def source_files(folders):
    """The files of each folder that has some."""
    groups = [sorted(path for path in pathlib.Path(folder).rglob("*")
                     if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink())
              for folder in folders]
    return [group for group in groups if group]


def read_source(path):
    """The bytes of a file, decompressed; of a message catalogue, one message a line."""
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            return file.read(SOURCE_BYTES_MAX)
    with open(path, "rb") as file:
        raw = file.read(SOURCE_BYTES_MAX)
    return raw.replace(b"\0", b"\n") if path.suffix == ".mo" else raw


def generated(chance):
    """A part that no file has, of at most some 2 KB."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.choice((" ", "\n", "\t", "\u3000")) * int(2 ** chance.uniform(0, 11))
    if kind == 1:
        return texts.random_text(chance)
    if kind == 2:
        return chance.choice(texts.PLAIN) + " "
    first, last = chance.choice(SCRIPTS)
    words = ["".join(chr(chance.randint(first, last)) for _ in range(chance.randint(1, 9)))
             for _ in range(chance.randint(1, 40))]
    return chance.choice((" ", ", ", "", ". ", "-")).join(words)


def mixed_parts(chance, groups):
    """Parts without end: half of them generated, which are shorter."""
    while True:
        if groups and chance.random() < 0.5:
            path = chance.choice(chance.choice(groups))
            raw = read_source(path)
            begin = chance.randrange(len(raw)) if raw else 0
            yield raw[begin:begin + chance.randint(200, 8000)]
        else:
            yield generated(chance).encode()


def broken(chance, raw):
    """The bytes with some that are not UTF-8: put between, in place of others, or left out."""
    out = bytearray(raw)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(out))
        out[at:at + chance.randint(0, 4)] = chance.choice([*BROKEN, b"", out[at:at + 1]])
    return bytes(out)


def document(chance, parts, size):
    out = bytearray()
    while len(out) < size:
        out += next(parts)
    raw = bytes(out[:size])  # may end in the middle of a character
    return broken(chance, raw) if chance.random() < BROKEN_SHARE else raw


def write_lines(path, lines):
    """Lines of JSON, every other one with escapes. Returns the bytes of their texts."""
    total = 0
    with open(path, "w", encoding="utf-8") as file:
        for index, text in enumerate(lines):
            file.write(json.dumps({"text": text}, ensure_ascii=index % 2 == 0) + "\n")
            total += len(text.encode())
    return total


def write_corpus(folder, bytes_wanted, seed, sources):
    chance = random.Random(seed)
    parts = mixed_parts(chance, source_files(sources))
    (folder / "documents").mkdir(parents=True)
    (folder / "long").mkdir()
    total = write_lines(folder / "alone.jsonl", map(chr, texts.SCALARS))
    total += write_lines(folder / "between.jsonl", texts.scalar_texts())
    for index, size in enumerate(LONG_BYTES):
        total += (folder / "long" / f"{index:06}.txt").write_bytes(document(chance, parts, size))
    index = 0
    while total < bytes_wanted:
        raw = document(chance, parts, chance.randint(*DOCUMENT_BYTES))
        total += (folder / "documents" / f"{index:06}.txt").write_bytes(raw)
        index += 1
    return total, index


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("source", nargs="*")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    total, count = write_corpus(arguments.folder, arguments.megabytes * 1_000_000, arguments.seed,
                                arguments.source or SOURCES)
    state = hashlib.blake2b(digest_size=8)
    for path in sorted(arguments.folder.rglob("*")):
        if path.is_file():
            state.update(path.read_bytes())
    print(f"{arguments.folder}: {total:,} bytes of text, {len(texts.SCALARS):,} scalar values "
          f"alone and between others, {count:,} documents of 1 to 10 KiB, {len(LONG_BYTES)} of "
          f"{min(LONG_BYTES):,} to {max(LONG_BYTES):,} bytes; BLAKE2b {state.hexdigest()}")


if __name__ == "__main__":
    main()
