/* models: real configurations and their units, or a failed test. */
#ifndef SKEP_TESTS_UNIT_SHARD_MODELS_H
#define SKEP_TESTS_UNIT_SHARD_MODELS_H

#include "runtime/shard/shard.h"

/* model_open: a configuration of tests/unit/model/configs by its file's name without .json. */
void model_open(const char *name, struct region *region, struct blueprint *blueprint);

void model_units(const struct blueprint *blueprint, struct unit_options options,
                 struct region *region, struct unit_table *table);

#endif
