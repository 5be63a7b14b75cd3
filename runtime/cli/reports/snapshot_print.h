/* snapshot_print: what `skep snapshot` says about snapshots, for people and for programs. */
#ifndef SKEP_CLI_REPORTS_SNAPSHOT_PRINT_H
#define SKEP_CLI_REPORTS_SNAPSHOT_PRINT_H

#include "runtime/checkpoint/snapshot.h"

/* One line or one object each; `verified` says that files were hashed, not only measured. */
void snapshot_print_list(const char *folder, const struct snapshot_listed *listed, int count,
                         bool verified);
void snapshot_print_list_json(const char *folder, const struct snapshot_listed *listed, int count,
                              bool verified);

/* Everything one snapshot says, its run's keys last. */
void snapshot_print_whole(const struct snapshot *snapshot);
void snapshot_print_whole_json(const struct snapshot *snapshot);

/* Where it was exported to. */
void snapshot_print_export(const struct snapshot *snapshot, const char *out);
void snapshot_print_export_json(const struct snapshot *snapshot, const char *out);

#endif
