"""Apply the example of docs/PORTING.md, "An operation", to copies of the files that it names.

Each fenced block follows a line that ends in one of

    New file `PATH`:
    In `PATH`, before `ANCHOR`:
    In `PATH`, instead of `ANCHOR`:

An anchor is the beginning of exactly one line. `before` inserts the block above that line, `instead
of` replaces the line. The copies are written to OUT flat, with _ for / in their paths.

    apply_example.py ROOT OUT FILE...

FILE: the copies that the build wants, by their flat names; one that the example lacks is an error.
"""

import pathlib
import re
import sys

SECTION = re.compile(r"^## An operation\n(.*?)^## ", re.M | re.S)
BLOCK = re.compile(r"^(?P<place>[^\n]*`:)\n\n```\w+\n(?P<text>.*?)^```$", re.M | re.S)
PLACE = re.compile(r"(New file `(?P<new>[^`]+)`|"
                   r"In `(?P<path>[^`]+)`, (?P<how>before|instead of) `(?P<anchor>[^`]+)`):$")


def place_of(block):
    place = PLACE.search(block["place"])
    if place is None:
        sys.exit(f"docs/PORTING.md: {block['place']!r} does not say where its block goes")
    return place


def insert(text, place, block):
    lines = text.splitlines(keepends=True)
    found = [i for i, line in enumerate(lines) if line.startswith(place["anchor"])]
    if len(found) != 1:
        sys.exit(f"docs/PORTING.md: {len(found)} lines of {place['path']} begin with "
                 f"{place['anchor']!r}; one must")
    end = found[0] + (1 if place["how"] == "instead of" else 0)
    return "".join(lines[:found[0]]) + block + "".join(lines[end:])


def apply(root):
    """The files of the example: path, text."""
    section = SECTION.search((root / "docs/PORTING.md").read_text())[1]
    fences = section.count("```") // 2
    files = {}
    blocks = 0
    for block in BLOCK.finditer(section):
        blocks += 1
        place = place_of(block)
        if place["new"]:
            files[place["new"]] = block["text"]
            continue
        path = place["path"]
        text = files[path] if path in files else (root / path).read_text()
        files[path] = insert(text, place, block["text"])
    if blocks != fences:
        sys.exit(f"docs/PORTING.md: {fences} blocks, {blocks} of which say where they go")
    return files


def main(root, out, *wanted):
    files = {path.replace("/", "_"): text for path, text in apply(pathlib.Path(root)).items()}
    for name in (pathlib.Path(path).name for path in wanted):
        if name not in files:
            sys.exit(f"docs/PORTING.md: the example has no file {name}")
        (pathlib.Path(out) / name).write_text(files[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
