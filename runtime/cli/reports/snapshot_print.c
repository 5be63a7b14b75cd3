/* snapshot_print: the reports of `skep snapshot`, as text and as JSON. */
#include "runtime/cli/reports/reports.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int64_t snapshot_bytes(const struct snapshot *snapshot) {
    int64_t bytes = 0;
    for (int i = 0; i < snapshot->file_count; i++) {
        bytes += snapshot->files[i].bytes;
    }
    return bytes;
}

static const char *format_save_time(const struct snapshot *snapshot, char buffer[static 32]) {
    time_t seconds = (time_t)snapshot->saved_at;
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(buffer, 32, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        return "unknown";
    }
    return buffer;
}

void snapshot_print_list(const char *folder, const struct snapshot_list_item *listed, int count,
                         bool verified) {
    if (count == 0) {
        printf("%s contains no snapshots\n", folder);
    }
    for (int i = 0; i < count; i++) {
        const struct snapshot *snapshot = &listed[i].snapshot;
        char when[32], size[24];
        if (!listed[i].is_readable) {
            printf("%s: damaged: %s: %s\n", snapshot->path, listed[i].fault.subject,
                   listed[i].fault.reason);
            continue;
        }
        printf("%s: step %lld, saved %s, %s%s\n", snapshot->path, (long long)snapshot->step,
               format_save_time(snapshot, when),
               text_format_bytes((uint64_t)snapshot_bytes(snapshot), size),
               verified ? ", good" : "");
    }
}

static void add_snapshot_head(struct json_writer *json, const struct snapshot *snapshot) {
    json_add_i64(json, "step", snapshot->step);
    json_add_u64(json, "sequence", snapshot->sequence);
    json_add_fixed(json, "saved_at", snapshot->saved_at, 3);
    json_add_i64(json, "bytes", snapshot_bytes(snapshot));
}

void snapshot_print_list_json(const char *folder, const struct snapshot_list_item *listed,
                              int count, bool verified) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, 2);
    json_add_text(json_newline(json, 2), "folder", folder);
    json_add_bool(json_newline(json, 2), "verified", verified);
    json_begin_array(json_newline(json, 2), "snapshots");
    for (int i = 0; i < count; i++) {
        json_begin_object(json_newline(json, 4), NULL);
        json_add_text(json, "path", listed[i].snapshot.path);
        json_add_bool(json, "good", listed[i].is_readable);
        if (listed[i].is_readable) {
            add_snapshot_head(json, &listed[i].snapshot);
        } else {
            json_add_text(json, "place", listed[i].fault.subject);
            json_add_text(json, "reason", listed[i].fault.reason);
        }
        json_end(json);
    }
    if (count > 0) {
        json_newline(json, 2);
    }
    json_end(json);
    json_newline(json, 0);
    json_stdout_end(&out);
}

void snapshot_print_details(const struct snapshot *snapshot) {
    char when[32], size[24], hex[HASH_HEX_BYTES];
    printf("snapshot  %s\nstep      %lld\nsaved     %s, sequence number %" PRIu64
           "\nseed      %" PRIu64 "\nplan      %s\n",
           snapshot->path, (long long)snapshot->step, format_save_time(snapshot, when),
           snapshot->sequence, snapshot->seed, hash_hex(&snapshot->plan_hash, hex));
    for (int i = 0; i < snapshot->value_count; i++) {
        printf("value     %s = %" PRIu64 "\n", snapshot->values[i].name, snapshot->values[i].value);
    }
    for (int i = 0; i < snapshot->file_count; i++) {
        const struct snapshot_file *file = &snapshot->files[i];
        printf("file      %s, %s, %s\n", file->name, text_format_bytes((uint64_t)file->bytes, size),
               hash_hex(&file->hash, hex));
    }
    printf("model     %s\n\n%s", snapshot->model_folder[0] != '\0' ? snapshot->model_folder : "-",
           snapshot->keys);
}

static void add_contents(struct json_writer *json, const struct snapshot *snapshot) {
    json_begin_object(json_newline(json, 2), "values");
    for (int i = 0; i < snapshot->value_count; i++) {
        json_add_u64_text(json_newline(json, 4), snapshot->values[i].name,
                          snapshot->values[i].value);
    }
    json_end(json_newline(json, 2));
    json_begin_array(json_newline(json, 2), "files");
    for (int i = 0; i < snapshot->file_count; i++) {
        const struct snapshot_file *file = &snapshot->files[i];
        json_begin_object(json_newline(json, 4), NULL);
        json_add_text(json, "name", file->name);
        json_add_i64(json, "bytes", file->bytes);
        json_add_hex(json, "blake2b", file->hash.bytes, HASH_BYTES);
        json_end(json);
    }
    json_end(json_newline(json, 2));
}

void snapshot_print_details_json(const struct snapshot *snapshot) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, 2);
    json_add_text(json_newline(json, 2), "path", snapshot->path);
    add_snapshot_head(json_newline(json, 2), snapshot);
    json_add_u64_text(json_newline(json, 2), "seed", snapshot->seed);
    json_add_hex(json_newline(json, 2), "plan_hash", snapshot->plan_hash.bytes, HASH_BYTES);
    add_contents(json, snapshot);
    json_add_text(json_newline(json, 2), "model_folder", snapshot->model_folder);
    json_add_text(json_newline(json, 2), "keys", snapshot->keys);
    json_newline(json, 0);
    json_stdout_end(&out);
}

void snapshot_print_export(const struct snapshot *snapshot, const char *out) {
    printf("%s: the weights of step %lld\n", out, (long long)snapshot->step);
}

void snapshot_print_export_json(const struct snapshot *snapshot, const char *out_path) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_i64(json, "step", snapshot->step);
    json_add_text(json, "snapshot", snapshot->path);
    json_add_text(json, "model", out_path);
    json_stdout_end(&out);
}
