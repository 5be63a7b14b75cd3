/* member_loop_state: the memory of a member's talking thread, for the files of its loop only. */
#ifndef SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H
#define SKEP_SWARM_MEMBER_MEMBER_LOOP_STATE_H

#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/member/line_share.h"
#include "runtime/swarm/member/member_loop.h"
#include "runtime/swarm/member/outbox.h"
#include "runtime/swarm/member/work_post.h"
#include "runtime/swarm/replica/leaf_fetch.h"
#include "runtime/swarm/replica/result_rows.h"

enum {
    LOOP_HEARTBEAT_MS = 200, /* until the tracker's roster says what it is */
    LOOP_RECENT = 16,        /* measurements that a median is of */
    LOOP_PING_MS = 2000,     /* an answer that takes longer is not waited for */
    LOOP_AGAIN_MS = 1000,    /* until the tracker is asked the same again */
    LOOP_UP_KIB_S = 12800,   /* what it can send, until measured: 100 Mbit/s */
    PEER_NONE = SWARM_MEMBERS_MAX,
};

/* A member that the roster names; its place in the table is its number here. */
struct member_peer_link {
    bool is_known;  /* the row is in use */
    bool is_listed; /* while a roster is read: it is on the new one too */
    bool is_open;   /* a connection stands */
    bool is_dialled;
    int64_t closed_ns; /* since when none stands */
    bool is_cut;       /* it does not answer */
    int64_t answered_ns, pinged_ns;
    uint64_t results_given; /* bytes, since the messenger had nothing left for it */
    struct wire_member as;
};

/* What the computing thread has been given, besides training, and has not answered. */
struct loop_job {
    bool is_out;
    enum action_kind kind;
    uint32_t number, round, slice, epoch;
    uint64_t contributors;
    struct hash root; /* of the entry that it is about */
};

/* What is verified of the tracker's ledger. */
struct ledger_follower {
    struct ledger_chain chain;
    struct hash commit; /* the newest commit's hash, or the genesis' */
    struct hash base;   /* the root that it starts from */
    uint32_t round;     /* the newest that an entry names */
    bool is_shown;      /* the tracker has the chain's head; true too while there is none */
    bool is_wanted;     /* more entries */
    int64_t asked_ns;
    bool lacks; /* an entry was said that does not follow the chain: this one */
    struct hash lacked;
    bool is_broken; /* what the tracker said does not continue it */
    bool is_held;   /* an ENTRY that waits for those before it */
    bool is_met;    /* and stands in the chain by now */
    struct message held;
    struct entry held_entry;
    struct entry entry; /* being read */
};

/* Commits that lead on from the state that stands (member_loop_trail.c). */
struct catch_up {
    uint32_t count;
    struct entry entries[REPLAY_ROUNDS_MAX]; /* oldest first */
    struct hash base;                        /* the root that the oldest starts from */
    bool is_said;                            /* the tracker has said an ENTRY: */
    struct message step;                     /* as it came, about another entry */
};

/* The state that ACTION_ADOPT asks for. */
struct state_fetcher {
    bool is_wanted; /* and not begun: the computing thread still has the replica */
    bool is_begun;  /* its leaves are coming */
    bool goes_on;   /* the replica is what was fetched so far: from the first of several until one
                       is answered; the outer state is none meanwhile */
    uint32_t job;
    const struct message *newer; /* the machine is to hear it next: it adopts what is old */
    struct entry entry;
    struct leaf_fetch fetch;
};

/* The newest of many measurements: some that a broken line or a dead peer spoiled do not count. */
struct recent_values {
    int64_t values[LOOP_RECENT];
    uint32_t count; /* all that ever were */
};

/* Bytes a second. */
struct uplink_rate {
    uint64_t rate, recent;
    bool is_known; /* from exchanges before, which were long enough and used it fully */
};

struct uplink_measures {
    struct recent_values trips, transfers; /* ns */
    struct recent_values ups;              /* KiB/s: each exchange's best second, ... */
    struct recent_values lines;            /* ... and the upper quartile of its seconds */
    struct recent_values seconds;          /* KiB/s: of this exchange, with the line in use */
    int64_t free_kib_s;                    /* such a quartile of the last one that was not paced */
    int64_t pinged_ns;                     /* the ping that is to be answered; 0: none */
    uint32_t round;                        /* whose exchange is measured */
    int64_t table_ns, progress_ns;
    int64_t second_ns; /* when the second that is measured began; 0: none */
    uint64_t second_bytes;
    uint32_t best_kib_s; /* of this exchange */
    int64_t recent_ns;   /* the same over shorter times, the last whole one's rate: */
    uint64_t recent_bytes, recent;
    uint32_t exchange_ms;
};

/* How the own line is shared out. */
struct uplink_pacing {
    struct uplink_share share;
    bool is_shared;
    uint32_t round;
    int64_t looked_ns;
    int64_t recent_ns; /* of the measures that were looked at */
};

