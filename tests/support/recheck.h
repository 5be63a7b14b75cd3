/* recheck: what the files of recheck_round share. */
#ifndef SKEP_TESTS_SUPPORT_RECHECK_H
#define SKEP_TESTS_SUPPORT_RECHECK_H

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

enum { RECHECK_CONTRIBUTIONS_MAX = 64 };

/* One line of input. */
struct recheck_line {
    int64_t begin, end;
    char hash[HASH_HEX_BYTES];
    int count;
    int contributions[RECHECK_CONTRIBUTIONS_MAX];
    uint64_t weights[RECHECK_CONTRIBUTIONS_MAX];
    double clips[RECHECK_CONTRIBUTIONS_MAX];
};

/* recheck_give_up: print what is wrong with the call, and exit with 2.
 * recheck_map: an array of `count` fp32 at PATH@OFFSET.
 * recheck_allocate: memory that is never freed.
 * recheck_read_line: the next line of standard input, of a space of `element_count` elements and so
 * many contributions; false at the end.
 * recheck_compare: whether two arrays have the same bits; prints the first difference.
 * recheck_print_root: "root HEX" of a state. `momentum` may be NULL; then a leaf has twice as many
 * parameters. */
_Noreturn void recheck_give_up(const char *what, const char *name);
const float *recheck_map(const char *place, int64_t count);
void *recheck_allocate(int64_t bytes);
bool recheck_read_line(int64_t element_count, int contribution_count, struct recheck_line *line);
bool recheck_compare(const char *what, int64_t count, const float *own, const float *recorded);
void recheck_print_root(int64_t count, const float *params, const float *momentum);

/* recheck_sparse: recheck_round for a sparse codec; `words` are those after "sparse". Returns how
 * much is wrong. */
int64_t recheck_sparse(int word_count, char **words);

#endif
