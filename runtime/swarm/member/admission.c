#include "runtime/swarm/member/admission.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <string.h>

enum {
    INTRODUCTION_RETRY_MS = 1000, /* time between two introductions */
    INITIAL_HEARTBEAT_MS = 200, /* heartbeat interval until the address book states the tracker's */
    /* time until a member without a connection counts as not reachable: longer than the 5 s in
     * which the tracker tries to connect to a new address */
    CONNECTION_TEST_MAX_MS = 8000,
};

void admission_init(struct admission *admission, const struct member_loop_options *options,
                    struct idle_reason *reason, uint64_t start_id) {
    *admission = (struct admission){.options = options,
                                    .reason = reason,
                                    .start_id = start_id,
                                    .timing = {.heartbeat_ms = INITIAL_HEARTBEAT_MS}};
}

void admission_set_messenger(struct admission *admission, struct messenger *messenger,
                             const struct public_keys *tracker) {
    admission->messenger = messenger;
    admission->tracker = tracker;
}

void admission_on_connect(struct admission *admission) {
    static const struct attendance NONE;
    admission->is_connected = true;
    admission->is_admitted = false;
    admission->attendance = NONE;
    admission->unreachable_ns = 0;
    admission->introduction_sent_ns = 0;
}

void admission_on_disconnect(struct admission *admission) {
    /* A replaced member closed the connection itself, so the view does not report the tracker as
     * disconnected. */
    admission->is_connected = admission->is_replaced;
}

/* Writes the address for the introduction. If it has no host, the tracker inserts the IP address
 * that it sees. */
static void write_advertised_address(const struct admission *admission, char *address) {
    const struct member_loop_options *options = admission->options;
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    if (options->public_address != NULL) {
        text_add(&text, "%s", options->public_address);
    } else if (options->listen != NULL) {
        text_add(&text, "tcp://:%u", messenger_port(admission->messenger));
    }
}

static void send_introduction(struct admission *admission) {
    const struct member_loop_options *options = admission->options;
    struct wire_introduction introduction = {.keys = options->keys->public_keys,
                                             .version = SWARM_PROTOCOL_VERSION,
                                             .start_id = admission->start_id,
                                             .manifest = options->manifest};
    struct text name = text_over(introduction.name, sizeof introduction.name);
    text_add(&name, "%s", options->name != NULL ? options->name : "");
    write_advertised_address(admission, introduction.address);
    wire_sign_introduction(options->keys, &introduction);
    uint8_t payload[WIRE_INTRODUCTION_BYTES_MAX];
    struct frame frame = {.kind = WIRE_INTRODUCE};
    frame.length = (uint32_t)wire_write_introduction(&introduction, payload);
    (void)messenger_send(admission->messenger, admission->tracker->curve, CHANNEL_CONTROL, &frame,
                         payload);
}

void admission_introduce(struct admission *admission, int64_t now_ns) {
    bool is_early = admission->introduction_sent_ns > 0 &&
                    now_ns - admission->introduction_sent_ns < INTRODUCTION_RETRY_MS * NS_PER_MS;
    if (admission->is_connected && !admission->is_admitted && !admission->is_replaced &&
        !is_early) {
        send_introduction(admission);
        admission->introduction_sent_ns = now_ns;
    }
}

void admission_on_rejected(struct admission *admission, const uint8_t *text, size_t count) {
    char printable[WIRE_REJECT_REASON_BYTES] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && length + 1 < sizeof printable; i++) {
        printable[length++] = text[i] >= ' ' && text[i] <= '~' ? (char)text[i] : ' ';
    }
    admission->is_admitted = false;
    /* the compute thread logs the reason, so nothing is done here if it changed */
    (void)idle_reason_set(admission->reason, printable);
}

void admission_on_replaced(struct admission *admission) {
    admission->is_replaced = true;
    admission->is_admitted = false;
    messenger_ban_peer(admission->messenger, admission->tracker->curve);
}

bool admission_is_self(const struct admission *admission, const struct public_keys *keys) {
    const struct public_keys *own = &admission->options->keys->public_keys;
    return memcmp(own->curve, keys->curve, KEY_BYTES) == 0 &&
           memcmp(own->sign, keys->sign, KEY_BYTES) == 0;
}

void admission_on_address_book(struct admission *admission, const struct wire_address_book *book) {
    ASSERT(book->timing.heartbeat_ms > 0); /* wire_read_address_book has checked the interval */
    bool is_listed = false;
    for (uint32_t i = 0; i < book->count; i++) {
        if (admission_is_self(admission, &book->members[i].keys)) {
            is_listed = true;
            admission->is_reachable = book->members[i].address[0] != '\0';
        }
    }
    if (admission->is_reachable || !is_listed) {
        admission->unreachable_ns = 0;
    } else if (admission->unreachable_ns == 0) {
        admission->unreachable_ns = clock_monotonic_ns();
    }
    if (is_listed && !admission->is_admitted) {
        admission->is_admitted = true;
        idle_reason_clear(admission->reason);
    }
    admission->timing = book->timing;
    admission->member_count = book->count;
}

void admission_write_unreachable_address(const struct admission *admission, int64_t now_ns,
                                         char address[static MESSAGE_ADDRESS_BYTES]) {
    address[0] = '\0';
    if (admission->is_connected && admission->unreachable_ns != 0 &&
        now_ns - admission->unreachable_ns >= CONNECTION_TEST_MAX_MS * NS_PER_MS) {
        write_advertised_address(admission, address);
    }
}

void admission_on_attendance(struct admission *admission, const uint8_t *payload, size_t count) {
    struct attendance attendance;
    if (attendance_read(payload, count, &attendance) == NULL) {
        admission->attendance = attendance;
        admission->attendance_ns = clock_monotonic_ns();
    }
}

bool idle_reason_set(struct idle_reason *reason, const char *text) {
    char truncated[WIRE_REJECT_REASON_BYTES];
    struct text to = text_over(truncated, sizeof truncated);
    text_add(&to, "%s", text);
    bool has_changed = strcmp(reason->text, truncated) != 0;
    memcpy(reason->text, truncated, sizeof truncated);
    return has_changed;
}

void idle_reason_clear(struct idle_reason *reason) {
    reason->text[0] = '\0';
}
