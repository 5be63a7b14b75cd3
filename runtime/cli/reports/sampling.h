/* sampling: samples text from a model and prints it: the continuation of a prompt, or answers to
 * questions. Nothing here allocates after sampling_prepare. */
#ifndef SKEP_CLI_REPORTS_SAMPLING_H
#define SKEP_CLI_REPORTS_SAMPLING_H

#include "runtime/cli/reports/dialog.h"
#include "runtime/cli/reports/generated_text.h"
#include "runtime/session/generate.h"

struct sampling {
    const char *prompt; /* the text to continue, or the only question; NULL: questions are lines of
                         * standard input */
    bool prints_ids;    /* token ids are printed, not text */
    bool is_chat;       /* questions are answered */
    /* tokenizer of the model; NULL: tokens are bytes, or ids are printed */
    const struct tokenizer *tokenizer;
    struct dialog dialog;       /* the conversation; used only with is_chat */
    int rejected_count;         /* number of questions of standard input that were rejected */
    struct generated_text text; /* the output */
    struct generation generation;
};

/* sampling_uses_tokenizer: whether the text of this model is tokens of its tokenizer. */
bool sampling_uses_tokenizer(const struct session *session);

/* sampling_begin_chat: begin a conversation, and ask sampling->prompt if it is set.
 * errors  STATUS_INPUT for a model without a tokenizer; those of tokenizer_load, dialog_init and
 *         dialog_ask */
MUST_CHECK enum status sampling_begin_chat(struct sampling *sampling, struct session *session,
                                           const struct dialog_choices *choices,
                                           struct fault *fault);

/* sampling_prepare: allocate what the output needs, for a session that is bound.
 * stops   [stop_count] texts that end the output
 * errors  those of generated_text_add_stop */
MUST_CHECK enum status sampling_prepare(struct sampling *sampling, struct session *session,
                                        const char *const *stops, int stop_count,
                                        struct fault *fault);

/* sampling_run: print the prompt and its continuation, or the answers. A question of standard input
 * that is rejected is reported on standard error, and the conversation continues without it.
 * errors  STATUS_INPUT for a prompt that is too long, and at the end if questions were rejected;
 *         STATUS_FAILED when standard output cannot be written; those of generate_run and
 *         dialog_read */
MUST_CHECK enum status sampling_run(struct sampling *sampling, struct session *session,
                                    struct fault *fault);

#endif
