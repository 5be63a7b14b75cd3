/* utf8_repair: copies bytes as UTF-8 text, and replaces ill-formed sequences by U+FFFD. */
#ifndef SKEP_CORPUS_UTF8_REPAIR_H
#define SKEP_CORPUS_UTF8_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* maximum number of bytes at the end of the input that utf8_repair leaves unread */
    UTF8_TAIL_MAX = 3,
    UTF8_GROWTH_MAX = 3 /* maximum number of bytes of text for each byte of input */
};

/* The result of a call of utf8_repair. */
struct utf8_repaired {
    /* number of bytes read from the input; number of bytes written to `out` */
    size_t read_bytes, written_bytes;
    uint64_t replacements; /* number of ill-formed sequences */
    size_t first_replaced; /* offset of the first ill-formed sequence; undefined if there is none */
};

/* utf8_repair: copy `count` bytes to `out`, with U+FFFD in place of each maximal ill-formed
 * sequence: the longest start of a character, or else one byte. This is what Python's
 * bytes.decode("utf-8", errors="replace") does.
 * out      [UTF8_GROWTH_MAX * count] bytes that do not overlap `bytes`
 * is_last  whether the input ends here; otherwise, a character that is incomplete at the end of the
 *          input, at most UTF8_TAIL_MAX bytes, is left unread
 * source   Unicode 15, table 3-7 and "U+FFFD Substitution of Maximal Subparts" */
struct utf8_repaired utf8_repair(const char *bytes, size_t count, bool is_last, char *out);

#endif
