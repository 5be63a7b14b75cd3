#include "runtime/session/remedies.h"

#include "runtime/session/what_if.h"

#include <stdio.h>

/* Changes one setting so that the program uses less memory, and describes the change. Returns false
 * when the setting cannot be changed further. */
typedef bool reduction(struct session *session, struct remedy_change *change);

static bool set_change(struct remedy_change *change, const char *key, const char *value) {
    change->key = key;
    snprintf(change->value, sizeof change->value, "%s", value);
    return true;
}

static bool set_change_to_number(struct remedy_change *change, const char *key, int64_t value) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    return set_change(change, key, digits);
}

static bool lower_microbatch(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (settings->microbatch == 1) {
        return false;
    }
    settings->microbatch = (settings->microbatch + 1) / 2;
    return set_change_to_number(change, "batch.microbatch", settings->microbatch);
}

static bool has_shards(const struct settings *settings) {
    return settings->ranks / settings->replicas > 1;
}

static bool disable_keep_gathered(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (!has_shards(settings) || !settings->keep_gathered) {
        return false;
    }
    settings->keep_gathered = false;
    return set_change(change, "strategy.keep_gathered", "false");
}

static bool raise_zero_stage(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    int64_t highest = settings->reduce_at == REDUCE_AT_STEP ? 1 : ZERO_STAGE_COUNT - 1;
    if (!has_shards(settings) || settings->zero_stage >= highest) {
        return false;
    }
    settings->zero_stage++;
    return set_change_to_number(change, "strategy.zero", settings->zero_stage);
}

static bool lower_prefetch(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (!has_shards(settings) || settings->prefetch_units == 0) {
        return false;
    }
    settings->prefetch_units /= 2;
    return set_change_to_number(change, "strategy.prefetch", settings->prefetch_units);
}

static bool lower_gathered_units(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (!has_shards(settings) || settings->gathered_units_max == 1) {
        return false;
    }
    settings->gathered_units_max =
        settings->gathered_units_max == 0 ? 2 : settings->gathered_units_max / 2;
    return set_change_to_number(change, "strategy.live", settings->gathered_units_max);
}

static bool raise_recompute(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    const struct blueprint *blueprint = &session->blueprint;
    enum recompute lowest = RECOMPUTE_BLOCK;
    for (int64_t layer = 0; layer < blueprint->layers; layer++) {
        lowest =
            settings->layer_recompute[layer] < lowest ? settings->layer_recompute[layer] : lowest;
    }
    if (lowest == RECOMPUTE_BLOCK) {
        return false;
    }
    for (int64_t layer = 0; layer < blueprint->layers; layer++) {
        settings->layer_recompute[layer] = (enum recompute)(lowest + 1);
    }
    return set_change(change, "strategy.recompute", recompute_name((enum recompute)(lowest + 1)));
}

static const char *offload_text(unsigned kinds) {
    static const char *const TEXTS[] = {
        "none", "activations", "optimizer",        "optimizer,activations",
        NULL,   NULL,          "optimizer,params", "optimizer,params,activations"};
    ASSERT(kinds < ARRAY_COUNT(TEXTS) && TEXTS[kinds] != NULL);
    return TEXTS[kinds];
}

/* Adds kinds of data to those that are offloaded. Returns false if all are offloaded already, or if
 * the target has unified memory, on which offload saves nothing. */
static bool extend_offload(struct session *session, unsigned kinds, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (session->target->unified || (settings->offload_kinds & kinds) == kinds) {
        return false;
    }
    settings->offload_kinds |= kinds;
    return set_change(change, "strategy.offload", offload_text(settings->offload_kinds));
}

/* Offloads the masters and moments. Costs copies once per step. */
static bool offload_optimizer(struct session *session, struct remedy_change *change) {
    return extend_offload(session, OFFLOAD_OPTIMIZER, change);
}

