#include "runtime/session/remedies.h"

#include "runtime/session/trial.h"

#include <stdio.h>
#include <string.h>

/* A way of using less memory. Gives false when the settings are there already. */
typedef bool lower(struct session *session, struct remedy_change *change);

static bool lower_microbatch(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
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

static bool free_gathered(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    if (!splits(run) || !run->keep_gathered) {
        return false;
    }
    run->keep_gathered = false;
    change->key = "strategy.keep_gathered";
    snprintf(change->value, sizeof change->value, "false");
    return true;
}

static bool raise_zero(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    int64_t highest = run->reduce_at == REDUCE_AT_STEP ? 1 : ZERO_STAGES - 1;
    if (!splits(run) || run->zero >= highest) {
        return false;
    }
    run->zero++;
    change->key = "strategy.zero";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->zero);
    return true;
}

static bool lower_prefetch(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    if (!splits(run) || run->prefetch == 0) {
        return false;
    }
    run->prefetch /= 2;
    change->key = "strategy.prefetch";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->prefetch);
    return true;
}

static bool lower_live(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    if (!splits(run) || run->live == 1) {
        return false;
    }
    run->live = run->live == 0 ? 2 : run->live / 2;
    change->key = "strategy.live";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->live);
    return true;
}

static bool raise_recompute(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    const struct blueprint *blueprint = &session->blueprint;
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

static const char *offload_text(unsigned kinds) {
    static const char *const TEXTS[] = {
        "none", "activations", "optimizer",        "optimizer,activations",
        NULL,   NULL,          "optimizer,params", "optimizer,params,activations"};
    ASSERT(kinds < ARRAY_COUNT(TEXTS) && TEXTS[kinds] != NULL);
    return TEXTS[kinds];
}

/* A target whose memory is the host's gains nothing. */
static bool offload(struct session *session, unsigned kinds, struct remedy_change *change) {
    struct run *run = &session->run;
    if (session->target->unified || (run->offload_kinds & kinds) == kinds) {
        return false;
    }
    run->offload_kinds |= kinds;
    change->key = "strategy.offload";
    snprintf(change->value, sizeof change->value, "%s", offload_text(run->offload_kinds));
    return true;
}

/* Its copies are made once a step. */
static bool offload_optimizer(struct session *session, struct remedy_change *change) {
    return offload(session, OFFLOAD_OPTIMIZER, change);
}

/* Its copies are made with every gather. */
static bool offload_params(struct session *session, struct remedy_change *change) {
    return splits(&session->run) && session->run.zero == ZERO_STAGES - 1 &&
           offload(session, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMS, change);
}

static bool offload_activations(struct session *session, struct remedy_change *change) {
    return offload(session, OFFLOAD_ACTIVATIONS, change);
}

/* A member of a swarm cannot change what all members share. */
static bool is_shared(const struct session *session) {
    return session->swarm.manifest != NULL;
}

static bool lower_moments(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    if (is_shared(session) || run->moments == DTYPE_BF16) {
        return false;
    }
    run->moments = DTYPE_BF16;
    change->key = "precision.moments";
    snprintf(change->value, sizeof change->value, "bf16");
    return true;
}

/* A shorter row keeps the step's tokens: there are more rows. */
static bool lower_sequence(struct session *session, struct remedy_change *change) {
    struct run *run = &session->run;
    if (is_shared(session) || run->sequence % 2 != 0 || run->sequence < 128) {
        return false;
    }
    run->sequence /= 2;
    run->context = run->context < run->sequence ? run->context : run->sequence;
    change->key = "batch.sequence";
    snprintf(change->value, sizeof change->value, "%lld", (long long)run->sequence);
    return true;
}

/* In the order of what they cost: time only, then exactness of the moments, then reach. */
static lower *const LOWERS[] = {lower_microbatch,  free_gathered,  raise_zero,
                                lower_live,        lower_prefetch, raise_recompute,
                                offload_optimizer, offload_params, offload_activations,
                                lower_moments,     lower_sequence};
_Static_assert(ARRAY_COUNT(LOWERS) <= REMEDIES_MAX && ARRAY_COUNT(LOWERS) <= REMEDY_CHANGES_MAX,
               "each way is a remedy of its own, or a change of one");

/* Repeats one way of lowering until it fits or can go no further, and counts how often. *outcome is
 * that of the last plan; untouched when there was none. */
static enum status go_down(struct what_if *trial, lower *way, struct remedy_change *change,
                           struct what_if_outcome *outcome, int *times, struct fault *fault) {
    enum status status = OK;
    *times = 0;
    while (!outcome->fits && status == OK && way(&trial->session, change)) {
        status = trial_plan(trial, outcome, fault);
        ++*times;
    }
    return status;
}

static enum status try_single(const struct session *session, enum purpose purpose, lower *way,
                              struct remedy *remedy, bool *found, struct fault *fault) {
    struct what_if trial;
    struct what_if_outcome outcome = {.fits = false};
    *remedy = (struct remedy){.change_count = 1};
    what_if_init(&trial, session, purpose);
    int times;
    enum status status = go_down(&trial, way, &remedy->changes[0], &outcome, &times, fault);
    remedy->peak_bytes = outcome.peak_bytes[SPACE_DEVICE];
    *found = outcome.fits;
    what_if_finish(&trial);
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

/* What the device no longer holds, the host has room for. */
static bool host_fits(const struct session *session, const struct what_if_outcome *reached) {
    const struct target *target = session->target;
    return target->unified ||
           (reached->peak_bytes[SPACE_PINNED] <= target_available_bytes(target, SPACE_PINNED) &&
            reached->peak_bytes[SPACE_HOST] <= target_available_bytes(target, SPACE_HOST));
}

/* A change of the newest key again takes its place. */
static void keep_newest(struct remedy *remedy) {
    struct remedy_change *newest = &remedy->changes[remedy->change_count];
    if (remedy->change_count > 0 && strcmp(newest[-1].key, newest->key) == 0) {
        newest[-1] = *newest;
    } else {
        remedy->change_count++;
    }
}

/* How often each way was gone. */
struct heap {
    int times[ARRAY_COUNT(LOWERS)];
};

static enum status plan_heap(const struct session *session, enum purpose purpose,
                             const struct heap *heap, struct remedy *remedy, bool *fits,
                             struct fault *fault) {
    struct region scratch = {0};
    struct what_if *trial = region_alloc(&scratch, 1, sizeof *trial);
    struct what_if_outcome outcome = {.fits = false};
    *remedy = (struct remedy){.change_count = 0};
    what_if_init(trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS); i++) {
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        int done = 0;
        while (done < heap->times[i] && LOWERS[i](&trial->session, change)) {
            done++;
        }
        if (done > 0) {
            keep_newest(remedy);
        }
    }
    enum status status = trial_plan(trial, &outcome, fault);
    remedy->peak_bytes = outcome.peak_bytes[SPACE_DEVICE];
    *fits = outcome.fits;
    what_if_finish(trial);
    region_finish(&scratch);
    return status;
}

/* What was heaped up before the change that made it fit may not be needed beside it. */
static enum status leave_out(const struct session *session, enum purpose purpose, struct heap *heap,
                             struct remedy *remedy, struct fault *fault) {
    enum status status = OK;
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS) && status == OK; i++) {
        struct heap fewer = *heap;
        struct remedy smaller;
        bool fits = false;
        fewer.times[i] = 0;
        if (heap->times[i] > 0) {
            status = plan_heap(session, purpose, &fewer, &smaller, &fits, fault);
        }
        if (fits) {
            *heap = fewer;
            *remedy = smaller;
        }
    }
    return status;
}

