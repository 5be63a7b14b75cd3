/* manifest_read: parse and verify a manifest from untrusted text. */
#include "base/file.h"
#include "base/hex.h"
#include "base/yaml.h"
#include "runtime/swarm/ledger/ledger_file.h"
#include "runtime/swarm/ledger/manifest.h"

#include <string.h>

/* Size of the last line, which is the signature, with its line feed. */
enum { SIGNATURE_LINE_BYTES = sizeof MANIFEST_SIGNATURE_KEY - 1 + 2 * SIGNATURE_BYTES + 1 };

/* The largest double up to which every integer is represented exactly. */
static const double EXACT_INTEGER_MAX = 0x1p53;

struct manifest_reader {
    struct yaml_document document; /* the manifest, parsed as YAML */
    struct manifest *manifest;     /* receives the fields of the manifest */
    struct fault *fault;           /* receives the first fault */
};

static enum status set_value_fault(struct manifest_reader *reader, const struct yaml_node *node,
                                   const char *error) {
    return yaml_fault(&reader->document, node, reader->fault, NULL, "%s", error);
}

/* Finds the child with this key.
 * errors  STATUS_INPUT with `parent` as subject if there is none */
static enum status find_child(struct manifest_reader *reader, const struct yaml_node *parent,
                              const char *key, const struct yaml_node **child) {
    const struct yaml_node *node = parent->child;
    while (node != NULL && strcmp(node->key, key) != 0) {
        node = node->sibling;
    }
    if (node == NULL) {
        return yaml_fault(&reader->document, parent, reader->fault,
                          "fetch the manifest again from its source",
                          "does not have the required key %s", key);
    }
    *child = node;
    return OK;
}

static enum status read_i64(struct manifest_reader *reader, const struct yaml_node *parent,
                            const char *key, int64_t minimum, int64_t *value) {
    const struct yaml_range range = {.minimum = (double)minimum, .maximum = EXACT_INTEGER_MAX};
    const struct yaml_node *node;
    TRY(find_child(reader, parent, key, &node));
    return yaml_read_i64(&reader->document, node, range, value, reader->fault);
}

static enum status read_text(struct manifest_reader *reader, const struct yaml_node *parent,
                             const char *key, const struct yaml_node **node, const char **value) {
    TRY(find_child(reader, parent, key, node));
    return yaml_read_text(&reader->document, *node, value, reader->fault);
}

static enum status read_hash(struct manifest_reader *reader, const struct yaml_node *parent,
                             const char *key, struct hash *hash) {
    const struct yaml_node *node;
    const char *text;
    TRY(read_text(reader, parent, key, &node, &text));
    return strlen(text) == 2 * HASH_BYTES && hex_read(text, HASH_BYTES, hash->bytes)
               ? OK
               : set_value_fault(reader, node, "is not a hash of 64 hexadecimal digits");
}

/* Rejects a version above `ours`. Versions are checked before the keys, because a newer version may
 * have unknown keys. */
static enum status check_version(struct manifest_reader *reader, const char *key, int64_t ours,
                                 int64_t *found) {
    const struct yaml_node *root = reader->document.root;
    TRY(read_i64(reader, root, key, 1, found));
    return *found <= ours
               ? OK
               : fault_set(reader->fault, STATUS_INPUT, reader->document.source_name,
                           "install a newer version of skep on this machine",
                           "the swarm's %s has version %lld; this skep supports up to %lld", key,
                           (long long)*found, (long long)ours);
}

static enum status read_swarm_fields(struct manifest_reader *reader) {
    struct manifest *manifest = reader->manifest;
    const struct yaml_node *root = reader->document.root;
    const struct yaml_node *node = NULL;
    TRY(read_text(reader, root, "name", &node, &manifest->name));
    if (swarm_name_error(manifest->name) != NULL) {
        return set_value_fault(reader, node, swarm_name_error(manifest->name));
    }
    TRY(read_i64(reader, root, "created", 0, &manifest->created));
    TRY(read_hash(reader, root, "genesis", &manifest->genesis_root));
    TRY(read_text(reader, root, "run", &node, &manifest->run_text));
    return read_text(reader, root, "config", &node, &manifest->config_text);
}

