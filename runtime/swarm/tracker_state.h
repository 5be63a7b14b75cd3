/* tracker_state: the tracker's memory, for the files of its machine only. */
#ifndef SKEP_SWARM_TRACKER_STATE_H
#define SKEP_SWARM_TRACKER_STATE_H

#include "runtime/swarm/tracker.h"

enum { NO_SEAT = -1 };

enum tracker_stage {
    STAGE_READY,    /* between rounds */
    STAGE_TRAIN,    /* OPEN is out, declarations come in */
    STAGE_EXCHANGE, /* TABLE is out, results come in */
    STAGE_VOTE,     /* PROPOSE is out, votes come in */
};

/* What the tracker knows of a registered member; row r is record.members[r]. */
struct tracker_member {
    int64_t heard_ms;
    int silent; /* not heard for timing.silence_ms, or gone */
    int leaving;
    uint64_t report_number;
    uint32_t ask;     /* the newest that it answered */
    uint32_t round;   /* of `reports` */
    uint32_t version; /* of the table that it knows */
    struct hash root;
    uint64_t welcome; /* its start's number */
    uint64_t tokens;  /* as declared for the open round */
    int has_declared;
    int has_voted;
    struct hash vote_root;
    struct hash vote_hash;
    struct signature vote_signature;
    struct timing_measured measured;
    struct slice_report *reports; /* [slice_count] */
};

struct tracker {
    struct tracker_settings settings;
    struct tracker_record record; /* durable, but for a write under way */
    struct tracker_record next;   /* what is being written; shares no array with record */
    struct entry proposal;
    struct tracker_member members[SWARM_MEMBERS_MAX];
    struct hash *declared; /* [SWARM_MEMBERS_MAX * slice_count]: by seat, of the open round */
    struct signature signatures[SWARM_MEMBERS_MAX]; /* of these */
    uint64_t *holders; /* [slice_count]: seats that hold the result that is proposed */
    enum tracker_stage stage;
    int is_writing;
    int is_fenced;
    int is_appending; /* the write under way appends next.head */
    uint64_t proposal_number;
    uint32_t ask;
    int is_asking;        /* salvage waits for everyone's answer to `ask` */
    uint64_t progress;    /* results and contributions known of */
    uint32_t pending_row; /* whose session is being written */
    int64_t ticked_ms;
    int64_t stage_ms;    /* when the stage began */
    int64_t round_ms;    /* when the round was opened */
    int64_t progress_ms; /* when the exchange last went on */
    int64_t quorum_ms;   /* when a quorum was last seen */
};

/* tracker_copy_record: everything, into the arrays that `to` owns. */
void tracker_copy_record(struct tracker_record *to, const struct tracker_record *from,
                         uint32_t slice_count);

/* tracker_write: begin to make tracker->next durable, of which `parts` (enum record_part) changed;
 * next.head is appended if it is among them. */
void tracker_write(struct tracker *tracker, uint32_t parts, struct actions *actions);

/* tracker_say: one message to a member row; incarnation and session are filled in. */
void tracker_say(struct tracker *tracker, uint32_t row, struct message message,
                 struct actions *actions);

/* tracker_row_of_seat: the row whose session sits there, or NO_SEAT if it is gone. */
int tracker_row_of_seat(const struct tracker *tracker, uint32_t seat);
int tracker_seat_of_row(const struct tracker *tracker, uint32_t row);

/* tracker_live_seats: seats of the open round whose session is neither silent nor gone. */
uint64_t tracker_live_seats(const struct tracker *tracker);

/* tracker_is_over: the run has all its commits, and no round opens any more. */
int tracker_is_over(const struct tracker *tracker);

/* tracker_advance: whatever the state now allows: open, table, salvage, propose, commit, abort. */
void tracker_advance(struct tracker *tracker, int64_t now_ms, struct actions *actions);

/* tracker_exchange: salvage and the proposal (tracker_exchange.c). */
void tracker_exchange(struct tracker *tracker, int64_t now_ms, struct actions *actions);

/* tracker_table: weights, owners and hashes of the declarations, written. */
void tracker_table(struct tracker *tracker, struct actions *actions);

/* tracker_propose: complete the proposal, whose slices are filled, under a number of its own. */
void tracker_propose(struct tracker *tracker);

/* tracker_enter: begin a stage. */
void tracker_enter(struct tracker *tracker, enum tracker_stage stage, int64_t now_ms);

#endif
