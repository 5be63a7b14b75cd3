/* generate: a continuation of a prompt, token by token, through the key-value cache. */
#ifndef SKEP_SESSION_GENERATE_H
#define SKEP_SESSION_GENERATE_H

#include "runtime/session/session.h"

struct generation {
    const int32_t *prompt;
    int64_t prompt_tokens;
    int64_t tokens;     /* to generate, at most */
    double temperature; /* 0: always the most likely token */
    uint64_t seed;
    int32_t stop_token; /* ends the text and is not passed on; -1: none */
};

/* Receives each new token; returns false to end the generation. */
typedef bool generate_sink(void *context, int32_t token);

/* generate_run: the prompt in pieces, then one token at a time. Equal seed, prompt and program give
 * equal text.
 * limits  1 <= prompt_tokens; prompt and new tokens within the cache's context
 * errors  STATUS_INPUT: an empty prompt, an id beyond the vocabulary, a prompt longer than the
 *         context */
MUST_CHECK enum status generate_run(struct session *session, const struct generation *generation,
                                    generate_sink *sink, void *context, struct fault *fault);

#endif
