/* chat_encode: the ids of a rendered conversation, and which of them are trained. */
#ifndef SKEP_CHAT_CHAT_ENCODE_H
#define SKEP_CHAT_CHAT_ENCODE_H

#include "runtime/chat/chat.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stddef.h>

/* The ids of a conversation. Zeros at first, but for the region; reused by the next call. */
struct chat_ids {
    struct region *region; /* of the arrays, which grow */
    int32_t *ids;          /* [count]: token ids */
    bool *is_trained;      /* [count]: the token is trained */
    int count, capacity;   /* tokens in use, and allocated */
};

/* chat_encode: the ids are those of the whole text, as the reference's encode(text,
 * add_special_tokens=False) gives them: the rendered text contains its special tokens. A token is
 * trained if it contains a trained byte, as with transformers' assistant masks.
 * encoder  of `tokenizer`; not used otherwise during the call
 * errors   those of tokenizer_encode; STATUS_INPUT when the text up to a control token and the text
 *          from there on have other ids than both together */
MUST_CHECK enum status chat_encode(const struct tokenizer *tokenizer,
                                   struct tokenizer_encoder *encoder, const struct chat_text *text,
                                   struct chat_ids *ids, struct fault *fault);

#endif
