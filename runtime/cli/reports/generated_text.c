#include "runtime/cli/reports/generated_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool print_at_once(const char *bytes, size_t length, bool *has_failed) {
    while (length > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            *has_failed = written == 0 || errno != EPIPE;
            return false;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

enum status generated_text_init(struct generated_text *text, const struct tokenizer *tokenizer,
                                size_t ids_max, const char *stop, struct region *region,
                                struct fault *fault) {
    const size_t stop_bytes = stop == NULL ? 0 : strlen(stop);
    if (stop != NULL && (stop_bytes == 0 || stop_bytes > STOP_BYTES_MAX)) {
        return fault_set(fault, STATUS_USAGE, "--stop", "pass a shorter text",
                         "has %zu bytes; it must have 1 to %d", stop_bytes, STOP_BYTES_MAX);
    }
    *text = (struct generated_text){.tokenizer = tokenizer, .stop = stop, .stop_bytes = stop_bytes};
    if (tokenizer != NULL) {
        text->decoder = tokenizer_decoder_make(tokenizer, ids_max, region);
    }
    return OK;
}

/* A decoder may hold the end of the prompt's text back until the next token is known. */
void generated_text_begin(struct generated_text *text, const int32_t *ids, int64_t count) {
    size_t shown = 0;
    size_t whole = 0;
    if (text->decoder == NULL) {
        return;
    }
    tokenizer_decode_begin(text->decoder, true);
    for (int64_t i = 0; i < count; i++) {
        whole += tokenizer_decode_next(text->decoder, ids[i]).count;
    }
    whole += tokenizer_decode_end(text->decoder).count;
    tokenizer_decode_begin(text->decoder, true);
    for (int64_t i = 0; i < count; i++) {
        shown += tokenizer_decode_next(text->decoder, ids[i]).count;
    }
    text->hidden_bytes = whole > shown ? whole - shown : 0;
}

static bool flush_text(struct generated_text *text) {
    const size_t length = text->buffered_bytes;
    text->buffered_bytes = 0;
    return !text->has_write_failed && print_at_once(text->buffer, length, &text->has_write_failed);
}

static bool buffer_bytes(struct generated_text *text, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (text->buffered_bytes == PRINTED_BYTES && !flush_text(text)) {
            return false;
        }
        text->buffer[text->buffered_bytes++] = bytes[i];
    }
    return true;
}

/* Appends a byte. What is held back is always a start of the stop text, so it need not be stored:
 * when the next byte does not continue it, its first bytes are printed until the rest, with that
 * byte, is a start again. */
static bool add_byte(struct generated_text *text, char byte) {
    while (text->held_bytes > 0 && text->stop[text->held_bytes] != byte) {
        size_t drop = 1;
        while (drop < text->held_bytes &&
               (memcmp(text->stop, text->stop + drop, text->held_bytes - drop) != 0)) {
            drop++;
        }
        if (!buffer_bytes(text, text->stop, drop)) {
            return false;
        }
        text->held_bytes -= drop;
    }
    if (text->stop_bytes > 0 && text->stop[text->held_bytes] == byte) {
        text->held_bytes++;
        text->has_stopped = text->held_bytes == text->stop_bytes;
        return true;
    }
    return buffer_bytes(text, &byte, 1);
}

static bool add_bytes(struct generated_text *text, const char *bytes, size_t count) {
    const size_t hidden = text->hidden_bytes < count ? text->hidden_bytes : count;
    text->hidden_bytes -= hidden;
    for (size_t i = hidden; i < count && !text->has_stopped; i++) {
        if (!add_byte(text, bytes[i])) {
            return false;
        }
    }
    return flush_text(text) && !text->has_stopped;
}

bool generated_text_add(struct generated_text *text, int32_t token) {
    if (text->decoder == NULL) {
        const char byte = (char)token;
        return add_bytes(text, &byte, 1);
    }
    const struct tokenizer_info *info = tokenizer_info(text->tokenizer);
    if (token == info->eos_id || token == info->document_id) {
        return false;
    }
    const struct token_text added = tokenizer_decode_next(text->decoder, token);
    return add_bytes(text, added.bytes, added.count);
}

void generated_text_end(struct generated_text *text) {
    if (text->decoder != NULL && !text->has_stopped) {
        const struct token_text rest = tokenizer_decode_end(text->decoder);
        (void)add_bytes(text, rest.bytes, rest.count);
    }
    if (!text->has_stopped) {
        (void)buffer_bytes(text, text->stop, text->held_bytes);
        (void)flush_text(text);
    }
}
