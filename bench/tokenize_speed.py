#!/usr/bin/env python3
"""Measure the speed of `skep data` and of encode_batch_fast of the Python package tokenizers.

    python bench/tokenize_speed.py TEXTS FOLDER... [--skep build/skep] [--megabytes 20] [--turns 5]
                                   [--json FILE]

TEXTS is a folder of documents of 1 to 10 KiB, such as documents/ of tests/tokenizer/
mixed_corpus.py; a FOLDER has a tokenizer.json. Both have two threads and take turns. The time of
Skep is that of the whole command, which also starts, reads the tokenizer and a file of JSON lines,
and writes token files. The time of the package is that of the call for a list of all texts in
memory. The script prints medians, fastest and slowest of both in MB of text a second, and ratios.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

THREADS = 2
os.environ["RAYON_NUM_THREADS"] = str(THREADS)  # read when the package is loaded
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import tokenizers  # noqa: E402


def read_texts(folder, bytes_max):
    """The first documents of a folder, and their bytes of UTF-8."""
    texts, total = [], 0
    for path in sorted(folder.iterdir()):
        if total >= bytes_max:
            break
        texts.append(path.read_bytes().decode(errors="replace"))
        total += len(texts[-1].encode())
    return texts, total


def skep_seconds(skep, lines, folder, out):
    command = [skep, "data", lines, "--model", folder, "-o", out, "--threads", str(THREADS),
               "--document-token", "none"]
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.monotonic() - begin
    shutil.rmtree(out)
    return seconds


def package_seconds(tokenizer, texts):
    begin = time.monotonic()
    tokenizer.encode_batch_fast(texts)
    return time.monotonic() - begin


def speeds(times, total):
    """Median, slowest and fastest in MB/s."""
    return [round(total / 1e6 / seconds, 2)
            for seconds in (statistics.median(times), max(times), min(times))]


def measure(arguments, folder, texts, total, scratch):
    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    own, theirs = [], []
    for _ in range(arguments.turns):
        own.append(skep_seconds(arguments.skep, f"{scratch}/texts.jsonl", folder,
                                f"{scratch}/tokens"))
        theirs.append(package_seconds(tokenizer, texts))
    return {"tokenizer": folder, "bytes": total, "turns": arguments.turns,
            "skep": speeds(own, total), "package": speeds(theirs, total),
            "ratio": round(statistics.median(theirs) / statistics.median(own), 2),
            "least_ratio": round(min(b / a for a, b in zip(own, theirs)), 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--skep", default="build/skep")
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    texts, total = read_texts(arguments.texts, arguments.megabytes * 1_000_000)
    with tempfile.TemporaryDirectory(prefix="skep-speed-") as scratch:
        with open(f"{scratch}/texts.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n"
                            for text in texts)
        for folder in arguments.folder:
            result = measure(arguments, folder, texts, total, scratch)
            line = json.dumps(result)
            print(line, flush=True)
            if arguments.json is not None:
                with open(arguments.json, "a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
