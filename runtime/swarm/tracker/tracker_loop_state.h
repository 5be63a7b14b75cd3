/* tracker_loop_state: the state that the files of the tracker's loop share.
 *
 *   tracker_loop         opens, waits, receives, ticks
 *   machine_driver       runs the state machine, and makes durable what it promises
 *   member_table         the admitted members        guest_table     the connections
 *   tracker_receive      incoming frames             tracker_documents   outgoing frames
 *   admission            introductions               allow_list_watch    the operator's file
 *   reachability         probes of addresses         address_book    what is announced and stored
 *   ledger_server        answers from the ledger     tracker_status  the answer to `skep status` */
#ifndef SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H
#define SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H

#include "runtime/swarm/tracker/address_book.h"
#include "runtime/swarm/tracker/admission.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/guest_table.h"
#include "runtime/swarm/tracker/machine_driver.h"
#include "runtime/swarm/tracker/member_table.h"
#include "runtime/swarm/tracker/tracker.h"
#include "transport/messages/messages.h"

struct tracker_loop {
    struct tracker_loop_options options;
    struct messenger *messenger;
    struct machine_driver *driver;
    struct member_table *members;
    struct guest_table *guests;
    struct document_table *documents;
    struct ledger_server *ledger_server;
    struct allow_list_watch *watch;
    struct wire_shape shape;
    struct wire_arrays arrays;  /* buffers of the message being decoded */
    uint8_t *scratch;           /* [FRAME_PAYLOAD_MAX] */
    struct swarm_timing timing; /* deadlines announced last */
    int64_t tick_ms;            /* when the next tick is due */
    int64_t received_ms;        /* when incoming frames were last drained */
    int64_t started_ms;
    double started_unix_s;
};

int64_t tracker_now_ms(void);

/* tracker_wire_shape: returns the limits for decoding messages of this swarm. */
struct wire_shape tracker_wire_shape(const struct tracker_loop_options *options);

/* crash_point: calls options.on_crash_point, where a test can end the process: before or after a
 * write to the store or the sending of a message. */
enum crash_moment { CRASH_BEFORE, CRASH_AFTER };
enum crash_point_id {
    CRASH_WRITE_SESSION,
    CRASH_WRITE_ADDRESS_BOOK,
    CRASH_WRITE_OPEN,
    CRASH_WRITE_TABLE,
    CRASH_WRITE_COMMIT,
    CRASH_WRITE_ABORT,
    CRASH_SEND_WELCOME,
    CRASH_SEND_ENTRY,
    CRASH_SEND_TABLE,
    CRASH_SEND_POLL,
    CRASH_SEND_PROPOSE,
    CRASH_SEND_GOODBYE,
    CRASH_SEND_ADDRESS_BOOK,
    CRASH_POINT_COUNT
};
void crash_point(struct tracker_loop *loop, enum crash_moment moment, enum crash_point_id id);

/* tracker_loop_receive: handles one frame from a guest. */
void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *guest,
                          const struct messenger_event *event);

#endif
