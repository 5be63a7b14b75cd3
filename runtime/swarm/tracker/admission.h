/* admission: which connected processes become members, and which of them are members no longer. */
#ifndef SKEP_SWARM_TRACKER_ADMISSION_H
#define SKEP_SWARM_TRACKER_ADMISSION_H

#include "transport/identity/keys.h"
#include "transport/messages/messages.h"

#include <stddef.h>
#include <stdint.h>

struct tracker_loop;
struct tracker_guest;

/* The classes of connections, in the order of messenger_guests: a stranger that is idle or hostile
 * keeps out no process that is on the allow-list, and none of those keeps out a member. */
enum guest_class { GUEST_STRANGER, GUEST_LISTED, GUEST_MEMBER };
_Static_assert(GUEST_MEMBER + 1 == MESSAGE_GUEST_CLASSES,
               "the messenger has a limit for each class");

/* guest_class_of: the class of a channel key; `context` is the struct tracker_loop. */
uint32_t guest_class_of(const void *context, const uint8_t curve[static KEY_BYTES]);

/* guest_on_connect, guest_on_disconnect: the control connection of a process was opened or closed.
 */
void guest_on_connect(struct tracker_loop *loop, const struct messenger_event *event);
void guest_on_disconnect(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);

/* guest_on_introduction: a process wants to join: admit it, or send the reason why not. */
void guest_on_introduction(struct tracker_loop *loop, struct tracker_guest *guest,
                           const uint8_t *payload, size_t count);

/* guest_reject: send the reason why a process is not admitted.
 * guest_reject_stranger: because its key is not on the allow-list, with the command that adds it.
 */
void guest_reject(struct tracker_loop *loop, struct tracker_guest *guest, const char *reason);
void guest_reject_stranger(struct tracker_loop *loop, struct tracker_guest *guest,
                           const struct public_keys *keys, const char *name);

/* admission_review_all: apply a new allow-list to members and to guests that wait.
 * admission_disconnect_idle: disconnect guests that neither joined nor sent a query for a while. */
void admission_review_all(struct tracker_loop *loop);
void admission_disconnect_idle(struct tracker_loop *loop, int64_t now_ms);

#endif
