/* tokenizer: converts text to token ids and back, as the tokenizer.json of a model folder
 * specifies. The results equal those of the Python package tokenizers 0.23.3
 * (`Tokenizer.from_file`), id by id and byte by byte. The room reads the file, and has the
 * normalizers, the pre-tokenizers, byte pair encoding, the templates of special tokens and the
 * decoders.
 *
 *     text ─► added tokens ─► normalizer ─► pre-tokenizer ─► words ─► merges ─► ids
 *
 * A tokenizer is constant after loading, so all threads share one. Each thread has an encoder and a
 * decoder of its own, which own their scratch memory.
 *
 *     struct tokenizer *tokenizer;
 *     TRY(tokenizer_load("my-model", &region, &tokenizer, fault));
 *     struct tokenizer_encoder *encoder = tokenizer_encoder_make(tokenizer, &region);
 *     struct tokenizer_options options = {.adds_special_tokens = true};
 *     struct token_list list;
 *     TRY(tokenizer_encode(encoder, text, bytes, &options, &list, fault));
 *
 * Only BPE models are supported. The reader rejects any other component by its name; it never
 * ignores one. It ignores `truncation` and `padding`, as transformers does: they are for batches.
 *
 * public   tokenizer.h */
#ifndef SKEP_TOKENIZER_TOKENIZER_H
#define SKEP_TOKENIZER_TOKENIZER_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Version of the algorithm. It changes when the same file and text would give other ids. */
    TOKENIZER_ALGORITHM = 1,
    TOKENIZER_NO_ID = -1, /* value in place of an id: no token */
    TOKENIZER_FILE_BYTES_MAX =
        1 << 27 /* maximum size of tokenizer.json; the largest published one has 34 MB */
};

/* The longest text that one call encodes. */
#define TOKENIZER_TEXT_BYTES_MAX ((size_t)1 << 30)

struct tokenizer;
struct tokenizer_encoder;
struct tokenizer_decoder;

/* Facts about a tokenizer. */
struct tokenizer_info {
    struct hash hash;    /* BLAKE2b-256 of the bytes of tokenizer.json */
    int32_t id_count;    /* one more than the largest id, and at least 1 */
    int32_t token_count; /* number of ids with a token of the model or an added token */
    int32_t added_count; /* number of added tokens, including special tokens */
    int32_t merge_count; /* number of merges of the model */
    bool is_byte_level;  /* every text can be encoded and decodes to itself */
    /* Ids of the tokens that tokenizer_config.json names, else special_tokens_map.json;
     * TOKENIZER_NO_ID: neither names one. */
    int32_t bos_id, eos_id, unk_id, pad_id;
    /* Id of the token that ends a document in training data: the special token of the model family
     * for that, such as <|endoftext|>, else eos_id. An instruction-tuned model may have another
     * eos_id, which ends an answer. TOKENIZER_NO_ID: none. */
    int32_t document_id;
};

/* tokenizer_load: read FOLDER/tokenizer.json, and the names of special tokens from
 * tokenizer_config.json and special_tokens_map.json where these exist.
 * memory  the tokenizer is in `region`, about 20 bytes a merge and 30 a token; while loading, the
 *         file and the list of merges are in memory too. Before process_seal only
 * errors  STATUS_INPUT: no tokenizer.json (the remedy depends on which other file is there:
 *         tokenizer.model, tekken.json, vocab.json); not valid JSON; a component, option or pattern
 *         that is not supported, by name; merges, ids or special tokens that contradict each other.
 *         *tokenizer is then unchanged */
MUST_CHECK enum status tokenizer_load(const char *folder, struct region *region,
                                      const struct tokenizer **tokenizer, struct fault *fault);

/* tokenizer_finish: free the machine code of a tokenizer's patterns, the only part that is not in
 * its region. Its encoders must not be used after this. A tokenizer that lives as long as the
 * process needs no call. */
void tokenizer_finish(const struct tokenizer *tokenizer);

/* tokenizer_exists: true if the folder has a tokenizer.json. */
bool tokenizer_exists(const char *folder);

const struct tokenizer_info *tokenizer_info(const struct tokenizer *tokenizer);

/* A range of bytes, not terminated by a NUL. */
struct token_text {
    const char *bytes; /* [count] */
    size_t count;      /* length in bytes */
};

/* tokenizer_token_text: the token's text as it is in tokenizer.json: of byte-level tokens in the
 * alphabet of GPT-2, such as "Ġthe". {NULL, 0}: no token has this id. */
struct token_text tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id);

/* tokenizer_token_id: the id of the token with this text, an added token or one of the model, or
 * TOKENIZER_NO_ID. */
int32_t tokenizer_token_id(const struct tokenizer *tokenizer, const char *text, size_t bytes);