/* A way that lowers nothing, or asks too much of the host, is left out again. */
static enum status try_together(const struct session *session, enum purpose purpose,
                                struct remedy *remedy, bool *found, struct fault *fault) {
    struct heap heap = {{0}};
    struct what_if trial;
    struct settings before;
    struct what_if_outcome outcome = {.fits = false};
    uint64_t least = session->program.plan.peak_bytes[SPACE_DEVICE];
    enum status status = OK;
    *remedy = (struct remedy){.change_count = 0};
    what_if_init(&trial, session, purpose);
    before.kinds = region_alloc(&trial.session.region, (size_t)session->blueprint.layers,
                                sizeof *before.kinds);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS) && !outcome.fits && status == OK; i++) {
        struct what_if_outcome reached = {.fits = false};
        struct remedy_change *change = &remedy->changes[remedy->change_count];
        take(&before, &trial.session);
        status = go_down(&trial, LOWERS[i], change, &reached, &heap.times[i], fault);
        uint64_t peak = reached.peak_bytes[SPACE_DEVICE];
        if (peak > 0 && (peak < least || reached.fits) && host_fits(session, &reached)) {
            outcome = reached;
            least = peak;
            keep_newest(remedy);
        } else {
            put_back(&before, &trial.session);
            heap.times[i] = 0;
        }
    }
    remedy->peak_bytes = least;
    *found = outcome.fits;
    what_if_finish(&trial);
    return status == OK && outcome.fits ? leave_out(session, purpose, &heap, remedy, fault)
                                        : status;
}

