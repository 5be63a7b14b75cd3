#include "transport/identity/join_string.h"

#include <stdio.h>
#include <string.h>

enum { PORT_MAX = 65535, PORT_DIGITS_MAX = 5 };

static const char SCHEME[] = "tcp://";
static const char NAME_LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   ".-_";
static const char IPV6_LETTERS[] = "0123456789abcdefABCDEF:.";

static const char *port_error(const char *port) {
    size_t digits = strspn(port, "0123456789");
    long value = 0;
    if (digits == 0 || port[digits] != '\0') {
        return "has no port number at its end";
    }
    for (size_t i = 0; i < digits && i < PORT_DIGITS_MAX; i++) {
        value = 10 * value + (port[i] - '0');
    }
    return digits <= PORT_DIGITS_MAX && value >= 1 && value <= PORT_MAX
               ? NULL
               : "has a port that is none of 1 to 65535";
}

const char *address_error(const char *text) {
    const size_t scheme = sizeof SCHEME - 1;
    if (strnlen(text, MESSAGE_ADDRESS_BYTES) == MESSAGE_ADDRESS_BYTES) {
        return "is longer than 127 characters";
    }
    if (strncmp(text, SCHEME, scheme) != 0) {
        return "does not begin with tcp://";
    }
    bool bracketed = text[scheme] == '[';
    const char *host = text + scheme + bracketed;
    size_t length = strspn(host, bracketed ? IPV6_LETTERS : NAME_LETTERS);
    const char *end = host + length;
    if (length == 0 || (bracketed && *end != ']') || (!bracketed && *end != ':' && *end != '\0')) {
        return "has a host that is no name, IPv4 address or IPv6 address in brackets";
    }
    end += bracketed;
    return *end == ':' ? port_error(end + 1) : "has no :PORT behind its host";
}

bool is_join_string(const char *text) {
    return strstr(text, "://") != NULL;
}

const char *join_string_write(const struct join_string *join, char text[static JOIN_STRING_BYTES]) {
    char key[KEYS_TEXT_BYTES];
    ASSERT(address_error(join->address) == NULL);
    snprintf(text, JOIN_STRING_BYTES, "%s#%s", join->address, public_keys_write(&join->keys, key));
    return text;
}

static enum status refuse(struct fault *fault, const char *part, const char *wrong) {
    return fault_set(fault, STATUS_INPUT, "join string",
                     "copy the line that `skep track` prints: tcp://HOST:PORT#KEY", "%s %s", part,
                     wrong);
}

enum status join_string_read(const char *text, struct join_string *join, struct fault *fault) {
    struct join_string read = {.address = ""};
    const char *hash = strchr(text, '#');
    if (hash == NULL) {
        return refuse(fault, "it", "has no #KEY at its end");
    }
    size_t length = (size_t)(hash - text);
    size_t taken = length < sizeof read.address ? length : sizeof read.address - 1;
    memcpy(read.address, text, taken);
    const char *wrong =
        taken < length ? "is longer than 127 characters" : address_error(read.address);
    if (wrong != NULL) {
        return refuse(fault, "its address", wrong);
    }
    wrong = public_keys_read(hash + 1, &read.keys);
    if (wrong != NULL) {
        return refuse(fault, "its key", wrong);
    }
    *join = read;
    return OK;
}
