/* fuzz_ledger: any bytes as a line or a record of the ledger are refused, or give an entry that
 * holds together, reads back the same, and can be offered to a chain. Any bytes as a checkpoint are
 * refused, or are the one spelling of a state that a commit of its members can be offered to. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "tests/unit/swarm/entry_fixture.h"

#include "base/random.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum way { WAY_LINE, WAY_RECORD, WAY_CHECKPOINT_LINE, WAY_STATE, WAYS };
enum { MEMBERS = 3, COMMIT_AT = 8 };

static struct entry_fixture fixture;
static struct entry_slice rows[2];
static struct entry commit;
static uint8_t state_bytes[LEDGER_CHAIN_BYTES_MAX]; /* a valid checkpoint, and its line */
static char state_line[LEDGER_CHECKPOINT_TEXT_BYTES];
static size_t state_count, line_count;

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
    size_t count = entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record);
    ASSERT(entry_read(record, count, slices_again, SWARM_SLICES_MAX, &again) == NULL);
    ASSERT(hash_equal(&again.hash, &entry.hash) && again.slice_count == entry.slice_count);
    ASSERT(memcmp(slices, slices_again, entry.slice_count * sizeof *slices) == 0);
}

/* Offers the state a commit that counts on from its numbers and that its members have signed, as
 * liars would. Nothing but the operator's signature, which is not verified here, is false. */
static bool try_commit(struct ledger_chain *chain) {
    const struct hash state = ledger_chain_hash(chain);
    commit.prev = chain->head;
    commit.chain = state;
    commit.round = chain->last_opened_round;
    commit.commits = chain->commits + 1;
    commit.incarnation = chain->incarnation;
    commit.cursor = chain->cursor;
    commit.reference_norm = chain->reference_norm;
    if (entry_error(&commit) != NULL) {
        return false;
    }
    entry_fixture_sign(&fixture, &commit);
    if (ledger_append(chain, &commit) != NULL) {
        return false;
    }
    ASSERT(!ledger_chain_is_unconfirmed(chain) && chain->start.votes == 2);
    ASSERT(chain->start.roster == chain->roster_epoch.serial && chain->start.roster > 0);
    return true;
}

static bool try_state(const uint8_t *data, size_t size) {
    static struct ledger_chain chain;
    static uint8_t written[LEDGER_CHAIN_BYTES_MAX];
    memset(&chain, 0, sizeof chain);
    if (ledger_chain_read(data, size, &chain) == NULL) {
        ASSERT(ledger_chain_write(&chain, written) == size && memcmp(written, data, size) == 0);
        if (ledger_chain_begin(&chain, NULL) == NULL) {
            ASSERT(ledger_chain_is_unconfirmed(&chain));
            return try_commit(&chain);
        }
    }
    return false;
}

/* A checkpoint, and the commit that follows it. */
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    (void)argc;
    (void)argv;
    entry_fixture_init(&fixture, MEMBERS, rows, 2);
    for (uint32_t i = 0; i < COMMIT_AT; i++) {
        if (i == 1) {
            entry_fixture_enroll(&fixture, 7, MEMBERS, false);
        }
        entry_fixture_next(&fixture, i, &commit);
    }
    state_count = ledger_chain_write(&fixture.chain, state_bytes);
    struct text text = text_over(state_line, sizeof state_line);
    ledger_checkpoint_line_write(&fixture.chain, bytes, &text);
    line_count = text.length;
    entry_fixture_next(&fixture, COMMIT_AT, &commit);
    ASSERT(try_state(state_bytes, state_count));
    return 0;
}

static void try_checkpoint_line(const uint8_t *data, size_t size) {
    static struct ledger_chain chain;
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    struct fault fault = {0};
    bool is_checkpoint = false;
    enum status status = ledger_checkpoint_line_read((const char *)data, size, "line", bytes,
                                                     &chain, &is_checkpoint, &fault);
    ASSERT(status == OK || (status == STATUS_INPUT && fault.reason[0] != '\0'));
    if (status == OK && is_checkpoint) {
        const size_t count = ledger_chain_write(&chain, bytes);
        (void)try_state(bytes, count);
    }
}

/* A checkpoint to begin with, or what is there; a part of it changed. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    uint32_t words[4];
    random_block(seed, size, words);
    if (size < 2 || words[0] % 8 == 0) {
        const bool is_line = words[1] % 2 == 0;
        const size_t count = is_line ? line_count : state_count;
        if (1 + count <= max_size) {
            data[0] = is_line ? WAY_CHECKPOINT_LINE : WAY_STATE;
            memcpy(data + 1, is_line ? (const uint8_t *)state_line : state_bytes, count);
            size = 1 + count;
        }
    }
    if (size >= 2 && words[0] >> 8 & 1) { /* as long as it was */
        data[1 + words[2] % (size - 1)] ^= (uint8_t)(1 << words[3] % 8);
        return size;
    }
    return LLVMFuzzerMutate(data, size, max_size);
}

/* The first byte chooses the way. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fault fault = {0};
    bool right = false;
    if (size == 0) {
        return 0;
    }
    if (data[0] % WAYS == WAY_STATE) {
        (void)try_state(data + 1, size - 1);
        return 0;
    }
    if (data[0] % WAYS == WAY_CHECKPOINT_LINE) {
        try_checkpoint_line(data + 1, size - 1);
        return 0;
    }
    if (data[0] % WAYS == WAY_RECORD) {
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
