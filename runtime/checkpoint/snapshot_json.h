/* snapshot_json: the text of snapshot.json, written and read. */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_JSON_H
#define SKEP_CHECKPOINT_SNAPSHOT_JSON_H

#include "base/text.h"
#include "runtime/checkpoint/snapshot.h"

/* snapshot_json_bytes: room that the text of any snapshot with these texts needs. */
size_t snapshot_json_bytes(const char *keys, const char *model_folder);

/* snapshot_json_write: the whole text; its last member is the hash of all bytes before it. */
void snapshot_json_write(const struct snapshot *snapshot, struct text *text);

/* snapshot_json_parse: the text back, its hash first. `place` names the file in faults; path is
 * left NULL.
 * memory  texts in `region`
 * errors  STATUS_INPUT; *snapshot untouched */
MUST_CHECK enum status snapshot_json_parse(const char *json, size_t length, const char *place,
                                           struct region *region, struct snapshot *snapshot,
                                           struct fault *fault);

#endif
