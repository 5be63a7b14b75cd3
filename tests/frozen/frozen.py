"""Lines held against a file of this folder: what a change of structure must leave as it is.

    frozen.py STEM PROGRAM   the lines that the program prints, against STEM.txt

SKEP_FROZEN_WRITE=1 rewrites the file and fails, so that no test passes without a comparison. That
is right only where the change is meant to alter a plan, a form or the contract; the commit then
explains it.
"""
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent


def differences(expected, actual):
    """A text for each line that is missing, added or different."""
    for number in range(max(len(expected), len(actual))):
        pair = [lines[number] if number < len(lines) else "(no line)"
                for lines in (expected, actual)]
        if pair[0] != pair[1]:
            yield f"{number + 1}: differs\n    expected  {pair[0]}\n    actual    {pair[1]}"


def holds(stem, actual):
    """Whether STEM.txt has exactly these lines; prints each that differs."""
    path = FOLDER / f"{stem}.txt"
    if "SKEP_FROZEN_WRITE" in os.environ:
        path.write_text("".join(line + "\n" for line in actual))
        print(f"{path}: rewritten, not compared; run again without SKEP_FROZEN_WRITE", flush=True)
        return False
    expected = path.read_text().splitlines() if path.exists() else []
    found = list(differences(expected, actual))
    for text in found:
        print(f"{path}:{text}", flush=True)
    return not found


def main():
    stem, program = sys.argv[1:]
    result = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{program}: ended with {result.returncode}")
    sys.exit(0 if holds(stem, result.stdout.splitlines()) else 1)


if __name__ == "__main__":
    main()
