/* wire_service: the payloads of frames that are not messages of the state machines. Each is one
 * MessagePack map with exactly one encoding (packer.h). Readers return NULL, or a text that
 * describes the error; the output is then undefined. Writers return the payload's length.
 *     PING, PONG    number
 *     PROBE_ADDRESS address, outcome (enum probe_outcome), in both directions
 *     REJECTED      reason, a bin with text
 *     MANIFEST      manifest, a bin
 *     STATUS        status, a bin with one JSON document
 *     CHECKPOINT    checkpoint, a bin with the state of a chain (ledger.h); empty: there is none
 *     LEAF_HASHES_REQUEST, LEAF_REQUEST   root
 *     LEAF_HASHES   root, hashes {32}
 *     LEDGER        first, entry_count, count, records: a bin of `count` records (entry.h) */
#ifndef SKEP_SWARM_WIRE_WIRE_SERVICE_H
#define SKEP_SWARM_WIRE_WIRE_SERVICE_H

#include "base/check.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Largest size of the records in one LEDGER payload, unless a single record is longer. At 20
     * Mbit/s such a payload delays other messages by 0.1 s. */
    WIRE_LEDGER_RECORDS_BYTES = 256 << 10,
    /* Largest size of a LEDGER payload without its records. */
    WIRE_LEDGER_FIELDS_BYTES =
        WIRE_LENGTH_BYTES + PACKER_MAP_BYTES_MAX + 4 * PACKER_FIELD_BYTES_MAX,
};

enum {
    /* Size of the longest PING, PONG, LEAF_HASHES_REQUEST or LEAF_REQUEST payload. */
    WIRE_SMALL_BYTES_MAX = PACKER_MAP_BYTES_MAX + PACKER_FIELD_BYTES_MAX + HASH_BYTES,
    /* Where a caller puts the bytes of a document or the leaf hashes in the payload: after the
     * longest possible other fields. The writer moves them to follow the actual fields. */
    WIRE_DOCUMENT_OFFSET =
        WIRE_LENGTH_BYTES + PACKER_MAP_BYTES_MAX + 2 * PACKER_FIELD_BYTES_MAX + HASH_BYTES,
};

/* wire_write_ping, wire_read_ping: the payload of a PING or PONG. */
size_t wire_write_ping(uint64_t number, uint8_t payload[static WIRE_SMALL_BYTES_MAX]);
MUST_CHECK const char *wire_read_ping(const uint8_t *payload, size_t count, uint64_t *number);

enum {
    WIRE_PROBE_BYTES_MAX =
        PACKER_MAP_BYTES_MAX + 2 * PACKER_FIELD_BYTES_MAX + MESSAGE_ADDRESS_BYTES,
};

/* wire_write_probe, wire_read_probe: the payload of a PROBE_ADDRESS, in both directions. */
size_t wire_write_probe(const struct wire_probe *probe,
                        uint8_t payload[static WIRE_PROBE_BYTES_MAX]);
MUST_CHECK const char *wire_read_probe(const uint8_t *payload, size_t count,
                                       struct wire_probe *probe);

/* wire_write_leaf_request, wire_read_leaf_request: the payload of a LEAF_HASHES_REQUEST or
 * LEAF_REQUEST: the root of the state. */
size_t wire_write_leaf_request(const struct hash *root,
                               uint8_t payload[static WIRE_SMALL_BYTES_MAX]);
MUST_CHECK const char *wire_read_leaf_request(const uint8_t *payload, size_t count,
                                              struct hash *root);

/* wire_write_document: a REJECTED, MANIFEST, STATUS or CHECKPOINT of `count` bytes, which the
 * caller has put at payload + WIRE_DOCUMENT_OFFSET. A chunked payload begins with its length.
 * wire_read_document: read such a payload without its length field. *bytes points into
 * `payload`. */
size_t wire_write_document(uint8_t kind, size_t count, uint8_t *payload);
MUST_CHECK const char *wire_read_document(uint8_t kind, const uint8_t *payload, size_t count,
                                          const uint8_t **bytes, size_t *byte_count);

/* wire_write_leaf_hashes: hashes of leaves of the state with this root, which the caller has put at
 * payload + WIRE_DOCUMENT_OFFSET.
 * wire_read_leaf_hashes: *hashes points into `payload`, to *byte_count bytes. */
size_t wire_write_leaf_hashes(const struct hash *root, size_t hash_count, uint8_t *payload);
MUST_CHECK const char *wire_read_leaf_hashes(const uint8_t *payload, size_t count,
                                             struct hash *root, const uint8_t **hashes,
                                             size_t *byte_count);

/* Consecutive entries of the tracker's ledger. A page without entries, where the ledger has an
 * entry `first`, means that the tracker cannot read that entry. */
struct wire_ledger_page {
    uint64_t first;         /* index of the first entry */
    uint64_t entry_count;   /* number of entries of the whole ledger */
    uint32_t count;         /* number of entries in `records` */
    const uint8_t *records; /* the records of the entries, one after the other */
    size_t bytes;           /* size of `records` */
};

/* wire_ledger_page_bytes_max: size of the longest payload with a ledger page, in a swarm whose
 * commits have this number of slices. */
size_t wire_ledger_page_bytes_max(uint32_t slice_count);

/* wire_begin_ledger_page: a page without entries, of a ledger of `entry_count`.
 * wire_add_ledger_entry: append an entry to the page that is built in `payload`. Returns false if
 * the page is full. An empty page has room for any entry.
 * wire_write_ledger_page: complete the whole payload, with its length field. Returns its length.
 * limits  payload has wire_ledger_page_bytes_max(slice_count) bytes; it is the same in all calls */
struct wire_ledger_page wire_begin_ledger_page(uint64_t first, uint64_t entry_count);
MUST_CHECK bool wire_add_ledger_entry(struct wire_ledger_page *page, const struct entry *entry,
                                      uint8_t *payload, uint32_t slice_count);
size_t wire_write_ledger_page(const struct wire_ledger_page *page, uint8_t *payload);

/* wire_read_ledger_page: read a payload without its length field.
 * wire_next_ledger_entry: read the next entry of the page, and remove it from the page.
 * limits  page->count > 0
 * memory  page->records points into `payload`; entry->slices is set to `slices` [slice_capacity] */
MUST_CHECK const char *wire_read_ledger_page(const uint8_t *payload, size_t count,
                                             struct wire_ledger_page *page);
MUST_CHECK const char *wire_next_ledger_entry(struct wire_ledger_page *page,
                                              struct entry_slice *slices, uint32_t slice_capacity,
                                              struct entry *entry);

#endif
