/* curve_peer: a client of ZMTP 3.1 and CURVE made by hand, which can say what ZeroMQ never would.
 * source  ZeroMQ RFC 23 (ZMTP 3.0), RFC 26 (CurveZMQ) */
#ifndef SKEP_TESTS_CONTRACT_CURVE_PEER_H
#define SKEP_TESTS_CONTRACT_CURVE_PEER_H

#include "ends.h"

enum { CURVE_MORE = 1, CURVE_COMMAND = 2 }; /* flags of a message */

struct curve_peer {
    int fd;            /* -1 when the connection ended */
    struct end *other; /* pumped while anything is waited for */
    uint64_t nonce;
    uint8_t box_key[32]; /* of both short-term keys */
};

/* A TCP connection to an end, nothing said on it. */
int tcp_to(const struct end *end);

/* Dial an open end with these keys, as far as CURVE goes; false when it hung up. */
bool curve_dial(struct curve_peer *peer, struct end *other, const struct key_pairs *keys);

/* One message or a part of one; false when the connection ended. */
bool curve_say(struct curve_peer *peer, uint8_t flags, const void *bytes, size_t count);

/* Bytes as they are, and those of the last message again. */
bool curve_write(struct curve_peer *peer, const void *bytes, size_t count);
bool curve_repeat(struct curve_peer *peer);

/* Whether the other end hangs up. */
bool curve_ended(struct curve_peer *peer);
void curve_close(struct curve_peer *peer);

#endif
