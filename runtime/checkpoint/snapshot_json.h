/* snapshot_json: writes and reads snapshot.json. */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_JSON_H
#define SKEP_CHECKPOINT_SNAPSHOT_JSON_H

#include "base/text.h"
#include "runtime/checkpoint/snapshot.h"

/* snapshot_json_bytes: an upper bound of the size of the text of any snapshot with the settings
 * `keys` and this model folder. */
size_t snapshot_json_bytes(const char *keys, const char *model_folder);

/* snapshot_json_write: append the text of snapshot.json. Its last member is the hash of all bytes
 * before it. */
void snapshot_json_write(const struct snapshot *snapshot, struct text *text);

/* snapshot_json_parse: check the hash of the text, then read it. `path` names the file in faults;
 * snapshot->path is NULL.
 * memory  texts in `region`
 * errors  STATUS_INPUT; *snapshot is then unchanged */
MUST_CHECK enum status snapshot_json_parse(const char *json, size_t length, const char *path,
                                           struct region *region, struct snapshot *snapshot,
                                           struct fault *fault);

#endif
