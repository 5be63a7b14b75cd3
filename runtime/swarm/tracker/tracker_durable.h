/* tracker_durable: writes the record of the tracker's state machine to the store, and loads it when
 * the tracker starts. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_DURABLE_H
#define SKEP_SWARM_TRACKER_TRACKER_DURABLE_H

#include "base/check.h"
#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"
#include "transport/identity/keys.h"

#include <stddef.h>
#include <stdint.h>

/* tracker_record_bytes: the stored form of the tracker's record. It has parts, so that a part is
 * written only when it changes. Head, commit and base are in the ledger already, and the
 * incarnation is counted by the store. All are MessagePack maps (packer.h):
 *     members  format, next_session, member_count, members {32}, sessions {4}, misses {1},
 *              opposed {4}, shares {4}
 *     table    format, round, version, and unless that is 0: declared, tokens {8}, weights {8},
 *              samples {8}, norms {8, fp64}, roots {32} and signatures {64} of each declared seat,
 *              ascending, slice_count, owners {1}, epochs {2}, expected {8}, optional {8}
 *     resignations  format, state, electors, signatures {64} of these electors, ascending
 *     speeds   format, member_count, speeds {4}: the numbers of struct record_speed of each member.
 *              A store may lack this part: nothing is then known of the members' speeds.
 *     place    format, place, file: a hash of inode, time of creation and machine of the file in
 *              which this place was stored. Written at the start of a tracker. */

enum {
    /* Maximum number of fields of the map that stores a part of the record. */
    RECORD_FIELDS_MAX = 16,
    /* Maximum size of the stored form of a part of the record, without lists. */
    RECORD_FIXED_BYTES_MAX = PACKER_MAP_BYTES_MAX + RECORD_FIELDS_MAX * PACKER_FIELD_BYTES_MAX,
    /* Maximum size of the stored form of the part "members". */
    RECORD_MEMBERS_BYTES_MAX =
        RECORD_FIXED_BYTES_MAX + SWARM_MEMBERS_MAX * (SWARM_IDENTITY_BYTES + 13),
    /* Maximum size of the stored form of the part "speeds". */
    RECORD_SPEEDS_BYTES_MAX =
        RECORD_FIXED_BYTES_MAX + SWARM_MEMBERS_MAX * (int)sizeof(struct record_speed),
    /* Maximum size of the stored form of the part "resignations". */
    RECORD_RESIGNATIONS_BYTES_MAX =
        RECORD_FIXED_BYTES_MAX + HASH_BYTES + SWARM_MEMBERS_MAX * SWARM_SIGNATURE_BYTES,
};

/* record_table_bytes_max: size of the longest stored table with this number of slices. */
size_t record_table_bytes_max(uint32_t slice_count);

/* record_write_members, ...: write one part of the record into `bytes`, which has room for the
 * longest form. Return the length. */
size_t record_write_members(const struct tracker_record *record, uint8_t *bytes);
size_t record_write_table(const struct tracker_record *record, uint32_t slice_count,
                          uint8_t *bytes);
size_t record_write_resignations(const struct tracker_record *record, uint8_t *bytes);
size_t record_write_speeds(const struct tracker_record *record, uint8_t *bytes);

/* record_read_members, ...: read one part of the record.
 * memory  record->table.slices has room for slice_count; members and signatures of seats without a
 *         declaration become zero; speeds of rows that are not stored do not change
 * errors  describe the error (truncated, too long, an unknown version, a count above its limit, a
 *         different number of slices, an owner that is not a seat), else NULL; the part is then
 *         undefined */
MUST_CHECK const char *record_read_members(const uint8_t *bytes, size_t count,
                                           struct tracker_record *record);
MUST_CHECK const char *record_read_table(const uint8_t *bytes, size_t count, uint32_t slice_count,
                                         struct tracker_record *record);
MUST_CHECK const char *record_read_resignations(const uint8_t *bytes, size_t count,
                                                struct tracker_record *record);
MUST_CHECK const char *record_read_speeds(const uint8_t *bytes, size_t count,
                                          struct tracker_record *record);

/* The name of the part `members` in the store. */
#define TRACKER_MEMBERS "members"

/* One part of the record in its stored form: the bytes in the store, and the bytes that the
 * write in progress will store. */
struct durable_part {
    uint8_t *stored, *next;          /* bytes in the store, and bytes to be stored */
    size_t stored_count, next_count; /* sizes of `stored` and `next` */
};

/* The store of a running tracker, with what the last write made durable. */
struct tracker_durable {
    struct ledger_store store;    /* the SQLite file */
    const struct key_pairs *keys; /* keys of the tracker */
    uint32_t slice_count;         /* number of slices of the parameters */
    uint32_t incarnation;         /* number of this start of the tracker */
    /* Place of the store, 1 .. 2^31 - 1 (struct tracker_start). A copy of the store has another
     * place. */
    uint32_t place;
    struct entry entry;        /* the last appended entry, with hash and signature */
    struct ledger_chain chain; /* state of the ledger after its last entry */
    /* Newest checkpoint of the chain. It follows from the entries, so it is not stored. */
    struct ledger_checkpoint checkpoint;
    /* The encoded parts of the record. */
    struct durable_part members, table, resignations, speeds;
    /* By the member's row: index of the ledger entry with its last suspension; 0: none. */
    uint64_t suspended_at[SWARM_MEMBERS_MAX];
};

/* How a store is opened, and what the GENESIS entry of a new one contains. */
struct durable_options {
    const char *path;             /* path of the store; kept by reference */
    const struct key_pairs *keys; /* keys of the tracker; kept by reference */
    uint32_t slice_count;         /* number of slices of the parameters */
    struct hash manifest;         /* manifest hash in the GENESIS entry */
    struct hash root;             /* root in the GENESIS entry */
    bool needs_leases; /* a new ledger requires that members give leases with their votes */
    /* delegation in the GENESIS entry; NULL: none; kept by reference */
    const struct delegation *delegation;
};

/* tracker_durable_open: opens the store, or creates one with a GENESIS entry. Increments the
 * incarnation, and loads the promises of earlier starts.
 * record  is filled in; the caller has set its arrays, of slice_count elements
 * memory  about 2 MiB in `region`
 * errors  those of ledger_store_open; STATUS_INPUT for the ledger of another swarm, or when a
 *         promise is damaged */
MUST_CHECK enum status tracker_durable_open(const struct durable_options *options,
                                            struct region *region, struct tracker_durable *durable,
                                            struct tracker_record *record, struct fault *fault);
void tracker_durable_close(struct tracker_durable *durable);

/* tracker_durable_replay: passes the newest GENESIS, COMMIT and ROLLBACK entries, and the last
 * SUSPEND of each member, to the state machine.
 * errors  STATUS_INPUT, STATUS_FAILED: an entry cannot be read */
MUST_CHECK enum status tracker_durable_replay(struct tracker_durable *durable,
                                              struct tracker *tracker, struct fault *fault);

/* tracker_durable_write: performs an ACTION_WRITE: signs the entry unless it is a COMMIT, which its
 * voters signed, and makes it and the record durable in one transaction. *event becomes the
 * EVENT_WRITTEN that reports the outcome. If the outcome is not WRITE_OK, *fault has the reason.
 * Afterwards, durable->entry is the written entry. */
void tracker_durable_write(struct tracker_durable *durable, const struct action *action,
                           struct event *event, struct fault *fault);

#endif
