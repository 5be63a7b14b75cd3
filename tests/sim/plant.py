"""Copy a source file with a mistake in it: plant.py SOURCE COPY {RIGHT WRONG} ...

Each RIGHT stands in the source exactly once, so that no mistake is lost when the source changes.
"""

import sys


def main():
    source, copy, *texts = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        code = file.read()
    for right, wrong in zip(texts[::2], texts[1::2], strict=True):
        if code.count(right) != 1:
            sys.exit(f"{source}: {right!r} stands there {code.count(right)} times; plant it anew")
        code = code.replace(right, wrong)
    with open(copy, "w", encoding="utf-8") as file:
        file.write(code)


main()
