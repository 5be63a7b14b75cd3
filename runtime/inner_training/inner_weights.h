/* inner_weights: moves the weights that a member of several ranks trains between the ranks' shards
 * and the flat copy on rank 0, from which contributions are made.
 *
 *     rank 0    [ flat copy, blueprint order                  ]
 *                  ^ gather: each owner's spans in turn    | scatter: all of it, in pieces
 *     masters   [ rank 0's | rank 1's | rank 2's ]         v
 *     held      every master and compute copy of every rank
 *
 * Both broadcast through the staging buffer, which has the same offset in every rank's arena:
 * gathering costs every rank 4 bytes received a parameter, and so does scattering. */
#ifndef SKEP_INNER_TRAINING_INNER_WEIGHTS_H
#define SKEP_INNER_TRAINING_INNER_WEIGHTS_H

#include "runtime/session/session.h"

/* Elements [begin, begin + count) of the flat space, which shard `owner` of the first replica owns:
 * `values` on that rank, NULL elsewhere. */
struct inner_span {
    int owner;
    int64_t begin, count;
    const float *values;
};

/* A piece on this rank: its first element is element `begin` of the flat space. */
struct inner_piece {
    struct tensor_piece piece;
    int64_t begin;
};

struct inner_weights {
    float *flat;              /* [count], the caller's, on rank 0; NULL elsewhere */
    struct inner_span *spans; /* ascending by owner, then by `begin`: the same on all ranks */
    int span_count;
    struct inner_piece *pieces;
    int piece_count;
    int64_t count; /* of the flat space */
};

/* inner_weights_plan: tables of a bound session of several ranks.
 * limits  masters are fp32 in host memory, as on CPU targets
 * memory  tables in the session's region; flat is kept */
void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights);

/* inner_weights_gather: every rank's own masters into rank 0's flat copy, to the bit.
 * inner_weights_scatter: rank 0's flat copy into all masters, to the bit, and into all compute
 * copies, rounded once to nearest even. Every rank calls them, with its collectives connected and
 * no segment being executed. Allocate nothing. */
void inner_weights_gather(struct session *session, const struct inner_weights *weights);
void inner_weights_scatter(struct session *session, const struct inner_weights *weights);

#endif
