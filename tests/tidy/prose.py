"""Text written for people, taken out of source files: comments, messages, documents.

Each passage is a line number and a text of the same shape as in the file, with everything that is
not prose (comment marks, quotes, code in backticks) blanked, so that a phrase may cross a line end.
"""

import ast
import io
import re
import tokenize

import c_source

MESSAGE = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
COMMENT_MARK = re.compile(r"^[ \t]*(?:/\*+|\*+/|\*|//|#+)|\*/|/\*", re.MULTILINE)
CODE = re.compile(r"``[^`]*``|`[^`\n]*(?:\n[^`\n]+)?`")
FENCE = re.compile(r"^ *(```|~~~)")


def passages(source):
    """(line, text) for each comment, message or paragraph of `source`."""
    if source.is_c:
        found = c_passages(source.text)
    elif source.suffix == ".md":
        found = [(1, without_fences(source.text))]
    elif source.suffix == ".py":
        found = python_passages(source.text)
    else:
        found = []
    return [(line, CODE.sub(c_source.blank, text)) for line, text in found]


def c_passages(text):
    for line, comment in c_source.comments(text):
        yield line, COMMENT_MARK.sub(c_source.blank, comment)
    code = c_source.DIRECTIVE.sub(c_source.blank, without_comments(text))
    for match in MESSAGE.finditer(code):
        message = re.sub(r"\\.", "  ", match.group()).replace('"', " ")
        yield text.count("\n", 0, match.start()) + 1, message


def without_comments(text):
    return c_source.OPAQUE.sub(
        lambda match: match.group() if match.group()[0] == '"' else c_source.blank(match), text)


def without_fences(text):
    lines, is_fenced = [], False
    for line in text.split("\n"):
        is_mark = FENCE.match(line) is not None
        lines.append("" if is_mark or is_fenced else line)
        is_fenced ^= is_mark
    return "\n".join(lines)


def python_passages(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node):
            yield node.body[0].lineno, node.body[0].value.value


def wide_lines(text, columns_max):
    """(line, columns) of Markdown prose; tables and words that cannot be broken may be wider."""
    for number, line in enumerate(without_fences(text).split("\n"), 1):
        indent = re.match(r"\s*(?:[-*>]|\d+\.)?\s*", line).end()
        can_break = " " in line[indent:].strip()
        if len(line) > columns_max and can_break and not line.lstrip().startswith("|"):
            yield number, len(line)
