/* fuzz_manifest: any bytes as a manifest are refused or give fields within their bounds. Signed
 * again with a known key, texts get past the signature; what is then read is written anew and reads
 * back as the same. */
#include "base/hex.h"
#include "runtime/swarm/ledger/manifest.h"

#include <string.h>

enum { UNTOUCHED = 77 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char signed_text[MANIFEST_BYTES_MAX + 1], written[MANIFEST_BYTES_MAX + 1];

/* Secrets 0, 1, 2 .. 63, as in the tests, whose manifest is a good seed. */
static struct key_pairs known_keys(void) {
    uint8_t secrets[2 * KEY_BYTES];
    struct key_pairs keys;
    for (int i = 0; i < 2 * KEY_BYTES; i++) {
        secrets[i] = (uint8_t)i;
    }
    keys_from_secrets(secrets, &keys);
    return keys;
}

static void check_bounds(const struct manifest *manifest) {
    ASSERT(swarm_name_error(manifest->name) == NULL);
    ASSERT(address_error(manifest->join.address) == NULL);
    ASSERT(manifest->protocol == SWARM_PROTOCOL_VERSION && manifest->created >= 0);
    ASSERT(manifest->file_count >= 1 && manifest->file_count <= MANIFEST_FILES_MAX);
    ASSERT(manifest->run_text[0] != '\0' && manifest->config_text[0] != '\0');
    for (int i = 0; i < manifest->file_count; i++) {
        ASSERT(manifest->files[i].bytes >= 1 && manifest->files[i].format[0] != '\0');
        ASSERT(strchr(manifest->files[i].name, '/') == NULL);
    }
}

static enum status read_one(const char *text, size_t length, struct region *region,
                            struct manifest *manifest) {
    struct fault fault = {0};
    *manifest = (struct manifest){.file_count = UNTOUCHED};
    enum status status = manifest_read(text, length, "fuzz.skep", NULL, region, manifest, &fault);
    if (status == OK) {
        check_bounds(manifest);
    } else {
        ASSERT(status == STATUS_INPUT && fault.subject[0] != '\0' && fault.reason[0] != '\0');
        ASSERT(manifest->file_count == UNTOUCHED && manifest->name == NULL);
    }
    return status;
}

static void check_round_trip(const struct manifest *manifest, const struct key_pairs *keys,
                             struct region *region) {
    struct manifest again;
    struct hash hash;
    struct fault fault;
    struct text text = text_over(written, sizeof written);
    if (!public_keys_equal(&manifest->join.operator_keys, &keys->public_keys) ||
        manifest_write(manifest, keys, &text, &hash, &fault) != OK) {
        return; /* escapes can stand for characters that a text cannot have */
    }
    enum status status = read_one(text.bytes, text.length, region, &again);
    ASSERT(status == OK && hash_equal(&again.hash, &hash));
    ASSERT(strcmp(again.config_text, manifest->config_text) == 0);
    ASSERT(strcmp(again.run_text, manifest->run_text) == 0);
}

static void sign_and_read(const uint8_t *data, size_t size, struct region *region) {
    const struct key_pairs keys = known_keys();
    uint8_t signature[SIGNATURE_BYTES];
    struct manifest manifest;
    struct text text = text_over(signed_text, sizeof signed_text);
    text_add_bytes(&text, (const char *)data, size);
    text_add(&text, "\n");
    keys_sign(&keys, "skep manifest", text.bytes, text.length, signature);
    text_add(&text, "signature: ");
    hex_add(&text, signature, sizeof signature);
    text_add(&text, "\n");
    if (!text.truncated && read_one(text.bytes, text.length, region, &manifest) == OK) {
        check_round_trip(&manifest, &keys, region);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct region region = {0};
    struct manifest manifest;
    if (read_one((const char *)data, size, &region, &manifest) == OK) {
        const struct key_pairs keys = known_keys();
        check_round_trip(&manifest, &keys, &region);
    }
    sign_and_read(data, size, &region);
    region_finish(&region);
    return 0;
}
