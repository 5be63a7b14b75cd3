/* member_state: the member's memory, for the files of its machine only. */
#ifndef SKEP_SWARM_PROTOCOL_MEMBER_STATE_H
#define SKEP_SWARM_PROTOCOL_MEMBER_STATE_H

#include "runtime/swarm/protocol/member.h"

enum { NO_SEAT = -1 };

/* What is asked of a member in a seat. Heartbeats are the measure of time. */
struct member_peer {
    uint32_t slots
        [CONTRIBUTION_SLOTS_PER_MEMBER]; /* 1 + the own slice whose contribution it is asked for, or
                                         whose contribution lies there; 0: free */
    uint32_t results;                    /* asked of it and not come */
    uint32_t quiet;   /* heartbeats since it sent something, while something is asked of it */
    uint32_t due;     /* as many as after which it is asked again */
    uint32_t slowest; /* the most of them that ended with something */
    uint32_t away;    /* heartbeats for which nothing is asked of it: its channel broke */
};

struct member {
    struct identity id;
    uint64_t number;
    uint32_t slice_count;
    struct hash root;     /* that stands; zero while one is adopted */
    struct hash durable;  /* of the state on disk */
    uint32_t session;     /* 0: none yet */
    uint32_t incarnation; /* the highest heard */
    uint32_t ask;
    uint64_t report_number;
    uint32_t round_seen;      /* the newest opened */
    uint32_t committed_round; /* the newest applied */
    int is_leaving;
    struct timing_measured measured;
    uint32_t cut_count;
    struct identity cut[SWARM_MEMBERS_MAX]; /* who does not answer */

    /* The open round. */
    uint32_t round; /* 0: none */
    int seat;
    struct entry open;
    int has_trained;
    uint64_t tokens;
    uint32_t declared_before; /* heartbeats since it was declared, and until it is again */
    uint32_t declared_again;
    uint32_t trained_round; /* whose contribution the data plane has, and the own seat in it */
    int trained_seat;
    struct hash *hashes;      /* [slice_count]: of this member's contribution */
    struct round_table table; /* version 0: none yet */
    uint64_t *wanting;        /* [slice_count]: seats that wait for this member's result */

    /* Results: of the open round, or of the one that `commit` is about. */
    uint32_t reports_round;
    struct slice_report *reports; /* [slice_count] */
    int has_proposal;
    uint64_t proposal_number;
    struct entry proposal;
    int has_vote;
    struct hash vote_root;
    struct hash vote_hash;
    struct signature vote_signature;
    int has_commit; /* a commit that is not applied yet */
    int is_astray;  /* its results do not lead to its root from here: the state is adopted */
    struct hash commit_base;
    struct entry commit;

    /* What is asked of whom; seats are those of the wanted entry, else of the open round. */
    struct member_peer peers[SWARM_MEMBERS_MAX];
    uint32_t slowest; /* of all of them, in the last round that had any */
    uint32_t idle;    /* heartbeats since anything came */
    uint32_t
        settled;    /* heartbeats since the table changed: waiting for what was before says nothing
                         about who was asked */
    uint8_t *asked; /* [slice_count]: 1 + the seat asked for its result; 0: nobody */
    uint8_t *turns; /* [slice_count]: how many were asked in vain */
    uint64_t
        *holders; /* [slice_count]: seats that hold the proposal's result, as the tracker says */

    /* The one job given to the data plane, besides training. */
    uint32_t job; /* its number; 0: none */
    uint32_t job_newest;
    enum action_kind job_kind;
    int is_held_back; /* no new one before the next heartbeat: a write has failed */
    int job_is_void;  /* it is waited for, and its end is of no use */
    uint32_t job_slice;
    uint64_t job_contributors;
    uint8_t job_slots[SWARM_MEMBERS_MAX];
};

struct action *member_add_action(struct actions *actions, enum action_kind kind);

/* member_send: one message to a seat's identity, or to the tracker if NULL. */
void member_send(struct member *member, const struct identity *to, struct message message,
                 struct actions *actions);

/* member_start_job: give the data plane its next job. */
struct action *member_start_job(struct member *member, enum action_kind kind,
                                struct actions *actions);

/* member_report: everything the tracker should know of. */
void member_report(struct member *member, struct actions *actions);

/* member_abandon_job: what is under way no longer matters. Bytes that it reads stay as they are. */
void member_abandon_job(struct member *member);

/* member_target_entry: the entry whose results are wanted: a commit's, else the proposal's, else
 * NULL. */
const struct entry *member_target_entry(const struct member *member);

/* member_roster: whose seats the peers are: those of the wanted entry, else of the open round. */
const struct entry *member_roster(const struct member *member);

/* member_has_all_results: whether every slice's result is at hand. */
int member_has_all_results(const struct member *member);

/* member_unreachable_seats: who of a roster does not answer. */
uint64_t member_unreachable_seats(const struct member *member, const struct entry *roster);

/* member_is_self: whether an identity is the member's own. */
int member_is_self(const struct member *member, const struct identity *id);

/* member_seat_of: where an identity sits in a roster, or NO_SEAT. */
int member_seat_of(const struct entry *roster, const struct identity *id);

/* What the tracker's entries do (member_entry.c).
 * member_end_round    no round is open any more; what was trained stays with the data plane */
void member_end_round(struct member *member);
void member_handle_entry(struct member *member, const struct message *message,
                         struct actions *actions);
void member_handle_proposal(struct member *member, const struct message *message);

/* What the exchange's messages and the table do (member_exchange.c). */
void member_handle_table(struct member *member, const struct round_table *table);
void member_handle_contribution(struct member *member, const struct message *message,
                                struct actions *actions);
void member_handle_result(struct member *member, const struct message *message,
                          struct actions *actions);
void member_handle_fetch(struct member *member, const struct message *message,
                         struct actions *actions);
void member_sum_next(struct member *member, struct actions *actions);
void member_sum_dropped(struct member *member);
void member_summed(struct member *member, const struct hash *hash, struct actions *actions);

/* Who is asked for what, and when again (member_request.c).
 * member_request          whatever the windows allow now
 * member_request_tick     a heartbeat has passed
 * member_request_peer_closed   what was asked of this identity is asked elsewhere, or of it later
 * member_request_skip_unreachable      the same, as long as it is one of those who do not answer
 * member_request_set_holders  who holds the proposal's results; what is asked of others is asked of
 *                             these
 * member_request_clear     nothing is asked of anybody
 * member_slot         where the contribution of a seat to a slice lies or is to lie, or NO_SLOT
 * member_free_slice   neither a result nor contributions of it are asked for; its slots are free,
 *                     unless a sum reads them
 * member_note_arrival         a seat sent what it was asked for */
enum { NO_SLOT = CONTRIBUTION_SLOTS_PER_MEMBER };
void member_request(struct member *member, struct actions *actions);
void member_request_tick(struct member *member);
void member_request_peer_closed(struct member *member, const struct identity *id);
void member_request_skip_unreachable(struct member *member);
void member_request_set_holders(struct member *member, const uint64_t *holders);
void member_request_clear(struct member *member);
uint32_t member_slot(const struct member *member, uint32_t seat, uint32_t slice);
void member_free_slice(struct member *member, uint32_t slice);
void member_note_arrival(struct member *member, uint32_t seat);

#endif
