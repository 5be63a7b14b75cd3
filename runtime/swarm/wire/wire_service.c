#include "runtime/swarm/wire/wire_service.h"

#include "runtime/swarm/ledger/entry.h"

#include <string.h>

/* ---- pings and requests for leaves ---- */

static void pack_ping(struct packer *pack, void *object) {
    pack_u64(pack, "number", object);
}

size_t wire_write_ping(uint64_t number, uint8_t payload[static WIRE_SMALL_BYTES_MAX]) {
    return packer_write((struct packed_object){pack_ping, &number}, payload, WIRE_SMALL_BYTES_MAX);
}

const char *wire_read_ping(const uint8_t *payload, size_t count, uint64_t *number) {
    return packer_read((struct packed_object){pack_ping, number}, payload, count);
}

static void pack_probe(struct packer *pack, void *object) {
    struct wire_probe *probe = object;
    pack_text(pack, "address", probe->address, sizeof probe->address);
    pack_u32(pack, "outcome", &probe->outcome);
}

size_t wire_write_probe(const struct wire_probe *probe,
                        uint8_t payload[static WIRE_PROBE_BYTES_MAX]) {
    struct wire_probe copy = *probe;
    return packer_write((struct packed_object){pack_probe, &copy}, payload, WIRE_PROBE_BYTES_MAX);
}

const char *wire_read_probe(const uint8_t *payload, size_t count, struct wire_probe *probe) {
    struct wire_probe read = {.outcome = 0};
    const char *error = packer_read((struct packed_object){pack_probe, &read}, payload, count);
    error = error == NULL ? introduced_address_error(read.address) : error;
    if (error == NULL && read.outcome >= PROBE_OUTCOMES) {
        error = "has an unknown outcome";
    }
    if (error == NULL) {
        *probe = read;
    }
    return error;
}

static void pack_root(struct packer *pack, void *object) {
    pack_bytes(pack, "root", object, HASH_BYTES);
}

size_t wire_write_leaf_request(const struct hash *root,
                               uint8_t payload[static WIRE_SMALL_BYTES_MAX]) {
    struct hash copy = *root;
    return packer_write((struct packed_object){pack_root, &copy}, payload, WIRE_SMALL_BYTES_MAX);
}

const char *wire_read_leaf_request(const uint8_t *payload, size_t count, struct hash *root) {
    return packer_read((struct packed_object){pack_root, root}, payload, count);
}

/* ---- documents and hashes of leaves ---- */

/* A payload that consists of an optional root and a bin of bytes at its end. */
struct packed_bytes {
    const char *name;     /* name of the field with the bytes */
    bool has_root;        /* the payload has `root` */
    struct hash root;     /* root of the state */
    const uint8_t *bytes; /* [count]: the bytes */
    size_t count;         /* number of bytes */
};

static void pack_named_bytes(struct packer *pack, void *object) {
    struct packed_bytes *packed = object;
    if (packed->has_root) {
        pack_bytes(pack, "root", packed->root.bytes, HASH_BYTES);
    }
    pack_bulk_header(pack, packed->name, &packed->bytes, &packed->count);
}

/* Writes the fields before the bytes, and moves the bytes to directly after them. */
static size_t write_named_bytes(struct packed_bytes *packed, size_t prefix, uint8_t *payload) {
    const size_t fixed = prefix + packer_write((struct packed_object){pack_named_bytes, packed},
                                               payload + prefix, WIRE_DOCUMENT_OFFSET - prefix);
    memmove(payload + fixed, payload + WIRE_DOCUMENT_OFFSET, packed->count);
    return fixed + packed->count;
}

static const char *document_field_name(uint8_t kind) {
    switch (kind) {
    case WIRE_REJECTED:
        return "reason";
    case WIRE_MANIFEST:
        return "manifest";
    case WIRE_STATUS:
        return "status";
    default:
        ASSERT(kind == WIRE_CHECKPOINT);
        return "checkpoint";
    }
}

size_t wire_write_document(uint8_t kind, size_t count, uint8_t *payload) {
    struct packed_bytes packed = {.name = document_field_name(kind), .count = count};
    const size_t prefix = wire_is_chunked(kind) ? WIRE_LENGTH_BYTES : 0;
    const size_t total = write_named_bytes(&packed, prefix, payload);
    if (prefix > 0) {
        wire_write_length(payload, total);
    }
    return total;
}

const char *wire_read_document(uint8_t kind, const uint8_t *payload, size_t count,
                               const uint8_t **bytes, size_t *byte_count) {
    struct packed_bytes packed = {.name = document_field_name(kind)};
    const char *error =
        packer_read((struct packed_object){pack_named_bytes, &packed}, payload, count);
    *bytes = packed.bytes;
    *byte_count = packed.count;
    return error;
}

