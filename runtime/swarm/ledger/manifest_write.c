/* manifest_write: write a manifest as signed text. */
#include "base/hex.h"
#include "runtime/swarm/ledger/manifest.h"

#include <string.h>

static const char *const DATA_NAMES[] = {"data.train", "data.validation"};

const char *manifest_file_kind_key(enum manifest_file_kind data) {
    ASSERT(data >= 0 && (size_t)data < ARRAY_COUNT(DATA_NAMES));
    return DATA_NAMES[data];
}

const char *swarm_name_error(const char *name) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.";
    size_t length = strnlen(name, MANIFEST_NAME_BYTES);
    if (length == 0) {
        return "is empty";
    }
    if (length == MANIFEST_NAME_BYTES) {
        return "is longer than 63 characters";
    }
    if (name[strspn(name, LETTERS)] != '\0') {
        return "has a character other than letters, digits, '-', '_' and '.'";
    }
    return name[0] == '.' || name[0] == '-' ? "begins with '.' or '-'" : NULL;
}

static void add_hash(struct text *text, const char *key, const struct hash *hash) {
    text_add(text, "%s", key);
    hex_add(text, hash->bytes, HASH_BYTES);
    text_add(text, "\n");
}

/* Whether a YAML block of indented lines preserves every character of the text. */
static bool fits_yaml_block(const char *value) {
    bool any = false;
    for (const char *c = value; *c != '\0'; c++) {
        bool blank = *c == '\n' || *c == '\t' || *c == ' ';
        if (!blank && (*c < '!' || *c > '~')) {
            return false;
        }
        any = any || !blank;
    }
    return any;
}

/* Returns the YAML chomping indicator that preserves the line feeds at the end of the text. */
static const char *block_chomping_indicator(const char *value) {
    size_t length = strlen(value);
    size_t ends = 0;
    while (ends < length && value[length - 1 - ends] == '\n') {
        ends++;
    }
    return ends == 0 ? "-" : ends == 1 ? "" : "+";
}

/* Adds a text as a YAML block of unchanged lines, or in quotes if a block would not preserve its
 * characters. */
static void add_text_block(struct text *text, const char *key, const char *value) {
    if (!fits_yaml_block(value)) {
        text_add(text, "%s: ", key);
        text_add_json(text, value);
        text_add(text, "\n");
        return;
    }
    text_add(text, "%s: |2%s\n", key, block_chomping_indicator(value));
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        text_add(text, "%s", length > 0 ? "  " : "");
        text_add_bytes(text, at, length);
        text_add(text, "\n");
        at += length + (at[length] == '\n');
    }
}

static void add_files(struct text *text, const struct manifest *manifest) {
    text_add(text, "files:\n");
    for (int i = 0; i < manifest->file_count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        text_add(text, "  - key: %s\n    name: ", manifest_file_kind_key(file->kind));
        text_add_json(text, file->name);
        text_add(text, "\n    bytes: %llu\n    format: %s\n", (unsigned long long)file->bytes,
                 file->format);
        add_hash(text, "    root: ", &file->root);
    }
}

static void add_manifest(struct text *text, const struct manifest *manifest) {
    char key[KEYS_TEXT_BYTES];
    text_add(text, "format: %d\nname: \"%s\"\nprotocol: %d\ncreated: %lld\n",
             MANIFEST_FORMAT_VERSION, manifest->name, SWARM_PROTOCOL_VERSION,
             (long long)manifest->created);
    text_add(text, "tracker: %s\noperator: %s\n", manifest->join.address,
             public_keys_write(&manifest->join.operator_keys, key));
    add_hash(text, "genesis: ", &manifest->genesis_root);
    add_files(text, manifest);
    add_text_block(text, "run", manifest->run_text);
    add_text_block(text, "config", manifest->config_text);
}

static void add_signature(struct text *text, const struct key_pairs *keys) {
    uint8_t signature[SIGNATURE_BYTES];
    keys_sign(keys, MANIFEST_SIGN_CONTEXT, text->bytes, text->length, signature);
    text_add(text, "%s", MANIFEST_SIGNATURE_KEY);
    hex_add(text, signature, sizeof signature);
    text_add(text, "\n");
}

/* Parses the written text, because some characters cannot be represented in YAML. The writer must
 * detect this, not the readers. */
static enum status check_manifest_is_readable(const struct manifest *manifest,
                                              const struct text *text, struct fault *fault) {
    struct region scratch = {0};
    struct manifest again;
    enum status status = manifest_read(text->bytes, text->length, "manifest",
                                       &manifest->join.operator_keys, &scratch, &again, fault);
    if (status == OK && (strcmp(again.config_text, manifest->config_text) != 0 ||
                         strcmp(again.run_text, manifest->run_text) != 0)) {
        status = fault_set(fault, STATUS_INPUT, "config.json", "write these characters as \\uXXXX",
                           "has characters that a manifest cannot contain");
    }
    region_finish(&scratch);
    return status;
}

enum status manifest_write(const struct manifest *manifest, const struct key_pairs *keys,
                           struct text *text, struct hash *hash, struct fault *fault) {
    ASSERT(swarm_name_error(manifest->name) == NULL);
    ASSERT(address_error(manifest->join.address) == NULL);
    ASSERT(public_keys_equal(&keys->public_keys, &manifest->join.operator_keys));
    if (manifest->file_count > MANIFEST_FILES_MAX) {
        return fault_set(fault, STATUS_INPUT, "data.train", "join small files",
                         "%d files; a manifest lists at most %d", manifest->file_count,
                         MANIFEST_FILES_MAX);
    }
    add_manifest(text, manifest);
    if (!text->truncated) {
        add_signature(text, keys);
    }
    if (text->truncated || text->length > MANIFEST_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, manifest->name, "list fewer data files",
                         "config.json of %zu bytes, the settings and %d data files exceed the %d "
                         "bytes of a manifest",
                         strlen(manifest->config_text), manifest->file_count, MANIFEST_BYTES_MAX);
    }
    TRY(check_manifest_is_readable(manifest, text, fault));
    *hash = hash_of(text->bytes, text->length);
    return OK;
}
