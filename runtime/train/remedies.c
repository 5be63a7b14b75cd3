#include "runtime/train/remedies.h"

#include "runtime/train/trial.h"

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

static bool splits(const struct run *run) {
    return run->ranks / run->replicate > 1;
}

static bool free_gathered(struct run *run, const struct blueprint *blueprint,
                          struct remedy_change *change) {
    (void)blueprint;
    if (!splits(run) || !run->keep_gathered) {
        return false;
    }
    run->keep_gathered = false;
    change->key = "strategy.keep_gathered";
    snprintf(change->value, sizeof change->value, "false");
    return true;
}

static bool raise_zero(struct run *run, const struct blueprint *blueprint,
                       struct remedy_change *change) {
    (void)blueprint;
    int64_t highest = run->reduce_at == REDUCE_AT_STEP ? 1 : ZERO_STAGES - 1;
    if (!splits(run) || run->zero >= highest) {
        return false;
    }
    run->zero++;
    change->key = "strategy.zero";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->zero);
    return true;
}

static bool lower_prefetch(struct run *run, const struct blueprint *blueprint,
                           struct remedy_change *change) {
    (void)blueprint;
    if (!splits(run) || run->prefetch == 0) {
        return false;
    }
    run->prefetch /= 2;
    change->key = "strategy.prefetch";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->prefetch);
    return true;
}

static bool lower_live(struct run *run, const struct blueprint *blueprint,
                       struct remedy_change *change) {
    (void)blueprint;
    if (!splits(run) || run->live == 1) {
        return false;
    }
    run->live = run->live == 0 ? 2 : run->live / 2;
    change->key = "strategy.live";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->live);
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
static lower *const LOWERS[] = {lower_microbatch, free_gathered,   raise_zero,    lower_live,
                                lower_prefetch,   raise_recompute, lower_moments, lower_sequence};
_Static_assert(ARRAY_COUNT(LOWERS) <= REMEDIES_MAX && ARRAY_COUNT(LOWERS) <= REMEDY_CHANGES_MAX,
               "each way is a remedy of its own, or a change of one");

/* Repeats one way of lowering until it fits or can go no further. *outcome is that of the last
 * plan; untouched when there was none. */
static enum status go_down(struct trial *trial, lower *way, struct remedy_change *change,
                           struct trial_outcome *outcome, struct fault *fault) {
    enum status status = OK;
    while (!outcome->fits && status == OK &&
           way(&trial->session.run, &trial->session.blueprint, change)) {
        status = trial_plan(trial, outcome, fault);
    }
    return status;
}

static enum status try_single(const struct session *session, enum purpose purpose, lower *way,
                              struct remedy *remedy, bool *found, struct fault *fault) {
    struct trial trial;
    struct trial_outcome outcome = {.fits = false};
    *remedy = (struct remedy){.change_count = 1};
    trial_init(&trial, session, purpose);
    enum status status = go_down(&trial, way, &remedy->changes[0], &outcome, fault);
    remedy->peak_bytes = outcome.peak_bytes[SPACE_DEVICE];
    *found = outcome.fits;
    trial_finish(&trial);
    return status;
}

/* What a way changes of a run, to put it back: its settings and the kinds that they point to. */
struct settings {
    struct run run;
    enum recompute *kinds; /* [layers] */
};

static void take(struct settings *settings, const struct session *session) {
    size_t bytes = (size_t)session->blueprint.layers * sizeof *settings->kinds;
    settings->run = session->run;
    memcpy(settings->kinds, session->run.layer_recompute, bytes);
}

static void put_back(const struct settings *settings, struct session *session) {
    size_t bytes = (size_t)session->blueprint.layers * sizeof *settings->kinds;
    session->run = settings->run;
    memcpy(session->run.layer_recompute, settings->kinds, bytes);
}

/* A way that lowers nothing is left out again. */
static enum status try_together(const struct session *session, enum purpose purpose,
                                struct remedy *remedy, bool *found, struct fault *fault) {
    struct trial trial;
    struct settings before;
    struct trial_outcome outcome = {.fits = false};
    uint64_t least = session->program.plan.peak_bytes[SPACE_DEVICE];
    enum status status = OK;
    *remedy = (struct remedy){.change_count = 0};
    trial_init(&trial, session, purpose);
    before.kinds = region_alloc(&trial.session.region, (size_t)session->blueprint.layers,
                                sizeof *before.kinds);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS) && !outcome.fits && status == OK; i++) {
        struct trial_outcome reached = {.fits = false};
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        take(&before, &trial.session);
        status = go_down(&trial, LOWERS[i], change, &reached, fault);
        uint64_t peak = reached.peak_bytes[SPACE_DEVICE];
        if (peak > 0 && (peak < least || reached.fits)) {
            outcome = reached;
            least = peak;
            remedy->change_count++;
        } else {
            put_back(&before, &trial.session);
        }
    }
    remedy->peak_bytes = least;
    *found = outcome.fits;
    trial_finish(&trial);
    return status;
}

/* Every way of lowering, as far as each goes: when not even that fits, nothing will. */
static enum status plan_least(const struct session *session, enum purpose purpose, bool *fits,
                              struct fault *fault) {
    struct trial trial;
    struct trial_outcome outcome = {.fits = false};
    struct remedy_change change;
    trial_init(&trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS); i++) {
        while (LOWERS[i](&trial.session.run, &session->blueprint, &change)) {
        }
    }
    enum status status = trial_plan(&trial, &outcome, fault);
    trial_finish(&trial);
    *fits = outcome.fits;
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
