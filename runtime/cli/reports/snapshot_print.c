#include "runtime/cli/reports/snapshot_print.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PIECE_BYTES = 128 };

/* Quoted in pieces, as a text may grow six times. */
static void print_quoted(const char *value) {
    putchar('"');
    for (size_t length = strlen(value); length > 0;) {
        char piece[PIECE_BYTES + 1];
        char escaped[6 * PIECE_BYTES + 3];
        size_t count = length < PIECE_BYTES ? length : PIECE_BYTES;
        memcpy(piece, value, count);
        piece[count] = '\0';
        struct text text = text_over(escaped, sizeof escaped);
        text_add_json(&text, piece);
        fwrite(escaped + 1, 1, text.length - 2, stdout);
        value += count;
        length -= count;
    }
    putchar('"');
}

static int64_t all_bytes(const struct snapshot *snapshot) {
    int64_t bytes = 0;
    for (int i = 0; i < snapshot->file_count; i++) {
        bytes += snapshot->files[i].bytes;
    }
    return bytes;
}

static const char *saved_at(const struct snapshot *snapshot, char buffer[static 32]) {
    time_t seconds = (time_t)snapshot->saved_at;
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(buffer, 32, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        return "unknown";
    }
    return buffer;
}

void snapshot_print_list(const char *folder, const struct snapshot_listed *listed, int count,
                         bool verified) {
    if (count == 0) {
        printf("%s holds no snapshots\n", folder);
    }
    for (int i = 0; i < count; i++) {
        const struct snapshot *snapshot = &listed[i].snapshot;
        char when[32];
        char size[24];
        if (!listed[i].readable) {
            printf("%s: damaged: %s: %s\n", snapshot->path, listed[i].fault.place,
                   listed[i].fault.reason);
            continue;
        }
        printf("%s: step %lld, saved %s, %s%s\n", snapshot->path, (long long)snapshot->step,
               saved_at(snapshot, when), text_bytes((uint64_t)all_bytes(snapshot), size),
               verified ? ", good" : "");
    }
}

static void print_head_json(const struct snapshot *snapshot) {
    printf("\"step\": %lld, \"sequence\": %" PRIu64 ", \"saved_at\": %.3f, \"bytes\": %lld",
           (long long)snapshot->step, snapshot->sequence, snapshot->saved_at,
           (long long)all_bytes(snapshot));
}

void snapshot_print_list_json(const char *folder, const struct snapshot_listed *listed, int count,
                              bool verified) {
    printf("{\n  \"format\": 1,\n  \"folder\": ");
    print_quoted(folder);
    printf(",\n  \"verified\": %s,\n  \"snapshots\": [", verified ? "true" : "false");
    for (int i = 0; i < count; i++) {
        printf("%s\n    {\"path\": ", i == 0 ? "" : ",");
        print_quoted(listed[i].snapshot.path);
        printf(", \"good\": %s, ", listed[i].readable ? "true" : "false");
        if (listed[i].readable) {
            print_head_json(&listed[i].snapshot);
        } else {
            printf("\"place\": ");
            print_quoted(listed[i].fault.place);
            printf(", \"reason\": ");
            print_quoted(listed[i].fault.reason);
        }
        printf("}");
    }
    printf("%s]\n}\n", count == 0 ? "" : "\n  ");
}

void snapshot_print_whole(const struct snapshot *snapshot) {
    char when[32];
    char size[24];
    char hex[HASH_HEX_BYTES];
    printf("snapshot  %s\nstep      %lld\nsaved     %s, as number %" PRIu64 "\nseed      %" PRIu64
           "\nplan      %s\n",
           snapshot->path, (long long)snapshot->step, saved_at(snapshot, when), snapshot->sequence,
           snapshot->seed, hash_hex(&snapshot->plan_hash, hex));
    for (int i = 0; i < snapshot->value_count; i++) {
        printf("value     %s = %" PRIu64 "\n", snapshot->values[i].name, snapshot->values[i].value);
    }
    for (int i = 0; i < snapshot->file_count; i++) {
        const struct snapshot_file *file = &snapshot->files[i];
        printf("file      %s, %s, %s\n", file->name, text_bytes((uint64_t)file->bytes, size),
               hash_hex(&file->hash, hex));
    }
    printf("model     %s\n\n%s", snapshot->model_folder[0] != '\0' ? snapshot->model_folder : "-",
           snapshot->keys);
}

void snapshot_print_whole_json(const struct snapshot *snapshot) {
    char hex[HASH_HEX_BYTES];
    printf("{\n  \"format\": 1,\n  \"path\": ");
    print_quoted(snapshot->path);
    printf(",\n  ");
    print_head_json(snapshot);
    printf(",\n  \"seed\": \"%" PRIu64 "\",\n  \"plan_hash\": \"%s\",\n  \"values\": {",
           snapshot->seed, hash_hex(&snapshot->plan_hash, hex));
    for (int i = 0; i < snapshot->value_count; i++) {
        printf("%s\n    ", i == 0 ? "" : ",");
        print_quoted(snapshot->values[i].name);
        printf(": \"%" PRIu64 "\"", snapshot->values[i].value);
    }
    printf("\n  },\n  \"files\": [");
    for (int i = 0; i < snapshot->file_count; i++) {
        printf("%s\n    {\"name\": ", i == 0 ? "" : ",");
        print_quoted(snapshot->files[i].name);
        printf(", \"bytes\": %lld, \"blake2b\": \"%s\"}", (long long)snapshot->files[i].bytes,
               hash_hex(&snapshot->files[i].hash, hex));
    }
    printf("\n  ],\n  \"model_folder\": ");
    print_quoted(snapshot->model_folder);
    printf(",\n  \"keys\": ");
    print_quoted(snapshot->keys);
    printf("\n}\n");
}

void snapshot_print_export(const struct snapshot *snapshot, const char *out) {
    printf("%s: the weights of step %lld\n", out, (long long)snapshot->step);
}

void snapshot_print_export_json(const struct snapshot *snapshot, const char *out) {
    printf("{\"format\": 1, \"step\": %lld, \"snapshot\": ", (long long)snapshot->step);
    print_quoted(snapshot->path);
    printf(", \"model\": ");
    print_quoted(out);
    printf("}\n");
}