/* tokenizer_is_special: true if the id is an added token that is marked special. Decoding can skip
 * these, and `is_literal` encodes their texts as any other text. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

/* tokenizer_find_special: the first special token whose text is in `text`, for a caller that
 * rejects such input; TOKENIZER_NO_ID: none.
 * at      set to the position of its first byte */
int32_t tokenizer_find_special(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                               size_t *at);

/* How to encode a text. All false is the reference's encode(text, add_special_tokens=False). */
struct tokenizer_options {
    /* add the special tokens of the post-processor's template, before and after the text */
    bool adds_special_tokens;
    /* encode the texts of special tokens as any other text (the reference's
     * encode_special_tokens) */
    bool is_literal;
    /* The text is a later part of a document that was divided at tokenizer_split_position: it gets
     * no prefix, neither a special token nor a space. */
    bool is_continued;
    /* another part of the document follows: append no special token to this one */
    bool has_more;
};

/* Ids in the memory of an encoder. */
struct token_list {
    const int32_t *ids; /* [count] */
    size_t count;
};

/* tokenizer_encoder_make: an encoder for one thread at a time, about 2.5 MiB. The region must not
 * be shared with other threads, because the encoder later takes more memory from it: it keeps
 * scratch memory for the longest text so far, some 8 bytes for each of its bytes, and 32 for each
 * byte of its longest word. */
struct tokenizer_encoder *tokenizer_encoder_make(const struct tokenizer *tokenizer,
                                                 struct region *region);

/* tokenizer_encoder_reserve: allocate the scratch memory for any text of at most `text_bytes`
 * bytes, so that encoding it allocates nothing.
 * memory  about 120 bytes for each byte of the text
 * limits  where memory cannot be made executable, a pattern that repeats a group may need more;
 *         tokenizer_encode then reports STATUS_FIT after process_seal */
void tokenizer_encoder_reserve(struct tokenizer_encoder *encoder, size_t text_bytes);

/* A tokenizer_stop returns true once the process has been asked to stop. */
typedef bool tokenizer_stop(void);

/* tokenizer_encoder_watch_stop: let `stops` end the later calls of tokenizer_encode early. It is
 * called at most once for several thousand merges, and only for long words. */
void tokenizer_encoder_watch_stop(struct tokenizer_encoder *encoder, tokenizer_stop *stops);

/* tokenizer_encode: the ids of a text.
 * text    well-formed UTF-8, any length up to TOKENIZER_TEXT_BYTES_MAX; it may contain NUL
 * list    in the encoder's memory, valid until its next call
 * errors  STATUS_INPUT for ill-formed UTF-8 (the reason has its position), or a text that a pattern
 *         of the file cannot match within its limits; STATUS_FIT after process_seal for a text that
 *         needs more memory than is reserved; STATUS_STOPPED when tokenizer_encoder_watch_stop's
 *         function returned true. *list is then unchanged */
MUST_CHECK enum status tokenizer_encode(struct tokenizer_encoder *encoder, const char *text,
                                        size_t bytes, const struct tokenizer_options *options,
                                        struct token_list *list, struct fault *fault);

/* tokenizer_check_text: the check of tokenizer_encode that a text is well-formed UTF-8. */
MUST_CHECK enum status tokenizer_check_text(const char *text, size_t bytes, struct fault *fault);

/* tokenizer_split_position: the last position where a document may be divided: the ids of
 * text[0, position) with `has_more` and of text[position, bytes) with `is_continued`, one after the
 * other, are those of the whole text. Only bytes next to a position decide, so `text` may be any
 * part of a longer document.
 * returns  a position from 1 to `limit`, at the start of a character; 0: there is none, or this
 *          tokenizer has none in any text (tokenizer_can_split)
 * limits   limit < bytes */
size_t tokenizer_split_position(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                size_t limit);
bool tokenizer_can_split(const struct tokenizer *tokenizer);

/* tokenizer_decoder_make: a decoder for texts of at most `ids_max` ids, each between
 * tokenizer_decode_begin and tokenizer_decode_end. Nothing is allocated after this call.
 * memory  about 6 bytes an id, and 8 for each byte of the longest token */
struct tokenizer_decoder *tokenizer_decoder_make(const struct tokenizer *tokenizer, size_t ids_max,
                                                 struct region *region);

/* tokenizer_decode_begin, _next, _end: decode ids one by one. The texts that _next and _end return,
 * one after the other, are those of the reference's decode(ids, skip_special_tokens): whole
 * characters only, each as soon as no later id can change it. Bytes that are no character become
 * U+FFFD. Ids without a token are ignored. A text is valid until the next call. */
void tokenizer_decode_begin(struct tokenizer_decoder *decoder, bool skips_special);
struct token_text tokenizer_decode_next(struct tokenizer_decoder *decoder, int32_t id);
struct token_text tokenizer_decode_end(struct tokenizer_decoder *decoder);

#endif
