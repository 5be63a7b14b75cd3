#include "runtime/train/remedies.h"

#include <stdio.h>
#include <string.h>

/* A way of using less memory. Gives false when the settings are there already. */
typedef bool lower(struct run *run, const struct blueprint *blueprint,
                   struct remedy_change *change);

static bool lower_microbatch(struct run *run, const struct blueprint *blueprint,
                             struct remedy_change *change) {
    (void)blueprint;
    if (run->microbatch == 1) {
        return false;
    }
    run->microbatch = (run->microbatch + 1) / 2;
    change->key = "batch.microbatch";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->microbatch);
    return true;
}

static bool raise_recompute(struct run *run, const struct blueprint *blueprint,
                            struct remedy_change *change) {
    enum recompute least = RECOMPUTE_BLOCK;
    for (int64_t layer = 0; layer < blueprint->layers; layer++) {
        least = run->layer_recompute[layer] < least ? run->layer_recompute[layer] : least;
    }
    if (least == RECOMPUTE_BLOCK) {
        return false;
    }
    for (int64_t layer = 0; layer < blueprint->layers; layer++) {
        run->layer_recompute[layer] = (enum recompute)(least + 1);
    }
    change->key = "strategy.recompute";
    snprintf(change->value, sizeof change->value, "%s",
             recompute_name((enum recompute)(least + 1)));
    return true;
}

static bool lower_moments(struct run *run, const struct blueprint *blueprint,
                          struct remedy_change *change) {
    (void)blueprint;
    if (run->moments == DTYPE_BF16) {
        return false;
    }
    run->moments = DTYPE_BF16;
    change->key = "precision.moments";
    snprintf(change->value, sizeof change->value, "bf16");
    return true;
}

/* A shorter row keeps the step's tokens: there are more rows. */
static bool lower_sequence(struct run *run, const struct blueprint *blueprint,
                           struct remedy_change *change) {
    (void)blueprint;
    if (run->sequence % 2 != 0 || run->sequence < 128) {
        return false;
    }
    run->sequence /= 2;
    run->context = run->context < run->sequence ? run->context : run->sequence;
    change->key = "batch.sequence";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->sequence);
    return true;
}

/* In the order of what they cost: time only, then exactness of the moments, then reach. */
static lower *const LOWERS[] = {lower_microbatch, raise_recompute, lower_moments, lower_sequence};

/* A trial: the same session with other settings and memory of its own. */
struct trial {
    struct session session;
    enum purpose purpose;
};

static void trial_init(struct trial *trial, const struct session *session, enum purpose purpose) {
    memset(trial, 0, sizeof *trial);
    trial->session.run = session->run;
    trial->session.blueprint = session->blueprint;
    trial->session.target = session->target;
    trial->session.ranks = session->ranks;
    trial->session.spread = session->spread;
    trial->purpose = purpose;
    size_t layers = (size_t)session->blueprint.layers;
    enum recompute *kinds = region_alloc(&trial->session.region, layers, sizeof *kinds);
    memcpy(kinds, session->run.layer_recompute, layers * sizeof *kinds);
    trial->session.run.layer_recompute = kinds;
}

static enum status plan_trial(struct trial *trial, bool *fits, uint64_t *peak,
                              struct fault *fault) {
    struct session *session = &trial->session;
    struct region scratch = {0};
    struct region kept = session->region;
    session->region = scratch;
    enum status status = session_compile(session, trial->purpose, fault);
    if (status == OK) {
        enum space space = SPACE_DEVICE;
        *fits = target_short_of(session->target, session->program.plan.peak_bytes, &space) == 0;
        *peak = session->program.plan.peak_bytes[SPACE_DEVICE];
    }
    region_finish(&session->region);
    session->region = kept;
    return status;
}

/* Repeats one way of lowering until it fits or can go no further. */
static enum status try_single(const struct session *session, enum purpose purpose, lower *way,
                              struct remedy *remedy, bool *found, struct fault *fault) {
    struct trial trial;
    enum status status = OK;
    trial_init(&trial, session, purpose);
    *remedy = (struct remedy){.change_count = 1};
    *found = false;
    while (!*found && status == OK &&
           way(&trial.session.run, &session->blueprint, &remedy->changes[0])) {
        status = plan_trial(&trial, found, &remedy->peak_bytes, fault);
    }
    region_finish(&trial.session.region);
    return status;
}

static enum status try_together(const struct session *session, enum purpose purpose,
                                struct remedy *remedy, bool *found, struct fault *fault) {
    struct trial trial;
    enum status status = OK;
    trial_init(&trial, session, purpose);
    *remedy = (struct remedy){.change_count = 0};
    *found = false;
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS) && !*found && status == OK; i++) {
        bool used = false;
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        while (!*found && status == OK &&
               LOWERS[i](&trial.session.run, &session->blueprint, change)) {
            used = true;
            status = plan_trial(&trial, found, &remedy->peak_bytes, fault);
        }
        remedy->change_count += used;
    }
    region_finish(&trial.session.region);
    return status;
}

/* Every way of lowering, as far as each goes: when not even that fits, nothing will. */
static enum status plan_least(const struct session *session, enum purpose purpose, bool *fits,
                              struct fault *fault) {
    struct trial trial;
    struct remedy_change change;
    uint64_t peak;
    trial_init(&trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS); i++) {
        while (LOWERS[i](&trial.session.run, &session->blueprint, &change)) {
        }
    }
    enum status status = plan_trial(&trial, fits, &peak, fault);
    region_finish(&trial.session.region);
    return status;
}

enum status remedies_find(const struct session *session, enum purpose purpose,
                          struct remedy *remedies, int *count, struct fault *fault) {
    int found_count = 0;
    bool found;
    enum status least = plan_least(session, purpose, &found, fault);
    if (least != OK || !found) {
        *count = 0;
        return least;
    }
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS); i++) {
        enum status status =
            try_single(session, purpose, LOWERS[i], &remedies[found_count], &found, fault);
        if (status != OK) {
            return status;
        }
        found_count += found;
    }
    if (found_count == 0) {
        enum status status = try_together(session, purpose, &remedies[0], &found, fault);
        if (status != OK) {
            return status;
        }
        found_count += found;
    }
    *count = found_count;
    return OK;
}
