/* generate: generates the continuation of a prompt token by token, with the key-value cache. */
#ifndef SKEP_SESSION_GENERATE_H
#define SKEP_SESSION_GENERATE_H

#include "runtime/session/session.h"

struct generation {
    const int32_t *prompt; /* [prompt_tokens]: token ids of the prompt */
    int64_t prompt_tokens;
    int64_t tokens;     /* maximum number of tokens to generate */
    double temperature; /* 0: always choose the most likely token */
    int64_t top_k;      /* choose among this number of the most likely tokens; 0: all */
    double top_p;    /* choose among the most likely tokens with this probability in sum; 1: all */
    double *weights; /* [vocab] workspace */
    uint64_t seed;   /* seed of the random choice of tokens */
    int32_t stop_token; /* token that ends the text and is not output; -1: none */
};

/* A generate_sink receives each new token, and returns false to end the generation. */
typedef bool generate_sink(void *context, int32_t token);

/* generate_check: checks, as generate_run does, that the prompt fits into the context, and that its
 * ids are in the vocabulary.
 * errors  STATUS_INPUT */
MUST_CHECK enum status generate_check(const struct session *session,
                                      const struct generation *generation, struct fault *fault);

/* generate_run: processes the prompt in parts, then generates one token at a time. Equal seed,
 * prompt and program produce equal text. Tokens are chosen as transformers does: the logits are
 * divided by the temperature, then top_k applies, then top_p to what top_k has left. Of tokens with
 * equal logits either all or none are left.
 * limits  0 <= top_k; 0 < top_p <= 1; 1 <= prompt_tokens; prompt and new tokens within the cache's
 *         context
 * errors  STATUS_INPUT: an empty prompt, an id beyond the vocabulary, a prompt longer than the
 *         context */
MUST_CHECK enum status generate_run(struct session *session, const struct generation *generation,
                                    generate_sink *sink, void *context, struct fault *fault);

#endif
