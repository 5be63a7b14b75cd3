/* manifest_read: a manifest from a text that nobody vouches for yet. */
#include "base/file.h"
#include "base/hex.h"
#include "base/yaml.h"
#include "runtime/swarm/ledger/manifest.h"
#include "runtime/swarm/ledger/manifest_text.h"

#include <string.h>

/* The last line, with its end. */
enum { SIGNATURE_LINE_BYTES = sizeof MANIFEST_SIGNATURE_KEY - 1 + 2 * SIGNATURE_BYTES + 1 };

static const double WHOLE_MAX = 0x1p53; /* beyond it a double may stand for several integers */

struct manifest_reader {
    struct yaml_document document;
    struct manifest *manifest;
    struct fault *fault;
};

static enum status refuse(struct manifest_reader *reader, const struct yaml_node *node,
                          const char *wrong) {
    return yaml_fault(&reader->document, node, reader->fault, NULL, "%s", wrong);
}

/* The child of that key.
 * errors  STATUS_INPUT at `parent` when there is none */
static enum status child_of(struct manifest_reader *reader, const struct yaml_node *parent,
                            const char *key, const struct yaml_node **child) {
    const struct yaml_node *node = parent->child;
    while (node != NULL && strcmp(node->key, key) != 0) {
        node = node->sibling;
    }
    if (node == NULL) {
        return yaml_fault(&reader->document, parent, reader->fault,
                          "fetch the manifest again from who gave it", "lacks the key %s", key);
    }
    *child = node;
    return OK;
}

static enum status read_i64(struct manifest_reader *reader, const struct yaml_node *parent,
                            const char *key, int64_t minimum, int64_t *value) {
    const struct yaml_range range = {.minimum = (double)minimum, .maximum = WHOLE_MAX};
    const struct yaml_node *node;
    enum status status = child_of(reader, parent, key, &node);
    return status == OK ? yaml_i64(&reader->document, node, range, value, reader->fault) : status;
}

static enum status read_text(struct manifest_reader *reader, const struct yaml_node *parent,
                             const char *key, const struct yaml_node **node, const char **value) {
    enum status status = child_of(reader, parent, key, node);
    return status == OK ? yaml_text(&reader->document, *node, value, reader->fault) : status;
}

static enum status read_hash(struct manifest_reader *reader, const struct yaml_node *parent,
                             const char *key, struct hash *hash) {
    const struct yaml_node *node;
    const char *text;
    enum status status = read_text(reader, parent, key, &node, &text);
    if (status != OK) {
        return status;
    }
    return strlen(text) == 2 * HASH_BYTES && hex_read(text, HASH_BYTES, hash->bytes)
               ? OK
               : refuse(reader, node, "is not a hash of 64 digits of 0-9 and a-f");
}

/* A newer version may have keys that this one does not know: asked first. */
static enum status check_version(struct manifest_reader *reader, const char *key, int64_t ours,
                                 int64_t *found) {
    const struct yaml_node *root = reader->document.root;
    enum status status = read_i64(reader, root, key, 1, found);
    if (status != OK || *found <= ours) {
        return status;
    }
    return fault_set(reader->fault, STATUS_INPUT, reader->document.place,
                     "install a newer skep here, or ask for a swarm of this version",
                     "the swarm's %s is version %lld, this skep knows up to %lld", key,
                     (long long)*found, (long long)ours);
}

static enum status read_head(struct manifest_reader *reader) {
    struct manifest *manifest = reader->manifest;
    const struct yaml_node *root = reader->document.root;
    const struct yaml_node *node = NULL;
    enum status status = read_text(reader, root, "name", &node, &manifest->name);
    if (status == OK && swarm_name_error(manifest->name) != NULL) {
        status = refuse(reader, node, swarm_name_error(manifest->name));
    }
    if (status == OK) {
        status = read_i64(reader, root, "created", 0, &manifest->created);
    }
    if (status == OK) {
        status = read_hash(reader, root, "genesis", &manifest->genesis);
    }
    if (status == OK) {
        status = read_text(reader, root, "run", &node, &manifest->run_text);
    }
    return status == OK ? read_text(reader, root, "config", &node, &manifest->config_text) : status;
}

static enum status read_tracker(struct manifest_reader *reader, const struct yaml_node **key) {
    struct join_string *tracker = &reader->manifest->tracker;
    const struct yaml_node *parent;
    const struct yaml_node *node;
    const char *text;
    enum status status = child_of(reader, reader->document.root, "tracker", &parent);
    if (status == OK) {
        status = read_text(reader, parent, "address", &node, &text);
    }
    if (status != OK) {
        return status;
    }
    if (address_error(text) != NULL) {
        return refuse(reader, node, address_error(text));
    }
    memcpy(tracker->address, text, strlen(text) + 1);
    status = read_text(reader, parent, "key", key, &text);
    if (status != OK) {
        return status;
    }
    const char *wrong = public_keys_read(text, &tracker->keys);
    return wrong == NULL ? OK : refuse(reader, *key, wrong);
}

static enum status read_data(struct manifest_reader *reader, const struct yaml_node *item,
                             enum manifest_data *data) {
    const struct yaml_node *node;
    const char *text;
    enum status status = read_text(reader, item, "key", &node, &text);
    if (status != OK) {
        return status;
    }
    bool train = strcmp(text, manifest_data_name(MANIFEST_TRAIN)) == 0;
    if (!train && strcmp(text, manifest_data_name(MANIFEST_VALIDATION)) != 0) {
        return refuse(reader, node, "is none of data.train and data.validation");
    }
    *data = train ? MANIFEST_TRAIN : MANIFEST_VALIDATION;
    return OK;
}

