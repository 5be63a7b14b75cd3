/* batch: the inputs of a program in host memory: rows of tokens, and the table of rotary embeddings
 * that token positions index. */
#ifndef SKEP_SESSION_BATCH_H
#define SKEP_SESSION_BATCH_H

#include "runtime/session/session.h"

/* batch_fill_rope_table: fills the table with the cosines, then the sines, of fp32 angles, each
 * value rounded once to fp32. Does nothing for a model without rotary positions. The session must
 * be bound.
 * shapes  [positions, 2, head_dim / 2]
 * memory  allocates frequencies in the session's region; call it before the seal */
void batch_fill_rope_table(struct session *session);

/* batch_row: returns the addresses of the ids, labels and positions of row `row` of the
 * microbatch. */
struct token_row batch_row(const struct session *session, int64_t row);

/* batch_clear_rows: fills rows [first, microbatch) with ignored labels. */
void batch_clear_rows(const struct session *session, int64_t first);

#endif
