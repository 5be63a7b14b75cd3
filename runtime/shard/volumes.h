/* volumes: computes by formula the bytes that a rank receives in one step, to compare with the
 * byte counts of the transport. */
#ifndef SKEP_SHARD_VOLUMES_H
#define SKEP_SHARD_VOLUMES_H

#include "base/dtype.h"
#include "runtime/shard/shard.h"
#include "runtime/shard/spans.h"

struct step_volumes { /* bytes that a rank receives in one step */
    /* all-gathers of split params in forward and backward passes, over all microbatches */
    uint64_t gather_forward, gather_backward;
    /* reduce-scatters of gradients in the shard group, over all reductions of the step */
    uint64_t reduce;
    /* the all-gather half of the all-reduces of gradients (ZeRO 0), always f32, over the step */
    uint64_t gather_reduced_gradients;
    /* gradients between shard groups, over the step: reduce-scatters in the transfer dtype,
     * all-gathers in f32 */
    uint64_t between_replicas;
    uint64_t gather_params; /* ZeRO 1, 2: all-gather of params, once per step after the optimizer */
};

struct volume_args {
    const struct unit_table *units;
    const struct sharding *sharding;
    const struct spans *spans; /* spans of the microbatch's graph */
    int forward_count;         /* number of ops of the forward pass */
    int64_t accumulation;      /* microbatches per step */
    enum dtype compute;        /* type of gathered params */
};

/* volumes_of_step: compute the volumes of one step. An all-gather or reduce-scatter counts N (W -
 * 1) / W bytes, an all-reduce twice that, where N is the unit's size on the wire with padding, and
 * W the number of ranks of the group. Tallies are not counted.
 * limits  accumulation >= 1; the unit table has world size shard * replicate, so all divisions
 *         are exact */
struct step_volumes volumes_of_step(const struct volume_args *args);

#endif
