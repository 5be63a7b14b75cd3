#include "runtime/swarm/wire/wire_service.h"

#include "runtime/swarm/ledger/entry.h"

#include <string.h>

static void pack_ledger_page(struct packer *pack, void *object) {
    struct wire_ledger_page *page = object;
    pack_u64(pack, "first", &page->first);
    pack_u64(pack, "entry_count", &page->entry_count);
    pack_u32(pack, "count", &page->count);
    pack_bulk(pack, "records", &page->records, &page->bytes);
}

static const char *ledger_page_error(const struct wire_ledger_page *page) {
    if ((page->count == 0) != (page->bytes == 0)) {
        return "has records, but counts none; or the reverse";
    }
    return page->count == 0 || (page->first < page->entry_count &&
                                page->count <= page->entry_count - page->first)
               ? NULL
               : "has entries beyond the end of the ledger";
}

static size_t records_bytes_max(uint32_t slice_count) {
    const size_t record = entry_record_bytes_max(slice_count);
    return record > WIRE_LEDGER_RECORDS_BYTES ? record : WIRE_LEDGER_RECORDS_BYTES;
}

size_t wire_ledger_page_bytes_max(uint32_t slice_count) {
    return WIRE_LEDGER_FIXED_BYTES + records_bytes_max(slice_count);
}

struct wire_ledger_page wire_begin_ledger_page(uint64_t first, uint64_t entry_count) {
    return (struct wire_ledger_page){.first = first, .entry_count = entry_count};
}

/* The records are written behind the longest possible map, because its length depends on theirs. */
bool wire_add_ledger_entry(struct wire_ledger_page *page, const struct entry *entry,
                           uint8_t *payload, uint32_t slice_count) {
    uint8_t *records = payload + WIRE_LEDGER_FIXED_BYTES;
    if (page->count > 0 &&
        page->bytes + entry_record_bytes(entry, ENTRY_WITH_ROWS) > WIRE_LEDGER_RECORDS_BYTES) {
        return false;
    }
    page->bytes += entry_write(entry, ENTRY_WITH_ROWS, records + page->bytes,
                               records_bytes_max(slice_count) - page->bytes);
    page->records = records;
    page->count++;
    return true;
}

size_t wire_write_ledger_page(const struct wire_ledger_page *page, uint8_t *payload) {
    struct wire_ledger_page packed = *page;
    ASSERT(ledger_page_error(page) == NULL);
    ASSERT(page->bytes == 0 || page->records == payload + WIRE_LEDGER_FIXED_BYTES);
    const size_t fixed =
        WIRE_LENGTH_BYTES + packer_write((struct packed_object){pack_ledger_page, &packed},
                                         payload + WIRE_LENGTH_BYTES,
                                         WIRE_LEDGER_FIXED_BYTES - WIRE_LENGTH_BYTES);
    memmove(payload + fixed, payload + WIRE_LEDGER_FIXED_BYTES, page->bytes);
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
                                   uint32_t slice_max, struct entry *entry) {
    size_t used = 0;
    ASSERT(page->count > 0);
    const char *error =
        entry_read_next(page->records, page->bytes, slices, slice_max, entry, &used);
    if (error != NULL) {
        return error;
    }
    page->records += used;
    page->bytes -= used;
    page->count--;
    return (page->count == 0) == (page->bytes == 0) ? NULL : "is followed by unexpected bytes";
}
