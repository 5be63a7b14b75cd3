"""Write the target profiles into a C source: embed_profiles.py OUT.c PROFILE.yaml..."""

import json
import pathlib
import sys


def c_string(line):
    """A line as a C string literal. Profiles are ASCII, which JSON and C escape alike."""
    return json.dumps(line)


def main(out, paths):
    rows = []
    for path in sorted(paths, key=lambda p: p.stem):
        text = path.read_text(encoding="ascii")
        literal = "\n     ".join(c_string(line) for line in text.splitlines(keepends=True))
        rows.append(f'    {{"{path.stem}",\n     {literal},\n     {len(text)}}},\n')
    out.write_text(
        '#include "targets/profiles.h"\n\n'
        "const struct embedded_profile EMBEDDED_PROFILES[] = {\n" + "".join(rows) + "};\n"
        f"const int EMBEDDED_PROFILE_COUNT = {len(rows)};\n"
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]])
