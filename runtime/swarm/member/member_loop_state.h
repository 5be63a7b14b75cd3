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
    LOOP_NOBODY = SWARM_MEMBERS_MAX,
};

/* A member that the roster names; its place in the table is its number here. */
struct loop_peer {
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
struct loop_chain {
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
struct loop_trail {
    uint32_t count;
    struct entry entries[SWARM_REPLAY_MAX]; /* oldest first */
    struct hash base;                       /* the root that the oldest starts from */
    bool is_said;                           /* the tracker has said an ENTRY: */
    struct message step;                    /* as it came, about another entry */
};

/* The state that ACTION_ADOPT asks for. */
struct loop_adoption {
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
struct loop_recent {
    int64_t values[LOOP_RECENT];
    uint32_t count; /* all that ever were */
};

/* Bytes a second. */
struct loop_line {
    uint64_t rate, recent;
    bool is_known; /* from exchanges before, which were long enough and used it fully */
};

struct loop_measures {
    struct loop_recent trips, transfers; /* ns */
    struct loop_recent ups;              /* KiB/s: each exchange's best second, ... */
    struct loop_recent lines;            /* ... and the upper quartile of its seconds */
    struct loop_recent seconds;          /* KiB/s: of this exchange, with the line in use */
    int64_t free_kib_s;                  /* such a quartile of the last one that was not paced */
    int64_t pinged_ns;                   /* the ping that is to be answered; 0: none */
    uint32_t round;                      /* whose exchange is measured */
    int64_t table_ns, progress_ns;
    int64_t second_ns; /* when the second that is measured began; 0: none */
    uint64_t second_bytes;
    uint32_t best_kib_s; /* of this exchange */
    int64_t recent_ns;   /* the same over shorter times, the last whole one's rate: */
    uint64_t recent_bytes, recent;
    uint32_t exchange_ms;
};

/* How the own line is shared out. */
struct loop_pace {
    struct line_share share;
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
    struct work_post post;
    pthread_t thread;
    atomic_bool is_over;

    struct member *machine;
    struct actions actions;
    struct wire_arrays arrays; /* of what is heard */
    struct wire_pieces pieces;
    uint8_t *payload; /* of what is said, payload_capacity */
    size_t payload_capacity;
    uint8_t *landing;            /* [slices.bytes_max]: bytes of a slice until they are kept */
    const struct message *heard; /* the message being handled, and how many bytes landed */
    size_t landed;

    struct loop_peer peers[SWARM_MEMBERS_MAX];
    uint32_t roster_version, roster_count;
    struct swarm_timing timing;
    bool tracker_is_there, is_admitted;
    bool is_reachable; /* as the tracker found */
    bool is_replaced;  /* a later start of this identity is the member */
    uint64_t start;    /* this process's, as options.start has it */
    int64_t introduced_ns;
    char reason[WIRE_REASON_BYTES];

    struct loop_chain ledger;
    struct loop_trail trail;
    struct entry open;  /* the newest OPEN that was heard, without slices */
    uint32_t own_round; /* whose contribution the replica has for serving; 0: none */
    struct loop_job job;
    struct result_rows rows;
    struct loop_adoption adoption;

    struct outbox contributions; /* bytes of slices: these first, or sums are late */
    struct outbox results;
    bool are_results_held;
    struct outbox asks;   /* for bytes, under the limit of what comes */
    struct outbox leaves; /* names and leaves for others, when nothing else goes out */

