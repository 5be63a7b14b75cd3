/* ledger_line: an entry as one line of JSON, the ledger's form for people and other programs.
 *
 * Every field that is hashed is in it, so a ledger of lines can be verified as well as the records.
 * Hashes, identities (signing keys) and signatures are lower-case hexadecimal; a range of samples
 * is [begin, end]; in slices and signatures a member stands as its place in the roster, as `owner`,
 * `contributors` and so on:
 *     kind, round, commits, prev, hash, incarnation, root, cursor {position, returned}, signatures
 *     of all;
 *     manifest of a genesis; deadline_ms of an open;
 *     members [{id, session, ranges}] of all but a genesis, with tokens and weight in a commit;
 *     slices [{index, begin, end, owner, epoch, contributors, weight, hash}] of a commit.
 * A signature of a commit is {id, signature}; the tracker's is {signature}. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_LINE_H
#define SKEP_SWARM_LEDGER_LEDGER_LINE_H

#include "base/fault.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"

#include <stddef.h>
#include <stdint.h>

/* Of a full commit: 16,384 slices of 64 contributors are below 7 MiB. With its NUL. */
enum { LEDGER_LINE_MAX = 8 << 20 };

/* ledger_line_write: the line without its line feed.
 * limits  entry_error(entry) is NULL; LEDGER_LINE_MAX bytes hold any entry */
void ledger_line_write(const struct entry *entry, struct text *text);

/* ledger_line_read: a line from a file. Fields missing, unknown, doubled or out of bounds are
 * refused; signatures and hash are not verified (ledger_append does).
 * place   "FILE:LINE", for faults; kept by nobody
 * memory  jansson allocates: before seal only; entry->slices is set to `slices`, of slice_max;
 *         *entry and slices are the reader's working memory: undefined after a fault
 * errors  STATUS_INPUT naming the field */
MUST_CHECK enum status ledger_line_read(const char *line, size_t length, const char *place,
                                        struct entry_slice *slices, uint32_t slice_max,
                                        struct entry *entry, struct fault *fault);

#endif
