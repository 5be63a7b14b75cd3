/* operator_key: see operator_key.h. */
#include "transport/identity/operator_key.h"

#include "base/file.h"
#include "transport/identity/identity.h"

#include <string.h>
#include <unistd.h>

/* The text of public keys begins with this letter; an identity file begins with another. */
static const char PUBLIC_LETTER = 'p';

/* Reads at most `KEYS_TEXT_BYTES` characters of the file. *length is the length of the file. */
static enum status read_first_characters(const char *path, char text[static KEYS_TEXT_BYTES],
                                         int64_t *length, struct fault *fault) {
    int fd;
    memset(text, 0, KEYS_TEXT_BYTES);
    TRY(file_open_read(path, &fd, length, fault));
    const size_t count = *length < KEYS_TEXT_BYTES ? (size_t)*length : KEYS_TEXT_BYTES;
    enum status status = file_read_at(fd, path, text, count, 0, fault);
    close(fd);
    return status;
}

static enum status read_public_key_text(const char *path, char text[static KEYS_TEXT_BYTES],
                                        int64_t length, struct operator_key *key,
                                        struct fault *fault) {
    struct operator_key read = {.has_secrets = false};
    const bool is_line = length == KEYS_TEXT_LETTERS ||
                         (length == KEYS_TEXT_BYTES && text[KEYS_TEXT_LETTERS] == '\n');
    text[KEYS_TEXT_LETTERS] = '\0';
    const char *error =
        is_line ? public_keys_read(text, &read.keys.public_keys) : "is not one line of 112 letters";
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, path, "copy the key as `skep keys` prints it",
                         "the operator's public key %s", error);
    }
    *key = read;
    return OK;
}

enum status operator_key_read(const char *path, struct operator_key *key, struct fault *fault) {
    char text[KEYS_TEXT_BYTES];
    struct operator_key read = {.has_secrets = true};
    int64_t length = 0;
    TRY(read_first_characters(path, text, &length, fault));
    const bool is_public = text[0] == PUBLIC_LETTER;
    if (is_public) {
        return read_public_key_text(path, text, length, key, fault);
    }
    explicit_bzero(text, sizeof text);
    TRY(identity_load(path, &read.keys, fault));
    *key = read;
    return OK;
}

enum status operator_key_read_or_create(const char *path, struct operator_key *key, bool *created,
                                        struct fault *fault) {
    struct operator_key made = {.has_secrets = true};
    *created = false;
    if (file_exists(path)) {
        return operator_key_read(path, key, fault);
    }
    TRY(identity_load_or_create(path, &made.keys, created, fault));
    *key = made;
    return OK;
}
