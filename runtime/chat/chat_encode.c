/* chat_encode: finds which tokens belong to a segment of the text by encoding the text before the
 * segment. So that little text is encoded again, the text is divided where control tokens begin. */
#include "runtime/chat/chat_encode.h"

#include <string.h>

/* The arguments of chat_encode, for the functions that it calls. */
struct encoding {
    const struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    const struct chat_text *text;
    struct chat_ids *ids;
    struct fault *fault;
};

/* A part of the text that is encoded separately, and the ids of this part. */
struct chunk {
    size_t begin, end;  /* range of the chunk in the text */
    int first_segment;  /* index of the chunk's first segment */
    int end_segment;    /* one after the index of the chunk's last segment */
    const int32_t *ids; /* [count] */
    bool *is_trained;   /* [count] */
    size_t count;
};

static void reserve_ids(struct chat_ids *ids, size_t count) {
    int capacity = ids->capacity;
    while ((size_t)ids->capacity < count) {
        capacity = ids->capacity;
        ids->ids = region_grow(ids->region, ids->ids, 0, &ids->capacity, sizeof *ids->ids);
        ids->is_trained =
            region_grow(ids->region, ids->is_trained, 0, &capacity, sizeof *ids->is_trained);
        ASSERT(capacity == ids->capacity);
    }
}

static enum status encode_whole_text(struct encoding *encoding) {
    static const struct tokenizer_options OPTIONS = {.adds_special_tokens = false};
    const struct chat_text *text = encoding->text;
    struct chat_ids *ids = encoding->ids;
    struct token_list list;
    TRY(tokenizer_encode(encoding->encoder, text->bytes, (size_t)text->length, &OPTIONS, &list,
                         encoding->fault));
    reserve_ids(ids, list.count);
    ids->count = (int)list.count;
    if (list.count > 0) {
        memcpy(ids->ids, list.ids, list.count * sizeof *list.ids);
        memset(ids->is_trained, 0, list.count * sizeof *ids->is_trained);
    }
    return OK;
}

/* Sets *list to the ids of a range of the text. The list is valid until the next call. */
static enum status encode_range(struct encoding *encoding, size_t begin, size_t end,
                                struct token_list *list) {
    const struct tokenizer_options options = {.is_continued = begin > 0, .has_more = true};
    return tokenizer_encode(encoding->encoder, encoding->text->bytes + begin, end - begin, &options,
                            list, encoding->fault);
}

static size_t token_bytes(const struct encoding *encoding, int32_t id) {
    return tokenizer_token_text(encoding->tokenizer, id).count;
}

/* Sets *index to the number of the chunk's tokens before an offset of the text. A token that
 * crosses the offset is counted only if `rounds_up` is true. */
static enum status find_token(struct encoding *encoding, const struct chunk *chunk, size_t offset,
                              bool rounds_up, size_t *index) {
    struct token_list before;
    size_t same = 0, bytes_before = 0, bytes = 0;
    TRY(encode_range(encoding, chunk->begin, offset, &before));
    while (same < before.count && same < chunk->count && before.ids[same] == chunk->ids[same]) {
        same++;
    }
    /* The first `same` ids are those of the chunk. The rest of the text before the offset has other
     * ids in the chunk, because a token of the chunk crosses the offset; so its bytes are
     * counted. */
    for (size_t i = same; i < before.count; i++) {
        bytes_before += token_bytes(encoding, before.ids[i]);
    }
    *index = same;
    while (*index < chunk->count && bytes < bytes_before) {
        bytes += token_bytes(encoding, chunk->ids[(*index)++]);
    }
    *index -= !rounds_up && bytes > bytes_before;
    return OK;
}

static size_t segment_end(const struct chat_text *text, int index) {
    return index + 1 < text->segment_count ? text->segments[index + 1].begin : (size_t)text->length;
}

/* Sets is_trained for each token of the chunk. */
static enum status mark_chunk(struct encoding *encoding, const struct chunk *chunk) {
    for (int i = chunk->first_segment; i < chunk->end_segment; i++) {
        const struct chat_segment *segment = &encoding->text->segments[i];
        const size_t end = segment_end(encoding->text, i);
        size_t first, last = chunk->count;
        if (!segment->is_trained || segment->begin == end) {
            continue;
        }
        TRY(find_token(encoding, chunk, segment->begin, false, &first));
        if (end < chunk->end) {
            TRY(find_token(encoding, chunk, end, true, &last));
        }
        for (size_t t = first; t < last; t++) {
            chunk->is_trained[t] = true;
        }
    }
    return OK;
}

/* Sets *chunk to the chunk that begins with segment `first`. Its ids begin at index `position`. */
static enum status find_chunk(struct encoding *encoding, int first, size_t position,
                              struct chunk *chunk) {
    const struct chat_text *text = encoding->text;
    const struct chat_ids *ids = encoding->ids;
    struct token_list list;
    int end = first + 1;
    while (end < text->segment_count && !text->segments[end].is_separate) {
        end++;
    }
    *chunk = (struct chunk){.begin = text->segments[first].begin,
                            .end = segment_end(text, end - 1),
                            .first_segment = first,
                            .end_segment = end,
                            .ids = ids->ids + position,
                            .is_trained = ids->is_trained + position};
    TRY(encode_range(encoding, chunk->begin, chunk->end, &list));
    chunk->count = list.count;
    if (list.count > (size_t)ids->count - position ||
        (list.count > 0 && memcmp(list.ids, chunk->ids, list.count * sizeof *list.ids) != 0)) {
        return fault_set(encoding->fault, STATUS_INPUT, "tokenizer",
                         "mark the template's control tokens as special in the tokenizer",
                         "gives other ids when a conversation is divided at a control token");
    }
    return OK;
}

enum status chat_encode(const struct tokenizer *tokenizer, struct tokenizer_encoder *encoder,
                        const struct chat_text *text, struct chat_ids *ids, struct fault *fault) {
    struct encoding encoding = {
        .tokenizer = tokenizer, .encoder = encoder, .text = text, .ids = ids, .fault = fault};
    size_t position = 0;
    TRY(encode_whole_text(&encoding));
    for (int segment = 0; segment < text->segment_count;) {
        struct chunk chunk;
        TRY(find_chunk(&encoding, segment, position, &chunk));
        TRY(mark_chunk(&encoding, &chunk));
        position += chunk.count;
        segment = chunk.end_segment;
    }
    if (position != (size_t)ids->count) {
        return fault_set(fault, STATUS_INPUT, "tokenizer",
                         "mark the template's control tokens as special in the tokenizer",
                         "gives fewer ids when a conversation is divided at its control tokens");
    }
    return OK;
}
