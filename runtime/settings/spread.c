#include "runtime/settings/spread.h"

#include <stdio.h>

static int64_t ranks_of(const struct run *run) {
    return run->ranks < 1 ? 1 : run->ranks;
}

/* "1, 2, 4 or 8": numbers of replicas that so many ranks can have. */
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

static enum status check_replicas(const struct run *run, struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    if (run->ranks == 0 || run->ranks % run->replicate == 0) {
        return OK;
    }
    text_add(&text, run->ranks == 1 ? "start more ranks, or take " : "take ");
    list_divisors(run->ranks, &text);
    return fault_set(fault, STATUS_INPUT, settings_location(run, "strategy.replicate"), remedy,
                     "strategy.replicate is %lld, which does not divide %lld rank%s",
                     (long long)run->replicate, (long long)run->ranks, run->ranks == 1 ? "" : "s");
}

static enum status read_units(const struct run *run, const struct blueprint *blueprint,
                              struct region *region, struct unit_table *units,
                              struct fault *fault) {
    const struct unit_options options = {
        .world = ranks_of(run),
        .wrap = run->units,
        .frozen = run->frozen,
        .wrap_place = settings_key_location(run, "strategy.units", region),
        .frozen_place = settings_key_location(run, "frozen", region)};
    return unit_table_init(blueprint, &options, region, units, fault);
}

static enum status read_strategies(const struct run *run, const struct unit_table *units,
                                   struct region *region, const struct unit_strategy **strategies,
                                   struct fault *fault) {
    const struct strategy_keys keys = {
        .zero = (int)run->zero,
        .keep_gathered = run->keep_gathered != 0,
        .overrides = run->overrides,
        .place = settings_key_location(run, "strategy.overrides", region)};
    TRY(strategy_read(&keys, units, region, strategies, fault));
    if (ranks_of(run) / run->replicate > 1) {
        TRY(strategy_check_reduction(*strategies, units, (enum reduce_at)run->reduce_at,
                                     settings_key_location(run, "strategy.reduce_at", region),
                                     fault));
    }
    return OK;
}

enum status sharding_settings_read(const struct run *run, const struct blueprint *blueprint,
                                   struct region *region, struct spread *spread,
                                   struct fault *fault) {
    struct spread read;
    const struct unit_strategy *strategies = NULL;
    TRY(check_replicas(run, fault));
    TRY(read_units(run, blueprint, region, &read.units, fault));
    TRY(read_strategies(run, &read.units, region, &strategies, fault));
    int replicate = run->ranks == 0 ? 1 : (int)run->replicate;
    read.sharding = (struct sharding){.shard = (int)ranks_of(run) / replicate,
                                      .replicate = replicate,
                                      .units = strategies,
                                      .prefetch = (int)run->prefetch,
                                      .live = (int)run->live,
                                      .reduce_at = (enum reduce_at)run->reduce_at,
                                      .reduce = (enum dtype)run->reduce,
                                      .wire_sum = (enum wire_sum)run->wire_sum};
    *spread = read;
    return OK;
}