struct member_loop {
    struct member_loop_options options;
    struct wire_shape shape;
    struct identity id, tracker_id;
    struct messenger *messenger;
    struct mailbox post;
    pthread_t thread;
    atomic_bool is_over;

    struct member *machine;
    struct actions actions;
    struct wire_arrays arrays; /* of what is heard */
    struct wire_chunks pieces;
    uint8_t *payload; /* of what is said, payload_capacity */
    size_t payload_capacity;
    uint8_t *landing;            /* [slices.bytes_max]: bytes of a slice until they are kept */
    const struct message *heard; /* the message being handled, and how many bytes landed */
    size_t landed;

    struct member_peer_link peers[SWARM_MEMBERS_MAX];
    uint32_t roster_version, roster_count;
    struct swarm_timing timing;
    bool tracker_is_there, is_admitted;
    bool is_reachable; /* as the tracker found */
    bool is_replaced;  /* a later start of this identity is the member */
    uint64_t start;    /* this process's, as options.start has it */
    int64_t introduced_ns;
    char reason[WIRE_REASON_BYTES];

    struct ledger_follower ledger;
    struct catch_up trail;
    struct entry open;  /* the newest OPEN that was heard, without slices */
    uint32_t own_round; /* whose contribution the replica has for serving; 0: none */
    struct loop_job job;
    struct result_index rows;
    struct state_fetcher adoption;

    struct outbox contributions; /* bytes of slices: these first, or sums are late */
    struct outbox results;
    bool are_results_held;
    struct outbox asks;   /* for bytes, under the limit of what comes */
    struct outbox leaves; /* names and leaves for others, when nothing else goes out */

    struct uplink_measures measures;
    struct uplink_pacing pace;
    struct timing_measured measured; /* what the computing thread says */
    int64_t turned_ns, ticked_ns;
    int64_t leaves_ns; /* when leaves could go out last */
    int64_t back_ns;   /* when there is more to send without any news */
    struct member_loop_view view;
};

/* member_loop_turn: sleep until something is to be done, then do all of it. */
void member_loop_turn(struct member_loop *loop);

/* Between the machine and the rest (member_loop_act.c). member_loop_step: give it an event and do
 * what it says. member_loop_job_done: note what the computing thread did, then give that.
 * member_loop_keep_result: the bytes that landed go into the replica's row. */
void member_loop_step(struct member_loop *loop, const struct event *event);
void member_loop_job_done(struct member_loop *loop, const struct event *event);
void member_loop_keep_result(struct member_loop *loop, const struct message *message);

/* member_loop_receive: one event of the messenger (member_loop_receive.c).
 * member_loop_receive_entry: a verified ENTRY, which goes to the machine if the chain lets it. */
void member_loop_receive(struct member_loop *loop, const struct messenger_event *event);
void member_loop_receive_entry(struct member_loop *loop, struct message *message);
void member_loop_deliver(struct member_loop *loop, const struct message *message);

/* What is said (uplink_send.c). uplink_send: a frame of a host. uplink_send_message:
 * one of the machine, with the bytes of its slice behind it. Neither waits for room. */
enum send_result uplink_send(struct member_loop *loop, const uint8_t curve[static KEY_BYTES],
                             enum channel channel, const struct frame *frame, const void *payload);
enum send_result uplink_send_message(struct member_loop *loop,
                                     const uint8_t curve[static KEY_BYTES], enum channel channel,
                                     const struct message *message, const uint8_t *bulk,
                                     uint64_t bulk_bytes);
/* uplink_flush: what waits in the outboxes; when to come back: now_ns, later, or INT64_MAX
 * when only room or news can help. */
int64_t uplink_flush(struct member_loop *loop, int64_t now_ns);

/* uplink_set_rates: how fast each peer's connections may send, looked at now and then
 * (uplink_set_rates.c). */
void uplink_set_rates(struct member_loop *loop, int64_t now_ns);

/* Leaves for others (member_loop_leaves.c). */
void leaf_server_receive(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                         const uint8_t *payload, int64_t now_ns);
enum send_result leaf_server_send(struct member_loop *loop, uint32_t peer,
                                  const struct outbox_item *item, uint64_t *bytes);

/* ACTION_ADOPT (state_fetcher_start.c). state_fetcher_finish_job: it was answered.
 * state_fetcher_on_result: whether a result is one that brings leaves forward; it is to be kept.
 * state_fetcher_step: whether there is more to do at once. */
size_t state_fetcher_bytes(const struct replica_shape *shape);
void state_fetcher_init(struct member_loop *loop, void *memory);
void state_fetcher_start(struct member_loop *loop, const struct action *action);
void state_fetcher_finish_job(struct member_loop *loop);
bool state_fetcher_on_result(struct member_loop *loop, const struct message *message);
void state_fetcher_on_leaf(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                           const uint8_t *payload, int64_t now_ns);
bool state_fetcher_step(struct member_loop *loop, int64_t now_ns);
enum send_result state_fetcher_request_leaf(struct member_loop *loop, uint32_t peer,
                                            const struct outbox_item *item);

