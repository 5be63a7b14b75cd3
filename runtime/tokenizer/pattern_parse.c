#include "runtime/tokenizer/pattern_parse.h"

#include "runtime/tokenizer/unicode/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_BYTES = 24,            /* maximum number of bytes of the pattern that a message shows */
    NAME_MAX_BYTES = 8,          /* size of the buffer for the name of a property */
    POINT_MAX = UNICODE_END - 1, /* largest code point */
    REPEATS_MAX = 1000,          /* largest number in {n,m} */
};

struct parser {
    const char *text; /* the pattern */
    size_t at;        /* position in the pattern */
    const struct unicode *unicode;
    const char *subject;         /* subject of faults */
    struct pattern_draft *draft; /* sets and items that have been parsed */
    struct fault *fault;
    /* by depth: whether the group ignores case, because of (?i: ) */
    bool ignores_case[PATTERN_DEPTH_MAX];
    int depth;           /* number of open groups */
    bool can_repeat;     /* a quantifier may follow */
    bool is_in_brackets; /* the position is in a class in brackets */
    char folded_before;  /* inside a (?i: ) group: preceding literal in lower case; NUL: none */
};

static enum status reject(struct parser *parser, const char *what) {
    return fault_set(parser->fault, STATUS_INPUT, parser->subject,
                     "use a tokenizer of a supported family (docs/DATA.md)",
                     "a pattern has %s at '%.*s', which is not supported", what, SHOWN_BYTES,
                     parser->text + parser->at);
}

static enum status add_item(struct parser *parser, int set, const char *syntax) {
    struct pattern_draft *draft = parser->draft;
    if (draft->item_count == PATTERN_ITEMS_MAX) {
        return reject(parser, "too many parts");
    }
    struct pattern_item *item = &draft->items[draft->item_count++];
    item->set = set;
    (void)snprintf(item->syntax, sizeof item->syntax, "%s", syntax);
    return OK;
}

/* Returns a new empty set after the last one of the draft; close_set counts it. NULL: the draft has
 * the maximum number of sets. */
static struct pattern_set *open_set(struct parser *parser) {
    struct pattern_draft *draft = parser->draft;
    if (draft->set_count == PATTERN_SETS_MAX) {
        return NULL;
    }
    struct pattern_set *set = &draft->sets[draft->set_count];
    *set = (struct pattern_set){.first_range = draft->range_count};
    return set;
}

static enum status add_range(struct parser *parser, struct pattern_set *set, uint32_t low,
                             uint32_t high) {
    struct pattern_draft *draft = parser->draft;
    if (low > high || draft->range_count == PATTERN_RANGES_MAX) {
        return reject(parser, "a reversed range, or too many ranges");
    }
    draft->ranges[draft->range_count++] = (struct pattern_range){low, high};
    set->range_count++;
    return OK;
}

static bool sets_equal(const struct pattern_draft *draft, const struct pattern_set *a,
                       const struct pattern_set *b) {
    return a->is_negated == b->is_negated && a->range_count == b->range_count &&
           memcmp(a->classes, b->classes, sizeof a->classes) == 0 &&
           memcmp(draft->ranges + a->first_range, draft->ranges + b->first_range,
                  (size_t)a->range_count * sizeof *draft->ranges) == 0;
}

/* Ends a set, and returns its index: that of an equal earlier one, or a new one. */
static int close_set(struct parser *parser, const struct pattern_set *set) {
    struct pattern_draft *draft = parser->draft;
    for (int i = 0; i < draft->set_count; i++) {
        if (sets_equal(draft, &draft->sets[i], set)) {
            draft->range_count = set->first_range;
            return i;
        }
    }
    return draft->set_count++;
}

static bool class_has_word(uint8_t class_number) {
    return class_number != UNICODE_CONTROL_SPACE && (class_number & UNICODE_REGEX_WORD) != 0;
}

/* Whether a class is part of \s, of \w, of [\w], or of the property `name`. Oniguruma counts
 * U+00B2, U+00B3, U+00B9 and U+00BC to U+00BE as \w outside brackets only; they are all of \w that
 * is in the category No. */
static bool class_has(const struct unicode *unicode, uint8_t class_number, const char *name) {
    if (strcmp(name, "\\s") == 0) {
        return (unicode->kinds[class_number] & KIND_SPACE) != 0;
    }
    if (strcmp(name, "\\w") == 0) {
        return class_has_word(class_number);
    }
    if (strcmp(name, "[\\w]") == 0) {
        return class_has_word(class_number) && !unicode_class_is(class_number, "No");
    }
    return unicode_class_is(class_number, name);
}

