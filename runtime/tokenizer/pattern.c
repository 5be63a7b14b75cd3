#include "runtime/tokenizer/pattern.h"

enum status pattern_make(const char *regex, const struct unicode *unicode, const char *subject,
                         struct region *region, const struct pattern **pattern,
                         struct fault *fault) {
    (void)unicode;
    (void)region;
    (void)pattern;
    return fault_set(fault, STATUS_INPUT, subject, "use a tokenizer with a published pattern",
                     "the pattern %.200s is not supported", regex);
}

enum status matcher_open(struct matcher *matcher, const struct pattern *pattern,
                         struct tokenizer_encoder *encoder, const char *text, size_t bytes) {
    (void)matcher;
    (void)pattern;
    (void)text;
    (void)bytes;
    return encoder_is_full(encoder);
}

enum status matcher_find(struct matcher *matcher, size_t at, size_t *begin, size_t *end,
                         struct fault *fault) {
    (void)matcher;
    (void)at;
    (void)begin;
    (void)end;
    (void)fault;
    return OK;
}

bool matcher_reserve(struct matcher *matcher, const struct split_step *step,
                     struct tokenizer_encoder *encoder, size_t bytes) {
    (void)matcher;
    (void)step;
    (void)encoder;
    (void)bytes;
    return true;
}
