#include "runtime/data/fingerprint.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

enum { HASHED_END_BYTES = 64 * 1024 }; /* Number of bytes that are hashed at each end of a file. */

/* One value of a fingerprint. Values are compared in the order of the rows, and the first value
 * that differs is reported. */
struct fingerprint_row {
    const char *name, *noun; /* name of the value in a snapshot, and noun in messages */
    size_t offset;           /* Offset of the field in struct fingerprint. */
};

static const struct fingerprint_row ROWS[FINGERPRINT_VALUE_COUNT] = {
    {"data_files", "files", offsetof(struct fingerprint, files)},
    {"data_bytes", "bytes", offsetof(struct fingerprint, bytes)},
    {"windows", "rows", offsetof(struct fingerprint, windows)},
    {"data_hash", NULL, offsetof(struct fingerprint, hash)}};

static uint64_t read_row_value(const struct fingerprint *fingerprint,
                               const struct fingerprint_row *row) {
    uint64_t value;
    memcpy(&value, (const char *)fingerprint + row->offset, sizeof value);
    return value;
}

static enum status hash_file_ends(const struct token_file *file, char *buffer,
                                  struct hash_state *state, struct fault *fault) {
    int64_t size = file->bytes;
    size_t count = min_u64((uint64_t)size, HASHED_END_BYTES);
    hash_add(state, &size, sizeof size);
    TRY(file_read_at(file->fd, file->path, buffer, count, 0, fault));
    hash_add(state, buffer, count);
    TRY(file_read_at(file->fd, file->path, buffer, count, size - (int64_t)count, fault));
    hash_add(state, buffer, count);
    return OK;
}

enum status fingerprint_compute(const struct token_data *data, struct fingerprint *fingerprint,
                                struct fault *fault) {
    struct region scratch = {0};
    struct hash_state state;
    struct fingerprint found = {.windows = (uint64_t)data->window_count,
                                .files = (uint64_t)data->file_count};
    enum status status = OK;
    char *buffer = region_alloc(&scratch, HASHED_END_BYTES, 1);
    hash_begin(&state);
    for (int i = 0; i < data->file_count && status == OK; i++) {
        found.bytes += (uint64_t)data->files[i].tokens.bytes;
        status = hash_file_ends(&data->files[i].tokens, buffer, &state, fault);
    }
    region_finish(&scratch);
    if (status == OK) {
        struct hash hash = hash_end(&state);
        memcpy(&found.hash, hash.bytes, sizeof found.hash);
        *fingerprint = found;
    }
    return status;
}

void fingerprint_to_values(const struct fingerprint *fingerprint,
                           struct snapshot_value values[static FINGERPRINT_VALUE_COUNT]) {
    for (int i = 0; i < FINGERPRINT_VALUE_COUNT; i++) {
        values[i] = (struct snapshot_value){.value = read_row_value(fingerprint, &ROWS[i])};
        snprintf(values[i].name, sizeof values[i].name, "%s", ROWS[i].name);
    }
}

enum status fingerprint_check(const struct fingerprint *fingerprint,
                              const struct snapshot *snapshot, struct fault *fault) {
    static const char REMEDY[] = "restore the original data, or start a new run with --fresh";
    for (int i = 0; i < FINGERPRINT_VALUE_COUNT; i++) {
        uint64_t now = read_row_value(fingerprint, &ROWS[i]);
        uint64_t then;
        if (!snapshot_find_value(snapshot, ROWS[i].name, &then) || now == then) {
            continue;
        }
        if (ROWS[i].noun == NULL) {
            return fault_set(
                fault, STATUS_INPUT, "data.train", REMEDY,
                "the files have the sizes recorded in the snapshot but different contents: "
                "the first or last 64 KiB of a file differ");
        }
        return fault_set(fault, STATUS_INPUT, "data.train", REMEDY,
                         "the data has %llu %s, but had %llu when the snapshot was saved",
                         (unsigned long long)now, ROWS[i].noun, (unsigned long long)then);
    }
    return OK;
}
