/* admission: decides which connected processes become members, and removes members. */
#ifndef SKEP_SWARM_TRACKER_ADMISSION_H
#define SKEP_SWARM_TRACKER_ADMISSION_H

#include "base/hash.h"
#include "transport/identity/keys.h"
#include "transport/messages/messages.h"

#include <stddef.h>
#include <stdint.h>

struct tracker_loop;
struct tracker_guest;

/* The classes of connections, each with its own limit (messenger_guests.slots), so that strangers
 * cannot use the slots of processes on the allow-list, and listed processes cannot use the slots of
 * members. */
enum process_class {
    PROCESS_STRANGER, /* not on the allow-list */
    PROCESS_LISTED,   /* on the allow-list, but not a member */
    PROCESS_MEMBER,   /* an admitted member */
};
_Static_assert(PROCESS_MEMBER + 1 == MESSAGE_GUEST_CLASSES,
               "the messenger has a limit of slots for each class of connection");

/* classify_process: returns the class of the process with this channel key. `context` is the struct
 * tracker_loop. */
uint32_t classify_process(const void *context, const uint8_t curve[static KEY_BYTES]);

/* guest_on_connect, guest_on_disconnect: handle the opening and closing of a process's control
 * connection. */
void guest_on_connect(struct tracker_loop *loop, const struct messenger_event *event);
void guest_on_disconnect(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);

/* guest_on_introduction: handles a request to join: admits the process, or sends the reason why
 * not. */
void guest_on_introduction(struct tracker_loop *loop, struct tracker_guest *guest,
                           const uint8_t *payload, size_t count);

/* guest_complete_address: sets `address` to the address that other processes connect to. If the
 * guest advertises "tcp://:PORT", the IP address that it connects from is inserted. An address with
 * another host becomes "", because it may belong to a third party. */
void guest_complete_address(const struct tracker_guest *guest, const char *advertised,
                            char address[static MESSAGE_ADDRESS_BYTES]);

/* guest_reject: sends a process the reason why it is not admitted.
 * guest_reject_stranger: rejects a process whose key is not on the allow-list. The reason contains
 * the command that adds the key. */
void guest_reject(struct tracker_loop *loop, struct tracker_guest *guest, const char *reason);
void guest_reject_stranger(struct tracker_loop *loop, struct tracker_guest *guest,
                           const struct public_keys *keys, const char *name);

enum { STRANGERS_KNOWN_MAX = 64 }; /* maximum number of rejected keys that get a log line each */

/* stranger_log: limits the log lines about keys that are not on the allow-list. Each of the first
 * STRANGERS_KNOWN_MAX keys gets one. Later, there is one line a minute about a key, and one about
 * the number of other rejected connections. */
struct stranger_log {
    /* [known_count]: hashes of the keys that have had a log line */
    struct hash known[STRANGERS_KNOWN_MAX];
    uint32_t known_count; /* number of elements of `known` in use */
    int64_t next_ms;      /* time from which one more log line may be written */
    /* rejected connections since the last log line, without a log line of their own */
    uint32_t skipped;
};

/* stranger_log_record: records that keys were rejected. Returns whether to write a log line about
 * them now. If not, counts the rejection in `skipped`, unless these keys have had a line. */
bool stranger_log_record(struct stranger_log *log, const struct public_keys *keys, int64_t now_ms);

/* admission_review_all: applies a new allow-list to the members and to the guests that have
 * introduced themselves.
 * admission_disconnect_idle: disconnects guests that have neither joined nor sent a query for
 * options.idle_ms.
 * admission_log_strangers: once a minute, logs how many keys were rejected without a line. */
void admission_review_all(struct tracker_loop *loop);
void admission_disconnect_idle(struct tracker_loop *loop, int64_t now_ms);
void admission_log_strangers(struct tracker_loop *loop, int64_t now_ms);

#endif
