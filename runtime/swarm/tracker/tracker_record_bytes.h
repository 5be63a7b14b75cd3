/* tracker_record_bytes: the stored form of the tracker's record. It has parts, so that a part is
 * written only when it changes. Head, commit and base are in the ledger already, and the
 * incarnation is counted by the store. All integers are little-endian:
 *     members  version 4, session_next 4, count 4, {id 32, session 4} ...
 *     table    version 4, round 4, table's version 4, and unless that is 0: declared 8,
 *              {tokens 8, weight 8, signature 64} of each declared seat, ascending,
 *              slices: count 4, {owner 4, epoch 4, expected 8} ...
 *     hashes   of one declared seat: 32 a slice; they never change after the table's version 1 */
#ifndef SKEP_SWARM_TRACKER_TRACKER_RECORD_BYTES_H
#define SKEP_SWARM_TRACKER_TRACKER_RECORD_BYTES_H

#include "base/check.h"
#include "runtime/swarm/protocol/protocol.h"

#include <stddef.h>
#include <stdint.h>

enum { RECORD_MEMBERS_MAX = 12 + SWARM_MEMBERS_MAX * (SWARM_IDENTITY_BYTES + 4) };

/* record_table_max: the bytes of the longest table with this number of slices. */
size_t record_table_max(uint32_t slice_count);

/* record_write_members, record_write_table: write one part into `bytes`, which has room for the
 * longest form. Return its length. */
size_t record_write_members(const struct tracker_record *record, uint8_t *bytes);
size_t record_write_table(const struct tracker_record *record, uint32_t slice_count,
                          uint8_t *bytes);

/* record_read_members, record_read_table: read one part.
 * memory  record->table.slices has room for slice_count; members and signatures of seats without a
 *         declaration become zero
 * errors  the error (truncated, too long, an unknown version, a count above its limit, a different
 *         number of slices, an owner that is not a seat), else NULL; the part is then undefined */
MUST_CHECK const char *record_read_members(const uint8_t *bytes, size_t count,
                                           struct tracker_record *record);
MUST_CHECK const char *record_read_table(const uint8_t *bytes, size_t count, uint32_t slice_count,
                                         struct tracker_record *record);

#endif