static enum status read_tracker(struct manifest_reader *reader) {
    struct join_string *join = &reader->manifest->join;
    const struct yaml_node *node;
    const char *text;
    TRY(read_text(reader, reader->document.root, "tracker", &node, &text));
    if (address_error(text) != NULL) {
        return set_value_fault(reader, node, address_error(text));
    }
    memcpy(join->address, text, strlen(text) + 1);
    return OK;
}

static enum status read_operator(struct manifest_reader *reader, const struct yaml_node **key) {
    const char *text;
    TRY(read_text(reader, reader->document.root, "operator", key, &text));
    const char *error = public_keys_read(text, &reader->manifest->join.operator_keys);
    return error == NULL ? OK : set_value_fault(reader, *key, error);
}

static enum status read_file_kind(struct manifest_reader *reader, const struct yaml_node *item,
                                  enum manifest_file_kind *data) {
    const struct yaml_node *node;
    const char *text;
    TRY(read_text(reader, item, "key", &node, &text));
    bool train = strcmp(text, manifest_file_kind_key(MANIFEST_TRAINING_FILE)) == 0;
    if (!train && strcmp(text, manifest_file_kind_key(MANIFEST_VALIDATION_FILE)) != 0) {
        return set_value_fault(reader, node, "must be data.train or data.validation");
    }
    *data = train ? MANIFEST_TRAINING_FILE : MANIFEST_VALIDATION_FILE;
    return OK;
}

/* Returns the error in the name or the format of a file, or NULL. The name is printed in messages
 * and the format is compared: neither may contain a path or control characters. */
static const char *file_error(const struct manifest_file *file) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t length = strlen(file->name);
    bool plain = length < MANIFEST_FILE_NAME_BYTES && strchr(file->name, '/') == NULL;
    for (size_t i = 0; i < length && plain; i++) {
        plain = (unsigned char)file->name[i] >= ' ' && file->name[i] != 0x7f;
    }
    if (!plain) {
        return "has an invalid file name";
    }
    return strlen(file->format) >= MANIFEST_FILE_FORMAT_BYTES ||
                   file->format[strspn(file->format, LETTERS)] != '\0'
               ? "has a format with characters other than a-z 0-9 -"
               : NULL;
}

static enum status read_file_item(struct manifest_reader *reader, const struct yaml_node *item,
                                  struct manifest_file *file) {
    const struct yaml_node *node;
    int64_t bytes = 0;
    TRY(read_file_kind(reader, item, &file->kind));
    TRY(read_text(reader, item, "name", &node, &file->name));
    TRY(read_i64(reader, item, "bytes", 1, &bytes));
    TRY(read_text(reader, item, "format", &node, &file->format));
    TRY(read_hash(reader, item, "root", &file->root));
    file->bytes = (uint64_t)bytes;
    return file_error(file) == NULL ? OK : set_value_fault(reader, item, file_error(file));
}

static enum status read_file_list(struct manifest_reader *reader) {
    const struct yaml_node *list;
    TRY(find_child(reader, reader->document.root, "files", &list));
    if (list->kind != YAML_LIST || list->child_count < 1 ||
        list->child_count > MANIFEST_FILES_MAX) {
        return set_value_fault(reader, list, "is not a list of 1 to 512 files");
    }
    struct manifest_file *files =
        region_alloc(reader->document.region, (size_t)list->child_count, sizeof *files);
    int count = 0;
    for (const struct yaml_node *item = list->child; item != NULL; item = item->sibling) {
        TRY(read_file_item(reader, item, &files[count]));
        enum manifest_file_kind before = count > 0 ? files[count - 1].kind : MANIFEST_TRAINING_FILE;
        if (files[count].kind < before ||
            (count == 0 && files[count].kind != MANIFEST_TRAINING_FILE)) {
            return set_value_fault(
                reader, item,
                "is out of order: list data.train files before data.validation files");
        }
        count++;
    }
    ASSERT(count == list->child_count);
    reader->manifest->files = files;
    reader->manifest->file_count = count;
    return OK;
}

