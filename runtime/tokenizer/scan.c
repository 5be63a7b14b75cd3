#include "runtime/tokenizer/scan.h"

#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

/* A text in which a scanner looks for the end of a piece. */
struct scanned_text {
    const struct unicode *unicode;
    const char *text; /* [end] */
    size_t end;       /* length of the text in bytes */
};

/* The kinds (enum unicode_kind) of the character at `at`. */
static unsigned kind_at(const struct scanned_text *view, size_t at, size_t *length) {
    unsigned char first = (unsigned char)view->text[at];
    if (first < 0x80) {
        *length = 1;
        return view->unicode->ascii_kinds[first];
    }
    return unicode_kind(view->unicode, utf8_read(view->text + at, length));
}

/* The end of the run of characters with one of `kinds`. */
static size_t run_end(const struct scanned_text *view, size_t at, unsigned kinds) {
    size_t length;
    while (at < view->end && (kind_at(view, at, &length) & kinds) != 0) {
        at += length;
    }
    return at;
}

/* The end of the run of characters that are neither white space, letter nor number. */
static size_t symbols_end(const struct scanned_text *view, size_t at) {
    size_t length;
    while (at < view->end &&
           (kind_at(view, at, &length) & (KIND_SPACE | KIND_LETTER | KIND_NUMBER)) == 0) {
        at += length;
    }
    return at;
}

static bool is_newline(char byte) {
    return byte == '\n' || byte == '\r';
}

/* Returns the end of \s+(?!\S)|\s+: all white space, but not its last character if another
 * character follows. */
static size_t spaces_before_text(const struct scanned_text *view, size_t at, size_t spaces_end) {
    if (spaces_end == view->end) {
        return spaces_end;
    }
    size_t last = utf8_before(view->text, spaces_end);
    return last > at ? last : spaces_end;
}

/* Returns the end of \s*[\r\n]+|\s+(?!\S)|\s+: white space up to its last line end, if there is
 * one. */
static size_t spaces_or_lines(const struct scanned_text *view, size_t at) {
    size_t spaces_end = run_end(view, at, KIND_SPACE);
    for (size_t i = spaces_end; i > at; i--) {
        if (is_newline(view->text[i - 1])) {
            return i;
        }
    }
    return spaces_before_text(view, at, spaces_end);
}

/* Returns the end of 's|'t|'re|'ve|'m|'ll|'d, or `at` if there is no match. */
static size_t contraction_end(const struct scanned_text *view, size_t at) {
    const char *text = view->text + at;
    size_t left = view->end - at;
    if (left < 2 || text[0] != '\'') {
        return at;
    }
    if (strchr("stmd", text[1]) != NULL && text[1] != '\0') {
        return at + 2;
    }
    bool is_long =
        left >= 3 && ((text[1] == 'r' && text[2] == 'e') || (text[1] == 'v' && text[2] == 'e') ||
                      (text[1] == 'l' && text[2] == 'l'));
    return is_long ? at + 3 : at;
}

static char ascii_lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter + ('a' - 'A')) : letter;
}

/* contraction_end without regard to case. The long s (U+017F) is an s then. */
static size_t any_contraction_end(const struct scanned_text *view, size_t at) {
    size_t left = view->end - at;
    if (left < 2 || view->text[at] != '\'') {
        return at;
    }
    const char *text = view->text + at;
    if (left >= 3 && text[1] == '\xc5' && text[2] == '\xbf') {
        return at + 3;
    }
    char first = ascii_lower(text[1]);
    char second = left >= 3 ? ascii_lower(text[2]) : '\0';
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return at + 2;
    }
    bool is_long = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l');
    return is_long ? at + 3 : at;
}

/* '... contractions ...| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t scan_gpt2(const struct unicode *unicode, const char *text, size_t at, size_t end) {
    struct scanned_text view = {unicode, text, end};
    size_t contraction = contraction_end(&view, at);
    if (contraction > at) {
        return contraction;
    }
    size_t begin = at + (text[at] == ' ' && at + 1 < end);
    size_t length;
    unsigned kind = kind_at(&view, begin, &length);
    if ((kind & KIND_SPACE) != 0) {
        return spaces_before_text(&view, at, run_end(&view, at, KIND_SPACE));
    }
    if ((kind & (KIND_LETTER | KIND_NUMBER)) != 0) {
        return run_end(&view, begin + length, kind & (KIND_LETTER | KIND_NUMBER));
    }
    return symbols_end(&view, begin + length);
}

/* Returns the end of \p{N}{1,digits_max}, or of \p{N}+ if digits_max is 0; `at` if there is no
 * match. */
static size_t number_end(const struct scanned_text *view, size_t at, int digits_max) {
    size_t length;
    for (int digits = 0; digits_max == 0 || digits < digits_max; digits++) {
        if (at == view->end || (kind_at(view, at, &length) & KIND_NUMBER) == 0) {
            break;
        }
        at += length;
    }
    return at;
}

