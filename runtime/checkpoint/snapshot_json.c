#include "runtime/checkpoint/snapshot_json.h"

#include "base/hex.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum {
    FORMAT_VERSION = 1,  /* version of the format of snapshot.json */
    JSON_ESCAPE_MAX = 6, /* maximum bytes that one byte takes when it is escaped, as in \u0000 */
    FIXED_BYTES = 1024,  /* size of the brackets, field names and numbers in the text */
    /* maximum size of the line of text for one file or value */
    LINE_BYTES_MAX = 192 + JSON_ESCAPE_MAX * SNAPSHOT_NAME_BYTES,
};

static const char SEAL_OPENING[] = ",\n  \"blake2b\": \"";
static const char SEAL_CLOSING[] = "\"\n}\n";

size_t snapshot_json_bytes(const char *keys, const char *model_folder) {
    return FIXED_BYTES + JSON_ESCAPE_MAX * (strlen(keys) + strlen(model_folder)) +
           LINE_BYTES_MAX * (SNAPSHOT_FILES_MAX + SNAPSHOT_VALUES_MAX);
}

static void add_files(const struct snapshot *snapshot, struct text *text) {
    char hex[HASH_HEX_BYTES];
    text_add(text, ",\n  \"files\": [");
    for (int i = 0; i < snapshot->file_count; i++) {
        const struct snapshot_file *file = &snapshot->files[i];
        text_add(text, "%s\n    {\"name\": ", i == 0 ? "" : ",");
        text_add_json(text, file->name);
        text_add(text, ", \"bytes\": %lld, \"blake2b\": \"%s\"}", (long long)file->bytes,
                 hash_hex(&file->hash, hex));
    }
    text_add(text, "\n  ]");
}

/* Writes the values as strings, not as numbers, because some JSON readers keep only 53 bits. */
static void add_values(const struct snapshot *snapshot, struct text *text) {
    text_add(text, ",\n  \"values\": {");
    for (int i = 0; i < snapshot->value_count; i++) {
        text_add(text, "%s\n    ", i == 0 ? "" : ",");
        text_add_json(text, snapshot->values[i].name);
        text_add(text, ": \"%llu\"", (unsigned long long)snapshot->values[i].value);
    }
    text_add(text, "\n  }");
}

void snapshot_json_write(const struct snapshot *snapshot, struct text *text) {
    char hex[HASH_HEX_BYTES];
    text_add(text, "{\n  \"format\": %d,\n  \"step\": %lld,\n  \"sequence\": \"%llu\"",
             FORMAT_VERSION, (long long)snapshot->step, (unsigned long long)snapshot->sequence);
    text_add(text, ",\n  \"saved_at\": %.3f,\n  \"seed\": \"%llu\"", snapshot->saved_at,
             (unsigned long long)snapshot->seed);
    text_add(text, ",\n  \"plan_hash\": \"%s\",\n  \"layout\": \"whole tensors\"",
             hash_hex(&snapshot->plan_hash, hex));
    add_values(snapshot, text);
    add_files(snapshot, text);
    text_add(text, ",\n  \"model_folder\": ");
    text_add_json(text, snapshot->model_folder);
    text_add(text, ",\n  \"keys\": ");
    text_add_json(text, snapshot->keys);
    struct hash hash = hash_of(text->bytes, text->length);
    text_add(text, "%s%s%s", SEAL_OPENING, hash_hex(&hash, hex), SEAL_CLOSING);
}

static enum status check_document_hash(const char *json, size_t length, const char *path,
                                       struct fault *fault) {
    const size_t opening_bytes = sizeof SEAL_OPENING - 1;
    const size_t seal_bytes = opening_bytes + 2 * HASH_BYTES + sizeof SEAL_CLOSING - 1;
    if (length > seal_bytes) {
        char hex[HASH_HEX_BYTES];
        const char *seal = json + length - seal_bytes;
        struct hash hash = hash_of(json, length - seal_bytes);
        if (memcmp(seal, SEAL_OPENING, opening_bytes) == 0 &&
            memcmp(seal + opening_bytes, hash_hex(&hash, hex), 2 * HASH_BYTES) == 0) {
            return OK;
        }
    }
    return fault_set(fault, STATUS_INPUT, path, NULL,
                     "the file is damaged: its hash does not match its text");
}

static enum status get_required_text(const struct json_node *object, const char *key,
                                     const char **value, struct fault *fault) {
    struct json_node node;
    TRY(json_require(object, key, &node, fault));
    return json_as_text(&node, value, fault);
}

static enum status get_required_i64(const struct json_node *object, const char *key, int64_t *value,
                                    struct fault *fault) {
    struct json_node node;
    TRY(json_require(object, key, &node, fault));
    return json_as_i64(&node, value, fault);
}

static enum status get_required_u64(const struct json_node *object, const char *key,
                                    uint64_t *value, struct fault *fault) {
    const char *text = NULL;
    TRY(get_required_text(object, key, &text, fault));
    return text_parse_u64(text, value)
               ? OK
               : json_fault_member(object, key, fault, "is not a whole number");
}

