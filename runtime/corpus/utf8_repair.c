/* utf8_repair: repairs in one pass, with a fast path for ASCII that tests eight bytes at a time. */
#include "runtime/corpus/utf8_repair.h"

#include <string.h>

static const uint64_t HIGH_BITS = 0x8080808080808080u;
static const char REPLACEMENT[] = "\xef\xbf\xbd";

/* The beginning of a character: the number of its bytes that are present and valid, and the number
 * that the character needs. */
struct character {
    /* valid bytes; bytes of the whole character, 0 if the first byte starts none */
    size_t present, needed;
};

/* Returns the beginning of the character at `at`. Each row has a range of first bytes, the range of
 * the second byte, and the character's length. Later bytes are in the range 80 to BF. */
static struct character read_character(const unsigned char *at, size_t count) {
    static const unsigned char ROWS[][5] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    struct character character = {.present = 1};
    const unsigned char *row = NULL;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0] && row == NULL; i++) {
        row = at[0] >= ROWS[i][0] && at[0] <= ROWS[i][1] ? ROWS[i] : NULL;
    }
    if (row == NULL) {
        return character;
    }
    character.needed = row[4];
    while (character.present < character.needed && character.present < count) {
        const unsigned char byte = at[character.present];
        const unsigned char low = character.present == 1 ? row[2] : 0x80;
        const unsigned char high = character.present == 1 ? row[3] : 0xbf;
        if (byte < low || byte > high) {
            break;
        }
        character.present++;
    }
    return character;
}

/* Returns the number of bytes from `at` on that are ASCII, in whole words of eight bytes. */
static size_t ascii_words(const char *at, size_t count) {
    size_t length = 0;
    while (count - length >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at + length, sizeof word);
        if ((word & HIGH_BITS) != 0) {
            break;
        }
        length += sizeof word;
    }
    return length;
}

struct utf8_repaired utf8_repair(const char *bytes, size_t count, bool is_last, char *out) {
    struct utf8_repaired result = {0};
    size_t at = 0;
    size_t to = 0;
    while (at < count) {
        size_t length = ascii_words(bytes + at, count - at);
        if (length == 0 && (unsigned char)bytes[at] < 0x80) {
            length = 1;
        }
        if (length == 0) {
            const struct character character =
                read_character((const unsigned char *)bytes + at, count - at);
            const bool is_whole = character.present == character.needed;
            if (!is_whole && !is_last && character.needed > 0 && at + character.present == count) {
                break; /* the rest of the character may be in the next call's input */
            }
            if (!is_whole) {
                result.first_replaced = result.replacements == 0 ? at : result.first_replaced;
                result.replacements++;
                memcpy(out + to, REPLACEMENT, sizeof REPLACEMENT - 1);
                to += sizeof REPLACEMENT - 1;
                at += character.present;
                continue;
            }
            length = character.needed;
        }
        memcpy(out + to, bytes + at, length);
        at += length;
        to += length;
    }
    result.read_bytes = at;
    result.written_bytes = to;
    return result;
}
