/* messages_zap: decides which keys the listener admits, by ZeroMQ's authentication protocol (ZAP,
 * RFC 27). Requests are answered in the caller's thread. An admitted connection gets its key, in
 * hexadecimal, as its user id, which ZeroMQ then attaches to each of its frames. */
#include "transport/messages/messages_state.h"

#include "base/hash.h"
#include "base/hex.h"

#include <string.h>

_Static_assert(sizeof(struct hash) == KEY_BYTES, "a key is written like a hash");

static const char ZAP_ADDRESS[] = "inproc://zeromq.zap.01";

/* The parts of a request, in order. */
enum {
    ZAP_VERSION,
    ZAP_REQUEST,
    ZAP_DOMAIN,
    ZAP_FROM,
    ZAP_ROUTING,
    ZAP_MECHANISM,
    ZAP_KEY,
    ZAP_PARTS
};
enum { ZAP_PART_MAX = 64 };

struct zap_request {
    uint8_t parts[ZAP_PARTS][ZAP_PART_MAX];
    size_t bytes[ZAP_PARTS];
    uint32_t count;
};

enum status zap_open(struct messenger *messenger, struct fault *fault) {
    messenger->zap = zmq_socket(messenger->context, ZMQ_REP);
    if (messenger->zap == NULL || zmq_bind(messenger->zap, ZAP_ADDRESS) != 0) {
        return fault_set(fault, STATUS_FAILED, ZAP_ADDRESS, NULL, "cannot create a socket: %s",
                         zmq_strerror(zmq_errno()));
    }
    return OK;
}

/* Parts that are too long or too many are dropped. No valid CURVE request has any. */
static bool receive_request(void *zap, struct zap_request *request) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    memset(request, 0, sizeof *request);
    bool got = zmq_msg_recv(&part, zap, ZMQ_DONTWAIT) >= 0;
    const bool any = got;
    while (got) {
        const size_t bytes = zmq_msg_size(&part);
        const uint32_t at = request->count++;
        if (at < ZAP_PARTS && bytes <= ZAP_PART_MAX) {
            memcpy(request->parts[at], zmq_msg_data(&part), bytes);
            request->bytes[at] = bytes;
        }
        got = zmq_msg_more(&part) && zmq_msg_recv(&part, zap, ZMQ_DONTWAIT) >= 0;
    }
    zmq_msg_close(&part);
    return any;
}

static bool part_is(const struct zap_request *request, uint32_t part, const char *text) {
    return request->bytes[part] == strlen(text) &&
           memcmp(request->parts[part], text, request->bytes[part]) == 0;
}

/* The status of an answer. */
static const char ZAP_ADMIT[] = "200";
static const char ZAP_REJECT[] = "400";
static const char ZAP_FULL[] = "500"; /* MESSENGER_ZAP_FULL */

static const char *answer_to(struct messenger *messenger, const struct zap_request *request) {
    if (request->count != ZAP_PARTS || !part_is(request, ZAP_VERSION, "1.0") ||
        !part_is(request, ZAP_MECHANISM, "CURVE") || request->bytes[ZAP_KEY] != KEY_BYTES) {
        return ZAP_REJECT;
    }
    const uint8_t *curve = request->parts[ZAP_KEY];
    const struct peer *peer = peer_find(messenger, curve);
    const bool is_named = peer != NULL && peer->is_named;
    if (ban_applies(messenger, curve) || (!is_named && !peer_is_wanted(messenger, curve))) {
        return ZAP_REJECT;
    }
    const bool has_slot =
        is_named || peer_has_slot(messenger, curve) || evict_oldest_guest(messenger);
    return has_slot ? ZAP_ADMIT : ZAP_FULL;
}

static void send_part(void *zap, const void *bytes, size_t count, bool is_last) {
    /* Fails only if the connection has ended since its request; then the answer is not needed. */
    (void)zmq_send(zap, bytes, count, is_last ? ZMQ_DONTWAIT : ZMQ_DONTWAIT | ZMQ_SNDMORE);
}

void zap_answer(struct messenger *messenger) {
    struct zap_request request;
    while (receive_request(messenger->zap, &request)) {
        const char *answer = answer_to(messenger, &request);
        const bool is_admitted = answer == ZAP_ADMIT;
        char user[HASH_HEX_BYTES] = "";
        if (is_admitted) {
            struct hash key;
            memcpy(key.bytes, request.parts[ZAP_KEY], sizeof key.bytes);
            (void)hash_hex(&key, user);
        } else {
            messenger->counts.rejected_keys++;
        }
        send_part(messenger->zap, "1.0", 3, false);
        send_part(messenger->zap, request.parts[ZAP_REQUEST], request.bytes[ZAP_REQUEST], false);
        send_part(messenger->zap, answer, strlen(answer), false);
        send_part(messenger->zap, is_admitted ? "OK" : "no", 2, false);
        send_part(messenger->zap, user, strlen(user), false);
        send_part(messenger->zap, "", 0, true);
    }
}

bool zap_user(zmq_msg_t *message, uint8_t curve[static KEY_BYTES]) {
    const char *user = zmq_msg_gets(message, "User-Id");
    return user != NULL && strlen(user) == HASH_HEX_BYTES - 1 && hex_read(user, KEY_BYTES, curve);
}
