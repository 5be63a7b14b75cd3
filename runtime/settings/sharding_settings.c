#include "runtime/settings/sharding_settings.h"

#include <stdio.h>

static int64_t rank_count(const struct settings *settings) {
    return settings->ranks < 1 ? 1 : settings->ranks;
}

/* Appends the permitted numbers of replicas for `ranks` ranks, for example "1, 2, 4 or 8". */
static void list_divisors(int64_t ranks, struct text *text) {
    for (int64_t divisor = 1; divisor <= ranks; divisor++) {
        if (ranks % divisor == 0) {
            text_add(text, "%s%lld",
                     divisor == 1       ? ""
                     : divisor == ranks ? " or "
                                        : ", ",
                     (long long)divisor);
        }
    }
}

static enum status check_replicas(const struct settings *settings, struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    if (settings->ranks == 0 || settings->ranks % settings->replicas == 0) {
        return OK;
    }
    text_add(&text,
             settings->ranks == 1 ? "start more ranks, or set strategy.replicate to " : "take ");
    list_divisors(settings->ranks, &text);
    return fault_set(fault, STATUS_INPUT, settings_location(settings, "strategy.replicate"), remedy,
                     "strategy.replicate is %lld, which does not divide %lld rank%s",
                     (long long)settings->replicas, (long long)settings->ranks,
                     settings->ranks == 1 ? "" : "s");
}

static enum status read_units(const struct settings *settings, const struct blueprint *blueprint,
                              struct region *region, struct unit_table *units,
                              struct fault *fault) {
    const struct unit_options options = {
        .world = rank_count(settings),
        .wrap = settings->unit_policy,
        .frozen = settings->frozen,
        .wrap_subject = settings_key_location(settings, "strategy.units", region),
        .frozen_subject = settings_key_location(settings, "frozen", region)};
    return unit_table_init(blueprint, &options, region, units, fault);
}

static enum status read_strategies(const struct settings *settings, const struct unit_table *units,
                                   struct region *region, const struct unit_strategy **strategies,
                                   struct fault *fault) {
    const struct strategy_keys keys = {
        .zero = (int)settings->zero_stage,
        .keep_gathered = settings->keep_gathered != 0,
        .overrides = settings->unit_overrides,
        .subject = settings_key_location(settings, "strategy.overrides", region)};
    TRY(strategy_read(&keys, units, region, strategies, fault));
    if (rank_count(settings) / settings->replicas > 1) {
        TRY(strategy_check_reduction(*strategies, units, (enum reduce_at)settings->reduce_at,
                                     settings_key_location(settings, "strategy.reduce_at", region),
                                     fault));
    }
    return OK;
}

enum status sharding_settings_read(const struct settings *settings,
                                   const struct blueprint *blueprint, struct region *region,
                                   struct sharding_settings *result, struct fault *fault) {
    struct sharding_settings read;
    const struct unit_strategy *strategies = NULL;
    TRY(check_replicas(settings, fault));
    TRY(read_units(settings, blueprint, region, &read.units, fault));
    TRY(read_strategies(settings, &read.units, region, &strategies, fault));
    int replicate = settings->ranks == 0 ? 1 : (int)settings->replicas;
    read.sharding = (struct sharding){.shard = (int)rank_count(settings) / replicate,
                                      .replicate = replicate,
                                      .units = strategies,
                                      .prefetch = (int)settings->prefetch_units,
                                      .gathered_units_max = (int)settings->gathered_units_max,
                                      .reduce_at = (enum reduce_at)settings->reduce_at,
                                      .reduce = (enum dtype)settings->reduce_dtype,
                                      .wire_sum = (enum wire_sum)settings->wire_sum};
    *result = read;
    return OK;
}
