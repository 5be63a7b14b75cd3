"""Commit subjects: `area: imperative subject`, at most SUBJECT_MAX characters."""

import re
import subprocess

import rules

SUBJECT = re.compile(r"[a-z][\w./+-]*(?:, [a-z][\w./+-]*)*: (?P<first>\S+)(?: .*)?")


def mistake(subject):
    """What to change in a subject, or None."""
    if len(subject) > rules.SUBJECT_MAX:
        return f"{len(subject)} characters, more than {rules.SUBJECT_MAX}: move detail to the body"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "write 'area: imperative subject'"
    if subject.endswith("."):
        return "no full stop at the end of a subject"
    first = match.group("first")
    if not is_imperative(first):
        return f"'{first}' is not an imperative: begin with a verb, as in 'add', 'fix', 'move'"
    return None


def is_imperative(word):
    word = word.lower().rstrip(",")
    if not re.fullmatch(r"[a-z]+(?:-[a-z]+)*", word) or word in rules.NOT_VERBS:
        return False
    is_inflected = re.search(r"ed$|ing$|[^s]s$", word) is not None
    return not is_inflected or word in rules.INFLECTED_LOOKING_VERBS


def git(root, *arguments):
    """Output of a git command in `root`, or None when it fails or there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True,
                              check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def subjects(root, base):
    """(hash, subject) of commits after `base`; none in a tree without git or full history."""
    prefix = git(root, "rev-parse", "--show-prefix")
    if prefix is None or prefix.strip() or git(root, "merge-base", "--is-ancestor", base,
                                               "HEAD") is None:
        return []
    log = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD") or ""
    return [tuple(line.split(" ", 1)) for line in log.splitlines() if " " in line]
