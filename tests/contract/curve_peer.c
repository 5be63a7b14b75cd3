#include "curve_peer.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    NONCE_BYTES = 24,
    COUNTER_BYTES = 8,
    RANDOM_BYTES = 16, /* of the long nonces */
    COOKIE_BYTES = 96,
    COMMAND_BYTES = 512, /* the longest of a handshake has 300 */
    SAID_MAX = FRAME_BYTES_MAX + 64,
    ZMTP_LONG = 2, /* a length of 8 bytes follows, not of one */
    ZMTP_COMMAND = 4,
};

static uint8_t said[SAID_MAX]; /* the last message as it went out */
static size_t said_bytes;

int tcp_to(const struct end *end) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(messenger_port(end->messenger)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

void curve_close(struct curve_peer *peer) {
    if (peer->fd >= 0) {
        close(peer->fd);
        peer->fd = -1;
    }
}

/* Try again after the other end had a moment, unless what stopped it is the connection's end. */
static bool goes_on(struct curve_peer *peer, ssize_t done, int64_t until_ns) {
    if (done > 0) {
        return true;
    }
    if (done == 0 || errno != EAGAIN || clock_monotonic_ns() > until_ns) {
        curve_close(peer);
        return false;
    }
    ends_pump(&peer->other, 1);
    return true;
}

static int64_t deadline_ns(void) {
    return clock_monotonic_ns() + WITHIN_MS * INT64_C(1000000);
}

bool curve_write(struct curve_peer *peer, const void *bytes, size_t count) {
    const int64_t until_ns = deadline_ns();
    for (size_t done = 0; done < count && peer->fd >= 0;) {
        const ssize_t sent = send(peer->fd, (const uint8_t *)bytes + done, count - done,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
        done += goes_on(peer, sent, until_ns) && sent > 0 ? (size_t)sent : 0;
    }
    return peer->fd >= 0;
}

static bool take(struct curve_peer *peer, void *bytes, size_t count) {
    const int64_t until_ns = deadline_ns();
    for (size_t done = 0; done < count && peer->fd >= 0;) {
        const ssize_t got = recv(peer->fd, (uint8_t *)bytes + done, count - done, MSG_DONTWAIT);
        done += goes_on(peer, got, until_ns) && got > 0 ? (size_t)got : 0;
    }
    return peer->fd >= 0;
}

bool curve_ended(struct curve_peer *peer) {
    uint8_t byte;
    while (take(peer, &byte, 1)) {
    }
    return peer->fd < 0;
}

/* A short command; 0 when there is none. */
static size_t take_command(struct curve_peer *peer, uint8_t command[static COMMAND_BYTES]) {
    uint8_t head[2];
    if (!take(peer, head, sizeof head) || head[0] != ZMTP_COMMAND) {
        return 0;
    }
    return take(peer, command, head[1]) ? head[1] : 0;
}

static size_t frame_of(uint8_t flags, const uint8_t *body, size_t count, uint8_t *frame) {
    size_t head = 2;
    frame[0] = flags;
    frame[1] = (uint8_t)count;
    if (count > UINT8_MAX) {
        frame[0] |= ZMTP_LONG;
        for (size_t i = 0; i < 8; i++) {
            frame[1 + i] = (uint8_t)(count >> (56 - 8 * i));
        }
        head = 9;
    }
    memmove(frame + head, body, count);
    return head + count;
}

static bool say_command(struct curve_peer *peer, const uint8_t *command, size_t count) {
    uint8_t frame[COMMAND_BYTES + 16];
    return curve_write(peer, frame, frame_of(ZMTP_COMMAND, command, count, frame));
}

/* The 16 letters of a purpose and the next number, which also stands in the command. */
static void next_nonce(struct curve_peer *peer, const char *purpose, uint8_t *in_command,
                       uint8_t nonce[static NONCE_BYTES]) {
    memcpy(nonce, purpose, NONCE_BYTES - COUNTER_BYTES);
    for (size_t i = 0; i < COUNTER_BYTES; i++) {
        in_command[i] = (uint8_t)(peer->nonce >> (56 - 8 * i));
    }
    memcpy(nonce + NONCE_BYTES - COUNTER_BYTES, in_command, COUNTER_BYTES);
    peer->nonce++;
}

static bool greet(struct curve_peer *peer) {
    static const uint8_t GREETING[64] = {0xff, 0, 0, 0,   0,   0,   0,   0,  0,
                                         0x7f, 3, 1, 'C', 'U', 'R', 'V', 'E'};
    uint8_t theirs[sizeof GREETING];
    return curve_write(peer, GREETING, sizeof GREETING) && take(peer, theirs, sizeof theirs);
}

struct short_term {
    uint8_t public_key[32], secret[32];
    uint8_t theirs[32];
    uint8_t cookie[COOKIE_BYTES];
};

static bool say_hello(struct curve_peer *peer, const uint8_t *server, struct short_term *keys) {
    static const uint8_t ZEROS[64];
    uint8_t command[200] = "\x05HELLO\x01"; /* version 1.0, padding */
    uint8_t nonce[NONCE_BYTES];
    memcpy(command + 80, keys->public_key, 32);
    next_nonce(peer, "CurveZMQHELLO---", command + 112, nonce);
    ASSERT(crypto_box_easy(command + 120, ZEROS, sizeof ZEROS, nonce, server, keys->secret) == 0);
    return say_command(peer, command, sizeof command);
}

static bool take_welcome(struct curve_peer *peer, const uint8_t *server, struct short_term *keys) {
    uint8_t command[COMMAND_BYTES];
    uint8_t plain[32 + COOKIE_BYTES];
    uint8_t nonce[NONCE_BYTES] = "WELCOME-";
    if (take_command(peer, command) != 168) {
        return false;
    }
    memcpy(nonce + NONCE_BYTES - RANDOM_BYTES, command + 8, RANDOM_BYTES);
    ASSERT(crypto_box_open_easy(plain, command + 24, 144, nonce, server, keys->secret) == 0);
    memcpy(keys->theirs, plain, 32);
    memcpy(keys->cookie, plain + 32, COOKIE_BYTES);
    return true;
}

/* The vouch: that the long-term key stands for the short-term one. */
static void vouch(const struct key_pairs *own, const uint8_t *server, const struct short_term *keys,
                  uint8_t plain[static 128]) {
    uint8_t both[64];
    uint8_t nonce[NONCE_BYTES] = "VOUCH---";
    randombytes_buf(nonce + NONCE_BYTES - RANDOM_BYTES, RANDOM_BYTES);
    memcpy(both, keys->public_key, 32);
    memcpy(both + 32, server, 32);
    memcpy(plain, own->public_keys.curve, 32);
    memcpy(plain + 32, nonce + NONCE_BYTES - RANDOM_BYTES, RANDOM_BYTES);
    ASSERT(crypto_box_easy(plain + 48, both, sizeof both, nonce, keys->theirs, own->curve_secret) ==
           0);
}

static bool say_initiate(struct curve_peer *peer, const struct key_pairs *own,
                         const uint8_t *server, const struct short_term *keys) {
    static const char METADATA[] = "\x0bSocket-Type\0\0\0\x06"
                                   "DEALER\x08Identity\0\0\0"; /* and the literal's own NUL */
    uint8_t command[COMMAND_BYTES] = "\x08INITIATE";
    uint8_t plain[128 + sizeof METADATA];
    uint8_t nonce[NONCE_BYTES];
    memcpy(command + 9, keys->cookie, COOKIE_BYTES);
    vouch(own, server, keys, plain);
    memcpy(plain + 128, METADATA, sizeof METADATA);
    next_nonce(peer, "CurveZMQINITIATE", command + 105, nonce);
    ASSERT(crypto_box_easy(command + 113, plain, sizeof plain, nonce, keys->theirs, keys->secret) ==
           0);
    return say_command(peer, command, 113 + crypto_box_MACBYTES + sizeof plain);
}

bool curve_dial(struct curve_peer *peer, struct end *other, const struct key_pairs *keys) {
    const uint8_t *server = end_curve(other);
    struct short_term own;
    uint8_t ready[COMMAND_BYTES];
    *peer = (struct curve_peer){.fd = tcp_to(other), .other = other, .nonce = 1};
    crypto_box_keypair(own.public_key, own.secret);
    if (!greet(peer) || !say_hello(peer, server, &own) || !take_welcome(peer, server, &own) ||
        !say_initiate(peer, keys, server, &own) || take_command(peer, ready) < 6 ||
        memcmp(ready, "\x05READY", 6) != 0) {
        curve_close(peer);
        return false;
    }
    ASSERT(crypto_box_beforenm(peer->box_key, own.theirs, own.secret) == 0);
    return true;
}

bool curve_say(struct curve_peer *peer, uint8_t flags, const void *bytes, size_t count) {
    static uint8_t plain[1 + FRAME_BYTES_MAX];
    static uint8_t message[SAID_MAX] = "\x07MESSAGE";
    uint8_t nonce[NONCE_BYTES];
    ASSERT(count <= FRAME_BYTES_MAX);
    plain[0] = flags;
    memcpy(plain + 1, bytes, count);
    next_nonce(peer, "CurveZMQMESSAGEC", message + 8, nonce);
    ASSERT(crypto_box_easy_afternm(message + 16, plain, 1 + count, nonce, peer->box_key) == 0);
    said_bytes = frame_of(0, message, 16 + crypto_box_MACBYTES + 1 + count, said);
    return curve_write(peer, said, said_bytes);
}

bool curve_repeat(struct curve_peer *peer) {
    return curve_write(peer, said, said_bytes);
}