/* Who is who, and being let in (member_loop_roster.c). The first two give PEER_NONE for none. */
uint32_t peers_find_curve(const struct member_loop *loop, const uint8_t *curve);
uint32_t peers_find_id(const struct member_loop *loop, const struct identity *id);
void peers_introduce(struct member_loop *loop, int64_t now_ns);
void peers_on_rejected(struct member_loop *loop, const uint8_t *text, size_t count);
void peers_on_replaced(struct member_loop *loop);
void peers_on_address_book(struct member_loop *loop, const uint8_t *payload, size_t count);
void peers_on_open(struct member_loop *loop, uint32_t peer);
void peers_on_close(struct member_loop *loop, uint32_t peer);
void peers_dial(struct member_loop *loop, int64_t now_ns);

/* Who answers (member_loop_links.c). peers_add_link: the roster names it from now on;
 * peers_note_frame: a frame of this kind came; peers_drop_link: what waits for it is
 * dropped. peers_tick: the machine is told who does not answer.
 * peers_note_pause: a time in which nothing could be heard.
 * peers_answer_timeout_ns: until who does not answer counts as cut off. */
int64_t peers_answer_timeout_ns(const struct member_loop *loop);
void peers_add_link(struct member_loop *loop, uint32_t peer, int64_t now_ns);
void peers_note_frame(struct member_loop *loop, uint32_t peer, uint8_t kind, int64_t now_ns);
void peers_drop_link(struct member_loop *loop, uint32_t peer);
void peers_tick(struct member_loop *loop, int64_t now_ns);
void peers_note_pause(struct member_loop *loop, int64_t slept_ns);

/* The ledger (member_loop_chain.c). ledger_follower_restore: options.ledger_past.
 * ledger_follower_on_connect: a tracker has come; it is to show that it has the chain's head.
 * ledger_follower_is_synced: it has it, and it reaches this member's state: until then the machine
 * neither says anything to the tracker nor hears it, as a number of a session or of an incarnation
 * of a tracker that has another ledger would keep it from hearing the right one.
 * ledger_follower_may_deliver: whether the machine may hear an ENTRY:
 * it is the verified chain's; message->root is set to the one it starts from. */
void ledger_follower_init(struct member_loop *loop, struct entry_slice *slices,
                          struct entry_slice *held_slices);
bool ledger_follower_may_deliver(struct member_loop *loop, struct message *message);
MUST_CHECK enum status ledger_follower_restore(struct member_loop *loop, struct fault *fault);
void ledger_follower_on_connect(struct member_loop *loop);
bool ledger_follower_is_synced(const struct member_loop *loop);
void ledger_follower_on_records(struct member_loop *loop, const struct frame *frame,
                                const uint8_t *payload);
void ledger_follower_request(struct member_loop *loop, int64_t now_ns);

/* Rounds that were missed (member_loop_trail.c). catch_up_add: an entry of another kind
 * than OPEN and ABORT was appended. catch_up_substitute: what the machine is to hear for a
 * message of the tracker's. catch_up_on_applied, given_up: a root stands, or an entry is
 * adopted: what the machine is to hear then, or NULL. catch_up_verifies: whether bytes are a
 * result of the oldest missed commit, whose quorum stands for what its owner did not sign. */
void catch_up_bind(struct member_loop *loop, struct entry_slice *slices);
void catch_up_add(struct member_loop *loop, const struct entry *entry, const struct hash *base);
const struct message *catch_up_substitute(struct member_loop *loop, const struct message *message);
const struct message *catch_up_on_applied(struct member_loop *loop);
const struct message *catch_up_on_fetch(struct member_loop *loop, const struct entry *adopted);
bool catch_up_verifies(const struct member_loop *loop, struct message *message, const uint8_t *bulk,
                       size_t bulk_bytes);

/* What is measured (member_loop_measure.c). uplink_measured_rate: bytes a second that the own
 * line carries as far as this exchange and those before have shown, 0: not known; and of late,
 * INT64_MAX when the exchange is just beginning. */
void uplink_ping(struct member_loop *loop, int64_t now_ns);
void uplink_on_pong(struct member_loop *loop, const uint8_t *payload, size_t count);
void uplink_on_open(struct member_loop *loop, uint32_t round);
void uplink_on_table(struct member_loop *loop, uint32_t round);
void uplink_on_progress(struct member_loop *loop);
void uplink_on_commit(struct member_loop *loop, const struct entry *entry);
void uplink_sample(struct member_loop *loop);
struct uplink_rate uplink_measured_rate(const struct member_loop *loop);
struct timing_measured uplink_measured(const struct member_loop *loop);

#endif