/* A name is shown, and a format compared; neither may lead anywhere. */
static const char *file_wrong(const struct manifest_file *file) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t length = strlen(file->name);
    bool plain = length < MANIFEST_FILE_NAME_BYTES && strchr(file->name, '/') == NULL;
    for (size_t i = 0; i < length && plain; i++) {
        plain = (unsigned char)file->name[i] >= ' ' && file->name[i] != 0x7f;
    }
    if (!plain) {
        return "has a name that is no file's";
    }
    return strlen(file->format) >= MANIFEST_FORM_BYTES ||
                   file->format[strspn(file->format, LETTERS)] != '\0'
               ? "has a format that is no plain word"
               : NULL;
}

static enum status read_file(struct manifest_reader *reader, const struct yaml_node *item,
                             struct manifest_file *file) {
    const struct yaml_node *node;
    int64_t bytes = 0;
    enum status status = read_data(reader, item, &file->data);
    if (status == OK) {
        status = read_text(reader, item, "name", &node, &file->name);
    }
    if (status == OK) {
        status = read_i64(reader, item, "bytes", 1, &bytes);
    }
    if (status == OK) {
        status = read_text(reader, item, "format", &node, &file->format);
    }
    if (status == OK) {
        status = read_hash(reader, item, "root", &file->root);
    }
    file->bytes = (uint64_t)bytes;
    return status == OK && file_wrong(file) != NULL ? refuse(reader, item, file_wrong(file))
                                                    : status;
}

static enum status read_files(struct manifest_reader *reader) {
    const struct yaml_node *list;
    enum status status = child_of(reader, reader->document.root, "files", &list);
    if (status != OK) {
        return status;
    }
    if (list->kind != YAML_LIST || list->child_count < 1 ||
        list->child_count > MANIFEST_FILES_MAX) {
        return refuse(reader, list, "is not a list of 1 to 512 files");
    }
    struct manifest_file *files =
        region_alloc(reader->document.region, (size_t)list->child_count, sizeof *files);
    int count = 0;
    for (const struct yaml_node *item = list->child; item != NULL && status == OK;
         item = item->sibling) {
        status = read_file(reader, item, &files[count]);
        enum manifest_data before = count > 0 ? files[count - 1].data : MANIFEST_TRAIN;
        if (status == OK &&
            (files[count].data < before || (count == 0 && files[count].data != MANIFEST_TRAIN))) {
            status = refuse(reader, item, "is out of order: those of data.train come first");
        }
        count++;
    }
    reader->manifest->files = files;
    reader->manifest->file_count = count;
    return status;
}

static enum status check_keys(struct manifest_reader *reader) {
    static const char *const NAMES[] = {
        "format",         "name",         "protocol",    "created",      "tracker.address",
        "tracker.key",    "genesis",      "files[].key", "files[].name", "files[].bytes",
        "files[].format", "files[].root", "run",         "config",       "signature"};
    int64_t format;
    enum status status = check_version(reader, "format", MANIFEST_FORMAT, &format);
    if (status == OK) {
        status = check_version(reader, "protocol", SWARM_PROTOCOL, &reader->manifest->protocol);
    }
    return status == OK
               ? yaml_expect_known(&reader->document, NAMES, (int)ARRAY_COUNT(NAMES), reader->fault)
               : status;
}

static enum status check_tracker(struct manifest_reader *reader, const struct yaml_node *key,
                                 const struct public_keys *expected) {
    const struct public_keys *found = &reader->manifest->tracker.keys;
    char wanted[KEYS_TEXT_BYTES];
    if (expected == NULL || memcmp(found, expected, sizeof *found) == 0) {
        return OK;
    }
    return yaml_fault(&reader->document, key, reader->fault,
                      "ask the swarm's operator for its join string",
                      "is another tracker's than the join string's, %.16s...",
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
        return fault_set(reader->fault, STATUS_INPUT, reader->document.place,
                         "fetch the manifest again from who gave it",
                         "the last line is not the signature: 128 digits of 0-9 and a-f");
    }
    if (keys_verify(reader->manifest->tracker.keys.sign, MANIFEST_SIGN_CONTEXT, text,
                    length - SIGNATURE_LINE_BYTES, signature)) {
        return OK;
    }
    return fault_set(reader->fault, STATUS_INPUT, reader->document.place,
                     "fetch the manifest again from who gave it",
                     "the signature is not the tracker's: the manifest was changed since");
}

enum status manifest_read(const char *text, size_t length, const char *place,
                          const struct public_keys *expected, struct region *region,
                          struct manifest *manifest, struct fault *fault) {
    struct manifest read = {.name = NULL};
    struct manifest_reader reader = {.manifest = &read, .fault = fault};
    const struct yaml_node *key = NULL;
    if (length > MANIFEST_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, place, NULL, "%zu bytes; a manifest has at most %d",
                         length, MANIFEST_BYTES_MAX);
    }
    enum status status = yaml_open(text, length, place, region, &reader.document, fault);
    if (status == OK) {
        status = check_keys(&reader);
    }
    if (status == OK) {
        status = read_tracker(&reader, &key);
    }
    if (status == OK) {
        status = check_tracker(&reader, key, expected);
    }
    if (status == OK) {
        status = check_signature(&reader, text, length);
    }
    if (status == OK) {
        status = read_head(&reader);
    }
    if (status == OK) {
        status = read_files(&reader);
    }
    if (status == OK) {
        read.hash = hash_of(text, length);
        *manifest = read;
    }
    return status;
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
