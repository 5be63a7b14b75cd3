#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/tokenizer/pattern.h"

#include "runtime/tokenizer/pattern_parse.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include "base/text.h"

#include <pcre2.h>
#include <string.h>

enum {
    /* maximum number of symbols: a symbol is one byte, and not 0 */
    SYMBOLS_MAX = 255,
    /* buffer size for the text of one symbol, such as \x01 */
    SYMBOL_TEXT_BYTES = 16,
    BLOCK_POINTS = 1 << UNICODE_BLOCK_BITS,          /* number of code points in a block */
    BLOCK_COUNT = UNICODE_END >> UNICODE_BLOCK_BITS, /* number of blocks */
};

struct pattern {
    pcre2_code *code;             /* the pattern over symbols */
    uint16_t blocks[BLOCK_COUNT]; /* by block of code points: index of its block in `symbols` */
    const uint8_t *symbols;       /* [blocks][BLOCK_POINTS]: the symbol of a character */
    bool is_compiled; /* true: compiled to machine code; false: PCRE2 interprets `code` */
};

/* The symbols of a pattern: characters in the same sets have the same symbol. */
struct symbol_table {
    uint64_t masks[SYMBOLS_MAX + 1]; /* by symbol: mask of the sets that have its characters */
    int count;                       /* symbols 1 to count are in use */
};

/* PCRE2 takes memory from a region, and none after the seal. */
static void *allocate_in_region(size_t bytes, void *region) {
    return process_is_sealed() ? NULL : region_alloc(region, bytes, 1);
}

/* Does nothing, because a region frees all of its memory at once. */
static void release_nothing(void *memory, void *region) {
    (void)memory;
    (void)region;
}

/* Returns the symbol of a mask, and adds one if the mask has none; 0: too many symbols. */
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

/* The sets and classes from which each character gets its symbol, and the symbols so far. */
struct symbol_assignment {
    const struct pattern_draft *draft;     /* the parsed pattern, with its sets of characters */
    const struct unicode *unicode;         /* classes of characters */
    uint64_t class_masks[UNICODE_CLASSES]; /* by class: mask of the sets that contain the class */
    /* by class: symbol of its characters that are in no range; 0: not assigned yet */
    uint8_t class_symbols[UNICODE_CLASSES];
    uint64_t negated;           /* mask of the sets that are negated */
    struct symbol_table *table; /* symbols assigned so far */
};

static void fill_class_masks(struct symbol_assignment *assignment) {
    const struct pattern_draft *draft = assignment->draft;
    for (int s = 0; s < draft->set_count; s++) {
        uint64_t bit = (uint64_t)1 << s;
        assignment->negated |= draft->sets[s].is_negated ? bit : 0;
        for (int i = 0; i < UNICODE_CLASSES; i++) {
            assignment->class_masks[i] |= draft->sets[s].classes[i] ? bit : 0;
        }
    }
}

/* Returns the mask of the sets of which a range contains the code point. */
static uint64_t sets_with_range_of(const struct pattern_draft *draft, uint32_t point) {
    uint64_t mask = 0;
    for (int s = 0; s < draft->set_count; s++) {
        const struct pattern_set *set = &draft->sets[s];
        for (int r = set->first_range; r < set->first_range + set->range_count; r++) {
            bool is_in = draft->ranges[r].low <= point && point <= draft->ranges[r].high;
            mask |= is_in ? (uint64_t)1 << s : 0;
        }
    }
    return mask;
}

/* Writes the symbols of a block of characters that are in no range. Returns false if there are too
 * many symbols.
 * classes  class of each character of the block */
static bool assign_classes(struct symbol_assignment *assignment, const uint8_t *classes,
                           uint8_t *symbols) {
    for (uint32_t i = 0; i < BLOCK_POINTS; i++) {
        uint8_t *symbol = &assignment->class_symbols[classes[i]];
        if (*symbol == 0) {
            uint64_t mask = assignment->class_masks[classes[i]] ^ assignment->negated;
            *symbol = (uint8_t)symbol_of(assignment->table, mask);
        }
        if (*symbol == 0) {
            return false;
        }
        symbols[i] = *symbol;
    }
    return true;
}

/* Writes the symbols of a block with characters that are in ranges. Returns false if there are too
 * many symbols.
 * classes  class of each character of the block
 * first    first code point of the block */
static bool assign_ranges(struct symbol_assignment *assignment, const uint8_t *classes,
                          uint32_t first, uint8_t *symbols) {
    uint64_t previous = 0;
    int symbol = 0;
    for (uint32_t i = 0; i < BLOCK_POINTS; i++) {
        uint64_t mask = assignment->class_masks[classes[i]];
        mask |= sets_with_range_of(assignment->draft, first + i);
        mask ^= assignment->negated;
        if (symbol == 0 || mask != previous) {
            symbol = symbol_of(assignment->table, mask);
            previous = mask;
        }
        if (symbol == 0) {
            return false;
        }
        symbols[i] = (uint8_t)symbol;
    }
    return true;
}

/* Sets pattern->blocks. A block without characters in ranges keeps the number of its block of
 * classes; blocks with such characters get the numbers after these. Returns the number of blocks of
 * symbols. */
