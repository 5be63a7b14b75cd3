/* tracker_host: what the files of the tracker's process share.
 *
 *   tracker_loop         opens, waits, drains, ticks; does what the machine wants
 *   tracker_host_hear    frames that come in, and what is answered without the machine
 *   tracker_host_say     frames that go out, and long payloads piece by piece
 *   tracker_host_admit   introductions, the roster, who is known, who can be reached */
#ifndef SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H
#define SKEP_SWARM_TRACKER_TRACKER_LOOP_STATE_H

#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/member_table.h"
#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm/tracker/tracker_durable.h"
#include "transport/messages/messages.h"
#include "transport/messages/connect_probe.h"

enum {
    GUESTS_MAX = 128,            /* connected at once besides a full swarm's members, ... */
    STRANGERS_MAX = 96,          /* ... and of those, whose keys are on no roster */
    STRANGER_SLOT_MS = 5 * 1000, /* a stranger's place is its own so long, then also another's */
    GUEST_IDLE_MS = 20 * 1000,   /* until a guest goes that neither introduces itself nor asks */
    HOST_DRAIN_MAX = 65536, /* frames between two ticks: a flood delays deadlines no further, ... */
    HOST_DRAIN_MS = 1000,   /* ... nor does what they cost */
    HOST_READING = 4,       /* of the time at most one part in so many goes to reading the ledger */
    HOST_FULL_MS = 1000,    /* an answer for which there was no room is not read again sooner */
    HOST_STARTS_MAX = 8,    /* of an identity that are told from one another */
    HOST_STRIKES_MAX = 3,   /* messages that no honest process sends, until it is cut off */
    UNRESPONSIVE_SILENCES =
        6,                /* times `silence`: who says nothing for so long keeps no joiner out */
    HOST_RETRY_MS = 1000, /* after a failed write */
    ALLOW_LIST_POLL_MS = 500, /* between two looks at the roster file */
    PROBE_TIMEOUT_MS = 5000,  /* a try to reach an address */
    PROBE_RETRY_MS = 30000,
};

/* Payloads that go in pieces. Each has one buffer, whoever is being sent it. */
enum document {
    DOCUMENT_ENTRY,
    DOCUMENT_TABLE,
    DOCUMENT_PROPOSAL,
    DOCUMENT_MANIFEST,
    DOCUMENT_STATUS,
    DOCUMENTS
};

struct document_buffer {
    uint8_t *bytes;
    size_t capacity, count;
    struct frame whole;  /* its header, but for the session */
    struct hash key;     /* of what is in it; what of the machine's differs has another */
    uint32_t generation; /* rises with each content */
};

/* What a peer is being sent of documents: one at a time, for pieces may not mix. */
struct document_stream {
    uint32_t due; /* bit d: document d is to be sent */
    struct frame whole[DOCUMENTS];
    uint32_t generation[DOCUMENTS]; /* of the one that was sent last, or is being sent */
    int64_t sent_ms[DOCUMENTS];
    int current; /* -1: none */
    size_t at;
};

/* A process that is connected. */
struct tracker_guest {
    bool is_used;
    bool has_introduced; /* and all of it is right */
    bool was_refused;    /* has been told so, for what it introduced itself as */
    uint32_t strikes;
    uint32_t announced; /* version of the roster that it was sent */
    int64_t heard_ms;   /* when it came, introduced itself, or asked last */
    uint8_t curve[KEY_BYTES];
    char seen_ip[MESSAGE_ADDRESS_BYTES];
    struct wire_introduction introduction;
    struct document_stream stream;
    bool wants_ledger; /* one answer is due, to what it asked last */
    uint64_t ledger_first;
    int64_t ledger_ms; /* not before this */
};

/* Of each known member, what need not be kept: row by row as loop->known. */
struct admitted_member {
    struct connect_probe reach;
    int64_t reach_ms; /* when the last try began; 0: none yet */
    struct timing_measured measured;
    uint32_t round;
    int64_t heard_ms;
    uint64_t starts[HOST_STARTS_MAX]; /* of its process, newest first: that one is the member */
    uint32_t start_count;
};

