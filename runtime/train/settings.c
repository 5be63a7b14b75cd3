/* settings: what follows from a run's settings: checks against the model, the learning rate, and
 * the
 * settings written out again. */
#include "runtime/train/run.h"

#include "runtime/train/keys.h"

#include <math.h>
#include <string.h>

enum { SEQUENCE_DEFAULT_MAX = 1024 };

static const char *place_of(const struct run *run) {
    return run->place[0] != '\0' ? run->place : "command line";
}

static enum status fill_sizes(struct run *run, const struct blueprint *blueprint,
                              struct fault *fault) {
    int64_t positions = blueprint->max_positions;
    int64_t sequence = run->sequence;
    if (sequence == 0) {
        sequence = positions < SEQUENCE_DEFAULT_MAX ? positions : SEQUENCE_DEFAULT_MAX;
    }
    int64_t context = run->context == 0 ? sequence : run->context;
    int64_t longest = run->longest_document == 0 ? sequence : run->longest_document;
    context = run->context == 0 && context > positions ? positions : context;
    if (longest > positions || context > positions) {
        bool first = longest > positions;
        return fault_set(fault, STATUS_INPUT, place_of(run), NULL,
                         "%s is %lld, the model has %lld positions",
                         first ? "batch.sequence" : "generate.context",
                         (long long)(first ? longest : context), (long long)positions);
    }
    int64_t tokens = run->batch_tokens == 0 ? sequence * run->microbatch : run->batch_tokens;
    if (tokens % sequence != 0) {
        return fault_set(fault, STATUS_INPUT, place_of(run), NULL,
                         "batch.tokens is %lld, not a multiple of batch.sequence, %lld",
                         (long long)tokens, (long long)sequence);
    }
    run->sequence = sequence;
    run->context = context;
    run->batch_tokens = tokens;
    return OK;
}

static bool recompute_parse(const char *text, size_t length, enum recompute *kind) {
    for (int i = 0; i < RECOMPUTE_COUNT; i++) {
        const char *name = recompute_name((enum recompute)i);
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            *kind = (enum recompute)i;
            return true;
        }
    }
    return false;
}

static enum status fill_recompute(struct run *run, const struct blueprint *blueprint,
                                  struct region *region, struct fault *fault) {
    enum recompute *kinds = region_alloc(region, (size_t)blueprint->layers, sizeof *kinds);
    const char *at = run->recompute != NULL ? run->recompute : "none";
    int64_t count = 0;
    while (*at != '\0') {
        size_t width = strcspn(at, ",");
        enum recompute kind;
        if (!recompute_parse(at, width, &kind)) {
            return fault_set(fault, STATUS_INPUT, place_of(run), NULL,
                             "strategy.recompute: \"%.*s\" is none of none, selective, block",
                             (int)width, at);
        }
        if (count < blueprint->layers) {
            kinds[count] = kind;
        }
        count++;
        at += width + (at[width] == ',');
        at += strspn(at, " ");
    }
    if (count != 1 && count != blueprint->layers) {
        return fault_set(fault, STATUS_INPUT, place_of(run), NULL,
                         "strategy.recompute lists %lld kinds, the model has %lld layers",
                         (long long)count, (long long)blueprint->layers);
    }
    for (int64_t layer = 1; count == 1 && layer < blueprint->layers; layer++) {
        kinds[layer] = kinds[0];
    }
    run->layer_recompute = kinds;
    return OK;
}

enum status run_check_model(struct run *run, const struct blueprint *blueprint,
                            struct region *region, struct fault *fault) {
    struct run checked = *run;
    enum status status = fill_sizes(&checked, blueprint, fault);
    if (status == OK) {
        status = fill_recompute(&checked, blueprint, region, fault);
    }
    if (status == OK) {
        *run = checked;
    }
    return status;
}

static const double COSINE_FLOOR = 0.1;    /* of the peak rate */
static const double WSD_DECAY_SHARE = 0.2; /* of all steps */
static const double PI = 3.14159265358979323846;

double run_rate(const struct run *run, int64_t step) {
    if (step < run->warmup_steps) {
        return run->lr * (double)(step + 1) / (double)run->warmup_steps;
    }
    if (run->schedule == RATE_CONSTANT) {
        return run->lr;
    }
    double span = (double)(run->steps - run->warmup_steps);
    double done = (double)(step - run->warmup_steps) / (span > 1 ? span : 1);
    done = done > 1 ? 1 : done;
    if (run->schedule == RATE_COSINE) {
        return run->lr * (COSINE_FLOOR + (1 - COSINE_FLOOR) * 0.5 * (1 + cos(PI * done)));
    }
    double decay = (1 - done) / WSD_DECAY_SHARE;
    return decay < 1 ? run->lr * decay : run->lr;
}

static void describe_text(const char *value, struct text *text) {
    if (value == NULL) {
        text_add(text, "null");
    } else {
        text_add_json(text, value); /* a JSON string is a YAML string */
    }
}

static void describe_choice(const struct key *key, int64_t index, struct text *text) {
    const char *at = key->choices;
    for (int64_t i = 0; i < index; i++) {
        at += strcspn(at, "|") + 1;
    }
    text_add(text, "%.*s", (int)strcspn(at, "|"), at);
}

void run_describe_key(const struct run *run, const struct key *key, struct text *text) {
    const void *at = (const char *)run + key->offset;
    switch (key->type) {
    case KEY_INTEGER:
        text_add(text, "%lld", (long long)*(const int64_t *)at);
        return;
    case KEY_REAL:
    case KEY_SECONDS:
        text_add(text, "%.17g", *(const double *)at);
        return;
    case KEY_PAIR: {
        const struct number_pair *pair = at;
        text_add(text, "[%.17g, %.17g]", pair->first, pair->second);
        return;
    }
    case KEY_BYTES:
        text_add(text, "%llu", (unsigned long long)*(const uint64_t *)at);
        return;
    case KEY_DTYPE:
        text_add(text, "%s", dtype_name((enum dtype) * (const int64_t *)at));
        return;
    case KEY_CHOICE:
        describe_choice(key, *(const int64_t *)at, text);
        return;
    case KEY_TEXT:
    case KEY_PATH:
    case KEY_PATHS:
        describe_text(*(const char *const *)at, text);
        return;
    }
}

void run_describe(const struct run *run, bool shared_only, struct text *text) {
    for (int i = 0; i < key_count(); i++) {
        const struct key *key = key_at(i);
        if (key->class == KEY_SHARED || !shared_only) {
            text_add(text, "%s: ", key->name);
            run_describe_key(run, key, text);
            text_add(text, "\n");
        }
    }
}

void run_print_keys(struct text *text) {
    text_add(text, "%-24s %-6s %-12s %-8s %s\n", "key", "class", "default", "unit", "meaning");
    for (int i = 0; i < key_count(); i++) {
        const struct key *key = key_at(i);
        text_add(text, "%-24s %-6s %-12s %-8s %s", key->name,
                 key->class == KEY_SHARED ? "shared" : "local",
                 key->fallback == NULL ? "-" : key->fallback,
                 key->unit[0] == '\0' ? "-" : key->unit, key->meaning);
        if (key->choices != NULL) {
            text_add(text, " (%s)", key->choices);
        }
        text_add(text, "\n");
    }
}
