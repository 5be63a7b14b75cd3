#include "runtime/cli/reports/generated_text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool print_at_once(const char *bytes, size_t length, int *error) {
    while (length > 0) {
        const ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            *error = written == 0 ? EIO : errno == EPIPE ? 0 : errno;
            return false;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

enum status stdout_fault(int error, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, "standard output",
                     "write it to a disk that has space, or to another program",
                     "cannot be written completely%s%s", error != 0 ? ": " : "",
                     error != 0 ? strerror(error) : "");
}

void generated_text_init(struct generated_text *text, const struct tokenizer *tokenizer,
                         size_t ids_max, struct region *region) {
    *text = (struct generated_text){.tokenizer = tokenizer};
    if (tokenizer != NULL) {
        text->decoder = tokenizer_decoder_make(tokenizer, ids_max, region);
    }
}

enum status generated_text_add_stop(struct generated_text *text, const char *stop,
                                    struct fault *fault) {
    const size_t count = strlen(stop);
    ASSERT(text->stop_count < STOP_TEXTS_MAX);
    if (count == 0 || count > STOP_BYTES_MAX) {
        return fault_set(fault, STATUS_USAGE, "--stop", "shorten or omit it",
                         "has %zu bytes; a stop text has 1 to %d", count, STOP_BYTES_MAX);
    }
    text->stops[text->stop_count++] = (struct stop_text){.bytes = stop, .count = count};
    return OK;
}

void generated_text_keep(struct generated_text *text, char *copy, size_t capacity) {
    text->copy = copy;
    text->copy_capacity = capacity;
}

/* Passes the prompt's ids to the decoder. The decoder may hold back the end of the prompt's text
 * until the next token is known, so hidden_bytes counts the bytes that are still to come. */
void generated_text_begin(struct generated_text *text, const int32_t *ids, int64_t count) {
    size_t shown = 0;
    size_t whole = 0;
    text->hidden_bytes = text->held_bytes = text->copy_bytes = 0;
    text->has_stopped = false;
    for (int i = 0; i < text->stop_count; i++) {
        text->stops[i].matched = 0;
    }
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
    if (text->copy != NULL && text->copy_bytes + length <= text->copy_capacity) {
        memcpy(text->copy + text->copy_bytes, text->buffer, length);
    }
    text->copy_bytes += length;
    return text->write_error == 0 && print_at_once(text->buffer, length, &text->write_error);
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

/* Updates stop->matched for the next byte of the output. The matched part is the beginning of the
 * stop text, so any shorter beginning that the output ends with is also an end of the matched
 * part. */
static void match_byte(struct stop_text *stop, char byte) {
    while (stop->matched > 0 && stop->bytes[stop->matched] != byte) {
        size_t drop = 1;
        while (memcmp(stop->bytes, stop->bytes + drop, stop->matched - drop) != 0) {
            drop++;
        }
        stop->matched -= drop;
    }
    stop->matched += stop->bytes[stop->matched] == byte;
}

/* Appends a byte to the output. Bytes that may be the beginning of a stop text are held back until
 * the stop text is complete, or can no longer become complete. A complete one sets has_stopped.
 * Returns false when standard output cannot be written. */
static bool add_byte(struct generated_text *text, char byte) {
    size_t longest = 0, complete = 0;
    for (int i = 0; i < text->stop_count; i++) {
        struct stop_text *stop = &text->stops[i];
        match_byte(stop, byte);
        longest = stop->matched > longest ? stop->matched : longest;
        complete = stop->matched == stop->count && stop->count > complete ? stop->count : complete;
    }
    if (complete > 0) { /* the last byte of the stop text is not in `held` */
        text->has_stopped = true;
        return buffer_bytes(text, text->held, text->held_bytes - (complete - 1));
    }
    const size_t printed = longest == 0 ? text->held_bytes : text->held_bytes + 1 - longest;
    if (!buffer_bytes(text, text->held, printed)) {
        return false;
    }
    text->held_bytes -= printed;
    memmove(text->held, text->held + printed, text->held_bytes);
    if (longest == 0) {
        return buffer_bytes(text, &byte, 1);
    }
    text->held[text->held_bytes++] = byte;
    return true;
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
        (void)buffer_bytes(text, text->held, text->held_bytes);
        (void)flush_text(text);
    }
}