static enum status get_required_hash(const struct json_node *object, const char *key,
                                     struct hash *hash, struct fault *fault) {
    const char *text = NULL;
    TRY(get_required_text(object, key, &text, fault));
    return strlen(text) == 2 * HASH_BYTES && hex_read(text, HASH_BYTES, hash->bytes)
               ? OK
               : json_fault_member(object, key, fault, "is not a valid hash");
}

/* Rejects a name that is a path out of the folder. */
static bool copy_name(const char *text, char name[static SNAPSHOT_NAME_BYTES]) {
    size_t length = strlen(text);
    if (length == 0 || length >= SNAPSHOT_NAME_BYTES || text[0] == '.' ||
        strchr(text, '/') != NULL) {
        return false;
    }
    memcpy(name, text, length + 1);
    return true;
}

static enum status read_file(const struct json_node *node, struct snapshot_file *file,
                             struct fault *fault) {
    const char *name = NULL;
    TRY(json_as_object(node, fault));
    TRY(get_required_text(node, "name", &name, fault));
    if (!copy_name(name, file->name)) {
        return json_fault_member(node, "name", fault, "is not a valid file name");
    }
    TRY(get_required_i64(node, "bytes", &file->bytes, fault));
    return get_required_hash(node, "blake2b", &file->hash, fault);
}

static enum status read_files(const struct json_node *root, struct snapshot *snapshot,
                              struct fault *fault) {
    struct json_node list;
    TRY(json_require(root, "files", &list, fault));
    TRY(json_as_array(&list, fault));
    if (json_child_count(&list) > SNAPSHOT_FILES_MAX) {
        return json_fault(&list, fault, NULL, "has more than %d files", SNAPSHOT_FILES_MAX);
    }
    for (size_t i = 0; i < json_child_count(&list); i++) {
        struct json_node node = json_element(&list, i);
        TRY(read_file(&node, &snapshot->files[snapshot->file_count++], fault));
    }
    return OK;
}

static enum status read_values(const struct json_node *root, struct snapshot *snapshot,
                               struct fault *fault) {
    struct json_node object;
    TRY(json_require(root, "values", &object, fault));
    TRY(json_as_object(&object, fault));
    if (json_child_count(&object) > SNAPSHOT_VALUES_MAX) {
        return json_fault(&object, fault, NULL, "has more than %d values", SNAPSHOT_VALUES_MAX);
    }
    struct json_walk walk = json_walk_over(&object);
    while (json_walk_next(&walk)) {
        struct snapshot_value *value = &snapshot->values[snapshot->value_count++];
        if (!copy_name(walk.member.key, value->name)) {
            return json_fault(&walk.member, fault, NULL, "is not a valid name");
        }
        TRY(get_required_u64(&object, walk.member.key, &value->value, fault));
    }
    return OK;
}

static enum status read_numbers(const struct json_node *root, struct snapshot *snapshot,
                                struct fault *fault) {
    int64_t format = 0;
    TRY(get_required_i64(root, "format", &format, fault));
    if (format != FORMAT_VERSION) {
        return json_fault_member(
            root, "format", fault,
            "is format version %lld; this version of Skep reads only version %d", (long long)format,
            FORMAT_VERSION);
    }
    TRY(get_required_i64(root, "step", &snapshot->step, fault));
    if (snapshot->step < 0) {
        return json_fault_member(root, "step", fault, "is below 0");
    }
    TRY(get_required_u64(root, "sequence", &snapshot->sequence, fault));
    TRY(get_required_u64(root, "seed", &snapshot->seed, fault));
    TRY(json_get_f64(root, "saved_at", &snapshot->saved_at, NULL, fault));
    return get_required_hash(root, "plan_hash", &snapshot->plan_hash, fault);
}

static enum status read_all_fields(const struct json_node *root, struct region *region,
                                   struct snapshot *snapshot, struct fault *fault) {
    TRY(read_numbers(root, snapshot, fault));
    TRY(read_values(root, snapshot, fault));
    TRY(read_files(root, snapshot, fault));
    TRY(get_required_text(root, "keys", &snapshot->keys, fault));
    TRY(get_required_text(root, "model_folder", &snapshot->model_folder, fault));
    snapshot->keys = region_copy_text(region, snapshot->keys);
    snapshot->model_folder = region_copy_text(region, snapshot->model_folder);
    return OK;
}

enum status snapshot_json_parse(const char *json, size_t length, const char *path,
                                struct region *region, struct snapshot *snapshot,
                                struct fault *fault) {
    TRY(check_document_hash(json, length, path, fault));
    struct json_document document;
    struct snapshot read = {0};
    TRY(json_parse(json, length, SNAPSHOT_JSON_BYTES_MAX, path, &document, fault));
    enum status status = read_all_fields(&document.root, region, &read, fault);
    json_finish(&document);
    if (status == OK) {
        *snapshot = read;
    }
    return status;
}
