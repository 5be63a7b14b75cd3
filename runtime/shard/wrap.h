/* wrap: which parameters are gathered and freed together, by the run's policy. */
#ifndef SKEP_SHARD_WRAP_H
#define SKEP_SHARD_WRAP_H

#include "runtime/model/blueprint.h"

/* Groups in no order that matters; some may be empty. */
struct wrapping {
    int *group_of_param; /* [blueprint->param_count] */
    int group_count;
    const char **names; /* [group_count] */
    int *layers; /* [group_count]; PARAM_NO_LAYER unless a whole block or what is left of it */
};

/* wrap_params: groups by `policy`, as struct unit_options has it.
 * memory  in `region`
 * errors  STATUS_INPUT: no such policy, a size below 1, names as patterns_read; *wrapping untouched
 */
MUST_CHECK enum status wrap_params(const struct blueprint *blueprint, const char *policy,
                                   const char *place, struct region *region,
                                   struct wrapping *wrapping, struct fault *fault);

#endif
