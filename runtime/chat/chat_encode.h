/* chat_encode: the ids of a rendered conversation, and which of them are trained. */
#ifndef SKEP_CHAT_CHAT_ENCODE_H
#define SKEP_CHAT_CHAT_ENCODE_H

#include "runtime/chat/chat.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stddef.h>

/* The ids of a conversation. Before the first use, all fields except `region` are zeros. Later
 * calls reuse the memory. */
struct chat_ids {
    struct region *region; /* region of the arrays, which grow */
    int32_t *ids;          /* [count]: token ids */
    bool *is_trained;      /* [count]: the token is trained */
    int count, capacity;   /* number of tokens in use, and of tokens allocated */
};

/* chat_encode: encode a rendered text. The ids are those of the reference's encode(text,
 * add_special_tokens=False), because the rendered text contains its special tokens. A token is
 * trained if it contains a trained byte, as with transformers' assistant masks.
 * encoder  an encoder of `tokenizer`, which no other call uses at the same time
 * errors   those of tokenizer_encode; STATUS_INPUT when the text before a control token and the
 *          text from that token on, encoded separately, have other ids than the whole */
MUST_CHECK enum status chat_encode(const struct tokenizer *tokenizer,
                                   struct tokenizer_encoder *encoder, const struct chat_text *text,
                                   struct chat_ids *ids, struct fault *fault);

#endif
