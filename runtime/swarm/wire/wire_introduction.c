/* wire_introduction: encodes, decodes and signs introductions, proofs and address books. */
#include "runtime/swarm/packer/packer.h"
#include "runtime/swarm/wire/wire.h"
#include "transport/identity/address.h"
#include "transport/identity/join_string.h"
#include "transport/identity/numeric_address.h"

#include <string.h>

static void pack_keys(struct packer *pack, struct public_keys *keys) {
    pack_bytes(pack, "curve", keys->curve, KEY_BYTES);
    pack_bytes(pack, "sign", keys->sign, KEY_BYTES);
}

/* Packs the fields of an introduction that its signature covers. */
static void pack_signed_fields(struct packer *pack, void *object) {
    struct wire_introduction *introduction = object;
    pack_u32(pack, "protocol", &introduction->version);
    pack_u64(pack, "start", &introduction->start_id);
    pack_keys(pack, &introduction->keys);
    pack_bytes(pack, "manifest", introduction->manifest.bytes, HASH_BYTES);
    pack_text(pack, "name", introduction->name, sizeof introduction->name);
    pack_text(pack, "address", introduction->address, sizeof introduction->address);
}

static void pack_introduction(struct packer *pack, void *object) {
    struct wire_introduction *introduction = object;
    pack_map(pack, "introduction", (struct packed_object){pack_signed_fields, introduction});
    pack_bytes(pack, "signature", introduction->signature.bytes, SIGNATURE_BYTES);
}

static const char *name_error(const char *name) {
    static const char LETTERS[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return name[strspn(name, LETTERS)] == '\0'
               ? NULL
               : "has a name with characters other than letters, digits and - _ .";
}

/* Returns the error in an address, or NULL. Only IP addresses are valid, because resolving a host
 * name would block the receiver. */
static const char *numeric_address_error(const char *address) {
    union numeric_address number;
    const char *error = address_error(address);
    return error != NULL || numeric_address_parse(address, &number) > 0
               ? error
               : "has a host name instead of an IP address";
}

/* Returns the error in an address, or NULL. "tcp://:PORT" is valid if it is an address once a host
 * is inserted. */
const char *introduced_address_error(const char *address) {
    static const char NO_HOST[] = "tcp://";
    const size_t prefix = sizeof NO_HOST - 1;
    char whole[MESSAGE_ADDRESS_BYTES] = "tcp://0";
    size_t length = strnlen(address, MESSAGE_ADDRESS_BYTES - 2);
    if (length == 0) {
        return NULL;
    }
    if (strncmp(address, "tcp://:", prefix + 1) != 0) {
        return numeric_address_error(address);
    }
    memcpy(whole + prefix + 1, address + prefix, length - prefix);
    return address_error(whole);
}

static void hash_introduction(const struct wire_introduction *introduction, struct hash *hash) {
    struct hash_state state;
    hash_begin(&state);
    packer_hash((struct packed_object){pack_signed_fields, (void *)(uintptr_t)introduction},
                &state);
    *hash = hash_end(&state);
}

static const char CONTEXT[] = "skep introduction";

void wire_sign_introduction(const struct key_pairs *keys, struct wire_introduction *introduction) {
    struct hash hash;
    hash_introduction(introduction, &hash);
    keys_sign(keys, CONTEXT, hash.bytes, HASH_BYTES, introduction->signature.bytes);
}

bool wire_introduction_is_signed(const struct wire_introduction *introduction) {
    struct hash hash;
    hash_introduction(introduction, &hash);
    return keys_verify(introduction->keys.sign, CONTEXT, hash.bytes, HASH_BYTES,
                       introduction->signature.bytes);
}

size_t wire_write_introduction(const struct wire_introduction *introduction, uint8_t *payload) {
    ASSERT(name_error(introduction->name) == NULL);
    ASSERT(introduced_address_error(introduction->address) == NULL);
    return packer_write((struct packed_object){pack_introduction, (void *)(uintptr_t)introduction},
                        payload, WIRE_INTRODUCTION_BYTES_MAX);
}

const char *wire_read_introduction(const uint8_t *payload, size_t count,
                                   struct wire_introduction *introduction) {
    struct wire_introduction read = {.version = 0};
    const char *error =
        packer_read((struct packed_object){pack_introduction, &read}, payload, count);
    if (error == NULL) {
        error = name_error(read.name);
    }
    if (error == NULL) {
        error = introduced_address_error(read.address);
    }
    if (error == NULL) {
        *introduction = read;
    }
    return error;
}

static const char PROOF_CONTEXT[] = "skep question";

static struct hash hash_proof(const struct public_keys *signer, const struct public_keys *tracker,
                              const uint8_t *channel) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, tracker->curve, KEY_BYTES);
    hash_add(&state, tracker->sign, KEY_BYTES);
    hash_add(&state, channel, KEY_BYTES);
    hash_add(&state, signer->curve, KEY_BYTES);
    hash_add(&state, signer->sign, KEY_BYTES);
    return hash_end(&state);
}

