"""Derive the Unicode data of runtime/tokenizer/unicode from the Python package tokenizers.

    v/bin/pip install tokenizers==0.23.3
    v/bin/python tools/unicode_tables.py runtime/tokenizer/unicode

Libraries know different versions of Unicode: PCRE2, utf8proc and this package each disagree about
thousands of code points. The tokenizers must agree with the package, so all data come from its
answers. The script writes unicode_classes.c and unicode_forms.c, whose bytes unicode.c reads.

Classes: runs of code points with the same class, from U+0000 on, without the surrogates. A run is
its class and its length, both as varints. A class is a general category and three flags.
Forms: first the canonical combining classes as {gap, run, class}, ended by a run of 0. Then
decompositions {gap, count * 2 + composes, code points}, ended by a count of 0. `composes` is 1 when
NFC gives the code point back. All numbers are varints: seven bits a byte, the lowest first.
"""

import pathlib
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Co Cn").split()
SCALARS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
SPACE_CODES = {0x85, *range(9, 14)}  # the white space that is not in a category Z
GRAVE = "\u0300"
HANGUL = range(0xAC00, 0xD7A4)
WORDS_A_LINE = 8
PACKAGE_VERSION = "0.23.3"
HEADER = """\
/* The compact Unicode tables: tools/unicode_tables.py writes this file, and describes the form of
 * the tables. */
#ifndef SKEP_TOKENIZER_UNICODE_UNICODE_DATA_H
#define SKEP_TOKENIZER_UNICODE_UNICODE_DATA_H

#include <stdint.h>

enum {{
{0}
}};

{1}

#endif
"""


