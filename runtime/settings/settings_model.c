/* settings_model: checks settings against the model, and fills in settings that depend on it. */
#include "base/bytes.h"
#include "runtime/settings/comma_list.h"
#include "runtime/settings/settings.h"

#include <stdio.h>
#include <string.h>

enum {
    SEQUENCE_DEFAULT_MAX = 1024,   /* largest default of batch.sequence, in tokens */
    BYTE_VOCAB = 256,              /* token ids of a model whose tokens are bytes */
    FINE_TUNING_WARMUP_STEPS = 20, /* default of schedule.warmup_steps with init: weights */
};

static const double FINE_TUNING_RATE = 2e-5;

static enum status position_limit_fault(const struct settings *settings, const char *key,
                                        int64_t value, int64_t positions, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, settings_location(settings, key), NULL,
                     "%s is %lld; the model has only %lld positions", key, (long long)value,
                     (long long)positions);
}

static enum status derive_token_counts(struct settings *settings, const struct blueprint *blueprint,
                                       struct fault *fault) {
    int64_t positions = blueprint->max_positions;
    int64_t sequence = settings->sequence_tokens == 0 ? min_i64(positions, SEQUENCE_DEFAULT_MAX)
                                                      : settings->sequence_tokens;
    int64_t longest =
        settings->longest_document_tokens == 0 ? sequence : settings->longest_document_tokens;
    int64_t context =
        settings->context_tokens == 0 ? min_i64(sequence, positions) : settings->context_tokens;
    if (longest > positions) {
        return position_limit_fault(settings, "batch.sequence", longest, positions, fault);
    }
    if (context > positions) {
        return position_limit_fault(settings, "generate.context", context, positions, fault);
    }
    int64_t ranks = max_i64(settings->ranks, 1);
    int64_t tokens = settings->batch_tokens == 0 ? sequence * settings->microbatch * ranks
                                                 : settings->batch_tokens;
    if (tokens % sequence != 0) {
        char remedy[96];
        int64_t below = tokens / sequence * sequence;
        if (below > 0) {
            snprintf(remedy, sizeof remedy, "use %lld or %lld, the nearest multiples",
                     (long long)below, (long long)(below + sequence));
        } else {
            snprintf(remedy, sizeof remedy, "use %lld", (long long)sequence);
        }
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "batch.tokens"), remedy,
                         "batch.tokens is %lld, not a multiple of batch.sequence, %lld",
                         (long long)tokens, (long long)sequence);
    }
    if (settings->document_end_token >= blueprint->vocab) {
        return fault_set(
            fault, STATUS_INPUT, settings_location(settings, "data.documents"), NULL,
            "data.documents is token %lld; the vocabulary of the model has %lld tokens",
            (long long)settings->document_end_token, (long long)blueprint->vocab);
    }
    settings->sequence_tokens = sequence;
    settings->context_tokens = context;
    settings->batch_tokens = tokens;
    return OK;
}

static bool parse_recompute(const struct comma_item *item, enum recompute *kind) {
    for (int i = 0; i < RECOMPUTE_COUNT; i++) {
        const char *name = recompute_name((enum recompute)i);
        if (strlen(name) == item->length && memcmp(name, item->text, item->length) == 0) {
            *kind = (enum recompute)i;
            return true;
        }
    }
    return false;
}

static enum status derive_layer_recompute(struct settings *settings,
                                          const struct blueprint *blueprint, struct region *region,
                                          struct fault *fault) {
    const char *at = settings->recompute != NULL ? settings->recompute : "none";
    int64_t count = (int64_t)comma_list_count(at);
    if (count != 1 && count != blueprint->layers) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "strategy.recompute"),
                         NULL,
                         "strategy.recompute lists %lld values, one for each layer, but the model "
                         "has %lld layers",
                         (long long)count, (long long)blueprint->layers);
    }
    enum recompute *kinds = region_alloc(region, (size_t)blueprint->layers, sizeof *kinds);
    struct comma_item item;
    for (int64_t layer = 0; comma_list_next(&at, &item); layer++) {
        if (!parse_recompute(&item, &kinds[layer])) {
            return fault_set(fault, STATUS_INPUT, settings_location(settings, "strategy.recompute"),
                             NULL,
                             "strategy.recompute: \"%.*s\" is not one of none, selective and block",
                             (int)min_i64((int64_t)item.length, 80), item.text);
        }
    }
    for (int64_t layer = count; layer < blueprint->layers; layer++) {
        kinds[layer] = kinds[0];
    }
    settings->layer_recompute = kinds;
    return OK;
}

/* Sets the types, learning rate and warm-up that were not given. 2e-5 is at most a tenth of the
 * rates at which models of this kind are pre-trained, so that the weights stay close to the
 * pre-trained ones. The second moments average over 1 / (1 - 0.95) = 20 steps: until then each
 * update has the full size of the learning rate, however small the gradient, which damages trained
 * weights. */
static void derive_defaults(struct settings *settings, const struct blueprint *blueprint) {
    const bool tunes = settings->run_file[0] != '\0' && settings->init_kind == INIT_FROM_WEIGHTS;
    const bool is_bf16 = tunes && blueprint->checkpoint_dtype == DTYPE_BF16;
    settings->is_fine_tuning = tunes;
    if (settings->params_dtype == DTYPE_AUTO) {
        settings->params_dtype = settings->compute_dtype = is_bf16 ? DTYPE_BF16 : DTYPE_F32;
    }
    if (settings->export_dtype == DTYPE_AUTO) {
        settings->export_dtype = settings->params_dtype;
    }
    if (tunes && !settings_is_given(settings, "optimizer.lr")) {
        settings->learning_rate = FINE_TUNING_RATE;
    }
    if (tunes && !settings_is_given(settings, "schedule.warmup_steps")) {
        settings->warmup_steps = FINE_TUNING_WARMUP_STEPS;
    }
}

enum status settings_check_model(struct settings *settings, const struct blueprint *blueprint,
                                 struct region *region, struct fault *fault) {
    struct settings checked = *settings;
    TRY(derive_token_counts(&checked, blueprint, fault));
    TRY(derive_layer_recompute(&checked, blueprint, region, fault));
    derive_defaults(&checked, blueprint);
    checked.text_needs_tokenizer = blueprint->has_tokenizer || blueprint->vocab > BYTE_VOCAB;
    *settings = checked;
    return OK;
}

int64_t settings_eval_rows(const struct settings *settings) {
    return div_ceil(settings->eval_tokens, settings->sequence_tokens);
}
