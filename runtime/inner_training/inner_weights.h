/* inner_weights: the weights that a member of several ranks trains, between the ranks' shards and
 * the one flat copy that the exchange works on.
 *
 *     rank 0    [ flat copy, blueprint order                  ]   what a contribution is made of
 *                  ^ gather: each owner's runs in turn     | scatter: all of it, in stretches
 *     masters   [ rank 0's | rank 1's | rank 2's ]         v
 *     held      every master and compute copy of every rank
 *
 * All of it passes through the staging buffer, at the same offset of every rank's arena, by
 * broadcasts: gathering costs every rank 4 bytes received a parameter, and so does scattering. */
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

/* What lies here: the piece's first element is element `begin` of the flat space. */
struct inner_piece {
    struct tensor_piece piece;
    int64_t begin;
};

struct inner_weights {
    float *flat;             /* [count], the caller's, on rank 0; NULL elsewhere */
    struct inner_span *runs; /* ascending by owner, then by `begin`: the same on all ranks */
    int run_count;
    struct inner_piece *held;
    int held_count;
    int64_t count; /* of the flat space */
};

/* inner_weights_plan: tables of a bound session of several ranks.
 * limits  masters are fp32 in memory that the host reaches, as on processors
 * memory  tables in the session's region; flat is kept */
void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights);

/* inner_weights_gather: every rank's own masters into rank 0's flat copy, to the bit.
 * inner_weights_scatter: rank 0's flat copy into all masters, to the bit, and into all compute
 * copies, rounded once to nearest even. Every rank calls them, with its collectives connected, no
 * segment running. Allocate nothing. */
void inner_weights_gather(struct session *session, const struct inner_weights *weights);
void inner_weights_scatter(struct session *session, const struct inner_weights *weights);

#endif
