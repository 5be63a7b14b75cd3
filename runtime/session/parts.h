/* parts: what of each parameter lies on this rank, and what of it this rank answers for.
 *
 *     unit      | rank 0's slot | rank 1's slot |      a rank owns its slot, once in a site:
 *     ZeRO 3    | here          |               |      on the first replica
 *     ZeRO 0    | here                          |  */
#ifndef SKEP_SESSION_PARTS_H
#define SKEP_SESSION_PARTS_H

#include "runtime/checkpoint/piece.h"
#include "runtime/session/session.h"

enum part_kind {
    PART_STORED, /* all that lies here */
    PART_SAVED   /* of it the own slot: those of all ranks together are every element once */
};

/* rank_parts_has: whether the program has such values of parameter `index`; a frozen one has no
 * moments. / */
bool rank_parts_has(const struct session *session, int index, enum param_view view);

/* rank_parts_tensor: parameter `index` as a file knows it, in the type of one of its copies. */
struct tensor_spec rank_parts_tensor(const struct session *session, int index,
                                     enum param_view view);

/* rank_parts_range: the elements [*first, *first + *count) of parameter `index` that rank `shard`
 * of the shard group owns; false, and both untouched, when there are none. Those of all of them
 * together are every element once. */
bool rank_parts_range(const struct session *session, int index, enum param_view view, int shard,
                      int64_t *first, int64_t *count);

/* rank_parts_piece: this rank's part of a copy of parameter `index`; false, and *piece untouched,
 * when there is none. */
bool rank_parts_piece(const struct session *session, int index, enum param_view view,
                      enum part_kind kind, struct tensor_piece *piece);

/* rank_parts_of_copy: the parts of one copy of every parameter.
 * tensors  [param_count]; pieces [param_count]: fewer where the program or this rank has none
 * memory   arrays in the session's region */
struct tensor_set rank_parts_of_copy(struct session *session, enum param_view view,
                                     enum part_kind kind);

/* rank_parts_of_weights: every copy of every parameter that lies here, compute copies and masters.
 * memory  array in the session's region; gives how many there are */
int rank_parts_of_weights(struct session *session, struct tensor_piece **pieces);

/* rank_parts_of_compute_copies: those compute copies that have a master beside them. */
int rank_parts_of_compute_copies(struct session *session, struct tensor_piece **pieces);

#endif
