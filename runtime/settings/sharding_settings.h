/* sharding_settings: derives the units of a model and their sharding over the ranks of a site from
 * the keys of `strategy` and the key `frozen`. */
#ifndef SKEP_SETTINGS_SHARDING_SETTINGS_H
#define SKEP_SETTINGS_SHARDING_SETTINGS_H

#include "runtime/settings/settings.h"
#include "runtime/shard/shard.h"

struct sharding_settings {
    struct unit_table units;
    struct sharding sharding; /* how each unit is sharded */
};

/* sharding_settings_read: derive the units of a model and the sharding of each unit over
 * settings->ranks ranks. If settings->ranks is 0, the run has one rank, and the strategy is not
 * checked against the number of ranks.
 * limits  settings_check_model has succeeded
 * memory  in `region`
 * errors  STATUS_INPUT at the key's location: those of unit_table_init and strategy_read; a number
 *         of replicas that does not divide the number of ranks; a strategy.reduce_at that is
 *         invalid for this number of ranks. *result is then unchanged */
MUST_CHECK enum status sharding_settings_read(const struct settings *settings,
                                              const struct blueprint *blueprint,
                                              struct region *region,
                                              struct sharding_settings *result,
                                              struct fault *fault);

#endif
