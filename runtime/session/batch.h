/* batch: the inputs of a program in host memory: rows of tokens, and the table of rotations that
 * their positions index. */
#ifndef SKEP_SESSION_BATCH_H
#define SKEP_SESSION_BATCH_H

#include "runtime/session/session.h"

/* batch_fill_rope_table: cosines, then sines, of fp32 angles, each rounded once. The session is
 * bound; a model without rotary positions has no table.
 * shapes  [positions, 2, head_dim / 2]
 * memory  before seal only: frequencies in the session's region */
void batch_fill_rope_table(struct session *session);

/* batch_row: ids, labels and positions of row `row` of the microbatch. */
struct token_row batch_row(const struct session *session, int64_t row);

/* batch_empty_rows: fills rows [first, microbatch) with ignored labels. */
void batch_empty_rows(const struct session *session, int64_t first);

#endif
