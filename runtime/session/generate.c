#include "runtime/session/generate.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

enum status generate_check(const struct session *session, const struct generation *generation,
                           struct fault *fault) {
    int64_t context = session->settings.context_tokens;
    int64_t vocab = session->blueprint.vocab;
    if (generation->prompt_tokens < 1 || generation->prompt_tokens >= context) {
        return fault_set(
            fault, STATUS_INPUT, "prompt", "raise generate.context or shorten the prompt",
            "has %lld tokens, but a prompt must have 1 to %lld in a context of %lld",
            (long long)generation->prompt_tokens, (long long)context - 1, (long long)context);
    }
    for (int64_t i = 0; i < generation->prompt_tokens; i++) {
        if (generation->prompt[i] < 0 || generation->prompt[i] >= vocab) {
            return fault_set(
                fault, STATUS_INPUT, "prompt", "use this model's tokenizer",
                "token %lld of the prompt has id %d, but the vocabulary has only %lld ids",
                (long long)i, generation->prompt[i], (long long)vocab);
        }
    }
    return OK;
}

/* Processes `count` tokens that follow `past` earlier ones, which computes the logits of the next
 * token. */
static void process_tokens(struct session *session, const int32_t *tokens, int64_t count,
                           int64_t past, enum segment_kind segment) {
    const struct schedule *schedule = &session->program.schedule;
    int32_t *ids = program_extent_address(&session->bound, schedule->host.ids);
    int32_t *positions = program_extent_address(&session->bound, schedule->host.positions);
    int64_t width = segment == SEGMENT_PREFILL ? schedule->options.prefill : 1;
    for (int64_t i = 0; i < width; i++) {
        ids[i] = i < count ? tokens[i] : 0;
        int64_t position = past + (i < count ? i : count - 1);
        positions[i] = (int32_t)position;
    }
    struct step_scalars *scalars = program_scalars(&session->bound);
    scalars->cache_length = (int32_t)past;
    scalars->token_count = (int32_t)count;
    program_execute_segment(&session->bound, segment);
}

static int32_t most_likely_token(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

/* Returns an integer that orders logits as floats do: a greater logit has a greater integer. */
static int64_t order_of(float logit) {
    int32_t bits;
    memcpy(&bits, &logit, sizeof bits);
    return bits >= 0 ? bits : (int64_t)INT32_MIN - bits;
}

/* The weights of a distribution, and the lowest logit with which a token can be chosen. */
struct choice {
    const float *logits; /* [vocab] */
    double *weights;     /* [vocab] */
    int64_t vocab;       /* number of token ids */
    int64_t lowest;      /* order_of the lowest logit with which a token can be chosen */
};

/* Returns the number of tokens whose logit has at least the order `lowest` if `counts` is set, else
 * the sum of the weights of these tokens. */
static double sum_from(const struct choice *choice, int64_t lowest, bool counts) {
    double sum = 0;
    for (int64_t i = 0; i < choice->vocab; i++) {
        if (order_of(choice->logits[i]) >= lowest) {
            sum += counts ? 1 : choice->weights[i];
        }
    }
    return sum;
}

/* Raises choice->lowest to the highest value with which sum_from returns at least `target`, by
 * bisection over all floats. */
static void raise_lowest(struct choice *choice, double target, bool counts) {
    int64_t low = choice->lowest; /* with this value of `lowest`, sum_from reaches the target */
    int64_t high = (int64_t)INT32_MAX + 1;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (sum_from(choice, middle, counts) >= target) {
            low = middle;
        } else {
            high = middle;
        }
    }
    choice->lowest = low;
}

/* Returns the token at which the running sum of exp((logit - max) / temperature), over the tokens
 * that top_k and top_p leave, exceeds `uniform` times the total. */
static int32_t sample_token(const struct generation *generation, const float *logits, int64_t vocab,
                            double uniform) {
    const int32_t likeliest = most_likely_token(logits, vocab);
    const double top = (double)logits[likeliest];
    struct choice choice = {.logits = logits,
                            .weights = generation->weights,
                            .vocab = vocab,
                            .lowest = (int64_t)INT32_MIN - INT32_MAX};
    double total = 0;
    for (int64_t i = 0; i < vocab; i++) {
        choice.weights[i] = exp(((double)logits[i] - top) / generation->temperature);
        total += choice.weights[i];
    }
    if (generation->top_k > 0 && generation->top_k < vocab) {
        raise_lowest(&choice, (double)generation->top_k, true);
        total = sum_from(&choice, choice.lowest, false);
    }
    if (generation->top_p < 1) {
        raise_lowest(&choice, generation->top_p * total, false);
        total = sum_from(&choice, choice.lowest, false);
    }
    double left = uniform * total;
    for (int64_t i = 0; i < vocab; i++) {
        left -= order_of(logits[i]) >= choice.lowest ? choice.weights[i] : 0;
        if (left < 0) {
            return (int32_t)i;
        }
    }
    return likeliest; /* rounding errors have kept `left` from becoming negative */
}

static int32_t next_token(const struct session *session, const struct generation *generation,
                          int64_t index) {
    const float *logits =
        program_extent_address(&session->bound, session->program.schedule.host.next_logits);
    int64_t vocab = session->blueprint.vocab;
    if (generation->temperature <= 0) {
        return most_likely_token(logits, vocab);
    }
    double uniform = random_uniform(random_key(generation->seed, "sample"), (uint64_t)index);
    return sample_token(generation, logits, vocab, uniform);
}

enum status generate_run(struct session *session, const struct generation *generation,
                         generate_sink *sink, void *context, struct fault *fault) {
    TRY(generate_check(session, generation, fault));
    int64_t piece = session->program.schedule.options.prefill;
    int64_t past = 0;
    while (past < generation->prompt_tokens) {
        int64_t left = generation->prompt_tokens - past;
        int64_t count = left < piece ? left : piece;
        process_tokens(session, generation->prompt + past, count, past, SEGMENT_PREFILL);
        past += count;
    }
    TRY(program_failure(&session->bound, fault));
    for (int64_t count = 0; count < generation->tokens; count++) {
        int32_t token = next_token(session, generation, count);
        if (token == generation->stop_token || !sink(context, token) ||
            past == session->settings.context_tokens) {
            return OK;
        }
        process_tokens(session, &token, 1, past++, SEGMENT_DECODE);
        TRY(program_failure(&session->bound, fault));
    }
    return OK;
}