size_t wire_write_leaf_hashes(const struct hash *root, size_t hash_count, uint8_t *payload) {
    struct packed_bytes packed = {
        .name = "hashes", .has_root = true, .root = *root, .count = hash_count * HASH_BYTES};
    return write_named_bytes(&packed, 0, payload);
}

const char *wire_read_leaf_hashes(const uint8_t *payload, size_t count, struct hash *root,
                                  const uint8_t **hashes, size_t *byte_count) {
    struct packed_bytes packed = {.name = "hashes", .has_root = true};
    const char *error =
        packer_read((struct packed_object){pack_named_bytes, &packed}, payload, count);
    *root = packed.root;
    *hashes = packed.bytes;
    *byte_count = packed.count;
    return error == NULL && packed.count % HASH_BYTES != 0 ? "ends in the middle of a hash" : error;
}

/* ---- pages of the ledger ---- */

static void pack_ledger_page(struct packer *pack, void *object) {
    struct wire_ledger_page *page = object;
    pack_u64(pack, "first", &page->first);
    pack_u64(pack, "entry_count", &page->entry_count);
    pack_u32(pack, "count", &page->count);
    pack_bulk_header(pack, "records", &page->records, &page->bytes);
}

static const char *ledger_page_error(const struct wire_ledger_page *page) {
    if ((page->count == 0) != (page->bytes == 0)) {
        return "counts no records but has some, or counts some but has none";
    }
    return page->count == 0 || (page->first < page->entry_count &&
                                page->count <= page->entry_count - page->first)
               ? NULL
               : "has entries after the end of the ledger";
}

static size_t records_bytes_max(uint32_t slice_count) {
    const size_t record = entry_record_bytes_max(slice_count);
    return record > WIRE_LEDGER_RECORDS_BYTES ? record : WIRE_LEDGER_RECORDS_BYTES;
}

size_t wire_ledger_page_bytes_max(uint32_t slice_count) {
    return WIRE_LEDGER_FIELDS_BYTES + records_bytes_max(slice_count);
}

struct wire_ledger_page wire_begin_ledger_page(uint64_t first, uint64_t entry_count) {
    return (struct wire_ledger_page){.first = first, .entry_count = entry_count};
}

/* Appends the record of an entry to a page. The records are written at a fixed offset after the
 * longest possible map, because the length of the map depends on the length of the records. */
bool wire_add_ledger_entry(struct wire_ledger_page *page, const struct entry *entry,
                           uint8_t *payload, uint32_t slice_count) {
    uint8_t *records = payload + WIRE_LEDGER_FIELDS_BYTES;
    if (page->count > 0 &&
        page->bytes + entry_record_bytes(entry, ENTRY_WITH_SLICES) > WIRE_LEDGER_RECORDS_BYTES) {
        return false;
    }
    page->bytes += entry_write(entry, ENTRY_WITH_SLICES, records + page->bytes,
                               records_bytes_max(slice_count) - page->bytes);
    page->records = records;
    page->count++;
    return true;
}

size_t wire_write_ledger_page(const struct wire_ledger_page *page, uint8_t *payload) {
    struct wire_ledger_page packed = *page;
    ASSERT(ledger_page_error(page) == NULL);
    ASSERT(page->bytes == 0 || page->records == payload + WIRE_LEDGER_FIELDS_BYTES);
    const size_t fixed =
        WIRE_LENGTH_BYTES + packer_write((struct packed_object){pack_ledger_page, &packed},
                                         payload + WIRE_LENGTH_BYTES,
                                         WIRE_LEDGER_FIELDS_BYTES - WIRE_LENGTH_BYTES);
    memmove(payload + fixed, payload + WIRE_LEDGER_FIELDS_BYTES, page->bytes);
    wire_write_length(payload, fixed + page->bytes);
    return fixed + page->bytes;
}

const char *wire_read_ledger_page(const uint8_t *payload, size_t count,
                                  struct wire_ledger_page *page) {
    struct wire_ledger_page read = {.first = 0};
    const char *error =
        packer_read((struct packed_object){pack_ledger_page, &read}, payload, count);
    error = error == NULL ? ledger_page_error(&read) : error;
    if (error == NULL) {
        *page = read;
    }
    return error;
}

const char *wire_next_ledger_entry(struct wire_ledger_page *page, struct entry_slice *slices,
                                   uint32_t slice_capacity, struct entry *entry) {
    size_t used = 0;
    ASSERT(page->count > 0);
    const char *error =
        entry_read_next(page->records, page->bytes, slices, slice_capacity, entry, &used);
    if (error != NULL) {
        return error;
    }
    page->records += used;
    page->bytes -= used;
    page->count--;
    return (page->count == 0) == (page->bytes == 0)
               ? NULL
               : "is followed by bytes that belong to no entry";
}
