#!/usr/bin/env python3
"""Compare the tokenizers with the Python package tokenizers 0.23.3.

    compare.py DRIVER [FOLDER...] [--speed FILE]

DRIVER is built from driver.c. A FOLDER has a tokenizer.json; without one, the fixtures are compared
and the folders in SKEP_TOKENIZERS, which a colon divides: published tokenizers cannot be in the
tree. Encoded and decoded must be the same: random texts, a corpus, with SKEP_LONG=1 every scalar
value in five contexts and 100 MB of mixed text, and lists of random ids.
--speed prints the CPU time of both for FILE, as documents of 1 to 10 KiB.
Exit 0: no difference; 1: some, printed; 77: the package is not installed.
"""
import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

os.environ.setdefault("RAYON_NUM_THREADS", "2")
try:
    import tokenizers
except ImportError:
    sys.exit(77)

import texts

HERE = pathlib.Path(__file__).parent
VERSION = "0.23.3"
IS_LONG = os.environ.get("SKEP_LONG") == "1"
RANDOM_TEXTS, RANDOM_LISTS = (20_000, 100_000) if IS_LONG else (500, 1000)
SHOWN_MAX = 5
BATCH = 256
DOCUMENT_BYTES = (1 << 10, 10 << 10)


class Driver:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, letter, items):
        payload = b"".join(part for item in items
                           for part in (struct.pack("<I", len(item)), item))
        self.process.stdin.write(letter + struct.pack("<I", len(payload)) + payload)
        self.process.stdin.flush()
        count, = struct.unpack("<I", self.process.stdout.read(4))
        answer, found, at = self.process.stdout.read(count), [], 0
        while at < count:
            length, = struct.unpack_from("<I", answer, at)
            found.append(answer[at + 4:at + 4 + length])
            at += 4 + length
        return found

    def encode(self, letter, batch):
        return [list(struct.unpack(f"<{len(ids) // 4}i", ids))
                for ids in self.ask(letter, [text.encode() for text in batch])]

    def decode(self, letter, lists):
        return [text.decode() for text in
                self.ask(letter, [struct.pack(f"<{len(ids)}i", *ids) for ids in lists])]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Comparison:
    def __init__(self, program, folder):
        self.reference = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.reference.no_truncation()
        self.reference.no_padding()
        self.driver = Driver(program, folder)
        self.name = folder
        self.differences = self.bytes = self.lists = 0

    def differ(self, what, value):
        self.differences += 1
        if self.differences <= SHOWN_MAX:
            print(f"{self.name}: {what}: {value!r:.200}")

    def encode(self, batch):
        for letter, special_tokens in ((b"e", False), (b"E", True)):
            lists = [encoding.ids for encoding in self.reference.encode_batch_fast(
                batch, add_special_tokens=special_tokens)]
            for text, ids, own in zip(batch, lists, self.driver.encode(letter, batch)):
                if ids != own:
                    self.differ("ids", text)
        self.decode(lists)
        self.bytes += sum(len(text.encode()) for text in batch)

    def encode_literal(self, batch):
        self.reference.encode_special_tokens = True
        for text, encoding, own in zip(batch, self.reference.encode_batch_fast(
                batch, add_special_tokens=False), self.driver.encode(b"l", batch)):
            if own != encoding.ids:
                self.differ("literal ids", text)
        self.reference.encode_special_tokens = False

    def decode(self, lists, ways=((b"d", False), (b"D", True))):
        for letter, skips in ways:
            self.lists += len(lists)
            decoded = self.reference.decode_batch(lists, skip_special_tokens=skips)
            for ids, text, own in zip(lists, decoded, self.driver.decode(letter, lists)):
                if own != text:
                    self.differ("text of ids", ids)

    def decode_random(self, list_count):
        """Lists of random ids, some without a token."""
        chance = random.Random(12)
        id_end = max(self.reference.get_vocab(True).values()) + 3
        for batch in batches([chance.randrange(id_end) for _ in range(chance.randint(0, 40))]
                             for _ in range(list_count)):
            self.decode(batch)


def batches(items):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def compare(program, folder):
    comparison = Comparison(program, folder)
    hard = texts.hard_texts(RANDOM_TEXTS, seed=11)
    sources = [hard]
    if IS_LONG:
        sources += [texts.scalar_texts(), map(chr, texts.SCALARS)]
    for source in sources:
        for batch in batches(source):
            comparison.encode(batch)
    for batch in batches(hard):
        comparison.encode_literal(batch)
    comparison.decode_random(RANDOM_LISTS)
    comparison.driver.close()
    print(f"{folder}: {comparison.bytes:,} bytes, {comparison.lists:,} lists of ids, "
          f"{comparison.differences} differences", flush=True)
    return comparison.differences


def speed(program, folder, path):
    text, chance, documents, at = path.read_text(errors="replace"), random.Random(1), [], 0
    while at < len(text):
        documents.append(text[at:at + chance.randint(*DOCUMENT_BYTES)])
        at += len(documents[-1])
    payload = [document.encode() for document in documents]
    size = sum(map(len, payload))
    reference = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    driver = Driver(program, folder)
    for _ in range(3):
        begin = time.process_time()
        reference.encode_batch_fast(documents, add_special_tokens=False)
        theirs = time.process_time() - begin
        ours = struct.unpack("<q", driver.ask(b"t", payload)[0])[0] / 1e9
        print(f"{folder}: {size:,} bytes: {size / 1e6 / ours:.1f} MB/s of CPU time, the "
              f"package {size / 1e6 / theirs:.1f} MB/s", flush=True)
    driver.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("driver")
    parser.add_argument("folder", nargs="*")
    parser.add_argument("--speed", type=pathlib.Path)
    arguments = parser.parse_args()
    if tokenizers.__version__ != VERSION:
        print(f"tokenizers {tokenizers.__version__} is not {VERSION}, the reference")
        sys.exit(77)
    published = [folder for folder in os.environ.get("SKEP_TOKENIZERS", "").split(":") if folder]
    folders = arguments.folder or [
        *(str(path.parent) for path in sorted((HERE / "fixtures").glob("*/tokenizer.json"))),
        *published]
    if arguments.speed is not None:
        for folder in folders:
            speed(arguments.driver, folder, arguments.speed)
        return
    sys.exit(1 if sum(compare(arguments.driver, folder) for folder in folders) > 0 else 0)


if __name__ == "__main__":
    main()
