#!/usr/bin/env python3
"""Draw identifiers, messages and comments of the product's C code, for readers new to it.

python3 tests/tidy/draw.py [ROOT] [--count N] [--seed TEXT]. The seed is the hash of the commit that
is checked out, so that the same commit always gives the same draw. Each item is one JSON object a
line: kind, place, text, and the line of code that a reader would see beside it. An identifier also
has the comment directly above that line, and the struct or enum that contains it.
"""

import argparse
import hashlib
import json
import pathlib
import random
import re
import subprocess

import c_source

PRODUCT = ("base", "arena", "targets", "kernels", "transport", "runtime")
WORDS_MIN = {"message": 3, "comment": 4}
STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
FIELD = re.compile(r"[\w\]*]\s*?[ *](\w+)(?:\[[^\]]*\])*\s*(?:,|;)")
ENUMERATOR = re.compile(r"\b([A-Z][A-Z0-9_]+)\b\s*(?:=[^,]*)?(?:,|$)")
ENUM = re.compile(r"\benum\s*(\w*)\s*\{([^}]*)\}")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+\s*)?"(?:\\.|[^"\\\n])*")*')


COMMENT_ABOVE = re.compile(r"(?:^|\n)[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n\Z", re.DOTALL)


def words_of(text):
    return re.findall(r"[A-Za-z]{2,}", text)


def plain(comment):
    return re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip("/* ")


def item(kind, path, source, offset, text):
    line = source.count("\n", 0, offset)
    beside = source.split("\n")[line].strip()
    return {"kind": kind, "place": f"{path}:{line + 1}", "text": text, "code": beside}


def identifier(path, source, offset, text, within=""):
    found = item("identifier", path, source, offset, text)
    before = source[:source.rfind("\n", 0, offset) + 1]
    above = COMMENT_ABOVE.search(before)
    found["above"] = plain(above.group().strip()) if above else ""
    found["within"] = within
    return found


def identifiers_of(path, source, code):
    seen = set()
    for function in c_source.functions(source):
        offset = sum(len(line) + 1 for line in source.split("\n")[:function.first_line - 1])
        named = re.compile(r"\b%s\s*\(" % function.name).search(code, offset)
        yield identifier(path, source, named.start(), function.name)
    for match in STRUCT.finditer(code):
        yield identifier(path, source, match.start(1), match.group(1))
        for field in FIELD.finditer(match.group(2)):
            if field.group(1) not in seen:
                seen.add(field.group(1))
                offset = match.start(2) + field.start(1)
                yield identifier(path, source, offset, field.group(1), f"struct {match.group(1)}")
    for match in ENUM.finditer(code):
        for name in ENUMERATOR.finditer(match.group(2)):
            yield identifier(path, source, match.start(2) + name.start(1), name.group(1),
                             f"enum {match.group(1)}".strip())


def messages_of(path, source):
    masked = "".join(c_source.blank(match) if match.group().startswith("/") else match.group()
                     for match in split_opaque(source))
    for match in STRING.finditer(masked):
        text = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group()))
        before = masked[masked.rfind("\n", 0, match.start()) + 1:match.start()]
        is_text = "#include" not in before and "asm" not in before
        if is_text and len(words_of(text)) >= WORDS_MIN["message"]:
            yield item("message", path, source, match.start(), text)


def split_opaque(source):
    return re.finditer(c_source.OPAQUE.pattern + r"|.", source, re.DOTALL)


def comments_of(path, source):
    for match in c_source.OPAQUE.finditer(source):
        text = plain(match.group())
        if match.group().startswith("/") and len(words_of(text)) >= WORDS_MIN["comment"]:
            found = item("comment", path, source, match.start(), text)
            after = source[match.end():].lstrip("\n").split("\n")[0].strip()
            if found["code"].startswith("/*"):
                found["code"] = after
            yield found


def items_of(root):
    found = {"identifier": [], "message": [], "comment": []}
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*.[ch]")):
            source = path.read_text(encoding="utf-8")
            name = str(path.relative_to(root))
            code = c_source.without_comments_and_strings(source)
            for one in (*identifiers_of(name, source, code), *messages_of(name, source),
                        *comments_of(name, source)):
                found[one["kind"]].append(one)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", help="instead of the commit's hash")
    options = parser.parse_args()
    seed = options.seed or subprocess.run(["git", "-C", str(options.root), "rev-parse", "HEAD"],
                                          capture_output=True, text=True, check=True).stdout.strip()
    for kind, candidates in items_of(options.root).items():
        digest = hashlib.sha256(f"{seed} {kind}".encode()).digest()
        chooser = random.Random(int.from_bytes(digest, "big"))
        chosen = chooser.sample(candidates, min(options.count, len(candidates)))
        for index, one in enumerate(chosen):
            print(json.dumps({"number": f"{kind[0]}{index}", **one}))


if __name__ == "__main__":
    main()
