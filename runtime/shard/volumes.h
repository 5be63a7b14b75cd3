/* volumes: the bytes that a rank receives in one step, by formula, to compare with the counts of
 * the transport. */
#ifndef SKEP_SHARD_VOLUMES_H
#define SKEP_SHARD_VOLUMES_H

#include "base/dtype.h"
#include "runtime/shard/shard.h"
#include "runtime/shard/spans.h"

struct step_volumes {
    uint64_t gather_forward, gather_backward; /* split params, every microbatch */
    uint64_t reduce;                          /* reduce-scatters in the shard group */
    uint64_t reduce_whole;  /* the gathering half of all-reduces (ZeRO 0), always f32 */
    uint64_t replicate;     /* all-reduces between shard groups, f32 but for a bf16 first half */
    uint64_t gather_params; /* ZeRO 1, 2: params after the optimizer */
};

struct volume_args {
    const struct unit_table *units;
    const struct sharding *sharding;
    const struct spans *spans; /* of the microbatch's graph */
    int forward_count;         /* ops of the forward pass */
    int64_t accumulation;
    enum dtype compute;
};

/* volumes_of_step: all-gather and reduce-scatter N (W - 1) / W, all-reduce twice that, N the unit's
 * bytes with padding in the type on the wire, W the ranks of the group. Tallies are not counted.
 * limits  accumulation >= 1; units made for the world shard * replicate, so that all divisions are
 * exact */
struct step_volumes volumes_of_step(const struct volume_args *args);

#endif
