#include "runtime/cli/reports/token_ids.h"

static void skip_blanks(struct token_ids *ids) {
    while (ids->at < ids->end && (*ids->at == ' ' || *ids->at == '\t' || *ids->at == '\r')) {
        ids->at++;
    }
}

/* Skips blanks, and then the next byte if it is `byte`. Returns whether it was. */
static bool skip_byte(struct token_ids *ids, char byte) {
    skip_blanks(ids);
    const bool found = ids->at < ids->end && *ids->at == byte;
    ids->at += found;
    return found;
}

void token_ids_begin(struct token_ids *ids, const char *text, size_t count) {
    *ids = (struct token_ids){.at = text, .end = text + count};
    ids->is_array = skip_byte(ids, '[');
}

static bool read_id(struct token_ids *ids, int64_t *id) {
    int64_t value = 0;
    ids->digits = ids->at;
    while (ids->at < ids->end && *ids->at >= '0' && *ids->at <= '9') {
        const int digit = *ids->at++ - '0';
        value = value > (INT64_MAX - digit) / 10 ? INT64_MAX : value * 10 + digit;
    }
    ids->digit_count = (int)(ids->at - ids->digits);
    *id = value;
    return ids->digit_count > 0;
}

enum token_ids_status token_ids_next(struct token_ids *ids, int64_t *id) {
    const bool is_closed = !ids->needs_id && ids->is_array && skip_byte(ids, ']');
    skip_blanks(ids);
    if (is_closed || (!ids->needs_id && !ids->is_array && ids->at == ids->end)) {
        return ids->at == ids->end ? TOKEN_IDS_END : TOKEN_IDS_INVALID;
    }
    const bool needs_comma = ids->is_array && ids->has_ids && !ids->needs_id;
    if (needs_comma || !read_id(ids, id)) {
        return TOKEN_IDS_INVALID;
    }
    ids->has_ids = true;
    ids->needs_id = skip_byte(ids, ',');
    return TOKEN_IDS_FOUND;
}
