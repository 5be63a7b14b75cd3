/* join_string: one text with all that a process needs to join a swarm: the address of the tracker
 * and the public keys of the operator, who signs the tracker's keys.
 *
 *     tcp://HOST:PORT#KEY       KEY: the 112 letters of public_keys_write */
#ifndef SKEP_TRANSPORT_IDENTITY_JOIN_STRING_H
#define SKEP_TRANSPORT_IDENTITY_JOIN_STRING_H

#include "base/fault.h"
#include "transport/identity/address.h"
#include "transport/identity/keys.h"

/* size of a join string, with the # and one NUL */
enum { JOIN_STRING_BYTES = MESSAGE_ADDRESS_BYTES + KEYS_TEXT_BYTES };

struct join_string {
    char address[MESSAGE_ADDRESS_BYTES]; /* "tcp://HOST:PORT" */
    struct public_keys operator_keys;    /* public keys of the swarm's operator */
};

/* is_join_string: whether `text` is meant as a join string and not as a file name. It may still be
 * invalid. */
bool is_join_string(const char *text);

/* join_string_write: write the text of a join string. Returns `text`.
 * limits  address_error(join->address) == NULL */
const char *join_string_write(const struct join_string *join, char text[static JOIN_STRING_BYTES]);

/* join_string_read: parse a join string.
 * errors  STATUS_INPUT with the subject "join string": no tcp://, no #, or an address or key that
 *         address_error or public_keys_read reports as invalid; *join is then unchanged */
MUST_CHECK enum status join_string_read(const char *text, struct join_string *join,
                                        struct fault *fault);

#endif