static size_t number_blocks(const struct symbol_assignment *assignment, struct pattern *pattern) {
    const struct pattern_draft *draft = assignment->draft;
    const size_t shared_count = assignment->unicode->class_block_count;
    size_t count = shared_count;
    memcpy(pattern->blocks, assignment->unicode->class_blocks, sizeof pattern->blocks);
    for (int r = 0; r < draft->range_count; r++) {
        ASSERT(draft->ranges[r].high < UNICODE_END);
        const uint32_t last = draft->ranges[r].high >> UNICODE_BLOCK_BITS;
        for (uint32_t i = draft->ranges[r].low >> UNICODE_BLOCK_BITS; i <= last; i++) {
            if (pattern->blocks[i] < shared_count) {
                pattern->blocks[i] = (uint16_t)count++;
            }
        }
    }
    return count;
}

static bool assign_symbols(struct symbol_assignment *assignment, struct region *region,
                           struct pattern *pattern) {
    const struct unicode *unicode = assignment->unicode;
    const size_t shared_count = unicode->class_block_count;
    fill_class_masks(assignment);
    uint8_t *symbols = region_alloc(region, number_blocks(assignment, pattern), BLOCK_POINTS);
    bool fits = true;
    for (size_t block = 0; fits && block < shared_count; block++) {
        fits = assign_classes(assignment, unicode->classes + block * BLOCK_POINTS,
                              symbols + block * BLOCK_POINTS);
    }
    for (uint32_t i = 0; fits && i < BLOCK_COUNT; i++) {
        if (pattern->blocks[i] >= shared_count) {
            fits = assign_ranges(
                assignment, unicode->classes + (size_t)unicode->class_blocks[i] * BLOCK_POINTS,
                i * BLOCK_POINTS, symbols + (size_t)pattern->blocks[i] * BLOCK_POINTS);
        }
    }
    pattern->symbols = symbols;
    return fits;
}

/* Returns the text of the pattern with symbols in place of sets, in `region`. */
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
            /* the set is empty: no character has the symbol 0, so \x00 matches none */
            text_add(&text, "\\x00");
        }
        text_add(&text, "]");
    }
    ASSERT(!text.truncated);
    return text.bytes;
}

static enum status compile_pattern(const char *regex, const char *original, const char *subject,
                                   struct region *region, struct pattern *pattern,
                                   struct fault *fault) {
    pcre2_general_context *general =
        pcre2_general_context_create(allocate_in_region, release_nothing, region);
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
    /* pcre2_jit_compile fails where memory must not be made executable */
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
        struct symbol_assignment assignment = {.draft = draft, .unicode = unicode, .table = &table};
        status =
            assign_symbols(&assignment, region, pattern)
                ? OK
                : fault_set(fault, STATUS_INPUT, subject, "use a tokenizer of a supported family",
                            "the pattern %.200s has too many sets", regex);
    }
    if (status == OK) {
        status = compile_pattern(write_symbols(draft, &table, &temporary), regex, subject, region,
                                 pattern, fault);
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

/* The interpreter takes memory at its first match, so one match is made at once. It may need more
 * only for a pattern that repeats a group. */
static bool make_match_data(struct matcher *matcher, const struct pattern *pattern,
                            struct tokenizer_encoder *encoder) {
    if (matcher->match_data != NULL) {
        return true;
    }
    if (process_is_sealed()) {
        return false;
    }
    pcre2_general_context *general =
        pcre2_general_context_create(allocate_in_region, release_nothing, encoder->region);
    matcher->match_data = pcre2_match_data_create(1, general);
    (void)pcre2_match(pattern->code, (PCRE2_SPTR) "", 0, 0, PCRE2_NO_JIT, matcher->match_data,
                      NULL);
    return true;
}

bool matcher_reserve(struct matcher *matcher, const struct split_step *step,
                     struct tokenizer_encoder *encoder, size_t bytes) {
    return step->kind != SPLIT_PATTERN ||
           (make_match_data(matcher, step->regex, encoder) &&
            scratch_reserve(&matcher->symbols, encoder->region, bytes, 1, 0));
}

enum status matcher_open(struct matcher *matcher, const struct pattern *pattern,
                         struct tokenizer_encoder *encoder, const char *text, size_t bytes) {
    if (!make_match_data(matcher, pattern, encoder) ||
        !scratch_reserve(&matcher->symbols, encoder->region, bytes, 1, 0)) {
        return encoder_full_fault(encoder);
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

/* Advances the matcher to a symbol, and returns the offset of its character in the text. */
static size_t advance_to_symbol(struct matcher *matcher, size_t symbol) {
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
        (void)advance_to_symbol(matcher, matcher->at_symbol + 1);
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
    if (found == PCRE2_ERROR_NOMEMORY) {
        return fault_set(fault, STATUS_FIT, "text", "shorten it",
                         "byte %zu: the tokenizer's pattern needs more memory than was planned",
                         at);
    }
    if (found < 0) {
        return fault_set(fault, STATUS_INPUT, "text", "divide the text into shorter documents",
                         "byte %zu: the tokenizer's pattern takes too long or too much memory", at);
    }
    const size_t *positions = pcre2_get_ovector_pointer(matcher->match_data);
    size_t last = positions[1];
    *begin = advance_to_symbol(matcher, positions[0]);
    size_t first_byte = matcher->at_byte;
    size_t first_symbol = matcher->at_symbol;
    *end = advance_to_symbol(matcher, last);
    matcher->at_byte = first_byte; /* the next call may begin before the match's end */
    matcher->at_symbol = first_symbol;
    return OK;
}