    struct loop_measures measures;
    struct loop_pace pace;
    struct timing_measured measured; /* what the computing thread says */
    int64_t turned_ns, ticked_ns;
    int64_t leaves_ns; /* when leaves could go out last */
    int64_t back_ns;   /* when there is more to send without any news */
    struct member_loop_view view;
};

/* member_loop_turn: sleep until something is to be done, then do all of it. */
void member_loop_turn(struct member_loop *loop);

/* Between the machine and the rest (member_loop_act.c). member_loop_step: give it an event and do
 * what it says. member_loop_answered: note what the computing thread did, then give that.
 * member_loop_keep_result: the bytes that landed go into the replica's row. */
void member_loop_step(struct member_loop *loop, const struct event *event);
void member_loop_answered(struct member_loop *loop, const struct event *event);
void member_loop_keep_result(struct member_loop *loop, const struct message *message);

/* member_loop_hear: one event of the messenger (member_loop_hear.c). member_loop_hear_entry: a
 * verified ENTRY, which goes to the machine if the chain lets it. */
void member_loop_hear(struct member_loop *loop, const struct messenger_event *event);
void member_loop_hear_entry(struct member_loop *loop, struct message *message);
void member_loop_give_machine(struct member_loop *loop, const struct message *message);

/* What is said (member_loop_say.c). member_loop_say: a frame of a host. member_loop_say_message:
 * one of the machine, with the bytes of its slice behind it. Neither waits for room. */
enum sent member_loop_say(struct member_loop *loop, const uint8_t curve[static KEY_BYTES],
                          enum channel channel, const struct frame *frame, const void *payload);
enum sent member_loop_say_message(struct member_loop *loop, const uint8_t curve[static KEY_BYTES],
                                  enum channel channel, const struct message *message,
                                  const uint8_t *bulk, uint64_t bulk_bytes);
/* member_loop_flush: what waits in the outboxes; when to come back: now_ns, later, or INT64_MAX
 * when only room or news can help. */
int64_t member_loop_flush(struct member_loop *loop, int64_t now_ns);

/* member_loop_pace: how fast each peer's connections may send, looked at now and then
 * (member_loop_pace.c). */
void member_loop_pace(struct member_loop *loop, int64_t now_ns);

/* Leaves for others (member_loop_leaves.c). */
void member_loop_hear_leaves(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                             const uint8_t *payload, int64_t now_ns);
enum sent member_loop_say_leaves(struct member_loop *loop, uint32_t peer,
                                 const struct outbox_item *item, uint64_t *bytes);

/* ACTION_ADOPT (member_loop_adopt.c). member_loop_adopted: it was answered.
 * member_loop_adopt_result: whether a result is one that brings leaves forward; it is to be kept.
 * member_loop_adopt_step: whether there is more to do at once. */
size_t member_loop_adopt_bytes(const struct replica_shape *shape);
void member_loop_adopt_init(struct member_loop *loop, void *memory);
void member_loop_adopt(struct member_loop *loop, const struct action *action);
void member_loop_adopted(struct member_loop *loop);
bool member_loop_adopt_result(struct member_loop *loop, const struct message *message);
void member_loop_adopt_leaf(struct member_loop *loop, uint32_t peer, const struct frame *frame,
                            const uint8_t *payload, int64_t now_ns);
bool member_loop_adopt_step(struct member_loop *loop, int64_t now_ns);
enum sent member_loop_ask_leaf(struct member_loop *loop, uint32_t peer,
                               const struct outbox_item *item);

/* Who is who, and being let in (member_loop_roster.c). The first two give LOOP_NOBODY for none. */
uint32_t member_loop_peer_of_curve(const struct member_loop *loop, const uint8_t *curve);
uint32_t member_loop_peer_of_id(const struct member_loop *loop, const struct identity *id);
void member_loop_introduce(struct member_loop *loop, int64_t now_ns);
void member_loop_hear_refusal(struct member_loop *loop, const uint8_t *text, size_t count);
void member_loop_hear_replaced(struct member_loop *loop);
void member_loop_hear_roster(struct member_loop *loop, const uint8_t *payload, size_t count);
void member_loop_opened(struct member_loop *loop, uint32_t peer);
void member_loop_closed(struct member_loop *loop, uint32_t peer);
void member_loop_dial(struct member_loop *loop, int64_t now_ns);

/* Who answers (member_loop_links.c). member_loop_link_new: the roster names it from now on;
 * member_loop_link_heard: a frame of this kind came; member_loop_link_lost: what waits for it is
 * dropped. member_loop_links_tick: the machine is told who does not answer.
 * member_loop_links_slept: a time in which nothing could be heard.
 * member_loop_link_patience_ns: until who does not answer counts as cut off. */
int64_t member_loop_link_patience_ns(const struct member_loop *loop);
void member_loop_link_new(struct member_loop *loop, uint32_t peer, int64_t now_ns);
void member_loop_link_heard(struct member_loop *loop, uint32_t peer, uint8_t kind, int64_t now_ns);
void member_loop_link_lost(struct member_loop *loop, uint32_t peer);
void member_loop_links_tick(struct member_loop *loop, int64_t now_ns);
void member_loop_links_slept(struct member_loop *loop, int64_t slept_ns);

/* The ledger (member_loop_chain.c). member_loop_chain_recall: options.ledger_past.
 * member_loop_chain_met: a tracker has come; it is to show that it has the chain's head.
 * member_loop_chain_stands: it has it, and it reaches this member's state: until then the machine
 * neither says anything to the tracker nor hears it, as a number of a session or of an incarnation
 * of a tracker that has another ledger would keep it from hearing the right one.
 * member_loop_chain_lets: whether the machine may hear an ENTRY:
 * it is the verified chain's; message->root is set to the one it starts from. */
void member_loop_chain_init(struct member_loop *loop, struct entry_slice *slices,
                            struct entry_slice *held_slices);
bool member_loop_chain_lets(struct member_loop *loop, struct message *message);
MUST_CHECK enum status member_loop_chain_recall(struct member_loop *loop, struct fault *fault);
void member_loop_chain_met(struct member_loop *loop);
bool member_loop_chain_stands(const struct member_loop *loop);
void member_loop_chain_hear(struct member_loop *loop, const struct frame *frame,
                            const uint8_t *payload);
void member_loop_chain_ask(struct member_loop *loop, int64_t now_ns);

/* Rounds that were missed (member_loop_trail.c). member_loop_trail_note: an entry of another kind
 * than OPEN and ABORT was appended. member_loop_trail_instead: what the machine is to hear for a
 * message of the tracker's. member_loop_trail_applied, given_up: a root stands, or an entry is
 * adopted: what the machine is to hear then, or NULL. member_loop_trail_proves: whether bytes are a
 * result of the oldest missed commit, whose quorum stands for what its owner did not sign. */
void member_loop_trail_bind(struct member_loop *loop, struct entry_slice *slices);
void member_loop_trail_note(struct member_loop *loop, const struct entry *entry,
                            const struct hash *base);
const struct message *member_loop_trail_instead(struct member_loop *loop,
                                                const struct message *message);
const struct message *member_loop_trail_applied(struct member_loop *loop);
const struct message *member_loop_trail_given_up(struct member_loop *loop,
                                                 const struct entry *adopted);
bool member_loop_trail_proves(const struct member_loop *loop, struct message *message,
                              const uint8_t *bulk, size_t bulk_bytes);

/* What is measured (member_loop_measure.c). member_loop_measured_line: bytes a second that the own
 * line carries as far as this exchange and those before have shown, 0: not known; and of late,
 * INT64_MAX when the exchange is just beginning. */
void member_loop_ping(struct member_loop *loop, int64_t now_ns);
void member_loop_hear_pong(struct member_loop *loop, const uint8_t *payload, size_t count);
void member_loop_measure_open(struct member_loop *loop, uint32_t round);
void member_loop_measure_table(struct member_loop *loop, uint32_t round);
void member_loop_measure_progress(struct member_loop *loop);
void member_loop_measure_commit(struct member_loop *loop, const struct entry *entry);
void member_loop_measure_up(struct member_loop *loop);
struct loop_line member_loop_measured_line(const struct member_loop *loop);
struct timing_measured member_loop_measured_now(const struct member_loop *loop);

#endif