/* Offloads the split params. Costs copies with every gather. */
static bool offload_params(struct session *session, struct remedy_change *change) {
    return has_shards(&session->settings) && session->settings.zero_stage == ZERO_STAGE_COUNT - 1 &&
           extend_offload(session, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMS, change);
}

static bool offload_activations(struct session *session, struct remedy_change *change) {
    return extend_offload(session, OFFLOAD_ACTIVATIONS, change);
}

static bool lower_moments_precision(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (session->shared_settings_fixed || settings->moments_dtype == DTYPE_BF16) {
        return false;
    }
    settings->moments_dtype = DTYPE_BF16;
    return set_change(change, "precision.moments", "bf16");
}

/* Lowers the length of rows. The number of tokens per step is unchanged, because a step then has
 * more rows. */
static bool lower_sequence(struct session *session, struct remedy_change *change) {
    struct settings *settings = &session->settings;
    if (session->shared_settings_fixed || settings->sequence_tokens % 2 != 0 ||
        settings->sequence_tokens < 128) {
        return false;
    }
    settings->sequence_tokens /= 2;
    settings->context_tokens = settings->context_tokens < settings->sequence_tokens
                                   ? settings->context_tokens
                                   : settings->sequence_tokens;
    return set_change_to_number(change, "batch.sequence", settings->sequence_tokens);
}

/* Reductions in the order of their cost: first those that cost only time, then the precision of
 * moments, then the length of rows. */
static reduction *const REDUCTIONS[] = {
    lower_microbatch,    disable_keep_gathered,   raise_zero_stage,  lower_gathered_units,
    lower_prefetch,      raise_recompute,         offload_optimizer, offload_params,
    offload_activations, lower_moments_precision, lower_sequence};
_Static_assert(ARRAY_COUNT(REDUCTIONS) <= REMEDIES_MAX &&
                   ARRAY_COUNT(REDUCTIONS) <= REMEDY_CHANGES_MAX,
               "REMEDIES_MAX or REMEDY_CHANGES_MAX is smaller than the number of reductions");

/* Repeats one reduction until the program fits or the setting cannot be changed further; *times is
 * the number of repetitions. *outcome is the outcome of the last plan, or unchanged without a
 * plan. */
static enum status repeat_until_fits(struct what_if *trial, reduction *reduce,
                                     struct remedy_change *change, struct what_if_outcome *outcome,
                                     int *times, struct fault *fault) {
    enum status status = OK;
    *times = 0;
    while (!outcome->fits && status == OK && reduce(&trial->session, change)) {
        status = what_if_plan(trial, outcome, fault);
        ++*times;
    }
    return status;
}

static enum status try_single_remedy(const struct session *session, enum purpose purpose,
                                     reduction *reduce, struct remedy *remedy, bool *found,
                                     struct fault *fault) {
    struct what_if trial;
    struct what_if_outcome outcome = {.fits = false};
    *remedy = (struct remedy){.change_count = 1};
    what_if_init(&trial, session, purpose);
    int times;
    enum status status =
        repeat_until_fits(&trial, reduce, &remedy->changes[0], &outcome, &times, fault);
    remedy->peak_bytes = outcome.peak_bytes[SPACE_DEVICE];
    *found = outcome.fits;
    what_if_finish(&trial);
    return status;
}

/* A copy of the settings and of the array that they point to, to undo a reduction. */
struct saved_settings {
    struct settings settings;
    enum recompute *kinds; /* [layers]: saved values of the array settings.layer_recompute */
};

static void save_settings(struct saved_settings *saved, const struct session *session) {
    size_t bytes = (size_t)session->blueprint.layers * sizeof *saved->kinds;
    saved->settings = session->settings;
    memcpy(saved->kinds, session->settings.layer_recompute, bytes);
}

static void restore_settings(const struct saved_settings *saved, struct session *session) {
    size_t bytes = (size_t)session->blueprint.layers * sizeof *saved->kinds;
    session->settings = saved->settings;
    memcpy(session->settings.layer_recompute, saved->kinds, bytes);
}

