"""Structs of C headers, and which file assigns each of their fields."""

import re
from typing import NamedTuple

import c_source

STRUCT = re.compile(r"\bstruct\b\s*(?!__attribute__)(\w*)\s*"
                    r"(?:__attribute__\s*\(\([^)]*\)\)\s*)?\{")
DECLARED = re.compile(r"\bstruct\s+(\w+)\s*(\**)\s*(?:const\s+)?\**\s*(?:restrict\s+)?(\w+)")
MEMBER = r"[A-Za-z_]\w*(?:\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])*"
TARGET = re.compile(rf"(?<![\w.>\]])\(?\*?\(?({MEMBER}(?:(?:->|\.){MEMBER})+)\)?\s*"
                    r"(?:=(?!=)|\+=|-=|\*=|/=|\|=|&=|\^=|%=|<<=|>>=|\+\+|--)")
PREFIXED = re.compile(rf"(?:\+\+|--)({MEMBER}(?:(?:->|\.){MEMBER})+)")
CHAIN = rf"{MEMBER}(?:(?:->|\.){MEMBER})+"
METHOD = re.compile(r"\)\s*(?:const\s*|noexcept\s*|override\s*)*\{")
CHAIN_OR_NAME = rf"{MEMBER}(?:(?:->|\.){MEMBER})*"
WHOLE = re.compile(rf"(?:^|[;{{}}])[ \t]*\*\s*({CHAIN_OR_NAME})\s*=(?!=)|"
                   rf"\b(?:memset|memcpy)\(\s*&?\s*({CHAIN_OR_NAME})\s*,", re.MULTILINE)
ATOMIC = re.compile(rf"\batomic_(?:store|fetch_\w+|exchange)\w*\(\s*&({CHAIN})")


class Struct(NamedTuple):
    name: str
    path: str
    line: int
    fields: dict  # name: the tag of its struct, or None


def matching_brace(code, opening):
    depth = 0
    for position in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code)


def without_methods(body):
    """The locals of a C++ struct's inline methods are no fields."""
    body = c_source.ATTRIBUTE.sub(c_source.blank, body)
    while match := METHOD.search(body):
        begin = max(body.rfind(mark, 0, match.start()) for mark in ";{}") + 1
        body = body[:begin] + body[matching_brace(body, match.end() - 1) + 1:]
    return body


def fields_of(body):
    """Field names in order, with the struct tag of each; those of anonymous members count too."""
    flat = re.sub(r"\b(?:struct|union)\s*\w*\s*\{", "", without_methods(body))
    flat = re.sub(r"\benum\s*\w*\s*\{[^}]*\}", "int", flat)
    flat = re.sub(r"\(\s*\*\s*(\w+)\s*\)\s*\([^;]*\)", r" \1", flat)
    found = {}
    for statement in flat.replace("}", ";").split(";"):
        tag = re.search(r"\bstruct\s+(\w+)", statement)
        for declarator in statement.split(","):
            name = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+\s*)?$", declarator.strip())
            words = re.findall(r"\w+", statement)
            if name and len(words) > 1:
                found[name.group(1)] = tag.group(1) if tag else None
    return found


def structs_of(path, text):
    code = c_source.without_comments_and_strings(text)
    code = c_source.DIRECTIVE.sub(c_source.blank, code)
    for match in STRUCT.finditer(code):
        end = matching_brace(code, match.end() - 1)
        line = code.count("\n", 0, match.start()) + 1
        variable = re.match(r"\W*(\w*)", code[end + 1:]).group(1)
        yield Struct(match.group(1) or f"{variable} (without a tag, line {line})", path, line,
                     fields_of(code[match.end():end]))


def assigned_in(text, structs):
    """(tag, field, line) for each assignment whose target's struct is known."""
    code = c_source.without_comments_and_strings(text)
    lines = code.split("\n")
    for function in c_source.functions(text):
        body = "\n".join(lines[function.first_line - 1:function.last_line])
        variables = {name: tag for tag, _, name in DECLARED.findall(body)}
        for pattern in (TARGET, PREFIXED, ATOMIC):
            for match in pattern.finditer(body):
                found = owner_of(match.group(1), variables, structs)
                if found:
                    yield *found, function.first_line + body.count("\n", 0, match.start())


def overwritten_in(text, structs):
    """(tag, line) for each `*x = ...` and each memset or memcpy to a struct through a pointer."""
    code = c_source.without_comments_and_strings(text)
    lines = code.split("\n")
    for function in c_source.functions(text):
        body = "\n".join(lines[function.first_line - 1:function.last_line])
        pointers = {name: tag for tag, stars, name in DECLARED.findall(body) if stars}
        for match in WHOLE.finditer(body):
            tag = tag_of(match.group(1) or match.group(2), pointers, structs)
            if tag in structs:
                yield tag, function.first_line + body.count("\n", 0, match.start())


def tag_of(target, variables, structs):
    """The tag of the struct that `a->b.c[i]` is, or None."""
    names = [re.match(r"\w+", part).group() for part in re.split(r"->|\.", without_indices(target))]
    tag = variables.get(names[0])
    for name in names[1:]:
        tag = structs[tag].fields.get(name) if tag in structs else None
    return tag


def owner_of(target, variables, structs):
    """The struct and the field that `a->b.c[i]` ends in, or None."""
    names = [re.match(r"\w+", part).group() for part in re.split(r"->|\.", without_indices(target))]
    tag = variables.get(names[0])
    for name in names[1:-1]:
        tag = structs[tag].fields.get(name) if tag in structs else None
    return (tag, names[-1]) if tag in structs and names[-1] in structs[tag].fields else None


def without_indices(target):
    while "[" in target:
        target = re.sub(r"\[[^\[\]]*\]", "", target)
    return target