void wire_sign_proof(const struct key_pairs *keys, const struct public_keys *tracker,
                     const uint8_t channel[static KEY_BYTES], struct wire_proof *proof) {
    const struct hash hash = hash_proof(&keys->public_keys, tracker, channel);
    proof->keys = keys->public_keys;
    keys_sign(keys, PROOF_CONTEXT, hash.bytes, HASH_BYTES, proof->signature.bytes);
}

bool wire_proof_is_signed(const struct wire_proof *proof, const struct public_keys *tracker,
                          const uint8_t channel[static KEY_BYTES]) {
    const struct hash hash = hash_proof(&proof->keys, tracker, channel);
    return keys_verify(proof->keys.sign, PROOF_CONTEXT, hash.bytes, HASH_BYTES,
                       proof->signature.bytes);
}

static void pack_proof(struct packer *pack, void *object) {
    struct wire_proof *proof = object;
    pack_keys(pack, &proof->keys);
    pack_bytes(pack, "signature", proof->signature.bytes, SIGNATURE_BYTES);
}

size_t wire_write_proof(const struct wire_proof *proof, uint8_t *payload) {
    return packer_write((struct packed_object){pack_proof, (void *)(uintptr_t)proof}, payload,
                        WIRE_PROOF_BYTES_MAX);
}

const char *wire_read_proof(const uint8_t *payload, size_t count, struct wire_proof *proof) {
    struct wire_proof read = {.signature = {{0}}};
    const char *error = packer_read((struct packed_object){pack_proof, &read}, payload, count);
    if (error == NULL) {
        *proof = read;
    }
    return error;
}

static void pack_address_book(struct packer *pack, void *object) {
    struct wire_address_book *book = object;
    pack_u32(pack, "version", &book->version);
    pack_u32(pack, "heartbeat_ms", &book->timing.heartbeat_ms);
    pack_u32(pack, "silence_ms", &book->timing.silence_ms);
    pack_u32(pack, "train_ms", &book->timing.train_ms);
    pack_u32(pack, "exchange_ms", &book->timing.exchange_ms);
    pack_u32(pack, "round_ms", &book->timing.round_ms);
    uint32_t count = pack_element_count(pack, "count", &book->count, SWARM_MEMBERS_MAX);
    struct packer_rows rows = {book->members, sizeof *book->members, .count = count};
    pack_bytes_column(pack, "curve_keys", rows, offsetof(struct wire_member, keys.curve),
                      KEY_BYTES);
    pack_bytes_column(pack, "sign_keys", rows, offsetof(struct wire_member, keys.sign), KEY_BYTES);
    pack_array_header(pack, "addresses", count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(pack, NULL, book->members[i].address, sizeof book->members[i].address);
    }
}

static bool share_a_key(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 || memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

static const char *address_book_member_error(const struct wire_address_book *book, uint32_t index) {
    const struct wire_member *member = &book->members[index];
    for (uint32_t i = 0; i < index; i++) {
        if (share_a_key(&book->members[i].keys, &member->keys)) {
            return "has two members with the same key";
        }
    }
    return member->address[0] == '\0' ? NULL : numeric_address_error(member->address);
}

static const char *address_book_error(const struct wire_address_book *book) {
    const struct swarm_timing *timing = &book->timing;
    const uint32_t deadlines[] = {timing->heartbeat_ms, timing->silence_ms, timing->train_ms,
                                  timing->exchange_ms, timing->round_ms};
    for (size_t i = 0; i < ARRAY_COUNT(deadlines); i++) {
        if (deadlines[i] == 0 || deadlines[i] > INT32_MAX) {
            return "has a deadline that is 0 or above the maximum";
        }
    }
    const char *error = NULL;
    for (uint32_t i = 0; i < book->count && error == NULL; i++) {
        error = address_book_member_error(book, i);
    }
    return error;
}

size_t wire_write_address_book(const struct wire_address_book *book, uint8_t *payload) {
    ASSERT(address_book_error(book) == NULL);
    return packer_write((struct packed_object){pack_address_book, (void *)(uintptr_t)book}, payload,
                        WIRE_ADDRESS_BOOK_BYTES_MAX);
}

const char *wire_read_address_book(const uint8_t *payload, size_t count,
                                   struct wire_address_book *book) {
    struct wire_address_book read = {.version = 0};
    const char *error =
        packer_read((struct packed_object){pack_address_book, &read}, payload, count);
    if (error == NULL) {
        error = address_book_error(&read);
    }
    if (error == NULL) {
        *book = read;
    }
    return error;
}
