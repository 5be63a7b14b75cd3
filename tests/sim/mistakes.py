"""Copy sources with mistakes that a test selects at run time: mistakes.py LIST FOLDER SOURCE ...

LIST holds blocks of three lines, divided by blank lines: file name, right text, wrong text ("-":
none). Right text occurs in its file exactly once. When it ends with a semicolon, the copy executes
the wrong text instead of it; otherwise it evaluates it. Every copy is written into FOLDER with
"planted_" before its name, and declares `planted_mistake`, the number of the selected block.
"""

import pathlib
import sys


def blocks(text):
    for number, block in enumerate(text.strip().split("\n\n"), start=1):
        name, right, wrong = block.split("\n")
        yield number, name, right, "" if wrong == "-" else wrong


def planted(number, right, wrong):
    if right.endswith(";"):
        return f"if (planted_mistake == {number}) {{ {wrong} }} else {{ {right} }}"
    return f"(planted_mistake == {number} ? ({wrong}) : ({right}))"


def main():
    mistakes, folder, *sources = map(pathlib.Path, sys.argv[1:])
    texts = {source.name: source.read_text(encoding="utf-8") for source in sources}
    for number, name, right, wrong in blocks(mistakes.read_text(encoding="utf-8")):
        count = texts[name].count(right)
        if count != 1:
            sys.exit(f"{mistakes}: block {number}: {right!r} occurs {count} times in {name}")
        texts[name] = texts[name].replace(right, planted(number, right, wrong))
    for name, text in texts.items():
        text = f"extern int planted_mistake;\n{text}"
        (folder / f"planted_{name}").write_text(text, encoding="utf-8")


main()
