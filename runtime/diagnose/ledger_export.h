/* ledger_export: a ledger written as JSON lines, all of it or nothing. */
#ifndef SKEP_DIAGNOSE_LEDGER_EXPORT_H
#define SKEP_DIAGNOSE_LEDGER_EXPORT_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"

#include <stdint.h>

struct ledger_export {
    const char *path; /* NULL: nothing is written */
    char beside[PATH_BYTES];
    int fd;
    int64_t bytes;
    struct text line;
};

/* ledger_export_begin, ledger_export_add, ledger_export_end: the file at `path`, which appears when
 * it is whole; NULL: none. After a fault of the caller's own, end it with `status`: what was begun
 * is then removed. Gives `status` back, or what went wrong in ending.
 * memory  some 8 MiB in `region`
 * errors  STATUS_INPUT for a path that is too long, those of base/file.h */
MUST_CHECK enum status ledger_export_begin(const char *path, struct region *region,
                                           struct ledger_export *export, struct fault *fault);
MUST_CHECK enum status ledger_export_add(struct ledger_export *export, const struct entry *entry,
                                         struct fault *fault);
MUST_CHECK enum status ledger_export_end(struct ledger_export *export, enum status status,
                                         struct fault *fault);

#endif
