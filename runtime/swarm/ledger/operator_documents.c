#include "runtime/swarm/ledger/operator_documents.h"

#include "runtime/swarm/packer/packer.h"

#include <string.h>

static const char DELEGATION_CONTEXT[] = "skep delegation", ROSTER_CONTEXT[] = "skep roster epoch";
static const char MAGIC[] = "SKEP";

enum {
    MAGIC_BYTES = sizeof MAGIC - 1, /* size of the magic, without its NUL */
    KIND_DELEGATION = 1,            /* kind of a delegation in its frame */
    KIND_ROSTER_EPOCH = 2,          /* kind of a roster epoch in its frame */
    BYTE_BITS = 8,                  /* number of bits in a byte */
};

/* A delegation with the hash of its swarm. Only a packer in reading mode changes the two. */
struct delegation_document {
    struct hash swarm; /* hash of the manifest */
    struct delegation *delegation;
};

/* A roster epoch with the hash of its swarm, as a delegation_document. */
struct roster_epoch_document {
    struct hash swarm; /* hash of the manifest */
    struct roster_epoch *epoch;
};

uint64_t operator_next_serial(uint64_t newest, uint64_t now_s) {
    ASSERT(now_s > 0 && newest < UINT64_MAX);
    return now_s > newest ? now_s : newest + 1;
}

/* ---- the fields ---- */

static void pack_delegation_fields(struct packer *packer, void *object) {
    struct delegation_document *document = object;
    struct delegation *delegation = document->delegation;
    pack_bytes(packer, "swarm", document->swarm.bytes, HASH_BYTES);
    pack_u64(packer, "serial", &delegation->serial);
    pack_u64(packer, "expires_s", &delegation->expires_s);
    pack_bytes(packer, "curve", delegation->tracker.curve, KEY_BYTES);
    pack_bytes(packer, "sign", delegation->tracker.sign, KEY_BYTES);
}

static void pack_delegation(struct packer *packer, void *object) {
    struct delegation_document *document = object;
    pack_map(packer, "document", (struct packed_object){pack_delegation_fields, document});
    pack_bytes(packer, "signature", document->delegation->signature, SIGNATURE_BYTES);
    if (document->delegation->serial == 0) {
        packer_fail(packer, "has no serial");
    }
}

static void pack_roster_epoch_fields(struct packer *packer, void *object) {
    struct roster_epoch_document *document = object;
    struct roster_epoch *epoch = document->epoch;
    pack_bytes(packer, "swarm", document->swarm.bytes, HASH_BYTES);
    pack_u64(packer, "serial", &epoch->serial);
    pack_u32(packer, "is_open", &epoch->is_open);
    const uint32_t count =
        pack_variable_bin_header(packer, "members", &epoch->count, ROSTER_KEYS_MAX, KEY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(packer, epoch->members[i], KEY_BYTES);
    }
}

static void pack_roster_epoch(struct packer *packer, void *object) {
    struct roster_epoch_document *document = object;
    pack_map(packer, "document", (struct packed_object){pack_roster_epoch_fields, document});
    pack_bytes(packer, "signature", document->epoch->signature, SIGNATURE_BYTES);
    const char *error = roster_epoch_error(document->epoch);
    if (error != NULL) {
        packer_fail(packer, error);
    }
}

/* The casts are safe: only a packer in reading mode writes into the document. */
static struct delegation_document delegation_without_const(const struct hash *swarm,
                                                           const struct delegation *delegation) {
    return (struct delegation_document){*swarm, (struct delegation *)(uintptr_t)delegation};
}

static struct roster_epoch_document roster_epoch_without_const(const struct hash *swarm,
                                                               const struct roster_epoch *epoch) {
    return (struct roster_epoch_document){*swarm, (struct roster_epoch *)(uintptr_t)epoch};
}

/* ---- signatures ---- */

static struct hash hash_fields(struct packed_object fields) {
    struct hash_state state;
    hash_begin(&state);
    packer_hash(fields, &state);
    return hash_end(&state);
}

static struct hash hash_delegation(const struct hash *swarm, const struct delegation *delegation) {
    struct delegation_document document = delegation_without_const(swarm, delegation);
    return hash_fields((struct packed_object){pack_delegation_fields, &document});
}

static struct hash hash_roster_epoch(const struct hash *swarm, const struct roster_epoch *epoch) {
    struct roster_epoch_document document = roster_epoch_without_const(swarm, epoch);
    return hash_fields((struct packed_object){pack_roster_epoch_fields, &document});
}

void delegation_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                     struct delegation *delegation) {
    ASSERT(delegation->serial > 0);
    const struct hash hash = hash_delegation(swarm, delegation);
    keys_sign(operator_keys, DELEGATION_CONTEXT, hash.bytes, HASH_BYTES, delegation->signature);
}

bool delegation_is_signed(const uint8_t operator_key[static KEY_BYTES], const struct hash *swarm,
                          const struct delegation *delegation) {
    const struct hash hash = hash_delegation(swarm, delegation);
    return keys_verify(operator_key, DELEGATION_CONTEXT, hash.bytes, HASH_BYTES,
                       delegation->signature);
}

bool delegation_is_expired(const struct delegation *delegation, uint64_t now_s) {
    return delegation->expires_s != 0 && now_s >= delegation->expires_s;
}

