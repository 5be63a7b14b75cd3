"""Rules over the whole product: rooms and their doors, sizes of structs, owners of fields."""

import collections
import pathlib
import re

import c_source
import rules
import structs

PUBLIC = re.compile(r"^ \* public +(.*(?:\n \* {3,}.*)*)", re.MULTILINE)
MAP = "docs/ARCHITECTURE.md"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def room_of(path):
    folder = str(pathlib.PurePosixPath(path).parent)
    return folder if folder in rules.MAY_INCLUDE else None


def product(sources):
    return [source for source in sources if source.is_c and room_of(source.path)]


def code_lines(source):
    return sum(1 for line in source.code.split("\n") if line.strip())


def check_bounds(sources):
    files, lines = collections.Counter(), collections.Counter()
    for source in product(sources):
        files[room_of(source.path)] += 1
        lines[room_of(source.path)] += code_lines(source)
    for room in files:
        lines_max, _ = rules.LARGE_ROOMS.get(room, (rules.ROOM_LINES_MAX, ""))
        for what, count, limit in (("files", files[room], rules.ROOM_FILES_MAX),
                                   ("lines of code", lines[room], lines_max)):
            if count > limit:
                yield room, 1, f"{count} {what}, more than {limit}: split the room by job"


def door_of(room):
    return f"{room}/{pathlib.PurePosixPath(room).name}.h"


def public_headers(sources):
    """room: the paths that other rooms may include, or None where the room has no door."""
    texts = {source.path: source.text for source in product(sources)}
    found = {}
    for room in rules.MAY_INCLUDE:
        text = texts.get(door_of(room))
        if text is None or room in rules.NO_DOOR:
            found[room] = None
            continue
        listed = PUBLIC.search(text[:text.find("*/")])
        names = re.findall(r"[\w.]+\.h", listed.group(1)) if listed else []
        found[room] = {door_of(room), *(f"{room}/{name}" for name in names)}
    return found


def check_doors(sources):
    doors = public_headers(sources)
    paths = {source.path for source in sources}
    rooms = {room_of(path) for path in paths}
    for room, headers in doors.items():
        if headers is None:
            if room not in rules.NO_DOOR and room in rooms:
                yield room, 1, f"no {door_of(room)}: one header explains the room"
            continue
        for header in sorted(headers - paths):
            yield door_of(room), 1, f"its public line names {header}, which is not there"
    for source in product(sources):
        for match in INCLUDE.finditer(source.text):
            target = match.group(1)
            room = room_of(target)
            if room not in (None, room_of(source.path)) and doors[room] is not None \
                    and target not in doors[room]:
                yield (source.path, source.line_of(match.start()),
                       f"{target} is private to {room}: include what {door_of(room)} names")


def structs_in(sources):
    found = {}
    for source in product(sources):
        for struct in structs.structs_of(source.path, source.text):
            found.setdefault(struct.name, struct)
    return found


def check_struct_sizes(sources):
    found = structs_in(sources)
    mentions = collections.Counter()
    for source in product(sources):
        mentions.update(re.findall(r"\bstruct\s+(\w+)", source.code))
    for struct in found.values():
        size = len(struct.fields)
        for tag in {tag for tag in struct.fields.values() if tag in found}:
            # Named at its definition and in this struct only: a part that nothing else uses.
            if mentions[tag] == 2 and found[tag].path == struct.path:
                size += len(found[tag].fields)
        if size > rules.STRUCT_FIELDS_MAX and struct.name not in rules.WIDE_STRUCTS:
            yield (struct.path, struct.line, f"struct {struct.name} has {size} fields, more than "
                   f"{rules.STRUCT_FIELDS_MAX}: group those that belong together")


def check_field_owners(sources):
    found = structs_in(sources)
    owners = collections.defaultdict(dict)
    overwritten = collections.defaultdict(dict)
    for source in product(sources):
        if source.suffix != ".c":
            continue
        for tag, field, line in structs.assigned_in(source.text, found):
            owners[tag, field].setdefault(source.path, line)
        for tag, line in structs.overwritten_in(source.text, found):
            overwritten[tag].setdefault(source.path, line)
    for (tag, field), places in sorted(owners.items()):
        owned = any(found[tag].path.startswith(place) for place in rules.OWNED_STRUCTS)
        if owned and found[tag].path.endswith(".h") and len(places) > 1 \
                and tag not in rules.VALUE_STRUCTS:
            yield (found[tag].path, found[tag].line, f"{tag}.{field} is assigned in "
                   + ", ".join(f"{path}:{line}" for path, line in sorted(places.items()))
                   + ": let one file own it")
    for tag, places in sorted(overwritten.items()):
        files = {*places, *(path for pair in owners if pair[0] == tag for path in owners[pair])}
        owned = any(found[tag].path.startswith(place) for place in rules.OWNED_STRUCTS)
        if owned and found[tag].path.endswith(".h") and len(files) > 1 \
                and tag not in {*rules.VALUE_STRUCTS, *rules.OVERWRITTEN_STRUCTS}:
            yield (found[tag].path, found[tag].line, f"{tag} is overwritten in "
                   + ", ".join(f"{path}:{line}" for path, line in sorted(places.items()))
                   + f" and assigned in {', '.join(sorted(files))}: let one file own it")


def check_function_lengths(sources):
    lengths = sorted(function.last_line - function.first_line + 1
                     for source in product(sources)
                     for function in c_source.functions(source.text))
    if not lengths:
        return
    tail = lengths[int(len(lengths) * 0.95)]
    if tail > rules.FUNCTION_LINES_P95:
        yield ".", 1, f"one function in twenty is longer than {tail} lines, more than " \
                      f"{rules.FUNCTION_LINES_P95}: split the longest"


def check_map(sources):
    """docs/ARCHITECTURE.md is short, and its table is the one that the tests read."""
    text = next((source.text for source in sources if source.path == MAP), None)
    if text is None:
        return
    if text.count("\n") > rules.MAP_LINES_MAX:
        yield MAP, 1, f"{text.count(chr(10))} lines, more than {rules.MAP_LINES_MAX}: shorten it"
    rows = {}
    for line in text.split("\n"):
        cells = line.split("|")
        for room in re.findall(r"`([^`]+)`", cells[1]) if len(cells) == 5 else ():
            if room in rules.MAY_INCLUDE:
                rows[room] = tuple(re.findall(r"`([^`]+)`", cells[3]))
    for room, places in rules.MAY_INCLUDE.items():
        if rows.get(room) != tuple(places):
            yield MAP, 1, f"the row of {room} must list {', '.join(places) or 'nothing'}"
    if list(rows) != [room for room in rules.MAY_INCLUDE if room in rows]:
        yield MAP, 1, "list the rooms in the order of rules.py"


CHECKS = (check_map, check_bounds, check_doors, check_struct_sizes, check_field_owners,
          check_function_lengths)
