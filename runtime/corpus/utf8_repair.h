/* utf8_repair: copies bytes as UTF-8 text, and replaces what is not UTF-8. */
#ifndef SKEP_CORPUS_UTF8_REPAIR_H
#define SKEP_CORPUS_UTF8_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UTF8_TAIL_MAX = 3,  /* most bytes at the end of the input that utf8_repair may leave */
    UTF8_GROWTH_MAX = 3 /* most bytes of text for each byte of input */
};

/* The result of a call of utf8_repair. */
struct utf8_repaired {
    size_t read_bytes, written_bytes; /* bytes read from the input and written to `out` */
    uint64_t replacements;            /* number of ill-formed sequences */
    size_t first_replaced; /* offset of the first ill-formed sequence; undefined if there is none */
};

/* utf8_repair: copy `count` bytes to `out`, with U+FFFD in place of each maximal ill-formed
 * sequence: the longest start of a character, or else one byte. This is what Python's
 * bytes.decode("utf-8", errors="replace") does.
 * out      [UTF8_GROWTH_MAX * count] bytes, apart from `bytes`
 * is_last  whether the input ends here; otherwise a character that is incomplete at the end, at
 *          most UTF8_TAIL_MAX bytes, is left unread
 * source   Unicode 15, table 3-7 and "U+FFFD Substitution of Maximal Subparts" */
struct utf8_repaired utf8_repair(const char *bytes, size_t count, bool is_last, char *out);

#endif