def members(pattern):
    """The positions in SCALARS whose characters match `pattern` by the package's regex engine."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    pieces = split.pre_tokenize_str("".join(map(chr, SCALARS)))
    return {index for _, (begin, end) in pieces for index in range(begin, end)}


def numeric_characters():
    """The characters that the pre-tokenizer Digits takes for digits."""
    text = "".join(chr(point) + "a" for point in SCALARS)
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {begin // 2 for _, (begin, end) in pieces if end - begin == 1 and begin % 2 == 0
            and end < len(text)} - {SCALARS.index(ord("a"))}


def word_characters():
    """The characters that make an added token with single_word part of a word."""
    tokenizer = Tokenizer(models.BPE({"x": 0}, []))
    tokenizer.add_tokens([AddedToken("Q", single_word=True, normalized=False)])
    texts = [chr(point) + "Q" for point in SCALARS]
    return {index for index, encoding in enumerate(tokenizer.encode_batch(texts))
            if 1 not in encoding.ids}


def white_space():
    """The characters that an added token with rstrip removes after it."""
    tokenizer = Tokenizer(models.BPE({"x": 0}, []))
    tokenizer.add_tokens([AddedToken("Q", rstrip=True, normalized=False)])
    texts = ["Q" + chr(point) for point in SCALARS]
    return {index for index, encoding in enumerate(tokenizer.encode_batch(texts))
            if (0, 2) in encoding.offsets}


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def class_table():
    category = {}
    for number, name in enumerate(CATEGORIES):
        for index in members(rf"\p{{{name}}}+"):
            assert index not in category, name
            category[index] = number
    assert len(category) == len(SCALARS)
    spaces, regex_word, digits = members(r"\s+"), members(r"\w+"), members(r"\d+")
    assert spaces == white_space()
    assert spaces == {index for index, number in category.items()
                      if CATEGORIES[number][0] == "Z" or SCALARS[index] in SPACE_CODES}
    assert digits == {index for index, number in category.items() if CATEGORIES[number] == "Nd"}
    # within brackets, \w leaves out those in the category No; pattern_parse.c does so, too
    assert members(r"[\w]+") == {index for index in regex_word
                                 if CATEGORIES[category[index]] != "No"}
    numeric, word = numeric_characters(), word_characters()
    out, last, run = bytearray(), None, 0
    for index in range(len(SCALARS)):
        value = (category[index] << 3 | (index in numeric) | (index in regex_word) << 1
                 | (index in word) << 2)
        if value != last and run:
            out += varint(last) + varint(run)
            run = 0
        last = value
        run += 1
    return bytes(out + varint(last) + varint(run))


def combining_classes():
    """{code point: class} for all that NFD reorders, by comparison with one mark of each class."""
    nfd = normalizers.NFD().normalize_str

    def swaps(first, second):
        return nfd(first + second) == second + first != first + second

    marks = {unicodedata.combining(GRAVE): GRAVE}
    for point in SCALARS:  # Python may know marks that the package does not
        number = unicodedata.combining(chr(point))
        if number and (swaps(GRAVE, chr(point)) or swaps(chr(point), GRAVE)):
            marks.setdefault(number, chr(point))
    lowest, highest = marks[min(marks)], marks[max(marks)]
    found = {}
    for point in SCALARS:
        character = chr(point)
        if nfd(character) == character and (swaps(highest, character) or swaps(character, lowest)):
            same = [number for number, mark in marks.items()
                    if not swaps(mark, character) and not swaps(character, mark)]
            assert len(same) == 1, hex(point)
            found[point] = same[0]
    return found


def form_table():
    nfd, nfc = normalizers.NFD().normalize_str, normalizers.NFC().normalize_str
    out, end = bytearray(), 0
    classes = combining_classes()
    points = sorted(classes)
    while points:
        begin, run = points[0], 1
        while run < len(points) and points[run] == begin + run and \
                classes[points[run]] == classes[begin]:
            run += 1
        out += varint(begin - end) + varint(run) + varint(classes[begin])
        end = begin + run
        points = points[run:]
    out += varint(0) + varint(0)
    end = 0
    for point in SCALARS:
        parts = nfd(chr(point))
        if parts == chr(point) or point in HANGUL:
            continue
        composes = nfc(chr(point)) == chr(point)
        if composes:
            first = nfc(parts[:-1])
            assert len(first) == 1 and nfc(first + parts[-1]) == chr(point), hex(point)
        out += varint(point - end) + varint(len(parts) * 2 + composes)
        out += b"".join(varint(ord(part)) for part in parts)
        end = point + 1
    return bytes(out + varint(0) + varint(0))


def write_table(folder, name, what, table):
    padded = table + bytes(-len(table) % 4)
    words = [int.from_bytes(padded[at:at + 4], "little") for at in range(0, len(padded), 4)]
    rows = [", ".join(f"0x{word:08x}" for word in words[at:at + WORDS_A_LINE])
            for at in range(0, len(words), WORDS_A_LINE)]
    text = f"""/* {what}, in the form that
 * tools/unicode_tables.py describes; it made this file from tokenizers {PACKAGE_VERSION}. */
#include "runtime/tokenizer/unicode/unicode_data.h"

// clang-format off
const uint32_t {name}[{name.upper()}_WORDS] = {{
    {(","+chr(10)+"    ").join(rows)}}};
"""
    (folder / f"{name}.c").write_text(text)
    return len(words)


def main():
    folder = pathlib.Path(sys.argv[1])
    sizes = {
        "unicode_classes": write_table(folder, "unicode_classes", "Classes of all code points",
                                       class_table()),
        "unicode_forms": write_table(folder, "unicode_forms",
                                     "Canonical combining classes and decompositions",
                                     form_table()),
    }
    values = {name: f"{name.upper()}_WORDS = {count}," for name, count in sizes.items()}
    width = max(map(len, values.values()))
    constants = "\n".join(f"    {value:{width}} /* size of {name} in 32-bit words */"
                          for name, value in values.items())
    externs = "\n".join(f"extern const uint32_t {name}[{name.upper()}_WORDS];" for name in sizes)
    (folder / "unicode_data.h").write_text(HEADER.format(constants, externs))
    print(*(f"{name}: {4 * count} bytes" for name, count in sizes.items()), sep="\n")


if __name__ == "__main__":
    main()
