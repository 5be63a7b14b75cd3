/* fuzz_ledger: any bytes as a line or a record of the ledger are refused, or give an entry that
 * holds together, reads back the same, and can be offered to a chain. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/ledger_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct entry entry, again;
static struct entry_slice slices[SWARM_SLICES_MAX], slices_again[SWARM_SLICES_MAX];
static uint8_t record[ENTRY_RECORD_BYTES_MAX];

static void check_entry(void) {
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    ASSERT(entry_error(&entry) == NULL);
    if (ledger_append(&chain, &entry) == NULL) {
        ASSERT(entry.kind == ENTRY_GENESIS && chain.entry_count == 1);
    }
    entry.hash = entry_hash(&entry);
    size_t count = entry_write(&entry, ENTRY_WITH_ROWS, record, sizeof record);
    ASSERT(entry_read(record, count, slices_again, SWARM_SLICES_MAX, &again) == NULL);
    ASSERT(hash_equal(&again.hash, &entry.hash) && again.slice_count == entry.slice_count);
    ASSERT(memcmp(slices, slices_again, entry.slice_count * sizeof *slices) == 0);
}

/* The first byte chooses line or record. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fault fault = {0};
    bool right = false;
    if (size == 0) {
        return 0;
    }
    if ((data[0] & 1) != 0) {
        right = entry_read(data + 1, size - 1, slices, SWARM_SLICES_MAX, &entry) == NULL;
    } else {
        enum status status = ledger_line_read((const char *)data + 1, size - 1, "line", slices,
                                              SWARM_SLICES_MAX, &entry, &fault);
        ASSERT(status == OK || (status == STATUS_INPUT && fault.reason[0] != '\0'));
        right = status == OK;
    }
    if (right) {
        check_entry();
    }
    return 0;
}