/* Whether host memory has space for everything offloaded to it. */
static bool host_memory_fits(const struct session *session, const struct what_if_outcome *outcome) {
    const struct target *target = session->target;
    return target->unified ||
           (outcome->peak_bytes[SPACE_PINNED] <= target_available_bytes(target, SPACE_PINNED) &&
            outcome->peak_bytes[SPACE_HOST] <= target_available_bytes(target, SPACE_HOST));
}

/* Adds the newest change. It replaces the preceding change if both have the same key. */
static void add_newest_change(struct remedy *remedy) {
    struct remedy_change *newest = &remedy->changes[remedy->change_count];
    if (remedy->change_count > 0 && strcmp(newest[-1].key, newest->key) == 0) {
        newest[-1] = *newest;
    } else {
        remedy->change_count++;
    }
}

/* The number of times that each reduction is applied. */
struct combination {
    int times[ARRAY_COUNT(REDUCTIONS)]; /* number of applications of each reduction */
};

static enum status plan_combination(const struct session *session, enum purpose purpose,
                                    const struct combination *combination, struct remedy *remedy,
                                    bool *fits, struct fault *fault) {
    struct region scratch = {0};
    struct what_if *trial = region_alloc(&scratch, 1, sizeof *trial);
    struct what_if_outcome outcome = {.fits = false};
    *remedy = (struct remedy){.change_count = 0};
    what_if_init(trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(REDUCTIONS); i++) {
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        int done = 0;
        while (done < combination->times[i] && REDUCTIONS[i](&trial->session, change)) {
            done++;
        }
        if (done > 0) {
            add_newest_change(remedy);
        }
    }
    enum status status = what_if_plan(trial, &outcome, fault);
    remedy->peak_bytes = outcome.peak_bytes[SPACE_DEVICE];
    *fits = outcome.fits;
    what_if_finish(trial);
    region_finish(&scratch);
    return status;
}

/* Removes each reduction without which the program still fits. The last reduction stays, because it
 * made the program fit. */
static enum status remove_unneeded_reductions(const struct session *session, enum purpose purpose,
                                              struct combination *combination,
                                              struct remedy *remedy, struct fault *fault) {
    for (size_t i = 0; i < ARRAY_COUNT(REDUCTIONS); i++) {
        struct combination fewer = *combination;
        struct remedy smaller;
        bool fits = false;
        if (combination->times[i] == 0) {
            continue;
        }
        fewer.times[i] = 0;
        TRY(plan_combination(session, purpose, &fewer, &smaller, &fits, fault));
        if (fits) {
            *combination = fewer;
            *remedy = smaller;
        }
    }
    return OK;
}

/* Adds reductions in order until the program fits. A reduction that does not lower the peak, or for
 * which host memory has no space, is undone. */
static enum status try_combined_remedy(const struct session *session, enum purpose purpose,
                                       struct remedy *remedy, bool *found, struct fault *fault) {
    struct combination combination = {{0}};
    struct what_if trial;
    struct saved_settings before;
    struct what_if_outcome outcome = {.fits = false};
    uint64_t lowest = session->program.plan.peak_bytes[SPACE_DEVICE];
    enum status status = OK;
    *remedy = (struct remedy){.change_count = 0};
    what_if_init(&trial, session, purpose);
    before.kinds = region_alloc(&trial.session.region, (size_t)session->blueprint.layers,
                                sizeof *before.kinds);
    for (size_t i = 0; i < ARRAY_COUNT(REDUCTIONS) && !outcome.fits && status == OK; i++) {
        struct what_if_outcome reached = {.fits = false};
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        save_settings(&before, &trial.session);
        status = repeat_until_fits(&trial, REDUCTIONS[i], change, &reached, &combination.times[i],
                                   fault);
        uint64_t peak = reached.peak_bytes[SPACE_DEVICE];
        if (peak > 0 && (peak < lowest || reached.fits) && host_memory_fits(session, &reached)) {
            outcome = reached;
            lowest = peak;
            add_newest_change(remedy);
        } else {
            restore_settings(&before, &trial.session);
            combination.times[i] = 0;
        }
    }
    remedy->peak_bytes = lowest;
    *found = outcome.fits;
    what_if_finish(&trial);
    return status == OK && outcome.fits
               ? remove_unneeded_reductions(session, purpose, &combination, remedy, fault)
               : status;
}

