#include "runtime/session/generate.h"

#include "base/random.h"

#include <math.h>

static enum status check_prompt(const struct session *session, const struct generation *generation,
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
    program_run(&session->bound, segment);
}

static int32_t most_likely_token(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return (int32_t)best;
}

/* Returns the token at which the running sum of exp((logit - max) / temperature) exceeds `uniform`
 * times the total. Two passes need no memory for the distribution. */
static int32_t sample_token(const float *logits, int64_t vocab, double temperature,
                            double uniform) {
    double top = (double)logits[most_likely_token(logits, vocab)];
    double total = 0;
    for (int64_t i = 0; i < vocab; i++) {
        total += exp(((double)logits[i] - top) / temperature);
    }
    double left = uniform * total;
    for (int64_t i = 0; i < vocab; i++) {
        left -= exp(((double)logits[i] - top) / temperature);
        if (left < 0) {
            return (int32_t)i;
        }
    }
    return (int32_t)(vocab - 1);
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
    return sample_token(logits, vocab, generation->temperature, uniform);
}

enum status generate_run(struct session *session, const struct generation *generation,
                         generate_sink *sink, void *context, struct fault *fault) {
    TRY(check_prompt(session, generation, fault));
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
