/* tracker_host: what the files of the tracker's process share.
 *
 *   tracker_loop         opens, waits, drains, ticks; does what the machine wants
 *   tracker_host_hear    frames that come in, and what is answered without the machine
 *   tracker_host_say     frames that go out, and long payloads piece by piece
 *   tracker_host_admit   introductions, the roster, who is known, who can be reached */
#ifndef SKEP_SWARM_TRACKER_TRACKER_HOST_H
#define SKEP_SWARM_TRACKER_TRACKER_HOST_H

#include "runtime/swarm/tracker/known_members.h"
#include "runtime/swarm/tracker/roster.h"
#include "runtime/swarm/tracker/tracker_durable.h"
#include "runtime/swarm/tracker/tracker_loop.h"
#include "transport/messages/messages.h"
#include "transport/messages/reach.h"

enum {
    HOST_GUESTS_MAX = 128,    /* connected at once besides a full swarm's members, ... */
    HOST_STRANGERS_MAX = 96,  /* ... and of those, whose keys are on no roster */
    HOST_TURN_MS = 5 * 1000,  /* a stranger's place is its own so long, then also another's */
    HOST_IDLE_MS = 20 * 1000, /* until a guest goes that neither introduces itself nor asks */
    HOST_DRAIN_MAX = 65536, /* frames between two ticks: a flood delays deadlines no further, ... */
    HOST_DRAIN_MS = 1000,   /* ... nor does what they cost */
    HOST_READING = 4,       /* of the time at most one part in so many goes to reading the ledger */
    HOST_FULL_MS = 1000,    /* an answer for which there was no room is not read again sooner */
    HOST_STARTS_MAX = 8,    /* of an identity that are told from one another */
    HOST_STRIKES_MAX = 3,   /* messages that no honest process sends, until it is cut off */
    HOST_HUNG = 6,          /* times `silence`: who says nothing for so long keeps no joiner out */
    HOST_RETRY_MS = 1000,   /* after a failed write */
    HOST_ROSTER_MS = 500,   /* between two looks at the roster file */
    HOST_REACH_MS = 5000,   /* a try to reach an address */
    HOST_REACH_AGAIN_MS = 30000,
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

struct host_document {
    uint8_t *bytes;
    size_t capacity, count;
    struct frame whole;  /* its header, but for the session */
    struct hash key;     /* of what is in it; what of the machine's differs has another */
    uint32_t generation; /* rises with each content */
};

/* What a peer is being sent of documents: one at a time, for pieces may not mix. */
struct host_stream {
    uint32_t due; /* bit d: document d is to be sent */
    struct frame whole[DOCUMENTS];
    uint32_t generation[DOCUMENTS]; /* of the one that was sent last, or is being sent */
    int64_t sent_ms[DOCUMENTS];
    int current; /* -1: none */
    size_t at;
};

/* A process that is connected. */
struct host_peer {
    bool is_used;
    bool has_introduced; /* and all of it is right */
    bool was_refused;    /* has been told so, for what it introduced itself as */
    uint32_t strikes;
    uint32_t announced; /* version of the roster that it was sent */
    int64_t heard_ms;   /* when it came, introduced itself, or asked last */
    uint8_t curve[KEY_BYTES];
    char seen_ip[MESSAGE_ADDRESS_BYTES];
    struct wire_introduction introduction;
    struct host_stream stream;
    bool wants_ledger; /* one answer is due, to what it asked last */
    uint64_t ledger_first;
    int64_t ledger_ms; /* not before this */
};

/* Of each known member, what need not be kept: row by row as loop->known. */
struct host_member {
    struct reach reach;
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
    struct roster roster;
    bool roster_is_lost; /* its file was there, and is not */
    struct known_members known;
    struct host_member members[SWARM_MEMBERS_MAX];
    bool known_is_durable;      /* what is in `known` may be announced */
    struct swarm_timing timing; /* as it was announced last */
    struct host_peer *peers;
    uint32_t peers_max;
    struct host_document documents[DOCUMENTS];
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

int64_t host_now_ms(void);

/* host_reached: a place where a test may end the process: "before", "after" an action on a
 * thing. */
enum host_moment { HOST_BEFORE, HOST_AFTER };
enum host_place {
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
void host_reached(struct tracker_loop *loop, enum host_moment moment, enum host_place place);

/* host_step: one event to the machine, and all that follows from it. */
void host_step(struct tracker_loop *loop, const struct event *event);

/* tracker_host_hear: one frame of a peer. */
void host_hear(struct tracker_loop *loop, struct host_peer *peer,
               const struct messenger_event *event);
/* host_serve: an answer of those that are due from the ledger, if there is time for one. */
void host_serve(struct tracker_loop *loop);

/* tracker_host_say: a message of the machine's; one payload of a host's kind; a document from
 * its start; whatever of documents there is room for. */
void host_say(struct tracker_loop *loop, const struct action *action);
bool host_send(struct tracker_loop *loop, const struct host_peer *peer, enum wire_kind kind,
               uint64_t offset, const void *payload, size_t count);
void host_send_document(struct tracker_loop *loop, struct host_peer *peer, enum document document,
                        const struct frame *whole);
void host_pump(struct tracker_loop *loop);

/* Whose places a key may take, in the order of messenger_guests: no idle or hostile stranger keeps
 * those out who are on the roster, and those none who are members already. */
enum host_class { HOST_STRANGER, HOST_LISTED, HOST_MEMBER };
_Static_assert(HOST_MEMBER + 1 == MESSAGE_CLASSES, "every class has its places");
uint32_t host_class_of(const void *loop, const uint8_t curve[static KEY_BYTES]);

/* tracker_host_admit. host_peer_of: the place of a key that is connected, a new one when there
 * is none, NULL when all are taken. */
struct host_peer *host_peer_of(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);
void host_opened(struct tracker_loop *loop, const struct messenger_event *event);
void host_closed(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]);
void host_introduced(struct tracker_loop *loop, struct host_peer *peer, const uint8_t *payload,
                     size_t count);
/* host_refuse: tell a process that it is not let in. host_refuse_stranger: because it is not on the
 * roster, with the line that would change that. */
void host_refuse(struct tracker_loop *loop, struct host_peer *peer, const char *reason);
void host_refuse_stranger(struct tracker_loop *loop, struct host_peer *peer,
                          const struct public_keys *keys, const char *name);
/* host_judge_all: the roster is another one: some go, some may come. */
void host_judge_all(struct tracker_loop *loop);
/* host_admit_due: the roster file, tries to reach members, and announcements that are due. */
void host_admit_due(struct tracker_loop *loop, int64_t now_ms);
MUST_CHECK enum status host_recall_known(struct tracker_loop *loop, struct fault *fault);

#endif
