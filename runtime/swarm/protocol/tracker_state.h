/* tracker_state: the tracker's memory, for the files of its machine only. */
#ifndef SKEP_SWARM_PROTOCOL_TRACKER_STATE_H
#define SKEP_SWARM_PROTOCOL_TRACKER_STATE_H

#include "runtime/swarm/protocol/tracker.h"

enum { NO_SEAT = -1, ROW_NONE = SWARM_MEMBERS_MAX };

enum tracker_stage {
    STAGE_READY,    /* between rounds */
    STAGE_TRAIN,    /* OPEN is out, declarations come in */
    STAGE_EXCHANGE, /* TABLE is out, results come in */
    STAGE_VOTE,     /* PROPOSE is out, votes come in */
};

/* What was last said to a member: the same again waits for twice as long each time. */
struct tracker_last_sent {
    enum message_kind kind;
    uint64_t number; /* of the entry's hash, the table's version, the ask or the proposal */
    int64_t at_ms;
    uint32_t wait_ms; /* 0: nothing was said */
};

/* What the tracker knows of a registered member; row r is record.members[r]. */
struct tracker_member {
    int64_t heard_ms;
    int silent; /* not heard for timing.silence_ms, or gone */
    int leaving;
    uint32_t missed; /* rounds opened without it since it came, or had a seat */
    int64_t held_ms; /* for so long no round was opened, for its sake, since it last was ready */
    uint64_t report_number;
    uint32_t ask;        /* the newest that it answered */
    uint32_t round;      /* of `reports` */
    uint64_t cut;        /* rows that do not answer it, as it said in the last round it was in */
    uint32_t version;    /* of the table that it knows */
    uint64_t known;      /* results and contributions in its reports of the open round */
    int64_t progress_ms; /* when there were more of them, or less */
    struct hash root;    /* zero: it adopts one */
    struct hash durable; /* of the state on its disk */
    uint64_t welcome;    /* its start's number */
    uint64_t tokens;     /* as declared for the open round */
    int has_declared;
    int has_voted;
    struct hash vote_root;
    struct hash vote_hash;
    struct signature vote_signature;
    struct timing_measured measured;
    struct tracker_last_sent said;
    struct slice_report *reports; /* [slice_count] */
};

/* A state that the ledger came by, to go back to. */
struct rollback_state {
    struct hash root;
    struct data_cursor cursor;
};

struct tracker {
    struct tracker_settings settings;
    struct swarm_timing timing;
    struct timing_measured measured[SWARM_MEMBERS_MAX]; /* what `timing` was derived from */
    uint32_t measured_count;

    /* Durable, but for a write under way, which makes `next` of it. Big arrays are not copied: the
     * two share the declared hashes, and the plans unless these change; a proposal lends its slices
     * to next.head, and once that is durable takes those of the commit before. */
    struct tracker_record record;
    struct tracker_record next;
    struct slice_plan *spare_plans; /* [slice_count]: before a change, once it is durable */
    uint32_t writing;               /* enum record_part of the write under way; 0: none */
    uint32_t pending_row;           /* 1 + the row whose session is being written */
    int is_fenced;
    int is_held_back; /* nothing is written before the next heartbeat: a write has failed */
    struct entry proposal;
    uint64_t *holders; /* [slice_count]: seats that hold a result of the present epoch */
    struct rollback_state
        past[ROLLBACK_STATES_MAX]; /* ascending; the last is the state that stands */
    uint32_t past_count;

    struct tracker_member members[SWARM_MEMBERS_MAX];
    struct signature signatures[SWARM_MEMBERS_MAX]; /* of the declarations, by seat */
    int row_of_seat[SWARM_MEMBERS_MAX]; /* of the head's roster; NO_SEAT: its session is gone */
    int seat_of_row[SWARM_MEMBERS_MAX];
    enum tracker_stage stage;
    uint64_t proposal_number;
    uint32_t ask;
    int is_asking;      /* salvage waits for everyone's answer to `ask` */
    int64_t seen_ms;    /* the last event */
    int64_t stage_ms;   /* when the stage began */
    int64_t held_ms;    /* until then the members' held_ms are counted */
    int64_t round_ms;   /* when the round was opened */
    int64_t quorum_ms;  /* when a quorum was last seen */
    int64_t reached_ms; /* when somebody was last seen on the state that stands */
};

/* tracker_draft: tracker->next is as tracker->record, to be changed and written.
 * tracker_draft_plans: the same, and its plans may be changed too. */