/* Every way of lowering, as far as each goes: when not even that fits, nothing will. */
static enum status plan_least(const struct session *session, enum purpose purpose, bool *fits,
                              struct fault *fault) {
    struct what_if trial;
    struct what_if_outcome outcome = {.fits = false};
    struct remedy_change change;
    what_if_init(&trial, session, purpose);
    for (size_t i = 0; i < ARRAY_COUNT(LOWERS); i++) {
        while (LOWERS[i](&trial.session, &change)) {
        }
    }
    enum status status = OK;
    unsigned all = trial.session.run.offload_kinds;
    unsigned set = session->run.offload_kinds;
    for (unsigned left_out = 0; left_out <= all && status == OK && !outcome.fits; left_out++) {
        unsigned kinds = all & ~left_out; /* the host may be short of memory */
        bool possible = (kinds & OFFLOAD_PARAMS) == 0 || (kinds & OFFLOAD_OPTIMIZER) != 0;
        if (possible && (left_out & ~all) == 0 && (left_out & set) == 0) {
            trial.session.run.offload_kinds = kinds;
            status = trial_plan(&trial, &outcome, fault);
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

/* Appends what one way alone, of [first, end), finds. */
static enum status find_singles(const struct session *session, enum purpose purpose, size_t first,
                                size_t end, struct found_remedies *found, struct fault *fault) {
    enum status status = OK;
    for (size_t i = first; i < end && status == OK; i++) {
        bool fits = false;
        status =
            try_single(session, purpose, LOWERS[i], &found->remedies[found->count], &fits, fault);
        found->count += fits;
    }
    return status;
}

/* A shorter row is the last resort: before it, all other ways together. */
enum status remedies_find(const struct session *session, enum purpose purpose,
                          struct remedy *remedies, int *count, struct fault *fault) {
    bool found;
    enum status least = plan_least(session, purpose, &found, fault);
    if (least != OK || !found) {
        *count = 0;
        return least;
    }
    const size_t last = ARRAY_COUNT(LOWERS) - 1;
    struct found_remedies singles = {.remedies = remedies};
    enum status status = find_singles(session, purpose, 0, last, &singles, fault);
    if (status == OK && singles.count == 0) {
        status = try_together(session, purpose, &remedies[0], &found, fault);
        singles.count += status == OK && found;
    }
    if (status == OK) {
        status = find_singles(session, purpose, last, last + 1, &singles, fault);
    }
    if (status == OK) {
        *count = singles.count;
    }
    return status;
}
