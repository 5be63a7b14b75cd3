/* rank_parts: the part of each parameter that this rank stores, and the part that it saves.
 *
 *     unit            | rank 0's shard | rank 1's shard |     A rank saves its own shard, and only
 *     ZeRO 3, rank 0  | stored         |                |     on the first replica.
 *     ZeRO 0, rank 0  | stored                          |  */
#ifndef SKEP_SESSION_RANK_PARTS_H
#define SKEP_SESSION_RANK_PARTS_H

#include "runtime/checkpoint/piece.h"
#include "runtime/session/session.h"

enum part_kind {
    PART_STORED, /* all elements that this rank stores */
    PART_SAVED   /* the elements that this rank saves; all ranks together save every element once */
};

/* rank_parts_has_view: whether the program has view `view` of parameter `index`; a frozen parameter
 * has no moments. */
bool rank_parts_has_view(const struct session *session, int index, enum param_view view);

/* rank_parts_tensor: returns name, shape and dtype of parameter `index` in view `view`, as a tensor
 * file describes them. */
struct tensor_spec rank_parts_tensor(const struct session *session, int index,
                                     enum param_view view);

/* rank_parts_find_range: sets the elements [*first, *first + *count) of parameter `index` that rank
 * `shard` of the shard group holds. Returns false, with both unchanged, when there are none. The
 * ranges of all shards cover every element once. */
bool rank_parts_find_range(const struct session *session, int index, enum param_view view,
                           int shard, int64_t *first, int64_t *count);

/* rank_parts_find_piece: sets *piece to this rank's part of a view of parameter `index`. Returns
 * false, with *piece unchanged, when there is none. */
bool rank_parts_find_piece(const struct session *session, int index, enum param_view view,
                           enum part_kind kind, struct tensor_piece *piece);

/* rank_parts_of_view: returns, for all parameters, the tensors of one view and the pieces of them
 * that this rank stores or saves.
 * shapes  at most [param_count] tensors, at most [param_count] pieces
 * memory   arrays in the session's region */
struct tensor_set rank_parts_of_view(struct session *session, enum param_view view,
                                     enum part_kind kind);

/* rank_parts_of_weights: lists the compute copies and masters that this rank stores; returns their
 * number.
 * memory  array in the session's region */
int rank_parts_of_weights(struct session *session, struct tensor_piece **pieces);

/* rank_parts_of_compute_copies: lists the compute copies of parameters that also have a master;
 * returns their number. */
int rank_parts_of_compute_copies(struct session *session, struct tensor_piece **pieces);

#endif
