/* run_model: checks of a run's settings against its model, and what follows from both. */
#include "runtime/settings/list.h"
#include "runtime/settings/run.h"

#include <string.h>

enum { SEQUENCE_DEFAULT_MAX = 1024 };

static int64_t at_most(int64_t value, int64_t limit) {
    return value < limit ? value : limit;
}

static enum status refuse_positions(const struct run *run, const char *key, int64_t value,
                                    int64_t positions, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, settings_location(run, key), NULL,
                     "%s is %lld, the model has %lld positions", key, (long long)value,
                     (long long)positions);
}

static enum status fill_sizes(struct run *run, const struct blueprint *blueprint,
                              struct fault *fault) {
    int64_t positions = blueprint->max_positions;
    int64_t sequence =
        run->sequence == 0 ? at_most(positions, SEQUENCE_DEFAULT_MAX) : run->sequence;
    int64_t longest = run->longest_document == 0 ? sequence : run->longest_document;
    int64_t context = run->context == 0 ? at_most(sequence, positions) : run->context;
    if (longest > positions) {
        return refuse_positions(run, "batch.sequence", longest, positions, fault);
    }
    if (context > positions) {
        return refuse_positions(run, "generate.context", context, positions, fault);
    }
    int64_t ranks = run->ranks < 1 ? 1 : run->ranks;
    int64_t tokens =
        run->batch_tokens == 0 ? sequence * run->microbatch * ranks : run->batch_tokens;
    if (tokens % sequence != 0) {
        return fault_set(fault, STATUS_INPUT, settings_location(run, "batch.tokens"), NULL,
                         "batch.tokens is %lld, not a multiple of batch.sequence, %lld",
                         (long long)tokens, (long long)sequence);
    }
    if (run->documents >= blueprint->vocab) {
        return fault_set(fault, STATUS_INPUT, settings_location(run, "data.documents"), NULL,
                         "data.documents is %lld, the model has a vocabulary of %lld",
                         (long long)run->documents, (long long)blueprint->vocab);
    }
    run->sequence = sequence;
    run->context = context;
    run->batch_tokens = tokens;
    return OK;
}

static bool recompute_parse(const struct comma_item *item, enum recompute *kind) {
    for (int i = 0; i < RECOMPUTE_COUNT; i++) {
        const char *name = recompute_name((enum recompute)i);
        if (strlen(name) == item->length && memcmp(name, item->text, item->length) == 0) {
            *kind = (enum recompute)i;
            return true;
        }
    }
    return false;
}

static enum status fill_recompute(struct run *run, const struct blueprint *blueprint,
                                  struct region *region, struct fault *fault) {
    const char *at = run->recompute != NULL ? run->recompute : "none";
    int64_t count = (int64_t)comma_list_count(at);
    if (count != 1 && count != blueprint->layers) {
        return fault_set(fault, STATUS_INPUT, settings_location(run, "strategy.recompute"), NULL,
                         "strategy.recompute lists %lld kinds, the model has %lld layers",
                         (long long)count, (long long)blueprint->layers);
    }
    enum recompute *kinds = region_alloc(region, (size_t)blueprint->layers, sizeof *kinds);
    struct comma_item item;
    for (int64_t layer = 0; comma_list_next(&at, &item); layer++) {
        if (!recompute_parse(&item, &kinds[layer])) {
            return fault_set(fault, STATUS_INPUT, settings_location(run, "strategy.recompute"),
                             NULL, "strategy.recompute: \"%.*s\" is none of none, selective, block",
                             (int)at_most((int64_t)item.length, 80), item.text);
        }
    }
    for (int64_t layer = count; layer < blueprint->layers; layer++) {
        kinds[layer] = kinds[0];
    }
    run->layer_recompute = kinds;
    return OK;
}

enum status settings_check_model(struct run *run, const struct blueprint *blueprint,
                                 struct region *region, struct fault *fault) {
    struct run checked = *run;
    TRY(fill_sizes(&checked, blueprint, fault));
    TRY(fill_recompute(&checked, blueprint, region, fault));
    *run = checked;
    return OK;
}

int64_t settings_eval_rows(const struct run *run) {
    return (run->eval_tokens + run->sequence - 1) / run->sequence;
}
