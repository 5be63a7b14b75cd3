#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/tokenizer/pattern.h"

#include "runtime/tokenizer/pattern_parse.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include "base/text.h"

#include <pcre2.h>
#include <string.h>

enum {
    SYMBOLS_MAX = 255,      /* a symbol is one byte, and not 0 */
    SYMBOL_TEXT_BYTES = 16, /* of a range of symbols in the pattern */
    SLOTS = 512,
};

struct pattern {
    pcre2_code *code;
    uint16_t blocks[UNICODE_END >> UNICODE_BLOCK_BITS];
    const uint8_t *symbols; /* [blocks][1 << UNICODE_BLOCK_BITS]: the symbol of a character */
    bool is_compiled;       /* to machine code; else PCRE2 interprets it */
};

/* The symbols of a pattern: characters in the same sets have the same one. */
struct symbol_table {
    uint64_t masks[SYMBOLS_MAX + 1]; /* bit s: the characters are in set s */
    int count;                       /* symbols 1 to count are in use */
};

/* PCRE2 takes memory from a region, and none after the seal. */
static void *allocate(size_t bytes, void *region) {
    return process_is_sealed() ? NULL : region_alloc(region, bytes, 1);
}

static void release(void *memory, void *region) {
    (void)memory;
    (void)region;
}

/* For each character the sets that it is in. */
static uint64_t *mask_characters(const struct pattern_draft *draft, const struct unicode *unicode,
                                 struct region *region) {
    uint64_t *masks = region_alloc(region, UNICODE_END, sizeof *masks);
    uint64_t class_masks[UNICODE_CLASSES] = {0};
    uint64_t negated = 0;
    for (int s = 0; s < draft->set_count; s++) {
        uint64_t bit = (uint64_t)1 << s;
        negated |= draft->sets[s].is_negated ? bit : 0;
        for (int i = 0; i < UNICODE_CLASSES; i++) {
            class_masks[i] |= draft->sets[s].classes[i] ? bit : 0;
        }
    }
    for (uint32_t point = 0; point < UNICODE_END; point++) {
        masks[point] = class_masks[unicode_class(unicode, point)];
    }
    for (int s = 0; s < draft->set_count; s++) {
        const struct pattern_set *set = &draft->sets[s];
        for (int r = set->first_range; r < set->first_range + set->range_count; r++) {
            for (uint32_t point = draft->ranges[r].low; point <= draft->ranges[r].high; point++) {
                masks[point] |= (uint64_t)1 << s;
            }
        }
    }
    for (uint32_t point = 0; point < UNICODE_END; point++) {
        masks[point] ^= negated;
    }
    return masks;
}

/* The symbol of a mask, which is a new one if need be; 0: too many. */
static int symbol_of(struct symbol_table *table, uint64_t mask) {
    for (int symbol = 1; symbol <= table->count; symbol++) {
        if (table->masks[symbol] == mask) {
            return symbol;
        }
    }
    if (table->count == SYMBOLS_MAX) {
        return 0;
    }
    table->masks[++table->count] = mask;
    return table->count;
}

static bool assign_symbols(const uint64_t *masks, struct symbol_table *table, uint8_t *symbols) {
    for (uint32_t point = 0; point < UNICODE_END; point++) {
        bool is_same = point > 0 && masks[point] == masks[point - 1];
        int symbol = is_same ? symbols[point - 1] : symbol_of(table, masks[point]);
        if (symbol == 0) {
            return false;
        }
        symbols[point] = (uint8_t)symbol;
    }
    return true;
}

/* The pattern over symbols. */
static const char *write_symbols(const struct pattern_draft *draft,
                                 const struct symbol_table *table, struct region *region) {
    size_t capacity =
        (size_t)draft->item_count * (size_t)(SYMBOL_TEXT_BYTES * (table->count + 2)) + 1;
    struct text text = text_over(region_alloc(region, capacity, 1), capacity);
    for (int i = 0; i < draft->item_count; i++) {
        const struct pattern_item *item = &draft->items[i];
        if (item->set < 0) {
            text_add(&text, "%s", item->syntax);
            continue;
        }
        size_t before = text.length;
        text_add(&text, "[");
        for (int symbol = 1; symbol <= table->count; symbol++) {
            if ((table->masks[symbol] >> item->set & 1) != 0) {
                text_add(&text, "\\x%02x", (unsigned)symbol);
            }
        }
        if (text.length == before + 1) {
            text_add(&text, "\\x00"); /* no character is in the set, and none has the symbol 0 */
        }
        text_add(&text, "]");
    }
    ASSERT(!text.truncated);
    return text.bytes;
}

static enum status compile(const char *regex, const char *original, const char *subject,
                           struct region *region, struct pattern *pattern, struct fault *fault) {
    pcre2_general_context *general = pcre2_general_context_create(allocate, release, region);
    pcre2_compile_context *context = pcre2_compile_context_create(general);
    int code = 0;
    size_t at = 0;
    uint32_t matches_empty = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)regex, strlen(regex), 0, &code, &at, context);
    if (pattern->code == NULL) {
        char message[128];
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return fault_set(fault, STATUS_INPUT, subject, "use a tokenizer of a supported family",
                         "the pattern %.200s: %s", original, message);
    }
    (void)pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0) {
        return fault_set(fault, STATUS_INPUT, subject, "use a tokenizer of a supported family",
                         "the pattern %.200s matches an empty text", original);
    }
    /* fails where memory must not be made executable */
    pattern->is_compiled = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
    return OK;
}

