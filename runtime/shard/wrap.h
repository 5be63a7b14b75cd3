/* wrap: groups parameters into units by the policy of the run. */
#ifndef SKEP_SHARD_WRAP_H
#define SKEP_SHARD_WRAP_H

#include "runtime/model/model.h"

/* Groups are in any order, and some may be empty. */
struct wrapping {        /* groups of parameters, each of which becomes a unit */
    int *group_of_param; /* [blueprint->param_count] */
    int group_count;
    const char **names; /* [group_count] name of each group */
    int *layers;        /* [group_count] PARAM_NO_LAYER: the group is not within one layer */
};

/* wrap_params: group the parameters by `policy` (unit_options.wrap).
 * memory  in `region`
 * errors  STATUS_INPUT: an unknown policy, a size below 1, or an error of patterns_read;
 *         *wrapping untouched */
MUST_CHECK enum status wrap_params(const struct blueprint *blueprint, const char *policy,
                                   const char *subject, struct region *region,
                                   struct wrapping *wrapping, struct fault *fault);

#endif
