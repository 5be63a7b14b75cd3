/* join_string: all that a joiner must be told of a swarm: where its tracker is, and the key that
 * proves it.
 *
 *     tcp://HOST:PORT#KEY       KEY: the 112 letters of public_keys_write */
#ifndef SKEP_TRANSPORT_IDENTITY_JOIN_STRING_H
#define SKEP_TRANSPORT_IDENTITY_JOIN_STRING_H

#include "base/fault.h"
#include "transport/identity/address.h"
#include "transport/identity/keys.h"

enum { JOIN_STRING_BYTES = MESSAGE_ADDRESS_BYTES + KEYS_TEXT_BYTES }; /* a NUL for # */

struct join_string {
    char address[MESSAGE_ADDRESS_BYTES]; /* "tcp://HOST:PORT" */
    struct public_keys keys;
};

/* address_error: NULL when `text` is tcp://HOST:PORT with a name, an IPv4 address or an IPv6
 * address in brackets, and a port of 1 .. 65535; else what is wrong. Looks at no network. */
MUST_CHECK const char *address_error(const char *text);

/* is_join_string: whether a person meant `text` to be a join string, right or wrong. */
bool is_join_string(const char *text);

/* join_string_write: the text of a join string, of an address that is right. Gives `text` back. */
const char *join_string_write(const struct join_string *join, char text[static JOIN_STRING_BYTES]);

/* join_string_read: the same backwards.
 * errors  STATUS_INPUT at "join string": no tcp://, no #, what address_error and public_keys_read
 *         say; *join is then untouched */
MUST_CHECK enum status join_string_read(const char *text, struct join_string *join,
                                        struct fault *fault);

#endif
