/* ledger_export: writes a ledger as JSON lines. The file is created under a temporary name and
 * renamed when it is complete. */
#ifndef SKEP_DIAGNOSE_LEDGER_EXPORT_H
#define SKEP_DIAGNOSE_LEDGER_EXPORT_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/ledger/ledger.h"

#include <stdint.h>

struct ledger_export {
    const char *path; /* path of the exported file; NULL: the ledger is not exported */
    char temporary_path[PATH_BYTES];
    int fd;
    int64_t bytes;        /* Number of bytes written. */
    struct text line;     /* JSON line of one entry. */
    uint8_t *state_bytes; /* [LEDGER_CHAIN_BYTES_MAX]: buffer of a checkpoint */
};

/* ledger_export_begin, ledger_export_add_entry, ledger_export_end: write the entries to a temporary
 * file and rename it to `path`; with path NULL nothing is written. `status` is the outcome of the
 * caller's work: if it is not OK, the temporary file is removed. ledger_export_end returns
 * `status`, or the status of finishing the file. ledger_export_add_checkpoint: write the state that
 * a ledger without the first entries begins with, before its entries.
 * memory  about 8 MiB in `region`
 * errors  STATUS_INPUT for a path that is too long, those of base/file.h */
MUST_CHECK enum status ledger_export_begin(const char *path, struct region *region,
                                           struct ledger_export *export, struct fault *fault);
MUST_CHECK enum status ledger_export_add_entry(struct ledger_export *export,
                                               const struct entry *entry, struct fault *fault);
MUST_CHECK enum status ledger_export_add_checkpoint(struct ledger_export *export,
                                                    const struct ledger_chain *checkpoint,
                                                    struct fault *fault);
MUST_CHECK enum status ledger_export_end(struct ledger_export *export, enum status status,
                                         struct fault *fault);

#endif
