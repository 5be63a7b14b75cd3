#!/usr/bin/env python3
"""Compare `skep data` and the tokenizers with the Python package tokenizers 0.23.3 on a corpus.

    compare_corpus.py SKEP DRIVER CORPUS FOLDER... [--lists 100000] [--json FILE]

CORPUS is a folder of mixed_corpus.py. For each FOLDER, which has a tokenizer.json, SKEP makes token
files of the corpus. Their ids must be those of the package for bytes.decode(errors="replace") of
each document, with the special tokens of the template, and the document token behind them. Then
DRIVER, built from driver.c, decodes these ids, every other batch without special tokens, and lists
of random ids in both ways; the texts must be those of the package. --json appends one line for each
tokenizer. Exit 0: no difference; 1: some, printed; 77: the package is not installed.
"""
import argparse
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from compare import Comparison

BATCH_BYTES = 1 << 20
HEADER_BYTES = 1024
DOCUMENT_TOKEN_WORD = 67  # of the header
TYPES = {20240520: "H", 20240801: "I"}
SHARD_TOKENS = 2_000_000_000
INPUTS = ("alone.jsonl", "between.jsonl", "documents", "long")


def corpus_texts(corpus):
    """The texts in the order of the token files."""
    for name in INPUTS:
        path = corpus / name
        if path.suffix == ".jsonl":
            with open(path, encoding="utf-8") as file:
                yield from (json.loads(line)["text"] for line in file)
        else:
            yield from (file.read_bytes().decode(errors="replace") for file in
                        sorted(path.iterdir()))


def text_batches(items):
    batch, size = [], 0
    for text in items:
        batch.append(text)
        size += len(text)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def encode_corpus(skep, corpus, folder, out):
    """The ids of the whole corpus and the document token; None: there is none."""
    inputs = [str(corpus / name) for name in INPUTS]
    command = [skep, "data", *inputs, "--model", folder, "-o", out, "--threads", "2",
               "--shard-tokens", str(SHARD_TOKENS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 2 and "--document-token" in result.stderr:
        command += ["--document-token", "none"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)
    data = (pathlib.Path(out) / "train_000000.bin").read_bytes()
    words = struct.unpack_from("<256i", data)
    ids = array.array(TYPES[words[0]])
    ids.frombytes(data[HEADER_BYTES:HEADER_BYTES + words[2] * ids.itemsize])
    end = words[DOCUMENT_TOKEN_WORD]
    return ids, end if end >= 0 else None


class CorpusComparison(Comparison):
    def __init__(self, driver, folder, ids, end):
        super().__init__(driver, folder)
        self.ids, self.end = ids, [] if end is None else [end]
        self.at = self.documents = self.tokens = 0

    def check(self, text, expected):
        """The next document of the corpus has these ids."""
        expected = expected + self.end
        own = self.ids[self.at:self.at + len(expected)].tolist()
        if own != expected:
            first = next((i for i, pair in enumerate(zip(own, expected)) if pair[0] != pair[1]),
                         len(own))
            self.differ(f"document {self.documents}, token {first}", text)
            sys.exit(f"{self.name}: the documents after this one cannot be compared")
        self.at += len(expected)
        self.documents += 1
        self.tokens += len(expected)

    def run(self, corpus):
        for number, batch in enumerate(text_batches(corpus_texts(corpus))):
            lists = [encoding.ids for encoding in self.reference.encode_batch_fast(batch)]
            for text, expected in zip(batch, lists):
                self.check(text, expected)
            self.bytes += sum(len(text.encode()) for text in batch)
            self.decode(lists, [((b"d", False), (b"D", True))[number % 2]])
        if self.at != len(self.ids):
            self.differ("tokens behind the last document", len(self.ids) - self.at)


def compare(arguments, folder):
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="skep-compare-") as scratch:
        ids, end = encode_corpus(arguments.skep, arguments.corpus, folder, f"{scratch}/tokens")
    comparison = CorpusComparison(arguments.driver, folder, ids, end)
    comparison.run(arguments.corpus)
    corpus_lists = comparison.lists
    comparison.decode_random(arguments.lists)
    comparison.driver.close()
    result = {"tokenizer": folder, "bytes": comparison.bytes, "documents": comparison.documents,
              "tokens": comparison.tokens, "decoded": corpus_lists,
              "random_lists": comparison.lists - corpus_lists,
              "differences": comparison.differences, "seconds": round(time.monotonic() - begin)}
    print(json.dumps(result), flush=True)
    if arguments.json is not None:
        with open(arguments.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
    return comparison.differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("skep")
    parser.add_argument("driver")
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--lists", type=int, default=100_000)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    sys.exit(1 if sum(compare(arguments, folder) for folder in arguments.folder) > 0 else 0)


if __name__ == "__main__":
    main()
