/* spread: what a run's strategy means for its model over the ranks of a site. */
#ifndef SKEP_SETTINGS_SHARDING_SETTINGS_H
#define SKEP_SETTINGS_SHARDING_SETTINGS_H

#include "runtime/settings/settings.h"
#include "runtime/shard/shard.h"

struct sharding_settings {
    struct unit_table units;
    struct sharding sharding;
};

/* sharding_settings_read: units and every unit's strategy from the keys `strategy` and `frozen`,
 * for settings->ranks. A run that is alone (ranks 0) is not asked whether its strategy suits one
 * rank.
 * limits  the run has been checked against the blueprint
 * memory  in `region`
 * errors  STATUS_INPUT at the key's place: those of unit_table_init and strategy_read; replicas
 *         that do not divide the ranks; a strategy.reduce_at that these ranks cannot have. *spread
 * is then untouched */
MUST_CHECK enum status sharding_settings_read(const struct settings *settings,
                                              const struct blueprint *blueprint,
                                              struct region *region,
                                              struct sharding_settings *spread,
                                              struct fault *fault);

#endif
