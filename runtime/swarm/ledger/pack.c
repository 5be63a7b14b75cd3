#include "runtime/swarm/ledger/pack.h"

#include "base/check.h"

#include <string.h>

struct pack pack_counting(void) {
    return (struct pack){.direction = PACK_COUNT};
}

struct pack pack_writing(uint8_t *bytes, size_t capacity) {
    return (struct pack){.direction = PACK_WRITE, .bytes = bytes, .capacity = capacity};
}

struct pack pack_reading(const uint8_t *bytes, size_t count) {
    return (struct pack){
        .direction = PACK_READ, .bytes = (uint8_t *)(uintptr_t)bytes, .capacity = count};
}

struct pack pack_hashing(struct hash_state *state) {
    return (struct pack){.direction = PACK_HASH, .hashing = state};
}

void pack_refuse(struct pack *pack, const char *wrong) {
    if (pack->wrong == NULL) {
        pack->wrong = wrong;
    }
}

const char *pack_end(struct pack *pack) {
    if (pack->at != pack->capacity) {
        pack_refuse(pack, "is longer than its fields");
    }
    return pack->wrong;
}

void pack_bytes(struct pack *pack, void *bytes, size_t count) {
    if (pack->direction == PACK_HASH) {
        hash_add(pack->hashing, bytes, count);
    } else if (pack->direction == PACK_WRITE) {
        ASSERT(count <= pack->capacity - pack->at);
        memcpy(pack->bytes + pack->at, bytes, count);
    } else if (pack->direction == PACK_READ) {
        if (pack->wrong != NULL || count > pack->capacity - pack->at) {
            pack_refuse(pack, "is cut");
            memset(bytes, 0, count);
            return;
        }
        memcpy(bytes, pack->bytes + pack->at, count);
    }
    pack->at += count;
}

/* Whatever the direction: the number that stands there now. */
static uint64_t pass_word(struct pack *pack, uint64_t value, size_t count) {
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    pack_bytes(pack, bytes, count);
    uint64_t passed = 0;
    for (size_t i = count; i-- > 0;) {
        passed = passed << 8 | bytes[i];
    }
    ASSERT(pack->direction == PACK_READ || passed == value);
    return passed;
}

void pack_u64(struct pack *pack, uint64_t *value) {
    uint64_t passed = pass_word(pack, *value, 8);
    if (pack->direction == PACK_READ) {
        *value = passed;
    }
}

static void pass_u32(struct pack *pack, uint32_t *value, size_t count) {
    uint32_t passed = (uint32_t)pass_word(pack, *value, count);
    if (pack->direction == PACK_READ) {
        *value = passed;
    }
}

void pack_u32(struct pack *pack, uint32_t *value) {
    pass_u32(pack, value, 4);
}

void pack_small(struct pack *pack, uint32_t *value, size_t bytes) {
    ASSERT(bytes == 1 || bytes == 2);
    pass_u32(pack, value, bytes);
}

uint32_t pack_count(struct pack *pack, uint32_t *count, uint32_t most) {
    pack_u32(pack, count);
    if (*count > most) {
        pack_refuse(pack, "has a count above its limit");
        return 0;
    }
    return *count;
}

void pack_text(struct pack *pack, char *text, size_t capacity) {
    uint32_t length = pack->direction == PACK_READ ? 0 : (uint32_t)strnlen(text, capacity);
    ASSERT(length < capacity && capacity <= 256);
    pack_small(pack, &length, 1);
    if (length >= capacity) {
        pack_refuse(pack, "has a text above its limit");
        length = 0;
    }
    pack_bytes(pack, text, length);
    for (uint32_t i = 0; i < length; i++) {
        if (pack->wrong == NULL && (text[i] < '!' || text[i] > '~')) {
            pack_refuse(pack, "has a text with a character that nobody sees");
        }
    }
    if (pack->direction == PACK_READ) {
        memset(text + length, 0, capacity - length);
    }
}
