/* inner_weights: moves the weights that a member of several ranks trains between the ranks' shards
 * and the flat copy on rank 0, from which contributions are made.
 *
 *     rank 0    [ flat copy, blueprint order                  ]
 *                  ^ gather: each owner's spans in turn    | scatter: all of it, in pieces
 *     masters   [ rank 0's | rank 1's | rank 2's ]         v
 *     held      every master and compute copy of every rank
 *
 * Both broadcast through the staging buffer, which has the same offset in every rank's arena: each
 * gather and each scatter makes every rank receive 4 bytes per parameter. */
#ifndef SKEP_INNER_TRAINING_INNER_WEIGHTS_H
#define SKEP_INNER_TRAINING_INNER_WEIGHTS_H

#include "runtime/session/session.h"

/* A range of the flat space that one shard of the first replica holds. */
struct inner_span {
    int owner;            /* index of the shard that holds the elements */
    int64_t begin, count; /* elements [begin, begin + count) of the flat space */
    const float *values;  /* address of the elements; NULL on ranks that do not hold them */
};

/* A tensor piece on this rank. Its first element is element `begin` of the flat space. */
struct inner_piece {
    struct tensor_piece piece;
    int64_t begin; /* index of the piece's first element in the flat space */
};

struct inner_weights {
    /* [count]: flat copy of the weights on rank 0, owned by the caller; NULL on other ranks */
    float *flat_copy;
    /* spans of the flat space, sorted by owner, then by `begin`; the same list on all ranks */
    struct inner_span *spans;
    int span_count;
    struct inner_piece *pieces; /* [piece_count]: tensor pieces that this rank stores */
    int piece_count;
    int64_t count; /* number of elements of the flat space */
};

/* inner_weights_plan: builds the tables of spans and pieces for a bound session of several ranks.
 * limits  masters must be fp32 in host memory, as on CPU targets
 * memory  tables in the session's region; *weights refers to `flat` */
void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights);

/* inner_weights_gather: copies the masters of every rank into the flat copy of rank 0, bit for bit.
 * inner_weights_scatter: copies the flat copy of rank 0 into all masters, bit for bit, and into all
 * compute copies, rounded once to nearest even. Every rank calls both, with connected collectives
 * and while no segment is executed. Neither allocates memory. */
void inner_weights_gather(struct session *session, const struct inner_weights *weights);
void inner_weights_scatter(struct session *session, const struct inner_weights *weights);

#endif