static void add_classes(struct parser *parser, struct pattern_set *set, const char *name,
                        bool is_negated) {
    for (int i = 0; i < UNICODE_CLASSES; i++) {
        bool is_class = i < 8 * UNICODE_CATEGORY_COUNT || i == UNICODE_CONTROL_SPACE;
        if (is_class && class_has(parser->unicode, (uint8_t)i, name) != is_negated) {
            set->classes[i] = true;
        }
    }
}

/* Reads the rest of \p{Name}, \p{^Name} or \P{Name}. On entry, the position is after the letter. */
static enum status read_property(struct parser *parser, struct pattern_set *set, bool is_negated) {
    char name[NAME_MAX_BYTES];
    const char *begin = parser->text + parser->at;
    const char *end = strchr(begin, '}');
    if (begin[0] != '{' || end == NULL) {
        return reject(parser, "a property without braces");
    }
    begin++;
    if (*begin == '^') {
        is_negated = !is_negated;
        begin++;
    }
    size_t count = (size_t)(end - begin);
    if (count == 0 || count >= sizeof name) {
        return reject(parser, "a property other than a general category");
    }
    memcpy(name, begin, count);
    name[count] = '\0';
    if (count > 2 || !unicode_category_exists(name)) {
        return reject(parser, "a property other than a general category");
    }
    add_classes(parser, set, name, is_negated);
    parser->at += (size_t)(end + 1 - (parser->text + parser->at));
    return OK;
}

