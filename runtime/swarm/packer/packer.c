#include "runtime/swarm/packer/packer.h"

#include "runtime/swarm/packer/packer_tokens.h"

#include <msgpack/pack.h>
#include <string.h>

/* ---- bytes ---- */

/* Counts, writes, hashes or compares bytes that the MessagePack writer has encoded. */
static int append_encoded_bytes(void *context, const char *bytes, size_t count) {
    struct packer *packer = context;
    if (packer->mode == PACKER_HASH) {
        hash_add(packer->hash_state, bytes, count);
    } else if (packer->mode == PACKER_WRITE) {
        ASSERT(count <= packer->capacity - packer->offset);
        memcpy(packer->bytes + packer->offset, bytes, count);
    } else if (packer->mode == PACKER_COMPARE) {
        if (count > packer->capacity - packer->offset ||
            memcmp(packer->bytes + packer->offset, bytes, count) != 0) {
            packer_fail(packer, "is not in the canonical form of MessagePack");
            return -1;
        }
    }
    packer->offset += count;
    return 0;
}

static msgpack_packer make_msgpack_writer(struct packer *packer) {
    ASSERT(packer->mode != PACKER_READ);
    return (msgpack_packer){.data = packer, .callback = append_encoded_bytes};
}

/* Returns the next token, which must be of this kind, or an empty one after an error. */
static struct packer_token next_token(struct packer *packer, enum packer_token_kind kind) {
    const struct packer_token empty = {.kind = kind};
    if (packer->error != NULL) {
        return empty;
    }
    if (packer->token == packer->tokens_end || packer->token->kind != kind) {
        packer_fail(packer, "has a field of the wrong type");
        return empty;
    }
    return *packer->token++;
}

static bool token_is_text(struct packer_token token, const char *text, size_t length) {
    return token.value == length && (length == 0 || memcmp(token.bytes, text, length) == 0);
}

static void pack_name(struct packer *packer, const char *name) {
    if (name == NULL) {
        return;
    }
    const size_t length = strlen(name);
    ASSERT(length <= PACKER_NAME_BYTES_MAX);
    packer->field_count++;
    if (packer->mode != PACKER_READ) {
        msgpack_packer writer = make_msgpack_writer(packer);
        msgpack_pack_str_with_body(&writer, name, length);
    } else if (!token_is_text(next_token(packer, TOKEN_TEXT), name, length)) {
        packer_fail(packer, "has a missing, unknown or misplaced field");
    }
}

/* ---- passes ---- */

static void pack_object(struct packer *packer, struct packed_object object) {
    const uint32_t outer_count = packer->field_count;
    if (packer->mode == PACKER_READ) {
        /* compare_with_encoding checks the number of fields later */
        (void)next_token(packer, TOKEN_MAP);
    } else {
        struct packer counting = {.mode = PACKER_COUNT};
        msgpack_packer writer = make_msgpack_writer(packer);
        object.pack_fields(&counting, object.object);
        msgpack_pack_map(&writer, counting.field_count);
    }
    object.pack_fields(packer, object.object);
    packer->field_count = outer_count;
}

size_t packer_count_bytes(struct packed_object object) {
    struct packer packer = {.mode = PACKER_COUNT};
    pack_object(&packer, object);
    return packer.offset;
}

size_t packer_write(struct packed_object object, uint8_t *bytes, size_t capacity) {
    struct packer packer = {.mode = PACKER_WRITE, .bytes = bytes, .capacity = capacity};
    pack_object(&packer, object);
    ASSERT(packer.error == NULL);
    return packer.offset;
}

void packer_hash(struct packed_object object, struct hash_state *state) {
    struct packer packer = {.mode = PACKER_HASH, .hash_state = state};
    pack_object(&packer, object);
    ASSERT(packer.error == NULL);
}

/* Encodes the object again and compares the bytes. MessagePack has several encodings of most
 * values, and only the one that packer_write produces is accepted. */
static const char *compare_with_encoding(struct packed_object object, const uint8_t *bytes,
                                         size_t count) {
    struct packer packer = {
        .mode = PACKER_COMPARE, .bytes = (uint8_t *)(uintptr_t)bytes, .capacity = count};
    pack_object(&packer, object);
    if (packer.offset != count) {
        packer_fail(&packer, "is not in the canonical form of MessagePack");
    }
    return packer.error;
}

const char *packer_read_next(struct packed_object object, const uint8_t *bytes, size_t count,
                             size_t *used) {
    struct packer_token tokens[PACKER_TOKENS_MAX];
    struct packer packer = {.mode = PACKER_READ};
    uint32_t token_count = 0;
    *used = packer_tokens_parse(bytes, count, tokens, &token_count, &packer.error);
    packer.token = tokens;
    packer.tokens_end = tokens + token_count;
    pack_object(&packer, object);
    return packer.error != NULL ? packer.error : compare_with_encoding(object, bytes, *used);
}

const char *packer_read(struct packed_object object, const uint8_t *bytes, size_t count) {
    size_t used;
    const char *error = packer_read_next(object, bytes, count, &used);
    return error == NULL && used != count ? "has bytes after its last field" : error;
}

void packer_fail(struct packer *packer, const char *error) {
    if (packer->error == NULL) {
        packer->error = error;
    }
}

bool packer_is_reading(const struct packer *packer) {
    return packer->mode == PACKER_READ;
}

/* ---- fields ---- */

