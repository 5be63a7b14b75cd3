"""Just enough of C's surface for the rules: text without comments, functions with their lines."""

import re
from typing import NamedTuple

# A comment, a string or a character constant, whichever begins first.
OPAQUE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
INK = re.compile(r"[^\n]")
SIGNATURE_NAME = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


class Function(NamedTuple):
    name: str
    first_line: int
    last_line: int
    body: str


def blank(match):
    """Spaces of the same shape, so that offsets and lines stay true."""
    return INK.sub(" ", match.group())


def without_comments_and_strings(text):
    return OPAQUE.sub(lambda match: '""' + blank(match)[2:]
                      if match.group().startswith('"') else blank(match), text)


def comments(text):
    """(line, comment) for each."""
    for match in OPAQUE.finditer(text):
        if match.group().startswith("/"):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def is_function_head(head):
    head = head.rstrip()
    return head.endswith(")") and "=" not in head and SIGNATURE_NAME.search(head) is not None


def functions(text):
    """Function definitions at file level, in order. `text` may still hold comments."""
    code = DIRECTIVE.sub(blank, without_comments_and_strings(text))
    code = ATTRIBUTE.sub(blank, code)
    depth, head_begin, open_at, head = 0, 0, 0, None
    for match in re.finditer("[{};]", code):
        position, character = match.start(), match.group()
        if character == "{":
            if depth == 0:
                candidate = code[head_begin:position]
                head = candidate if is_function_head(candidate) else None
                open_at = position
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                if head is not None:
                    first = head_begin + len(head) - len(head.lstrip())
                    yield Function(
                        SIGNATURE_NAME.search(head).group(1),
                        code.count("\n", 0, first) + 1,
                        code.count("\n", 0, position) + 1,
                        code[open_at : position + 1],
                    )
                head_begin = position + 1
        elif character == ";" and depth == 0:
            head_begin = position + 1