/* Reads the digits of \x41, \x{1F600} or \u0041. On entry, the position is after the letter. */
static enum status read_hex(struct parser *parser, char letter, uint32_t *point) {
    const char *text = parser->text + parser->at;
    bool has_braces = letter == 'x' && text[0] == '{';
    size_t most = has_braces ? 6 : letter == 'u' ? 4 : 2;
    size_t count = strspn(text + has_braces, "0123456789abcdefABCDEF");
    count = count > most ? most : count;
    bool is_whole = has_braces ? count > 0 && text[1 + count] == '}' : count == most;
    *point = 0;
    for (size_t i = 0; is_whole && i < count; i++) {
        char digit = text[has_braces + i];
        *point = *point * 16 + (uint32_t)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    /* Oniguruma reads \x80 and above as bytes, not as characters */
    if (!is_whole || *point > POINT_MAX || (letter == 'x' && !has_braces && *point >= 0x80)) {
        return reject(parser, "a code point in this form");
    }
    parser->at += count + (has_braces ? 2 : 0);
    return OK;
}

/* Reads a character or an escape into *point, or a class escape into `set`. */
static enum status read_unit(struct parser *parser, struct pattern_set *set, uint32_t *point,
                             bool *is_class) {
    static const char CONTROLS[] = "nrtfv";
    static const char CONTROL_BYTES[] = "\n\r\t\f\v";
    size_t length;
    *is_class = false;
    if (parser->text[parser->at] != '\\') {
        *point = utf8_read(parser->text + parser->at, &length);
        parser->at += length;
        return OK;
    }
    char letter = parser->text[parser->at + 1];
    const char *control = letter == '\0' ? NULL : strchr(CONTROLS, letter);
    bool is_punctuation = letter > ' ' && letter < 0x7f &&
                          (unsigned)((letter | 0x20) - 'a') >= 26 && (unsigned)(letter - '0') >= 10;
    if (control != NULL || is_punctuation || letter == ' ') {
        *point = (uint32_t)(control != NULL ? CONTROL_BYTES[control - CONTROLS] : letter);
        parser->at += 2;
        return OK;
    }
    if (letter == 'x' || letter == 'u') {
        parser->at += 2;
        return read_hex(parser, letter, point);
    }
    *is_class = true;
    const char *name = letter == 's' || letter == 'S'   ? "\\s"
                       : letter == 'w' || letter == 'W' ? (parser->is_in_brackets ? "[\\w]" : "\\w")
                       : letter == 'd' || letter == 'D' ? "Nd"
                                                        : NULL;
    if (name != NULL) {
        add_classes(parser, set, name, letter < 'a');
        parser->at += 2;
        return OK;
    }
    if (letter == 'p' || letter == 'P') {
        parser->at += 2;
        return read_property(parser, set, letter == 'P');
    }
    return reject(parser, "an escape");
}

/* Reads a class in brackets. On entry, the position is after the opening bracket. */
static enum status read_class(struct parser *parser, struct pattern_set *set) {
    parser->is_in_brackets = true;
    if (parser->text[parser->at] == '^') {
        set->is_negated = true;
        parser->at++;
    }
    for (bool is_first = true; parser->text[parser->at] != ']' || is_first; is_first = false) {
        const char *text = parser->text + parser->at;
        bool is_dash = text[0] == '-' && !is_first && text[1] != ']';
        if (text[0] == '\0' || text[0] == '[' || text[0] == ']' || is_dash ||
            strncmp(text, "&&", 2) == 0) {
            return reject(parser, "a class with this part");
        }
        uint32_t low;
        uint32_t high;
        bool is_class;
        TRY(read_unit(parser, set, &low, &is_class));
        if (is_class) {
            continue;
        }
        high = low;
        text = parser->text + parser->at;
        if (text[0] == '-' && text[1] != ']' && text[1] != '\0') {
            parser->at++;
            if (text[1] == '[') {
                return reject(parser, "a class with this part");
            }
            TRY(read_unit(parser, set, &high, &is_class));
            if (is_class) {
                return reject(parser, "a range that ends with a class");
            }
        }
        TRY(add_range(parser, set, low, high));
    }
    parser->is_in_brackets = false;
    parser->at++;
    return OK;
}

/* Adds a letter of a (?i: ) group, which matches in both cases. Rejects two letters that together
 * match one character without regard to case, as ss matches the sharp s. */
static enum status add_folded(struct parser *parser, struct pattern_set *set, uint32_t point) {
    static const char *const LIGATURES[] = {"ss", "ff", "fi", "fl", "st"};
    /* code points that match k and s without regard to case */
    enum { KELVIN_SIGN = 0x212a, LONG_S = 0x17f };
    if (point >= 0x80) {
        return reject(parser, "(?i: with a character beyond ASCII");
    }
    char lower = point >= 'A' && point <= 'Z' ? (char)(point | 0x20) : (char)point;
    for (size_t i = 0; i < ARRAY_COUNT(LIGATURES); i++) {
        if (parser->folded_before == LIGATURES[i][0] && lower == LIGATURES[i][1]) {
            return reject(parser, "(?i: with letters of a ligature");
        }
    }
    parser->folded_before = lower;
    TRY(add_range(parser, set, (unsigned char)lower, (unsigned char)lower));
    if (lower < 'a' || lower > 'z') {
        return OK;
    }
    TRY(add_range(parser, set, (unsigned char)(lower & ~0x20), (unsigned char)(lower & ~0x20)));
    return lower == 'k'   ? add_range(parser, set, KELVIN_SIGN, KELVIN_SIGN)
           : lower == 's' ? add_range(parser, set, LONG_S, LONG_S)
                          : OK;
}

/* Reads an item that matches one character: a class, a dot, an escape or a literal. */
static enum status read_set(struct parser *parser) {
    struct pattern_set *set = open_set(parser);
    bool ignores_case = parser->ignores_case[parser->depth];
    char first = parser->text[parser->at];
    if (set == NULL) {
        return reject(parser, "too many sets");
    }
    uint32_t point = '\n';
    bool is_class = first == '[';
    if (first == '[') {
        parser->at++;
        TRY(read_class(parser, set));
    } else if (first == '.') {
        parser->at++;
        set->is_negated = true;
    } else {
        TRY(read_unit(parser, set, &point, &is_class));
    }
    if (ignores_case && is_class) {
        return reject(parser, "(?i: with a class");
    }
    if (!is_class) {
        TRY(ignores_case && first != '.' ? add_folded(parser, set, point)
                                         : add_range(parser, set, point, point));
    }
    parser->can_repeat = true;
    return add_item(parser, close_set(parser, set), "");
}

/* Reads \b, which matches between a character of \w and one that is not in \w. */
static enum status read_boundary(struct parser *parser) {
    struct pattern_set *set = open_set(parser);
    if (set == NULL) {
        return reject(parser, "too many sets");
    }
    add_classes(parser, set, "\\w", false);
    int word = close_set(parser, set);
    static const char *const PARTS[] = {"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"};
    for (size_t i = 0; i < ARRAY_COUNT(PARTS); i++) {
        TRY(add_item(parser, -1, PARTS[i]));
        if (i + 1 < ARRAY_COUNT(PARTS)) {
            TRY(add_item(parser, word, ""));
        }
    }
    parser->at += 2;
    parser->can_repeat = false;
    return OK;
}

static enum status open_group(struct parser *parser) {
    static const char *const OPENINGS[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
    const char *text = parser->text + parser->at;
    const char *opening = text[1] == '?' ? NULL : "(";
    for (size_t i = 0; i < ARRAY_COUNT(OPENINGS); i++) {
        if (strncmp(text, OPENINGS[i], strlen(OPENINGS[i])) == 0) {
            opening = OPENINGS[i];
        }
    }
    if (opening == NULL || text[1] == '*' || parser->depth + 1 == PATTERN_DEPTH_MAX) {
        return reject(parser, "a group");
    }
    bool ignores_case = strcmp(opening, "(?i:") == 0;
    parser->ignores_case[parser->depth + 1] = ignores_case || parser->ignores_case[parser->depth];
    parser->depth++;
    parser->at += strlen(opening);
    parser->can_repeat = false;
    parser->folded_before = '\0';
    return add_item(parser, -1, ignores_case ? "(?:" : opening);
}

/* Reads the rest of {n}, {n,}, {,m} or {n,m}. On entry, the position is after the brace. */
static enum status read_interval(struct parser *parser, char syntax[PATTERN_SYNTAX_BYTES]) {
    const char *text = parser->text + parser->at;
    int numbers[2] = {-1, -1};
    size_t at = 0;
    int number = 0;
    for (; text[at] != '}'; at++) {
        if (text[at] == ',' && number == 0) {
            number = 1;
        } else if (text[at] >= '0' && text[at] <= '9' && numbers[number] <= REPEATS_MAX) {
            numbers[number] = (numbers[number] < 0 ? 0 : 10 * numbers[number]) + (text[at] - '0');
        } else {
            return reject(parser, "a repetition");
        }
    }
    bool is_range = number == 1;
    if ((numbers[0] < 0 && numbers[1] < 0) || numbers[0] > REPEATS_MAX ||
        numbers[1] > REPEATS_MAX || (is_range && numbers[1] >= 0 && numbers[1] < numbers[0])) {
        return reject(parser, "a repetition");
    }
    numbers[0] = numbers[0] < 0 ? 0 : numbers[0];
    (void)(numbers[1] >= 0
               ? snprintf(syntax, PATTERN_SYNTAX_BYTES, "{%d,%d}", numbers[0], numbers[1])
               : snprintf(syntax, PATTERN_SYNTAX_BYTES, is_range ? "{%d,}" : "{%d}", numbers[0]));
    parser->at += at + 1;
    return OK;
}

static enum status read_quantifier(struct parser *parser) {
    char syntax[PATTERN_SYNTAX_BYTES] = {parser->text[parser->at]};
    bool is_interval = syntax[0] == '{';
    if (!parser->can_repeat) {
        return reject(parser, "a repetition of nothing");
    }
    parser->at++;
    if (is_interval) {
        TRY(read_interval(parser, syntax));
    }
    char next = parser->text[parser->at];
    if (next == '?' || (next == '+' && !is_interval)) {
        syntax[strlen(syntax)] = next;
        parser->at++;
    }
    parser->can_repeat = false;
    parser->folded_before = '\0';
    return add_item(parser, -1, syntax);
}

static enum status read_next(struct parser *parser) {
    const char *text = parser->text + parser->at;
    switch (text[0]) {
    case '(':
        return open_group(parser);
    case ')':
        if (parser->depth == 0) {
            return reject(parser, "a closing bracket");
        }
        parser->depth--;
        parser->at++;
        parser->can_repeat = true;
        parser->folded_before = '\0';
        return add_item(parser, -1, ")");
    case '|':
        parser->at++;
        parser->can_repeat = false;
        parser->folded_before = '\0';
        return add_item(parser, -1, "|");
    case '*':
    case '+':
    case '?':
    case '{':
        return read_quantifier(parser);
    case '^':
    case '$':
    case ']':
    case '}':
        return reject(parser, "a character that must be escaped");
    default:
        return text[0] == '\\' && text[1] == 'b' ? read_boundary(parser) : read_set(parser);
    }
}

enum status pattern_parse(const char *regex, const struct unicode *unicode, const char *subject,
                          struct pattern_draft *draft, struct fault *fault) {
    struct parser parser = {
        .text = regex, .unicode = unicode, .subject = subject, .draft = draft, .fault = fault};
    if (strlen(regex) > PATTERN_BYTES_MAX) {
        return reject(&parser, "too many bytes");
    }
    while (regex[parser.at] != '\0') {
        TRY(read_next(&parser));
    }
    return parser.depth == 0 ? OK : reject(&parser, "a group without a closing bracket");
}