void pack_u64(struct packer *packer, const char *name, uint64_t *value) {
    pack_name(packer, name);
    if (packer->mode == PACKER_READ) {
        *value = next_token(packer, TOKEN_NUMBER).value;
    } else {
        msgpack_packer writer = make_msgpack_writer(packer);
        msgpack_pack_uint64(&writer, *value);
    }
}

void pack_u32(struct packer *packer, const char *name, uint32_t *value) {
    uint64_t wide = *value;
    pack_u64(packer, name, &wide);
    if (wide > UINT32_MAX) {
        packer_fail(packer, "has a number above the limit of its field");
        wide = 0;
    }
    if (packer->mode == PACKER_READ) {
        *value = (uint32_t)wide;
    }
}

uint32_t pack_element_count(struct packer *packer, const char *name, uint32_t *count,
                            uint32_t max) {
    pack_u32(packer, name, count);
    if (*count > max) {
        packer_fail(packer, "has a count above the limit of its field");
        if (packer->mode == PACKER_READ) {
            *count = 0; /* keeps the loops of the caller within their arrays */
        }
        return 0;
    }
    return *count;
}

void pack_text(struct packer *packer, const char *name, char *text, size_t capacity) {
    pack_name(packer, name);
    if (packer->mode == PACKER_READ) {
        struct packer_token token = next_token(packer, TOKEN_TEXT);
        if (token.value >= capacity) {
            packer_fail(packer, "has a text longer than the limit of its field");
            token.value = 0;
        }
        memset(text, 0, capacity);
        if (token.value > 0) {
            memcpy(text, token.bytes, token.value);
        }
    } else {
        msgpack_packer writer = make_msgpack_writer(packer);
        const size_t length = strnlen(text, capacity);
        ASSERT(length < capacity);
        msgpack_pack_str_with_body(&writer, text, length);
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '!' || *at > '~') {
            packer_fail(packer, "has a text with a non-printable character");
        }
    }
}

void pack_array_header(struct packer *packer, const char *name, uint32_t count) {
    pack_name(packer, name);
    if (packer->mode != PACKER_READ) {
        msgpack_packer writer = make_msgpack_writer(packer);
        msgpack_pack_array(&writer, count);
    } else if (next_token(packer, TOKEN_ARRAY).value != count) {
        packer_fail(packer, "has a list of an unexpected length");
    }
}

void pack_map(struct packer *packer, const char *name, struct packed_object object) {
    pack_name(packer, name);
    pack_object(packer, object);
}

/* ---- bins ---- */

static uint64_t read_bin_token(struct packer *packer, const char *name) {
    pack_name(packer, name);
    const struct packer_token token = next_token(packer, TOKEN_BIN);
    packer->bin = token.bytes;
    packer->bin_bytes_left = token.value;
    return token.value;
}

static void write_bin_header(struct packer *packer, const char *name, size_t count) {
    pack_name(packer, name);
    msgpack_packer writer = make_msgpack_writer(packer);
    msgpack_pack_bin(&writer, count);
}

void pack_bin_header(struct packer *packer, const char *name, size_t count) {
    if (packer->mode != PACKER_READ) {
        write_bin_header(packer, name, count);
    } else if (read_bin_token(packer, name) != count) {
        packer_fail(packer, "has a list of an unexpected length");
    }
}

uint32_t pack_variable_bin_header(struct packer *packer, const char *name, uint32_t *count,
                                  uint32_t max, size_t element_bytes) {
    if (packer->mode != PACKER_READ) {
        ASSERT(*count <= max);
        write_bin_header(packer, name, *count * element_bytes);
        return *count;
    }
    const uint64_t length = read_bin_token(packer, name);
    if (length % element_bytes != 0 || length / element_bytes > max) {
        packer_fail(packer, "has a list of an unexpected length");
    }
    *count = packer->error == NULL ? (uint32_t)(length / element_bytes) : 0;
    return *count;
}

void pack_bin_part(struct packer *packer, void *bytes, size_t count) {
    if (packer->mode != PACKER_READ) {
        (void)append_encoded_bytes(packer, bytes, count);
    } else if (packer->error != NULL) {
        memset(bytes, 0, count);
    } else if (count > 0) {
        ASSERT(count <= packer->bin_bytes_left);
        memcpy(bytes, packer->bin, count);
        packer->bin += count;
        packer->bin_bytes_left -= count;
    }
}

uint64_t pack_bin_number(struct packer *packer, uint64_t value, size_t count) {
    uint8_t bytes[8];
    ASSERT(count == sizeof bytes || value >> (8 * count) == 0);
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    pack_bin_part(packer, bytes, count);
    uint64_t passed = 0;
    for (size_t i = count; i-- > 0;) {
        passed = passed << 8 | bytes[i];
    }
    return passed;
}

void pack_bytes(struct packer *packer, const char *name, void *bytes, size_t count) {
    pack_bin_header(packer, name, count);
    pack_bin_part(packer, bytes, count);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "fp64 numbers are packed as they are in memory, which must be little-endian");

void pack_f64(struct packer *packer, const char *name, double *value) {
    pack_bytes(packer, name, value, sizeof *value);
}

void pack_bulk_header(struct packer *packer, const char *name, const uint8_t **bytes,
                      size_t *count) {
    if (packer->mode == PACKER_READ) {
        *count = read_bin_token(packer, name);
        *bytes = packer->bin;
        return;
    }
    write_bin_header(packer, name, *count);
    if (packer->mode == PACKER_COMPARE && packer->error == NULL) {
        const size_t rest = packer->capacity - packer->offset;
        packer->offset += *count < rest ? *count : rest;
    }
}