void roster_epoch_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                       struct roster_epoch *epoch) {
    ASSERT(roster_epoch_error(epoch) == NULL);
    const struct hash hash = hash_roster_epoch(swarm, epoch);
    keys_sign(operator_keys, ROSTER_CONTEXT, hash.bytes, HASH_BYTES, epoch->signature);
}

bool roster_epoch_is_signed(const uint8_t operator_key[static KEY_BYTES], const struct hash *swarm,
                            const struct roster_epoch *epoch) {
    ASSERT(epoch->count <= ROSTER_KEYS_MAX);
    const struct hash hash = hash_roster_epoch(swarm, epoch);
    return keys_verify(operator_key, ROSTER_CONTEXT, hash.bytes, HASH_BYTES, epoch->signature);
}

/* ---- the roster ---- */

const char *roster_epoch_error(const struct roster_epoch *epoch) {
    if (epoch->serial == 0 || epoch->count > ROSTER_KEYS_MAX || epoch->is_open > 1) {
        return "has a field with a value outside its limits";
    }
    for (uint32_t i = 1; i < epoch->count; i++) {
        if (memcmp(epoch->members[i - 1], epoch->members[i], KEY_BYTES) >= 0) {
            return "has keys that are not in ascending order";
        }
    }
    return epoch->is_open == 1 && epoch->count < ROSTER_VOTERS_MIN
               ? "is open, but lists fewer than three members, and only listed members vote"
               : NULL;
}

bool roster_epoch_has_key(const struct roster_epoch *epoch, const uint8_t key[static KEY_BYTES]) {
    uint32_t begin = 0;
    uint32_t end = epoch->count;
    ASSERT(end <= ROSTER_KEYS_MAX);
    while (begin < end) {
        const uint32_t middle = begin + (end - begin) / 2;
        const int order = memcmp(key, epoch->members[middle], KEY_BYTES);
        if (order == 0) {
            return true;
        }
        begin = order > 0 ? middle + 1 : begin;
        end = order < 0 ? middle : end;
    }
    return false;
}

/* ---- frames ---- */

static size_t write_document_frame(struct packed_object object, uint8_t kind, uint8_t *bytes,
                                   size_t capacity) {
    const size_t length = packer_write(object, bytes + OPERATOR_FRAME_HEADER_BYTES,
                                       capacity - OPERATOR_FRAME_HEADER_BYTES);
    memcpy(bytes, MAGIC, MAGIC_BYTES);
    bytes[MAGIC_BYTES] = OPERATOR_FRAME_VERSION;
    bytes[MAGIC_BYTES + 1] = kind;
    bytes[MAGIC_BYTES + 2] = (uint8_t)(length & UINT8_MAX);
    bytes[MAGIC_BYTES + 3] = (uint8_t)(length >> BYTE_BITS);
    return OPERATOR_FRAME_HEADER_BYTES + length;
}

static const char *read_document_frame(struct packed_object object, uint8_t kind,
                                       const uint8_t *bytes, size_t count) {
    if (count < OPERATOR_FRAME_HEADER_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0) {
        return "is not a delegation or a roster epoch of an operator";
    }
    if (bytes[MAGIC_BYTES] != OPERATOR_FRAME_VERSION || bytes[MAGIC_BYTES + 1] != kind) {
        return "has an unknown version or kind";
    }
    const size_t length = bytes[MAGIC_BYTES + 2] + ((size_t)bytes[MAGIC_BYTES + 3] << BYTE_BITS);
    return length == count - OPERATOR_FRAME_HEADER_BYTES
               ? packer_read(object, bytes + OPERATOR_FRAME_HEADER_BYTES, length)
               : "has a length that differs from its content";
}

size_t delegation_write(const struct hash *swarm, const struct delegation *delegation,
                        uint8_t bytes[static DELEGATION_FRAME_BYTES_MAX]) {
    struct delegation_document document = delegation_without_const(swarm, delegation);
    return write_document_frame((struct packed_object){pack_delegation, &document}, KIND_DELEGATION,
                                bytes, DELEGATION_FRAME_BYTES_MAX);
}

const char *delegation_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                            struct delegation *delegation) {
    struct delegation_document document = {.delegation = delegation};
    memset(delegation, 0, sizeof *delegation);
    const char *error = read_document_frame((struct packed_object){pack_delegation, &document},
                                            KIND_DELEGATION, bytes, count);
    *swarm = document.swarm;
    return error;
}

size_t roster_epoch_write(const struct hash *swarm, const struct roster_epoch *epoch,
                          uint8_t bytes[static ROSTER_FRAME_BYTES_MAX]) {
    struct roster_epoch_document document = roster_epoch_without_const(swarm, epoch);
    return write_document_frame((struct packed_object){pack_roster_epoch, &document},
                                KIND_ROSTER_EPOCH, bytes, ROSTER_FRAME_BYTES_MAX);
}

const char *roster_epoch_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                              struct roster_epoch *epoch) {
    struct roster_epoch_document document = {.epoch = epoch};
    memset(epoch, 0, sizeof *epoch);
    const char *error = read_document_frame((struct packed_object){pack_roster_epoch, &document},
                                            KIND_ROSTER_EPOCH, bytes, count);
    *swarm = document.swarm;
    return error;
}
