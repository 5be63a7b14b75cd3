#include "runtime/swarm/ledger/packer.h"

#include "base/check.h"

#include <string.h>

struct packer packer_begin_count(void) {
    return (struct packer){.mode = PACKER_COUNT};
}

struct packer packer_begin_write(uint8_t *bytes, size_t capacity) {
    return (struct packer){.mode = PACKER_WRITE, .bytes = bytes, .capacity = capacity};
}

struct packer packer_begin_read(const uint8_t *bytes, size_t count) {
    return (struct packer){
        .mode = PACKER_READ, .bytes = (uint8_t *)(uintptr_t)bytes, .capacity = count};
}

struct packer packer_begin_hash(struct hash_state *state) {
    return (struct packer){.mode = PACKER_HASH, .hash_state = state};
}

void packer_fail(struct packer *packer, const char *error) {
    if (packer->error == NULL) {
        packer->error = error;
    }
}

size_t packer_skip_rest(struct packer *packer) {
    ASSERT(packer->mode == PACKER_READ && packer->offset <= packer->capacity);
    size_t rest = packer->capacity - packer->offset;
    packer->offset = packer->capacity;
    return rest;
}

const char *packer_finish(struct packer *packer) {
    if (packer->offset != packer->capacity) {
        packer_fail(packer, "is longer than its fields");
    }
    return packer->error;
}

void pack_bytes(struct packer *packer, void *bytes, size_t count) {
    if (packer->mode == PACKER_HASH) {
        hash_add(packer->hash_state, bytes, count);
    } else if (packer->mode == PACKER_WRITE) {
        ASSERT(count <= packer->capacity - packer->offset);
        memcpy(packer->bytes + packer->offset, bytes, count);
    } else if (packer->mode == PACKER_READ) {
        if (packer->error != NULL || count > packer->capacity - packer->offset) {
            packer_fail(packer, "is truncated");
            memset(bytes, 0, count);
            return;
        }
        memcpy(bytes, packer->bytes + packer->offset, count);
    }
    packer->offset += count;
}

/* Passes an integer of `count` bytes. Returns the integer that was read, or `value` in other
 * modes. */
static uint64_t pack_word(struct packer *packer, uint64_t value, size_t count) {
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    pack_bytes(packer, bytes, count);
    uint64_t passed = 0;
    for (size_t i = count; i-- > 0;) {
        passed = passed << 8 | bytes[i];
    }
    ASSERT(packer->mode == PACKER_READ || passed == value);
    return passed;
}

void pack_u64(struct packer *packer, uint64_t *value) {
    uint64_t passed = pack_word(packer, *value, 8);
    if (packer->mode == PACKER_READ) {
        *value = passed;
    }
}

static void pack_narrow_u32(struct packer *packer, uint32_t *value, size_t count) {
    uint32_t passed = (uint32_t)pack_word(packer, *value, count);
    if (packer->mode == PACKER_READ) {
        *value = passed;
    }
}

void pack_u32(struct packer *packer, uint32_t *value) {
    pack_narrow_u32(packer, value, 4);
}

void pack_uint(struct packer *packer, uint32_t *value, size_t bytes) {
    ASSERT(bytes == 1 || bytes == 2);
    pack_narrow_u32(packer, value, bytes);
}

uint32_t pack_element_count(struct packer *packer, uint32_t *count, uint32_t max) {
    pack_u32(packer, count);
    if (*count > max) {
        packer_fail(packer, "has a count above its limit");
        return 0;
    }
    return *count;
}

void pack_text(struct packer *packer, char *text, size_t capacity) {
    uint32_t length = packer->mode == PACKER_READ ? 0 : (uint32_t)strnlen(text, capacity);
    ASSERT(length < capacity && capacity <= 256);
    pack_uint(packer, &length, 1);
    if (length >= capacity) {
        packer_fail(packer, "has a text longer than its limit");
        length = 0;
    }
    pack_bytes(packer, text, length);
    for (uint32_t i = 0; i < length; i++) {
        if (packer->error == NULL && (text[i] < '!' || text[i] > '~')) {
            packer_fail(packer, "has a text with a non-printable character");
        }
    }
    if (packer->mode == PACKER_READ) {
        memset(text + length, 0, capacity - length);
    }
}