static enum status check_keys(struct manifest_reader *reader) {
    static const char *const NAMES[] = {
        "format",         "name",         "protocol",    "created",      "tracker",
        "operator",       "genesis",      "files[].key", "files[].name", "files[].bytes",
        "files[].format", "files[].root", "run",         "config",       "signature"};
    int64_t format;
    TRY(check_version(reader, "format", MANIFEST_FORMAT_VERSION, &format));
    TRY(check_version(reader, "protocol", SWARM_PROTOCOL_VERSION, &reader->manifest->protocol));
    if (reader->manifest->protocol < SWARM_PROTOCOL_VERSION) {
        return old_protocol_fault(reader->fault, reader->document.source_name);
    }
    return yaml_reject_unknown_keys(&reader->document, NAMES, (int)ARRAY_COUNT(NAMES),
                                    reader->fault);
}

static enum status check_operator(struct manifest_reader *reader, const struct yaml_node *key,
                                  const struct public_keys *expected) {
    const struct public_keys *found = &reader->manifest->join.operator_keys;
    char wanted[KEYS_TEXT_BYTES];
    if (expected == NULL || memcmp(found, expected, sizeof *found) == 0) {
        return OK;
    }
    return yaml_fault(&reader->document, key, reader->fault,
                      "ask the swarm's operator for its join string",
                      "is not the operator's key of the join string, %.16s...",
                      public_keys_write(expected, wanted));
}

static enum status check_signature(struct manifest_reader *reader, const char *text,
                                   size_t length) {
    const size_t key_length = sizeof MANIFEST_SIGNATURE_KEY - 1;
    const char *line = text + length - SIGNATURE_LINE_BYTES;
    uint8_t signature[SIGNATURE_BYTES];
    bool is_line = length > SIGNATURE_LINE_BYTES && line[-1] == '\n' &&
                   memcmp(line, MANIFEST_SIGNATURE_KEY, key_length) == 0 &&
                   text[length - 1] == '\n' &&
                   hex_read(line + key_length, SIGNATURE_BYTES, signature);
    if (!is_line) {
        return fault_set(reader->fault, STATUS_INPUT, reader->document.source_name,
                         "fetch the manifest again from its source",
                         "the last line is not a signature of 128 hexadecimal digits 0-9 a-f");
    }
    if (keys_verify(reader->manifest->join.operator_keys.sign, MANIFEST_SIGN_CONTEXT, text,
                    length - SIGNATURE_LINE_BYTES, signature)) {
        return OK;
    }
    return fault_set(reader->fault, STATUS_INPUT, reader->document.source_name,
                     "fetch the manifest again from its source",
                     "the signature does not match: the manifest was changed after it was signed");
}

enum status manifest_read(const char *text, size_t length, const char *subject,
                          const struct public_keys *expected, struct region *region,
                          struct manifest *manifest, struct fault *fault) {
    struct manifest read = {.name = NULL};
    struct manifest_reader reader = {.manifest = &read, .fault = fault};
    const struct yaml_node *key = NULL;
    if (length > MANIFEST_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, subject, NULL, "%zu bytes; a manifest has at most %d",
                         length, MANIFEST_BYTES_MAX);
    }
    TRY(yaml_open(text, length, subject, region, &reader.document, fault));
    TRY(check_keys(&reader));
    TRY(read_operator(&reader, &key));
    TRY(check_operator(&reader, key, expected));
    TRY(check_signature(&reader, text, length));
    TRY(read_tracker(&reader));
    TRY(read_swarm_fields(&reader));
    TRY(read_file_list(&reader));
    read.hash = hash_of(text, length);
    *manifest = read;
    return OK;
}

enum status manifest_read_file(const char *path, struct region *region, struct manifest *manifest,
                               struct fault *fault) {
    struct region scratch = {0};
    size_t length = 0;
    char *text = region_alloc(&scratch, MANIFEST_BYTES_MAX + 1, 1);
    enum status status = file_read_text(path, text, MANIFEST_BYTES_MAX + 1, &length, fault);
    if (status == OK) {
        status = manifest_read(text, length, path, NULL, region, manifest, fault);
    }
    region_finish(&scratch);
    return status;
}