/* Returns the end of a match of the last alternatives of the patterns llama3 and tekken. The
 * character `line_end` is a line end besides \r and \n after symbols.
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t other_or_spaces(const struct scanned_text *view, size_t at, char line_end) {
    size_t begin = at + (view->text[at] == ' ');
    size_t other = symbols_end(view, begin);
    if (other == begin) {
        return spaces_or_lines(view, at);
    }
    while (other < view->end && (is_newline(view->text[other]) || view->text[other] == line_end)) {
        other++;
    }
    return other;
}

/* (?i:contractions)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|... */
size_t scan_llama3(const struct unicode *unicode, const struct split_step *step, const char *text,
                   size_t at, size_t end) {
    struct scanned_text view = {unicode, text, end};
    size_t contraction = any_contraction_end(&view, at);
    if (contraction > at) {
        return contraction;
    }
    size_t length;
    unsigned kind = kind_at(&view, at, &length);
    if ((kind & KIND_LETTER) != 0) {
        return run_end(&view, at + length, KIND_LETTER);
    }
    if ((kind & KIND_NUMBER) != 0) {
        return number_end(&view, at, step->digits_max);
    }
    if (!is_newline(text[at])) {
        size_t letters = run_end(&view, at + length, KIND_LETTER);
        if (letters > at + length) {
            return letters;
        }
    }
    return other_or_spaces(&view, at, '\n');
}

enum {
    KINDS_HEAD =
        KIND_UPPER | KIND_OTHER_LETTER | KIND_MARK, /* characters of [head]* in head_tail_end */
    KINDS_TAIL =
        KIND_LOWER | KIND_OTHER_LETTER | KIND_MARK, /* characters of [tail]+ in head_tail_end */
};

/* Returns the end of [head]*[tail]+, or `at` if there is no match. If no character of [tail]
 * follows the run of [head], the match ends after the last character of the run that is also in
 * [tail]. */
static size_t head_tail_end(const struct scanned_text *view, size_t at) {
    size_t head = run_end(view, at, KINDS_HEAD);
    size_t tail = run_end(view, head, KINDS_TAIL);
    if (tail > head) {
        return tail;
    }
    while (head > at) {
        size_t last = utf8_before(view->text, head);
        size_t length;
        if ((kind_at(view, last, &length) & KINDS_TAIL) != 0) {
            return head;
        }
        head = last;
    }
    return at;
}

/* [^\r\n\p{L}\p{N}]?[head]*[tail]+|[^\r\n\p{L}\p{N}]?[head]+[tail]*: returns the end, or `at`. */
static size_t cased_word_end(const struct scanned_text *view, size_t at) {
    size_t length;
    unsigned kind = kind_at(view, at, &length);
    bool takes_first = (kind & (KIND_LETTER | KIND_NUMBER)) == 0 && !is_newline(view->text[at]);
    size_t second = at + length;
    size_t end = takes_first ? head_tail_end(view, second) : second;
    if (takes_first && end > second) {
        return end;
    }
    end = head_tail_end(view, at);
    if (end > at) {
        return end;
    }
    /* Here no tail follows any head, so the second alternative is a run of heads. */
    end = takes_first ? run_end(view, second, KINDS_HEAD) : second;
    if (takes_first && end > second) {
        return end;
    }
    return run_end(view, at, KINDS_HEAD);
}

size_t scan_tekken(const struct unicode *unicode, const struct split_step *step, const char *text,
                   size_t at, size_t end) {
    struct scanned_text view = {unicode, text, end};
    size_t word = cased_word_end(&view, at);
    if (word > at) {
        return step->has_contractions ? any_contraction_end(&view, word) : word;
    }
    size_t length;
    if ((kind_at(&view, at, &length) & KIND_NUMBER) != 0) {
        return number_end(&view, at, step->digits_max);
    }
    return other_or_spaces(&view, at, '/');
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"                                                  \
    "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3(numbers)                                                                            \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define CASED(contractions, numbers)                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"                                  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" contractions                                                  \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"                                 \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" contractions "|" numbers                                      \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES

bool scan_published(const char *pattern, struct split_step *step) {
    static const struct {
        const char *pattern;
        enum split_kind kind;
        int digits_max;
        bool has_contractions;
    } PUBLISHED[] = {
        {GPT2, SPLIT_GPT2, 0, false},
        {LLAMA3("\\p{N}{1,3}|"), SPLIT_LLAMA3, 3, false},
        {LLAMA3("\\p{N}|"), SPLIT_LLAMA3, 1, false},
        {LLAMA3("\\p{N}+|"), SPLIT_LLAMA3, 0, false},
        {CASED("", "\\p{N}|"), SPLIT_TEKKEN, 1, false},
        {CASED("", "\\p{N}{1,3}|"), SPLIT_TEKKEN, 3, false},
        {CASED(CONTRACTIONS "?", "\\p{N}{1,3}|"), SPLIT_TEKKEN, 3, true},
        {CASED(CONTRACTIONS "?", "\\p{N}|"), SPLIT_TEKKEN, 1, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(PUBLISHED); i++) {
        if (strcmp(pattern, PUBLISHED[i].pattern) == 0) {
            step->kind = PUBLISHED[i].kind;
            step->digits_max = PUBLISHED[i].digits_max;
            step->has_contractions = PUBLISHED[i].has_contractions;
            return true;
        }
    }
    return false;
}
