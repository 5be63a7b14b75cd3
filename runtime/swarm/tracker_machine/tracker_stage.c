/* tracker_stage: the stage of the round and the times that deadlines are counted from. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

enum {
    /* number of heartbeats; after a longer time without events, the process was paused */
    GAP_HEARTBEATS = 3,
    WAIT_PERCENT = 3, /* percentage of all time by which late members may delay rounds */
};

/* Stages that may follow each stage, as bits. */
static const uint8_t NEXT_STAGES[] = {[STAGE_READY] = 1 << STAGE_READY | 1 << STAGE_TRAIN,
                                      [STAGE_TRAIN] = 1 << STAGE_READY | 1 << STAGE_EXCHANGE,
                                      [STAGE_EXCHANGE] =
                                          1 << STAGE_READY | 1 << STAGE_EXCHANGE | 1 << STAGE_VOTE,
                                      [STAGE_VOTE] = 1 << STAGE_READY | 1 << STAGE_EXCHANGE};

void stage_init(struct tracker_stage *stage, const struct tracker_record *record, int64_t now_ms) {
    *stage = (struct tracker_stage){.kind = STAGE_READY,
                                    .last_event_ms = now_ms,
                                    .stage_began_ms = now_ms,
                                    .round_began_ms = now_ms,
                                    .last_quorum_ms = now_ms,
                                    .last_current_ms = now_ms,
                                    .committed_ms = now_ms,
                                    .budget_percent_ms = INT64_MAX / 2,
                                    .budget_counted_ms = now_ms};
    if (record->head.kind == ENTRY_OPEN) {
        bool has_table = record->table.round == record->head.round && record->table.version > 0;
        stage->kind = has_table ? STAGE_EXCHANGE : STAGE_TRAIN;
        stage->is_inherited = true;
    }
}

/* Moves all times by a gap without events, and returns the gap; 0: no gap. Ticks arrive every
 * heartbeat, so a longer time without any event is a pause of the tracker or a jump of its clock,
 * and no silence of the members. */
int64_t stage_skip_gap(struct tracker_stage *stage, int64_t heartbeat_ms, int64_t now_ms) {
    ASSERT(heartbeat_ms > 0);
    int64_t gap_ms = now_ms - stage->last_event_ms - heartbeat_ms;
    stage->last_event_ms = now_ms;
    if (gap_ms <= GAP_HEARTBEATS * heartbeat_ms) {
        return 0;
    }
    stage->stage_began_ms += gap_ms;
    stage->budget_counted_ms += gap_ms;
    stage->round_began_ms += gap_ms;
    stage->last_quorum_ms += gap_ms;
    stage->last_current_ms += gap_ms;
    stage->committed_ms += gap_ms;
    return gap_ms;
}

void tracker_enter_stage(struct tracker *tracker, enum tracker_stage_kind kind, int64_t now_ms) {
    struct tracker_stage *stage = &tracker->stage;
    ASSERT((NEXT_STAGES[stage->kind] >> kind & 1) != 0);
    ASSERT((tracker->record.head.kind == ENTRY_OPEN) == (kind != STAGE_READY));
    stage->kind = kind;
    stage->stage_began_ms = now_ms;
    stage->is_concluded = false;
    if (kind == STAGE_TRAIN) {
        stage->round_began_ms = now_ms;
        stage->last_quorum_ms = now_ms;
        stage->is_inherited = false;
    } else if (kind == STAGE_READY) {
        stage->last_current_ms = now_ms;
        stage->budget_percent_ms += (now_ms - stage->budget_counted_ms) * WAIT_PERCENT;
        stage->budget_counted_ms = now_ms;
    }
    if (tracker->record.head.kind == ENTRY_COMMIT) {
        stage->committed_ms = now_ms;
    }
    exchange_stop_poll(&tracker->exchange);
}

void stage_mark_quorum(struct tracker_stage *stage, int64_t now_ms) {
    ASSERT(stage->kind != STAGE_READY);
    stage->last_quorum_ms = now_ms;
}

void stage_mark_current_state(struct tracker_stage *stage, int64_t now_ms) {
    ASSERT(stage->kind == STAGE_READY);
    stage->last_current_ms = now_ms;
}

void stage_mark_concluded(struct tracker_stage *stage) {
    ASSERT(stage->kind == STAGE_READY);
    stage->is_concluded = true;
}

void stage_update_wait_budget(struct tracker_stage *stage, bool is_waiting, int64_t capacity_ms,
                              int64_t now_ms) {
    int64_t passed_ms = now_ms - stage->budget_counted_ms;
    int64_t budget = stage->budget_percent_ms;
    ASSERT(stage->kind == STAGE_READY && passed_ms >= 0 && capacity_ms > 0);
    budget = budget < 100 * capacity_ms ? budget : 100 * capacity_ms;
    budget += passed_ms * WAIT_PERCENT - (is_waiting ? 100 * passed_ms : 0);
    budget = budget < 100 * capacity_ms ? budget : 100 * capacity_ms;
    stage->budget_percent_ms = budget > 0 ? budget : 0;
    stage->budget_counted_ms = now_ms;
}

bool stage_may_wait(const struct tracker_stage *stage, int64_t reserve_ms) {
    ASSERT(reserve_ms >= 0);
    return stage->budget_percent_ms > 100 * reserve_ms;
}
