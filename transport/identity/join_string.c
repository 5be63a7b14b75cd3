/* join_string: see join_string.h. */
#include "transport/identity/join_string.h"

#include <stdio.h>
#include <string.h>

bool is_join_string(const char *text) {
    return strstr(text, "://") != NULL;
}

const char *join_string_write(const struct join_string *join, char text[static JOIN_STRING_BYTES]) {
    char key[KEYS_TEXT_BYTES];
    ASSERT(address_error(join->address) == NULL);
    snprintf(text, JOIN_STRING_BYTES, "%s#%s", join->address,
             public_keys_write(&join->operator_keys, key));
    return text;
}

static enum status set_join_string_fault(struct fault *fault, const char *part, const char *error) {
    return fault_set(fault, STATUS_INPUT, "join string",
                     "copy the line that `skep track` prints: tcp://HOST:PORT#KEY", "%s %s", part,
                     error);
}

enum status join_string_read(const char *text, struct join_string *join, struct fault *fault) {
    struct join_string read = {.address = ""};
    const char *hash = strchr(text, '#');
    if (hash == NULL) {
        return set_join_string_fault(fault, "it", "has no #KEY at its end");
    }
    size_t length = (size_t)(hash - text);
    size_t copied = length < sizeof read.address ? length : sizeof read.address - 1;
    memcpy(read.address, text, copied);
    const char *error =
        copied < length ? "is longer than 127 characters" : address_error(read.address);
    if (error != NULL) {
        return set_join_string_fault(fault, "its address", error);
    }
    error = public_keys_read(hash + 1, &read.operator_keys);
    if (error != NULL) {
        return set_join_string_fault(fault, "its key", error);
    }
    *join = read;
    return OK;
}
