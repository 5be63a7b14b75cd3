/* tracker_recheck: which slices the voters on a proposal audit, and how long the tracker waits for
 * these audits. In one of AUDIT_ROUNDS proposals (audit.h), each voter audits a slice that it draws
 * in secret. If one voter then accuses a member, and the others would commit, the tracker makes
 * another proposal with the same results, for which all voters audit that slice. The outcome is
 * final: either the member is suspended, or the accuser is ignored for some rounds.
 * Private to the tracker's files; included by tracker_state.h. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_RECHECK_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_RECHECK_H

#include "runtime/swarm/tracker_machine/tracker_machine.h"

/* Whether the others spend time on the accusations and votes of a voter. The credit is kept when
 * the member restarts. */
struct recheck_credit {
    uint32_t ignored_until; /* first round in which the voter's accusations count again */
    /* rounds for which the voter's accusations were ignored the last time; 0: never */
    uint32_t ignored_rounds;
    /* first round in which audited proposals wait for the voter's vote again */
    uint32_t awaited_from;
};

struct tracker_recheck { /* what voters audit; assigned only by tracker_recheck.c */
    uint32_t next;       /* recheck of the next proposal: RECHECK_NONE, or RECHECK_SLICE + slice */
    uint32_t current; /* recheck of the current proposal: a value like `next`, or RECHECK_DRAWN */
    uint32_t accuser_row; /* 1 + the row whose accusation the open round follows; 0: none */
    bool is_confirmed;    /* more than half of the roster accuses the same member */
    int64_t quorum_ms;    /* when a quorum agreed with the audited proposal; 0: not yet */
    struct recheck_credit credits[SWARM_MEMBERS_MAX]; /* by row: credit of the voter */
};

/* tracker_begin_recheck: decide what the voters on a new proposal audit.
 * tracker_advance_recheck: called when a quorum agrees with the proposal. Returns true if it is not
 * committed yet, because more votes are waited for, or because another proposal follows.
 * recheck_confirm_accusation: record that more than half of the roster accuses the same member.
 * tracker_end_recheck: called at the end of a round: ignore an accuser that was not confirmed.
 * tracker_clear_recheck_credit: forget the credit of a row, which another member gets. */
void tracker_begin_recheck(struct tracker *tracker);
bool tracker_advance_recheck(struct tracker *tracker, int64_t now_ms);
void recheck_confirm_accusation(struct tracker_recheck *recheck);
void tracker_end_recheck(struct tracker *tracker);
void tracker_clear_recheck_credit(struct tracker *tracker, uint32_t row);

#endif