void tracker_draft(struct tracker *tracker);
void tracker_draft_plans(struct tracker *tracker);

/* tracker_write: begin to make tracker->next durable, of which `parts` (enum record_part) changed;
 * next.head is appended if it is among them. */
void tracker_write(struct tracker *tracker, uint32_t parts, struct actions *actions);

/* tracker_send: one message to a member row; incarnation and session are filled in.
 * tracker_send_to: one as it is. */
void tracker_send_to(const struct identity *to, struct message message, struct actions *actions);
void tracker_send(struct tracker *tracker, uint32_t row, struct message message,
                  struct actions *actions);

/* tracker_row: the row of an identity, or ROW_NONE. */
uint32_t tracker_row(const struct tracker *tracker, const struct identity *id);

/* tracker_live_seats: seats of the open round whose session is neither silent nor gone. */
uint64_t tracker_live_seats(const struct tracker *tracker);

/* tracker_handle_message: one message from a member (tracker_handle_message.c). */
void tracker_handle_message(struct tracker *tracker, const struct message *message, int64_t now_ms,
                            struct actions *actions);

/* tracker_send_missing: what a member still lacks of what the tracker stands for, one thing at a
 * time, and the same thing not again too soon. */
void tracker_send_missing(struct tracker *tracker, uint32_t row, int64_t now_ms,
                          struct actions *actions);

/* tracker_send_goodbyes: tell those who may go that the run has ended. */
void tracker_send_goodbyes(struct tracker *tracker, int64_t now_ms, struct actions *actions);

/* tracker_is_over: the run has all its commits, and no round opens any more. */
int tracker_is_over(const struct tracker *tracker);

/* tracker_advance: whatever the state now allows: open, table, salvage, propose, commit, abort. */
void tracker_advance(struct tracker *tracker, int64_t now_ms, struct actions *actions);

/* tracker_begin_entry: the next entry, with what every kind carries on from the head, as the head
 * of a draft. */
struct entry *tracker_begin_entry(struct tracker *tracker, enum entry_kind kind);

/* tracker_has_state: it neither has yet to report one nor is bringing one over. */
int tracker_has_state(const struct tracker_member *member);

/* tracker_roll_back: if nobody has stood on the newest state, or come to it, for too long: back to
 * the newest state that a member stands on (tracker_back.c). */
void tracker_roll_back(struct tracker *tracker, int64_t now_ms, struct actions *actions);

/* tracker_add_rollback_state: a commit's state, or a rollback to one, in `past`. */
void tracker_add_rollback_state(struct tracker *tracker, const struct entry *entry);

/* tracker_derive_timing: deadlines from what the members have measured, if any have. */
void tracker_derive_timing(struct tracker *tracker);

/* tracker_links: who of `seats` do not reach each other, as one of the two says. */
struct tracker_links {
    uint64_t cut[SWARM_MEMBERS_MAX]; /* by seat: whom it does not reach */
    uint64_t fit;    /* of `seats`: who reach more than half of them, so that their sums are of the
                        many; all if nobody does */
    uint64_t owners; /* of these: who reach everybody, so that nobody's work is left out of their
                        slices, unless they are too few to bear all */
};
void tracker_links(const struct tracker *tracker, uint64_t seats, struct tracker_links *links);

/* tracker_upload_rates: what each of `seats` can send, for dealing slices; not zero for at least
 * one of them, zero for all others. tracker_write_table: weights, owners and hashes of the
 * declarations, written. */
void tracker_upload_rates(const struct tracker *tracker, uint64_t seats,
                          uint64_t shares[static SWARM_MEMBERS_MAX]);
void tracker_write_table(struct tracker *tracker, struct actions *actions);

/* tracker_weighted_seats: those of `seats` that have a weight in the table. */
uint64_t tracker_weighted_seats(const struct round_table *table, uint64_t seats);

/* tracker_advance_exchange: salvage and the proposal (tracker_advance_exchange.c).
 * tracker_note_report: a row's report was taken.
 * tracker_clear_stale_holders: slices of risen epochs are held by nobody yet. */
void tracker_advance_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions);
void tracker_note_report(struct tracker *tracker, uint32_t row, int64_t now_ms);
void tracker_clear_stale_holders(struct tracker *tracker);

/* tracker_propose: complete the proposal, whose slices are filled, under a number of its own. */
void tracker_propose(struct tracker *tracker);

/* tracker_enter_stage: begin a stage. */
void tracker_enter_stage(struct tracker *tracker, enum tracker_stage stage, int64_t now_ms);

#endif
