#include "runtime/cli/reports/sampling.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether the run file states that tokens are bytes. The model's tokenizer is then not used. */
static bool tokens_are_bytes(const struct settings *settings) {
    const char *format = settings->data_format;
    return format != NULL && strcmp(format, "bytes") == 0;
}

bool sampling_uses_tokenizer(const struct session *session) {
    return session->settings.text_needs_tokenizer && session->model_folder[0] != '\0' &&
           session->blueprint.has_tokenizer && !tokens_are_bytes(&session->settings);
}

static bool print_token(void *context, int32_t token) {
    struct sampling *sampling = context;
    char id[16];
    if (!sampling->prints_ids) {
        return generated_text_add(&sampling->text, token);
    }
    const int length = snprintf(id, sizeof id, "%d ", token);
    return print_at_once(id, (size_t)length, &sampling->text.write_error);
}

static enum status print_generated(struct sampling *sampling, struct session *session,
                                   struct fault *fault) {
    struct generated_text *text = &sampling->text;
    const struct generation *generation = &sampling->generation;
    TRY(generate_check(session, generation, fault));
    generated_text_begin(text, generation->prompt, generation->prompt_tokens);
    if (!sampling->prints_ids &&
        !print_at_once(sampling->prompt, strlen(sampling->prompt), &text->write_error)) {
        return OK;
    }
    TRY(generate_run(session, generation, print_token, sampling, fault));
    if (text->write_error == 0) {
        generated_text_end(text);
        (void)print_at_once("\n", 1, &text->write_error);
    }
    return OK;
}

/* ---- questions and answers ---- */

enum status sampling_begin_chat(struct sampling *sampling, struct session *session,
                                const struct dialog_choices *choices, struct fault *fault) {
    struct region *region = &session->region;
    struct dialog *dialog = &sampling->dialog;
    struct dialog_choices chosen = *choices;
    if (chosen.template_name == NULL) {
        chosen.template_name = session->settings.chat_template;
    }
    if (!sampling_uses_tokenizer(session)) {
        return fault_set(fault, STATUS_INPUT, "--chat", "name a model folder with a tokenizer.json",
                         "the model has no tokenizer");
    }
    TRY(tokenizer_load(session->model_folder, region, &sampling->tokenizer, fault));
    TRY(dialog_init(dialog, &chosen, session->model_folder, sampling->tokenizer, region, fault));
    sampling->generation.stop_token = chat_end_token(&dialog->chat, sampling->tokenizer);
    return sampling->prompt != NULL ? dialog_ask(dialog, sampling->prompt, fault) : OK;
}

/* Answers the last question, and adds the answer to the conversation. */
static enum status answer(struct sampling *sampling, struct session *session, struct fault *fault) {
    struct generated_text *text = &sampling->text;
    struct generation *generation = &sampling->generation;
    struct token_list list;
    TRY(dialog_prompt(&sampling->dialog, session->settings.context_tokens, &list, fault));
    generation->prompt = list.ids;
    generation->prompt_tokens = (int64_t)list.count;
    generated_text_begin(text, list.ids, generation->prompt_tokens);
    TRY(generate_run(session, generation, print_token, sampling, fault));
    if (text->write_error != 0) {
        return OK;
    }
    generated_text_end(text);
    const size_t bytes = text->copy_bytes;
    (void)print_at_once("\n", 1, &text->write_error);
    return dialog_answer(&sampling->dialog, text->copy, bytes, fault);
}

/* Answers the next question. A question that is rejected is reported, and the conversation
 * continues as if that question had not been asked. */
static enum status answer_next(struct sampling *sampling, struct session *session, bool *found,
                               struct fault *fault) {
    *found = true;
    enum status status = dialog_read(&sampling->dialog, found, fault);
    if (status == OK && *found) {
        status = answer(sampling, session, fault);
    }
    if (status != STATUS_INPUT) {
        return status;
    }
    dialog_withdraw(&sampling->dialog);
    fault_print(fault, STDERR_FILENO);
    sampling->rejected_count++;
    return OK;
}

static enum status answer_questions(struct sampling *sampling, struct session *session,
                                    struct fault *fault) {
    bool found = true;
    if (sampling->prompt != NULL) {
        return answer(sampling, session, fault);
    }
    while (found && sampling->text.write_error == 0) { /* each iteration answers one question */
        TRY(answer_next(sampling, session, &found, fault));
    }
    return sampling->rejected_count == 0
               ? OK
               : fault_set(fault, STATUS_INPUT, "standard input",
                           "correct the lines that are named above", "%d question%s rejected",
                           sampling->rejected_count,
                           sampling->rejected_count == 1 ? " was" : "s were");
}

enum status sampling_prepare(struct sampling *sampling, struct session *session,
                             const char *const *stops, int stop_count, struct fault *fault) {
    struct generation *generation = &sampling->generation;
    const int64_t context = session->settings.context_tokens;
    struct region *region = &session->region;
    generation->weights =
        region_alloc(region, (size_t)session->blueprint.vocab, sizeof *generation->weights);
    /* The size suffices for any prompt: generate_run checks later that a prompt has fewer tokens
     * than the context. */
    generated_text_init(&sampling->text, sampling->tokenizer,
                        (size_t)(generation->prompt_tokens + 2 * context), region);
    for (int i = 0; i < stop_count; i++) {
        TRY(generated_text_add_stop(&sampling->text, stops[i], fault));
    }
    if (sampling->is_chat) {
        generated_text_keep(&sampling->text, region_alloc(region, DIALOG_BYTES_MAX, 1),
                            DIALOG_BYTES_MAX);
    }
    return OK;
}

enum status sampling_run(struct sampling *sampling, struct session *session, struct fault *fault) {
    const enum status status = sampling->is_chat ? answer_questions(sampling, session, fault)
                                                 : print_generated(sampling, session, fault);
    const int error = sampling->text.write_error;
    return error != 0 ? stdout_fault(error, fault) : status;
}
