/* wrap: groups parameters into units by the policy of the run. */
#ifndef SKEP_SHARD_WRAP_H
#define SKEP_SHARD_WRAP_H

#include "runtime/model/model.h"

/* Groups in any order; some may be empty. */
struct wrapping {
    int *group_of_param; /* [blueprint->param_count] */
    int group_count;
    const char **names; /* [group_count] */
    int *layers; /* [group_count]; PARAM_NO_LAYER unless all its parameters are of one block */
};

/* wrap_params: groups by `policy`, as struct unit_options has it.
 * memory  in `region`
 * errors  STATUS_INPUT: an unknown policy, a size below 1, or as patterns_read; *wrapping untouched
 */
MUST_CHECK enum status wrap_params(const struct blueprint *blueprint, const char *policy,
                                   const char *subject, struct region *region,
                                   struct wrapping *wrapping, struct fault *fault);

#endif
