/* member_state: the member's memory, for the files of its machine only. */
#ifndef SKEP_SWARM_MEMBER_STATE_H
#define SKEP_SWARM_MEMBER_STATE_H

#include "runtime/swarm/member.h"

enum { NO_SEAT = -1 };

struct member {
    struct identity id;
    uint64_t number;
    uint32_t slice_count;
    struct hash root;
    uint32_t session;     /* 0: none yet */
    uint32_t incarnation; /* the highest heard */
    uint32_t ask;
    uint64_t report_number;
    uint32_t round_seen;      /* the newest opened */
    uint32_t committed_round; /* the newest applied */
    int is_leaving;

    /* The open round. */
    uint32_t round; /* 0: none */
    int seat;
    struct entry open;
    int has_trained;
    uint64_t tokens;
    struct hash *hashes;      /* [slice_count]: of this member's contribution */
    struct round_table table; /* version 0: none yet */
    uint32_t *sent;           /* [slice_count]: 1 + the epoch that a contribution was sent for */

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
    int is_astray;  /* its results do not lead to its root from here: the state is fetched */
    struct hash commit_base;
    struct entry commit;

    /* The one job given to the data plane, besides training. */
    uint32_t job; /* its number; 0: none */
    uint32_t job_newest;
    enum action_kind job_kind;
    uint32_t job_slice;
    uint64_t job_contributors;
    uint32_t attempt;    /* which peer is asked next */
    uint32_t next_fetch; /* the slice that is looked at next */
};

struct action *member_act(struct actions *actions, enum action_kind kind);

/* member_say: one message to a seat's identity, or to the tracker if NULL. */
void member_say(struct member *member, const struct identity *to, struct message message,
                struct actions *actions);

/* member_begin: give the data plane its next job. */
struct action *member_begin(struct member *member, enum action_kind kind, struct actions *actions);

/* member_report: everything the tracker should know of. */
void member_report(struct member *member, struct actions *actions);

/* member_wanted: the entry whose results are wanted: a commit's, else the proposal's, else NULL. */
const struct entry *member_wanted(const struct member *member);

/* What the exchange's messages and the table do (member_exchange.c). */
void member_take_table(struct member *member, const struct round_table *table,
                       struct actions *actions);
void member_take_contribution(struct member *member, const struct message *message,
                              struct actions *actions);
void member_take_result(struct member *member, const struct message *message,
                        struct actions *actions);
void member_serve(struct member *member, const struct message *message, struct actions *actions);
void member_fetch(struct member *member, struct actions *actions);
void member_sum_next(struct member *member, struct actions *actions);
void member_summed(struct member *member, const struct hash *hash, struct actions *actions);

#endif
