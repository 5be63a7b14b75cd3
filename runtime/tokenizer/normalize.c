#include "runtime/tokenizer/normalize.h"

#include <string.h>

size_t replace_bytes_max(size_t bytes, const struct counted_text *pattern,
                         const struct counted_text *content) {
    size_t growth = content->count > pattern->count ? content->count - pattern->count : 0;
    return bytes + bytes / pattern->count * growth;
}

size_t replace_all(const char *text, size_t bytes, const struct counted_text *pattern,
                   const struct counted_text *content, char *out) {
    size_t filled = 0;
    size_t at = 0;
    while (at < bytes) {
        const char *found = memmem(text + at, bytes - at, pattern->bytes, pattern->count);
        size_t end = found == NULL ? bytes : (size_t)(found - text);
        memcpy(out + filled, text + at, end - at);
        filled += end - at;
        at = end;
        if (found != NULL) {
            memcpy(out + filled, content->bytes, content->count);
            filled += content->count;
            at += pattern->count;
        }
    }
    return filled;
}

static size_t step_bytes_max(const struct normalizer_step *step, size_t bytes) {
    switch (step->kind) {
    case NORMALIZE_NFC:
        return unicode_nfc_bytes_max(bytes);
    case NORMALIZE_PREPEND:
        return bytes + step->content.count;
    default:
        return replace_bytes_max(bytes, &step->pattern, &step->content);
    }
}

size_t normalize_bytes_max(const struct tokenizer *tokenizer, size_t bytes) {
    for (size_t i = 0; i < tokenizer->normalizer_step_count; i++) {
        bytes = step_bytes_max(&tokenizer->normalizer_steps[i], bytes);
    }
    return bytes;
}

/* Whether a step changes the text. Most texts have none of the characters that a step changes. */
static bool has_effect(const struct tokenizer_encoder *encoder, const struct normalizer_step *step,
                       bool is_continued, const char *text, size_t bytes) {
    switch (step->kind) {
    case NORMALIZE_NFC:
        return unicode_nfc_start(encoder->tokenizer->unicode, text, bytes) < bytes;
    case NORMALIZE_PREPEND:
        return bytes > 0 && !is_continued;
    default:
        return memmem(text, bytes, step->pattern.bytes, step->pattern.count) != NULL;
    }
}

static size_t apply_step(const struct tokenizer_encoder *encoder,
                         const struct normalizer_step *step, const char *text, size_t bytes,
                         char *out) {
    switch (step->kind) {
    case NORMALIZE_NFC:
        return unicode_nfc(encoder->tokenizer->unicode, text, bytes, encoder->points.memory, out);
    case NORMALIZE_PREPEND:
        memcpy(out, step->content.bytes, step->content.count);
        memcpy(out + step->content.count, text, bytes);
        return step->content.count + bytes;
    default:
        return replace_all(text, bytes, &step->pattern, &step->content, out);
    }
}

enum status normalize(struct tokenizer_encoder *encoder, bool is_continued, const char **text,
                      size_t *bytes) {
    const struct tokenizer *tokenizer = encoder->tokenizer;
    int target = 0;
    for (size_t i = 0; i < tokenizer->normalizer_step_count; i++) {
        const struct normalizer_step *step = &tokenizer->normalizer_steps[i];
        if (!has_effect(encoder, step, is_continued, *text, *bytes)) {
            continue;
        }
        struct scratch *out = &encoder->normalized[target];
        bool is_nfc = step->kind == NORMALIZE_NFC;
        if (!scratch_reserve(out, encoder->region, step_bytes_max(step, *bytes), 1, 0) ||
            (is_nfc && !scratch_reserve(&encoder->points, encoder->region,
                                        unicode_nfc_points_max(*bytes), sizeof(uint32_t), 0))) {
            return encoder_full_fault(encoder);
        }
        *bytes = apply_step(encoder, step, *text, *bytes, out->memory);
        *text = out->memory;
        target = 1 - target;
    }
    return OK;
}
