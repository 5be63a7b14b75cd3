/* tracker_loop_state: the state that the files of the tracker's loop share.
 *
 *   tracker_loop         opens, waits, receives, ticks
 *   machine_driver       runs the state machine, and makes durable what it promises
 *   member_table         the admitted members        guest_table     the connections
 *   tracker_receive      incoming frames             tracker_documents   outgoing frames
 *   admission            introductions               allow_list_watch    the operator's file
 *   reachability         probes of addresses         address_book    what is announced and stored
 *   ledger_server        answers from the ledger     tracker_status  the answer to `skep status`
 *   serving              limits of all answers    delegation_server  the tracker's keys */
#ifndef SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H
#define SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H

#include "runtime/swarm/delegation/delegation_server.h"
#include "runtime/swarm/tracker/address_book.h"
#include "runtime/swarm/tracker/admission.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/delegation_watch.h"
#include "runtime/swarm/tracker/guest_table.h"
#include "runtime/swarm/tracker/machine_driver.h"
#include "runtime/swarm/tracker/member_table.h"
#include "runtime/swarm/tracker/rollback_file.h"
#include "runtime/swarm/tracker/serving.h"
#include "runtime/swarm/tracker/tracker.h"
#include "transport/messages/messages.h"

/* The tracker's process. */
struct tracker_loop {
    struct tracker_loop_options options; /* settings of the tracker */
    struct messenger *messenger;         /* sends and receives frames of all connections */
    /* sends the operator's delegation; NULL: there is no delegation */
    struct delegation_server *delegation_server;
    struct machine_driver *driver;          /* runs the state machine and its store */
    struct member_table *members;           /* admitted members */
    struct guest_table *guests;             /* all connected processes, members included */
    struct document_table *documents;       /* encoded large messages */
    struct ledger_server *ledger_server;    /* sends ledger entries on request */
    struct serving_buckets serving_buckets; /* limits that all requesters of a kind share */
    struct stranger_log stranger_log;       /* limits log lines about strangers */
    struct attendance_watch attendance;     /* members that the next round lacks */
    struct allow_list_watch *watch;         /* reads the allow-list again when it changes */
    struct file_watch order_watch;          /* detects the operator's order to roll back */
    struct file_watch continue_watch; /* detects the operator's order to continue without leases */
    /* serial of the roster epoch that was passed to the state machine last */
    uint64_t roster_serial;
    struct delegation_watch delegation; /* detects a newer delegation */
    struct wire_shape shape;            /* sizes that bound every message */
    struct wire_arrays arrays;          /* buffers of the message being decoded */
    uint8_t *scratch; /* [FRAME_PAYLOAD_MAX]: a payload or promise while it is encoded or decoded */
    struct swarm_timing timing;        /* deadlines announced last */
    struct swarm_timing logged_timing; /* deadlines logged last */
    int64_t tick_ms;                   /* when the next tick is due */
    int64_t received_ms;               /* when incoming frames were last drained */
    int64_t started_ms;                /* start of the tracker, monotonic clock */
    double started_unix_s;             /* start of the tracker, Unix time in seconds */
};

int64_t tracker_now_ms(void);

/* tracker_wire_shape: returns the limits for decoding messages of this swarm. */
struct wire_shape tracker_wire_shape(const struct tracker_loop_options *options);

/* reach_crash_point: calls options.on_crash_point, where a test can end the process: before or
 * after a write to the store or the sending of a message. */
enum crash_moment {
    CRASH_BEFORE, /* before the write or the sending */
    CRASH_AFTER,  /* after the write or the sending */
};
enum crash_point_id {
    CRASH_WRITE_SESSION,      /* at the write of a new session */
    CRASH_WRITE_ADDRESS_BOOK, /* at the write of the address book */
    CRASH_WRITE_OPEN,         /* at the write of an OPEN entry */
    CRASH_WRITE_TABLE,        /* at the write of a round table */
    CRASH_WRITE_COMMIT,       /* at the write of a COMMIT entry */
    CRASH_WRITE_ABORT,        /* at the write of an ABORT, SUSPEND or ROLLBACK entry */
    CRASH_SEND_WELCOME,       /* at the sending of a WELCOME message */
    CRASH_SEND_ENTRY,         /* at the sending of an ENTRY message */
    CRASH_SEND_TABLE,         /* at the sending of a TABLE message */
    CRASH_SEND_POLL,          /* at the sending of a POLL message */
    CRASH_SEND_PROPOSE,       /* at the sending of a PROPOSE message */
    CRASH_SEND_GOODBYE,       /* at the sending of a GOODBYE message */
    CRASH_SEND_ADDRESS_BOOK,  /* at the sending of the address book */
    CRASH_POINT_COUNT         /* number of crash points */
};
void reach_crash_point(struct tracker_loop *loop, enum crash_moment moment, enum crash_point_id id);

/* tracker_loop_receive: handles one frame from a guest. */
void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *guest,
                          const struct messenger_event *event);

#endif