struct tracker_loop {
    struct tracker_loop_options options;
    struct messenger *messenger;
    struct tracker *machine;
    struct tracker_durable durable;
    struct wire_shape shape;
    struct wire_arrays arrays; /* of the message being heard */
    struct entry open;         /* the newest entry, for what must be signed by its seats */
    struct actions actions;
    struct allow_list roster;
    bool allow_list_is_missing; /* its file was there, and is not */
    struct address_book known;
    struct admitted_member members[SWARM_MEMBERS_MAX];
    bool known_is_durable;      /* what is in `known` may be announced */
    struct swarm_timing timing; /* as it was announced last */
    struct tracker_guest *peers;
    uint32_t peers_max;
    struct document_buffer documents[DOCUMENTS];
    uint8_t *scratch;    /* FRAME_PAYLOAD_MAX */
    struct entry served; /* of the ledger, being sent */
    int64_t serve_ms;    /* when the ledger may be read again */
    uint32_t serve_turn; /* the peer whose answer is looked for first */
    bool is_retrying;    /* a write failed; its end is told at retry_ms */
    int64_t retry_ms, complained_ms;
    int64_t tick_ms, roster_ms; /* when they are due */
    int64_t passed_ms;          /* when it looked last at what came in */
    int64_t started_ms;
    double started_unix_s;
    const char *stage; /* as it was said last, and since when */
    int64_t stage_ms;
    bool is_fenced;
    uint64_t refused_messages;
    struct fault fault; /* of the last failed write */
};

int64_t tracker_now_ms(void);

/* crash_point: a place where a test may end the process: "before", "after" an action on a
 * thing. */
enum crash_moment { CRASH_BEFORE, CRASH_AFTER };
enum crash_point_id {
    PLACE_WRITE_SESSION,
    PLACE_WRITE_KNOWN,
    PLACE_WRITE_OPEN,
    PLACE_WRITE_TABLE,
    PLACE_WRITE_COMMIT,
    PLACE_WRITE_ABORT,
    PLACE_SEND_WELCOME,
    PLACE_SEND_ENTRY,
    PLACE_SEND_TABLE,
    PLACE_SEND_ASK,
    PLACE_SEND_PROPOSE,
    PLACE_SEND_GOODBYE,
    PLACE_SEND_ROSTER,
    HOST_PLACES
};
void crash_point(struct tracker_loop *loop, enum crash_moment moment, enum crash_point_id place);

/* tracker_loop_step: one event to the machine, and all that follows from it. */
void tracker_loop_step(struct tracker_loop *loop, const struct event *event);

/* tracker_host_hear: one frame of a peer. */
void tracker_loop_receive(struct tracker_loop *loop, struct tracker_guest *peer,
                          const struct messenger_event *event);
/* tracker_loop_serve_ledger: an answer of those that are due from the ledger, if there is time for
 * one. */
void tracker_loop_serve_ledger(struct tracker_loop *loop);

/* tracker_host_say: a message of the machine's; one payload of a host's kind; a document from
 * its start; whatever of documents there is room for. */
void tracker_loop_send_action(struct tracker_loop *loop, const struct action *action);
bool tracker_loop_send(struct tracker_loop *loop, const struct tracker_guest *peer,
                       enum wire_kind kind, uint64_t offset, const void *payload, size_t count);
void tracker_loop_send_document(struct tracker_loop *loop, struct tracker_guest *peer,
                                enum document document, const struct frame *whole);
void tracker_loop_pump_documents(struct tracker_loop *loop);

/* Whose places a key may take, in the order of messenger_guests: no idle or hostile stranger keeps
 * those out who are on the roster, and those none who are members already. */
enum guest_class { GUEST_STRANGER, GUEST_LISTED, GUEST_MEMBER };
_Static_assert(GUEST_MEMBER + 1 == MESSAGE_GUEST_CLASSES, "every class has its places");
uint32_t guest_class_of(const void *loop, const uint8_t curve[static KEY_BYTES]);

/* tracker_host_admit. guest_find: the place of a key that is connected, a new one when there
 * is none, NULL when all are taken. */
struct tracker_guest *guest_find(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);
void guest_opened(struct tracker_loop *loop, const struct messenger_event *event);
void guest_closed(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);
void guest_introduced(struct tracker_loop *loop, struct tracker_guest *peer, const uint8_t *payload,
                      size_t count);
/* guest_reject: tell a process that it is not let in. guest_reject_stranger: because it is not on
 * the roster, with the line that would change that. */
void guest_reject(struct tracker_loop *loop, struct tracker_guest *peer, const char *reason);
void guest_reject_stranger(struct tracker_loop *loop, struct tracker_guest *peer,
                           const struct public_keys *keys, const char *name);
/* admission_review_all: the roster is another one: some go, some may come. */
void admission_review_all(struct tracker_loop *loop);
/* admission_run_due: the roster file, tries to reach members, and announcements that are due. */
void admission_run_due(struct tracker_loop *loop, int64_t now_ms);
MUST_CHECK enum status address_book_restore(struct tracker_loop *loop, struct fault *fault);

#endif
