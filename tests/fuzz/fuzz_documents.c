/* fuzz_documents: any bytes as a document of an operator, or as the lease of a member, are refused,
 * or give a document within its bounds that is written as the same bytes. */
#include "runtime/swarm/leases/lease_file.h"
#include "runtime/swarm/ledger/operator_documents.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_delegation(const uint8_t *data, size_t size) {
    uint8_t written[DELEGATION_FRAME_BYTES_MAX];
    struct delegation delegation;
    struct hash swarm;
    if (delegation_read(data, size, &swarm, &delegation) == NULL) {
        ASSERT(delegation.serial > 0);
        ASSERT(delegation_write(&swarm, &delegation, written) == size);
        ASSERT(memcmp(written, data, size) == 0);
        ASSERT(!delegation_is_signed(delegation.tracker.sign, &swarm, &delegation));
    }
}

static void check_roster(const uint8_t *data, size_t size) {
    static uint8_t written[ROSTER_FRAME_BYTES_MAX];
    static struct roster_epoch epoch;
    struct hash swarm;
    if (roster_epoch_read(data, size, &swarm, &epoch) == NULL) {
        ASSERT(roster_epoch_error(&epoch) == NULL);
        ASSERT(roster_epoch_write(&swarm, &epoch, written) == size);
        ASSERT(memcmp(written, data, size) == 0);
        for (uint32_t i = 0; i < epoch.count; i++) {
            ASSERT(roster_epoch_has_key(&epoch, epoch.members[i]));
        }
    }
}

static void check_lease(const uint8_t *data, size_t size) {
    uint8_t written[LEASE_FILE_BYTES];
    struct lease lease;
    struct hash swarm;
    if (lease_bytes_read(data, size, &swarm, &lease) == NULL) {
        ASSERT(!lease.is_resignation || lease.start.number == 0);
        ASSERT(size == LEASE_FILE_BYTES);
        lease_bytes_write(&swarm, &lease, written);
        ASSERT(memcmp(written, data, size) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_lease(data, size);
    check_delegation(data, size);
    check_roster(data, size);
    return 0;
}