/* Plans the program with every reduction applied as often as possible. If that does not fit, no
 * combination fits. */
static enum status plan_minimum(const struct session *session, enum purpose purpose, bool *fits,
                                struct fault *fault) {
    struct what_if trial;
    struct what_if_outcome outcome = {.fits = false};
    struct remedy_change change;
    what_if_init(&trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(REDUCTIONS); i++) {
        while (REDUCTIONS[i](&trial.session, &change)) {
        }
    }
    enum status status = OK;
    unsigned all = trial.session.settings.offload_kinds;
    unsigned set = session->settings.offload_kinds;
    for (unsigned excluded = 0; excluded <= all && status == OK && !outcome.fits; excluded++) {
        unsigned kinds = all & ~excluded; /* kinds of offload that host memory has space for */
        bool possible = (kinds & OFFLOAD_PARAMS) == 0 || (kinds & OFFLOAD_OPTIMIZER) != 0;
        if (possible && (excluded & ~all) == 0 && (excluded & set) == 0) {
            trial.session.settings.offload_kinds = kinds;
            status = what_if_plan(&trial, &outcome, fault);
        }
    }
    what_if_finish(&trial);
    *fits = outcome.fits;
    return status;
}

struct found_remedies {
    struct remedy *remedies; /* [REMEDIES_MAX] */
    int count;
};

/* Appends the remedies that consist of a single one of REDUCTIONS [first, end). */
static enum status find_single_remedies(const struct session *session, enum purpose purpose,
                                        size_t first, size_t end, struct found_remedies *found,
                                        struct fault *fault) {
    for (size_t i = first; i < end; i++) {
        bool fits = false;
        TRY(try_single_remedy(session, purpose, REDUCTIONS[i], &found->remedies[found->count],
                              &fits, fault));
        found->count += fits;
    }
    return OK;
}

/* Finds single reductions, or else one combination of reductions, that make the program fit. A
 * shorter sequence is the last resort: all other reductions together are tried before it. */
static enum status find_remedies(const struct session *session, enum purpose purpose,
                                 struct found_remedies *found, struct fault *fault) {
    const size_t last = ARRAY_COUNT(REDUCTIONS) - 1;
    bool fits = false;
    TRY(plan_minimum(session, purpose, &fits, fault));
    if (!fits) {
        return OK;
    }
    TRY(find_single_remedies(session, purpose, 0, last, found, fault));
    if (found->count == 0) {
        TRY(try_combined_remedy(session, purpose, &found->remedies[0], &fits, fault));
        found->count += fits;
    }
    return find_single_remedies(session, purpose, last, last + 1, found, fault);
}

enum status remedies_find(const struct session *session, enum purpose purpose,
                          struct remedy *remedies, int *count, struct fault *fault) {
    struct found_remedies found = {.remedies = remedies};
    TRY(find_remedies(session, purpose, &found, fault));
    *count = found.count;
    return OK;
}

void remedies_write(const struct remedy *remedies, int count, struct text *text) {
    text_add(text, count == 0 ? "no change of microbatch, strategy, recompute, offload, moments or "
                                "sequence makes the run fit\n"
                              : "changes with which the run fits, each planned:\n");
    for (int i = 0; i < count; i++) {
        char peak[24];
        text_add(text, "  ");
        for (int k = 0; k < remedies[i].change_count; k++) {
            text_add(text, "%s=%s ", remedies[i].changes[k].key, remedies[i].changes[k].value);
        }
        text_add(text, "(arena %s)\n", text_format_bytes(remedies[i].peak_bytes, peak));
    }
}
