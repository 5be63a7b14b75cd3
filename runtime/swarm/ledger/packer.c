#include "runtime/swarm/ledger/packer.h"

#include "base/check.h"

#include <string.h>

struct packer packer_counting(void) {
    return (struct packer){.direction = PACKER_COUNT};
}

struct packer packer_writing(uint8_t *bytes, size_t capacity) {
    return (struct packer){.direction = PACKER_WRITE, .bytes = bytes, .capacity = capacity};
}

struct packer packer_reading(const uint8_t *bytes, size_t count) {
    return (struct packer){
        .direction = PACKER_READ, .bytes = (uint8_t *)(uintptr_t)bytes, .capacity = count};
}

struct packer packer_hashing(struct hash_state *state) {
    return (struct packer){.direction = PACKER_HASH, .hashing = state};
}

void packer_fail(struct packer *pack, const char *wrong) {
    if (pack->wrong == NULL) {
        pack->wrong = wrong;
    }
}

size_t packer_skip_rest(struct packer *pack) {
    size_t rest = pack->capacity - pack->at;
    pack->at = pack->capacity;
    return rest;
}

const char *packer_end(struct packer *pack) {
    if (pack->at != pack->capacity) {
        packer_fail(pack, "is longer than its fields");
    }
    return pack->wrong;
}

void packer_bytes(struct packer *pack, void *bytes, size_t count) {
    if (pack->direction == PACKER_HASH) {
        hash_add(pack->hashing, bytes, count);
    } else if (pack->direction == PACKER_WRITE) {
        ASSERT(count <= pack->capacity - pack->at);
        memcpy(pack->bytes + pack->at, bytes, count);
    } else if (pack->direction == PACKER_READ) {
        if (pack->wrong != NULL || count > pack->capacity - pack->at) {
            packer_fail(pack, "is cut");
            memset(bytes, 0, count);
            return;
        }
        memcpy(bytes, pack->bytes + pack->at, count);
    }
    pack->at += count;
}

/* Whatever the direction: the number that stands there now. */
static uint64_t pass_word(struct packer *pack, uint64_t value, size_t count) {
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    packer_bytes(pack, bytes, count);
    uint64_t passed = 0;
    for (size_t i = count; i-- > 0;) {
        passed = passed << 8 | bytes[i];
    }
    ASSERT(pack->direction == PACKER_READ || passed == value);
    return passed;
}

void packer_u64(struct packer *pack, uint64_t *value) {
    uint64_t passed = pass_word(pack, *value, 8);
    if (pack->direction == PACKER_READ) {
        *value = passed;
    }
}

static void pass_u32(struct packer *pack, uint32_t *value, size_t count) {
    uint32_t passed = (uint32_t)pass_word(pack, *value, count);
    if (pack->direction == PACKER_READ) {
        *value = passed;
    }
}

void packer_u32(struct packer *pack, uint32_t *value) {
    pass_u32(pack, value, 4);
}

void packer_uint(struct packer *pack, uint32_t *value, size_t bytes) {
    ASSERT(bytes == 1 || bytes == 2);
    pass_u32(pack, value, bytes);
}

uint32_t packer_count(struct packer *pack, uint32_t *count, uint32_t most) {
    packer_u32(pack, count);
    if (*count > most) {
        packer_fail(pack, "has a count above its limit");
        return 0;
    }
    return *count;
}

void packer_text(struct packer *pack, char *text, size_t capacity) {
    uint32_t length = pack->direction == PACKER_READ ? 0 : (uint32_t)strnlen(text, capacity);
    ASSERT(length < capacity && capacity <= 256);
    packer_uint(pack, &length, 1);
    if (length >= capacity) {
        packer_fail(pack, "has a text above its limit");
        length = 0;
    }
    packer_bytes(pack, text, length);
    for (uint32_t i = 0; i < length; i++) {
        if (pack->wrong == NULL && (text[i] < '!' || text[i] > '~')) {
            packer_fail(pack, "has a text with a character that nobody sees");
        }
    }
    if (pack->direction == PACKER_READ) {
        memset(text + length, 0, capacity - length);
    }
}