enum status pattern_make(const char *regex, const struct unicode *unicode, const char *subject,
                         struct region *region, const struct pattern **made, struct fault *fault) {
    struct region temporary = {0};
    struct pattern *pattern = region_alloc(region, 1, sizeof *pattern);
    struct pattern_draft *draft = region_alloc(&temporary, 1, sizeof *draft);
    struct symbol_table table = {0};
    enum status status = pattern_parse(regex, unicode, subject, draft, fault);
    if (status == OK) {
        uint8_t *symbols = region_alloc(&temporary, UNICODE_END, 1);
        uint64_t *masks = mask_characters(draft, unicode, &temporary);
        status =
            assign_symbols(masks, &table, symbols)
                ? OK
                : fault_set(fault, STATUS_INPUT, subject, "use a tokenizer of a supported family",
                            "the pattern %.200s has too many sets", regex);
        pattern->symbols = unicode_share_blocks(symbols, region, pattern->blocks);
    }
    if (status == OK) {
        status = compile(write_symbols(draft, &table, &temporary), regex, subject, region, pattern,
                         fault);
    }
    region_finish(&temporary);
    if (status == OK) {
        *made = pattern;
    }
    return status;
}

void pattern_finish(const struct pattern *pattern) {
    pcre2_code_free(pattern->code);
}

static bool make_match_data(struct matcher *matcher, struct tokenizer_encoder *encoder) {
    if (matcher->match_data != NULL) {
        return true;
    }
    if (process_is_sealed()) {
        return false;
    }
    pcre2_general_context *general =
        pcre2_general_context_create(allocate, release, encoder->region);
    matcher->match_data = pcre2_match_data_create(1, general);
    return true;
}

bool matcher_reserve(struct matcher *matcher, const struct split_step *step,
                     struct tokenizer_encoder *encoder, size_t bytes) {
    return step->kind != SPLIT_PATTERN ||
           (make_match_data(matcher, encoder) &&
            scratch_reserve(&matcher->symbols, encoder->region, bytes, 1, 0));
}

enum status matcher_open(struct matcher *matcher, const struct pattern *pattern,
                         struct tokenizer_encoder *encoder, const char *text, size_t bytes) {
    if (!make_match_data(matcher, encoder) ||
        !scratch_reserve(&matcher->symbols, encoder->region, bytes, 1, 0)) {
        return encoder_is_full(encoder);
    }
    uint8_t *symbols = matcher->symbols.memory;
    size_t count = 0;
    for (size_t at = 0; at < bytes;) {
        size_t length;
        uint32_t point = utf8_read(text + at, &length);
        size_t block = pattern->blocks[point >> UNICODE_BLOCK_BITS];
        symbols[count++] = pattern->symbols[(block << UNICODE_BLOCK_BITS) |
                                            (point & ((1u << UNICODE_BLOCK_BITS) - 1))];
        at += length;
    }
    matcher->pattern = pattern;
    matcher->text = text;
    matcher->bytes = bytes;
    matcher->symbol_count = count;
    matcher->at_byte = 0;
    matcher->at_symbol = 0;
    return OK;
}

/* Moves on to a symbol, and returns its byte. */
static size_t byte_of_symbol(struct matcher *matcher, size_t symbol) {
    while (matcher->at_symbol < symbol) {
        matcher->at_byte += utf8_length(matcher->text[matcher->at_byte]);
        matcher->at_symbol++;
    }
    return matcher->at_byte;
}

enum status matcher_find(struct matcher *matcher, size_t at, size_t *begin, size_t *end,
                         struct fault *fault) {
    const struct pattern *pattern = matcher->pattern;
    const uint8_t *symbols = matcher->symbols.memory;
    while (matcher->at_byte < at) {
        (void)byte_of_symbol(matcher, matcher->at_symbol + 1);
    }
    uint32_t options = pattern->is_compiled ? 0 : PCRE2_NO_JIT;
    int found = pcre2_match(pattern->code, symbols, matcher->symbol_count, matcher->at_symbol,
                            options, matcher->match_data, NULL);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(pattern->code, symbols, matcher->symbol_count, matcher->at_symbol,
                            PCRE2_NO_JIT, matcher->match_data, NULL);
    }
    if (found == PCRE2_ERROR_NOMATCH) {
        *begin = matcher->bytes;
        *end = matcher->bytes;
        return OK;
    }
    if (found < 0) {
        return fault_set(fault, STATUS_INPUT, "text", "divide the text into shorter documents",
                         "byte %zu: the tokenizer's pattern takes too long or too much memory", at);
    }
    const size_t *positions = pcre2_get_ovector_pointer(matcher->match_data);
    size_t last = positions[1];
    *begin = byte_of_symbol(matcher, positions[0]);
    size_t first_byte = matcher->at_byte;
    size_t first_symbol = matcher->at_symbol;
    *end = byte_of_symbol(matcher, last);
    matcher->at_byte = first_byte; /* the piece before the match is taken first */
    matcher->at_symbol = first_symbol;
    return OK;
}
