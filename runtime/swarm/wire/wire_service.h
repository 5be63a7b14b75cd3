/* wire_service: the payloads of frames that are not messages of the state machines. Each is one
 * MessagePack map with exactly one encoding (packer.h). Readers return the text of the mistake and
 * leave the output undefined, or return NULL. Writers return the payload's length.
 *     LEDGER  first, entry_count, count, records: a bin of `count` records (entry.h) */
#ifndef SKEP_SWARM_WIRE_WIRE_SERVICE_H
#define SKEP_SWARM_WIRE_WIRE_SERVICE_H

#include "base/check.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Records of one LEDGER payload, unless a single record is longer. At 20 Mbit/s it delays other
     * messages by 0.1 s. */
    WIRE_LEDGER_RECORDS_BYTES = 256 << 10,
    /* The longest LEDGER payload without its records. */
    WIRE_LEDGER_FIXED_BYTES = WIRE_LENGTH_BYTES + PACKER_MAP_BYTES_MAX + 4 * PACKER_FIELD_BYTES_MAX,
};

/* Consecutive entries of the tracker's ledger. If there are none although the ledger has an entry
 * `first`, the tracker cannot read that entry. */
struct wire_ledger_page {
    uint64_t first;         /* index of the first entry */
    uint64_t entry_count;   /* number of entries of the whole ledger */
    uint32_t count;         /* number of entries in `records` */
    const uint8_t *records; /* their records, one after the other */
    size_t bytes;           /* size of `records` */
};

/* wire_ledger_page_bytes_max: the longest payload of a swarm whose commits have this number of
 * slices. */
size_t wire_ledger_page_bytes_max(uint32_t slice_count);

/* wire_begin_ledger_page: a page without entries, of a ledger of `entry_count`.
 * wire_add_ledger_entry: append an entry to the page that is built in `payload`. False: the page is
 * full; a page without entries has room for any entry.
 * wire_write_ledger_page: complete the whole payload, with its length field. Returns its length.
 * limits  payload has wire_ledger_page_bytes_max(slice_count) bytes; it is the same in all calls */
struct wire_ledger_page wire_begin_ledger_page(uint64_t first, uint64_t entry_count);
MUST_CHECK bool wire_add_ledger_entry(struct wire_ledger_page *page, const struct entry *entry,
                                      uint8_t *payload, uint32_t slice_count);
size_t wire_write_ledger_page(const struct wire_ledger_page *page, uint8_t *payload);

/* wire_read_ledger_page: read a payload without its length field.
 * wire_next_ledger_entry: read the next entry of the page, and remove it from the page.
 * limits  page->count > 0
 * memory  page->records points into `payload`; entry->slices is set to `slices` [slice_max] */
MUST_CHECK const char *wire_read_ledger_page(const uint8_t *payload, size_t count,
                                             struct wire_ledger_page *page);
MUST_CHECK const char *wire_next_ledger_entry(struct wire_ledger_page *page,
                                              struct entry_slice *slices, uint32_t slice_max,
                                              struct entry *entry);

#endif
