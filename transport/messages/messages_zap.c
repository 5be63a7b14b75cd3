/* messages_zap: decides which keys the listener admits, by ZeroMQ's authentication protocol (ZAP,
 * RFC 27). Requests are answered in the caller's thread. An admitted connection gets its key, in
 * hexadecimal, as its user id, which ZeroMQ then attaches to each of its frames. */
#include "transport/messages/messages_state.h"

#include "base/hash.h"
#include "base/hex.h"

#include <string.h>

_Static_assert(sizeof(struct hash) == KEY_BYTES, "a key in hexadecimal is as long as a hash");

static const char ZAP_ENDPOINT[] = "inproc://zeromq.zap.01";

/* The message parts of a request, in order. */
enum {
    ZAP_VERSION,    /* message part: version of ZAP */
    ZAP_REQUEST,    /* message part: id of the request, repeated in the answer */
    ZAP_DOMAIN,     /* message part: ZAP domain of the listener */
    ZAP_ADDRESS,    /* message part: IP address of the peer */
    ZAP_ROUTING_ID, /* message part: routing id that the peer chose */
    ZAP_MECHANISM,  /* message part: "CURVE" */
    ZAP_KEY,        /* message part: the peer's CURVE public key */
    ZAP_PART_COUNT  /* number of message parts */
};
enum { ZAP_PART_MAX = 64 }; /* maximum size of a message part */

struct zap_request {
    uint8_t parts[ZAP_PART_COUNT][ZAP_PART_MAX]; /* content of each message part */
    size_t bytes[ZAP_PART_COUNT];                /* size of each message part */
    uint32_t count;                              /* number of message parts */
};

enum status zap_open(struct messenger *messenger, struct fault *fault) {
    messenger->zap_socket = zmq_socket(messenger->zmq_context, ZMQ_REP);
    if (messenger->zap_socket == NULL || zmq_bind(messenger->zap_socket, ZAP_ENDPOINT) != 0) {
        return fault_set(fault, STATUS_FAILED, ZAP_ENDPOINT, NULL, "cannot create a socket: %s",
                         zmq_strerror(zmq_errno()));
    }
    return OK;
}

/* Parts that are too long or too many are dropped. No valid CURVE request has such parts. */
static bool receive_request(void *zap, struct zap_request *request) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    memset(request, 0, sizeof *request);
    bool got = zmq_msg_recv(&part, zap, ZMQ_DONTWAIT) >= 0;
    const bool any = got;
    while (got) {
        const size_t bytes = zmq_msg_size(&part);
        const uint32_t at = request->count++;
        /* leaves room for a NUL after each part */
        if (at < ZAP_PART_COUNT && bytes < ZAP_PART_MAX) {
            memcpy(request->parts[at], zmq_msg_data(&part), bytes);
            request->bytes[at] = bytes;
        }
        got = zmq_msg_more(&part) && zmq_msg_recv(&part, zap, ZMQ_DONTWAIT) >= 0;
    }
    zmq_msg_close(&part);
    return any;
}

static bool is_part_equal(const struct zap_request *request, uint32_t part, const char *text) {
    return request->bytes[part] == strlen(text) &&
           memcmp(request->parts[part], text, request->bytes[part]) == 0;
}

/* Status codes of answers. */
static const char ZAP_ADMIT[] = "200";
static const char ZAP_REJECT[] = "400";
static const char ZAP_FULL[] = "500"; /* MESSENGER_ZAP_FULL */

static const char *choose_status(struct messenger *messenger, const struct zap_request *request) {
    if (request->count != ZAP_PART_COUNT || !is_part_equal(request, ZAP_VERSION, "1.0") ||
        !is_part_equal(request, ZAP_MECHANISM, "CURVE") || request->bytes[ZAP_KEY] != KEY_BYTES) {
        return ZAP_REJECT;
    }
    const uint8_t *curve = request->parts[ZAP_KEY];
    const struct peer *peer = peer_find(messenger, curve);
    const bool is_named = peer != NULL && peer->is_registered;
    if (is_banned(messenger, curve) || (!is_named && !peer_may_be_guest(messenger, curve))) {
        return ZAP_REJECT;
    }
    struct source host;
    const bool has_slot = is_named || peer_has_slot(messenger, curve) ||
                          (source_of_text((const char *)request->parts[ZAP_ADDRESS], &host) &&
                           evict_stranger(messenger, &host));
    return has_slot ? ZAP_ADMIT : ZAP_FULL;
}

static void send_part(void *zap, const void *bytes, size_t count, bool is_last) {
    /* A failure is ignored: it means that the connection has ended since its request and needs
     * no answer. */
    (void)zmq_send(zap, bytes, count, is_last ? ZMQ_DONTWAIT : ZMQ_DONTWAIT | ZMQ_SNDMORE);
}

void zap_answer_requests(struct messenger *messenger) {
    struct zap_request request;
    while (receive_request(messenger->zap_socket, &request)) {
        const char *answer = choose_status(messenger, &request);
        const bool is_admitted = answer == ZAP_ADMIT;
        char user[HASH_HEX_BYTES] = "";
        if (is_admitted) {
            struct hash key;
            memcpy(key.bytes, request.parts[ZAP_KEY], sizeof key.bytes);
            (void)hash_hex(&key, user);
        } else {
            messenger->counts.rejected_keys++;
        }
        send_part(messenger->zap_socket, "1.0", 3, false);
        send_part(messenger->zap_socket, request.parts[ZAP_REQUEST], request.bytes[ZAP_REQUEST],
                  false);
        send_part(messenger->zap_socket, answer, strlen(answer), false);
        send_part(messenger->zap_socket, is_admitted ? "OK" : "no", 2, false);
        send_part(messenger->zap_socket, user, strlen(user), false);
        send_part(messenger->zap_socket, "", 0, true);
    }
}

bool zap_read_sender_key(zmq_msg_t *message, uint8_t curve[static KEY_BYTES]) {
    const char *user = zmq_msg_gets(message, "User-Id");
    return user != NULL && strlen(user) == HASH_HEX_BYTES - 1 && hex_read(user, KEY_BYTES, curve);
}
