#!/usr/bin/env python3
"""The house rules as a test: python3 tests/tidy/tidy.py [ROOT]. Each finding says what to do.

Rules and exceptions are data in rules.py; test_tidy.py plants one violation of each.
"""

import pathlib
import re
import sys
from typing import NamedTuple

import c_source
import commits
import prose
import rooms
import rules

SKIPPED_FOLDERS = {".git", "__pycache__", "demo", "fixtures"}
C_SUFFIXES = {".c", ".h", ".cu"}
TEXT_SUFFIXES = C_SUFFIXES | {".py", ".sh", ".build", ".yaml", ".md", ""}
WIDE_SUFFIXES = {".md", ".yaml", ""}  # tables, sources and licences may be wider than code
PHRASES = [(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), advice)
           for pattern, advice in rules.PHRASES]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


class Finding(NamedTuple):
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Source:
    """One file of the tree: its path from the root, its text, and what the rules ask of it."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.suffix = pathlib.PurePosixPath(path).suffix
        self.is_c = self.suffix in C_SUFFIXES
        self.code = c_source.without_comments_and_strings(text) if self.is_c else ""

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def finding(self, line, message):
        return Finding(self.path, line, message)


def lies_in(path, place):
    return path == place or path.startswith(place + "/")


def check_includes(source):
    if not source.is_c:
        return
    home = rooms.room_of(source.path)
    outside = any(lies_in(source.path, folder) for folder in rules.OUTSIDE)
    for match in INCLUDE.finditer(source.text):
        quote, target = match.groups()
        line = source.line_of(match.start())
        if quote == "<" and (rooms.room_of(target) or target == "build_config.h"
                             or any(lies_in(target, folder) for folder in rules.OUTSIDE)):
            yield source.finding(line, f'write "{target}": angle brackets are for the headers of '
                                 "other projects")
        elif quote == "<":
            wrappers = rules.FOREIGN_HEADERS.get(target)
            if wrappers is not None and not any(lies_in(source.path, w) for w in wrappers):
                yield source.finding(line, f"<{target}> is wrapped by "
                                     f"{', '.join(wrappers) or 'nobody'}: call the wrapper")
        elif "/" not in target and target != "build_config.h" and not outside:
            yield source.finding(line, f'write "folder/{target}": includes are from the root')
        elif not outside and home is None:
            yield source.finding(line, "this folder is not in the include table (rules.py)")
        elif not outside and not may_include(home, target):
            yield source.finding(line, f"{home} may not include {target}; it may include "
                                 f"{', '.join(rules.MAY_INCLUDE[home]) or 'only itself'}. "
                                 "Move the code up, or pass the value down")


def may_include(home, target):
    if target == "build_config.h":
        return True
    places = (home, *rules.MAY_INCLUDE[home])
    return target in places or rooms.room_of(target) in places


def check_guard(source):
    if source.suffix != ".h":
        return
    stem = source.path.removeprefix("runtime/").removesuffix(".h")
    guard = "SKEP_" + re.sub(r"\W", "_", stem).upper() + "_H"
    lines = [line for line in source.code.splitlines() if line.strip()]
    if len(lines) < 3 or lines[0] != f"#ifndef {guard}" or lines[1] != f"#define {guard}":
        yield source.finding(1, f"guard the header with #ifndef {guard} / #define {guard}")
    elif lines[-1].strip() != "#endif":
        yield source.finding(1, "nothing may follow the guard's #endif")


def check_calls(source):
    if not source.is_c:
        return
    called = set(re.findall(r"\w+(?=\s*\()", source.code))
    for advice, names, places in rules.FORBIDDEN_CALLS:
        if called.isdisjoint(names.split()) or any(lies_in(source.path, place) for place in places):
            continue
        # Not a member, and not the format attribute's archetype.
        pattern = rf"(?<![\w.>])({'|'.join(names.split())})\s*\("
        for match in re.finditer(pattern, source.code):
            yield source.finding(source.line_of(match.start()), f"{match.group(1)}: {advice}")


def check_names(source):
    stem = pathlib.PurePosixPath(source.path).stem
    for word in re.split(r"[_\W]+", stem.lower()):
        if word in rules.EMPTY_WORDS:
            yield source.finding(1, f"file name with '{word}': {rules.EMPTY_WORDS[word]}")
    if not source.is_c:
        return
    code = INCLUDE.sub(c_source.blank, source.code)
    for match in re.finditer(r"\b[A-Za-z_]\w*\b", code):
        for word in match.group().lower().split("_"):
            if word in rules.EMPTY_WORDS:
                yield source.finding(source.line_of(match.start()),
                                     f"'{match.group()}': {rules.EMPTY_WORDS[word]}")
    for match in re.finditer(r"\btypedef\s+(struct|enum|union)\s*(\w*)\s*\{([^}]*)\}", code):
        is_identity = match.group(1) == "struct" and match.group(3).count(";") == 1 \
            and not re.search(r"[,{]", match.group(3))
        if not is_identity:
            yield source.finding(source.line_of(match.start()),
                                 f"no typedef: write '{match.group(1)} name' where it is used")


def check_lengths(source):
    lines = source.text.splitlines()
    if source.suffix not in WIDE_SUFFIXES:
        yield from check_columns(source, lines)
        yield from check_allowed_length(source, len(lines), rules.FILE_LINES_MAX,
                                        source.path in rules.LONG_FILES)
    if source.is_c:
        for function in c_source.functions(source.text):
            length = function.last_line - function.first_line + 1
            allowed = (source.path, function.name) in rules.LONG_FUNCTIONS
            if length > rules.FUNCTION_LINES_MAX and not allowed:
                yield source.finding(function.first_line, f"{function.name} has {length} lines, "
                                     f"more than {rules.FUNCTION_LINES_MAX}: give its parts names")
            elif length <= rules.FUNCTION_LINES_MAX and allowed:
                yield source.finding(function.first_line, f"{function.name} is short enough now: "
                                     "remove it from LONG_FUNCTIONS")


def check_columns(source, lines):
    if source.path in rules.WIDE_FILES:
        return
    for number, line in enumerate(lines, 1):
        if len(line) > rules.COLUMNS_MAX:
            yield source.finding(number, f"{len(line)} columns; break the line at "
                                 f"{rules.COLUMNS_MAX}")


def check_allowed_length(source, length, limit, allowed):
    if length > limit and not allowed:
        yield source.finding(limit, f"{length} lines, more than {limit}: split the file by job, "
                             "or give the reason in rules.py, LONG_FILES")
    elif length <= limit and allowed:
        yield source.finding(1, "short enough now: remove it from LONG_FILES")


def check_recursion(source):
    if not source.is_c:
        return
    for function in c_source.functions(source.text):
        if (source.path, function.name) in rules.RECURSIVE_FUNCTIONS:
            continue
        if function.name in function.body \
                and re.search(rf"(?<![\w.>]){function.name}\s*\(", function.body):
            yield source.finding(function.first_line, f"{function.name} calls itself: write a "
                                 "loop with a named bound")


def check_words(source):
    if lies_in(source.path, "tests/tidy"):
        return
    for pattern, advice in rules.FORBIDDEN_WORDS:
        for match in re.finditer(pattern, source.text, re.MULTILINE):
            yield source.finding(source.line_of(match.start()),
                                 f"'{match.group().strip()}': {advice}")


def check_phrases(source):
    if not any(lies_in(source.path, folder) for folder in rules.PLAIN_FOLDERS):
        return
    for first_line, text in prose.passages(source):
        for pattern, advice in PHRASES:
            for match in pattern.finditer(text):
                if not match.groupdict().get("keep"):
                    phrase = " ".join(match.group().split())
                    line = first_line + text.count("\n", 0, match.start())
                    yield source.finding(line, f"'{phrase}': write {advice}")


def check_wrapping(source):
    if source.suffix != ".md" or not any(lies_in(source.path, place)
                                         for place in rules.WRAPPED_DOCS):
        return
    for line, columns in prose.wide_lines(source.text, rules.COLUMNS_MAX):
        yield source.finding(line, f"{columns} columns; wrap prose at {rules.COLUMNS_MAX}")


def check_whitespace(source):
    for number, line in enumerate(source.text.split("\n"), 1):
        if line != line.rstrip() and source.suffix != ".md":
            yield source.finding(number, "remove the blanks at the end of the line")
        is_indented = source.is_c or source.suffix in {".py", ".build", ".yaml"}
        if is_indented and line.lstrip(" ").startswith("\t"):
            yield source.finding(number, "indent with spaces")
    if source.text and not source.text.endswith("\n"):
        yield source.finding(source.text.count("\n") + 1, "end the file with a newline")


FILE_RULES = (check_includes, check_guard, check_calls, check_names, check_lengths,
              check_recursion, check_words, check_phrases, check_wrapping, check_whitespace)


def check_built(sources):
    """Every C source is named in a meson.build of its folder or of one above it."""
    builds = {pathlib.PurePosixPath(source.path).parent: source.text for source in sources
              if source.path.endswith("meson.build")}
    for source in sources:
        path = pathlib.PurePosixPath(source.path)
        if path.suffix != ".c" or source.path in rules.UNBUILT_FILES:
            continue
        mentions = re.compile(rf"\b{re.escape(path.stem)}(\.c)?\b|"
                              rf"\b{re.escape(path.stem.removeprefix('test_'))}'")
        if not any(mentions.search(builds.get(folder, "")) for folder in path.parents):
            yield source.finding(1, "no meson.build names it: build it or delete it")


def read_tree(root):
    sources = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(part in SKIPPED_FOLDERS or part.startswith("build") for part in parts[:-1]):
            continue
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name != ".git":
            text = path.read_text(encoding="utf-8", errors="replace")
            sources.append(Source("/".join(parts), text))
    return sources


def check_subjects(root):
    for commit, subject in commits.subjects(root, rules.SUBJECT_BASE):
        mistake = commits.mistake(subject)
        if mistake is not None:
            yield Finding(f"commit {commit}", 1, f"'{subject}': {mistake}")


def check_tree(root):
    sources = read_tree(pathlib.Path(root))
    findings = [finding for source in sources for rule in FILE_RULES for finding in rule(source)]
    findings += check_built(sources)
    findings += [Finding(*place) for check in rooms.CHECKS for place in check(sources)]
    findings += check_subjects(root)
    paths = {source.path for source in sources}
    excepted = {entry if isinstance(entry, str) else entry[0]
                for table in (rules.LONG_FILES, rules.WIDE_FILES, rules.LONG_FUNCTIONS,
                              rules.RECURSIVE_FUNCTIONS, rules.UNBUILT_FILES) for entry in table}
    findings += [Finding(path, 1, "an exception in rules.py names it, but it is gone")
                 for path in sorted(excepted - paths)]
    findings += [Finding(place, 1, "rules.py lists it as rewritten, but the tree has no such path")
                 for place in sorted({*rules.PLAIN_FOLDERS, *rules.WRAPPED_DOCS})
                 if not any(lies_in(path, place) for path in paths)]
    return findings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
