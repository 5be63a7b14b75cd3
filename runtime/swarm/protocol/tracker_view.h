/* tracker_view: what a person may want to know of the tracker's machine. */
#ifndef SKEP_SWARM_PROTOCOL_TRACKER_VIEW_H
#define SKEP_SWARM_PROTOCOL_TRACKER_VIEW_H

#include "runtime/swarm/protocol/tracker.h"

enum { VIEW_DERIVATION_BYTES = 512 };

struct tracker_view_member {
    struct identity id;
    uint32_t session;
    int silent, leaving, has_declared, has_voted;
    int is_current;      /* it stands on the newest root */
    int seat;            /* in the open round; -1: none */
    int is_awaited;      /* the round's stage ends no sooner than with what this one does */
    int has_contributed; /* to the newest commit */
    uint32_t slices;     /* that it owns in the open round's table, else in the newest commit */
};

struct tracker_view {
    const struct tracker_record *record; /* lives until the next step */
    const char *stage;                   /* tracker_stage_name */
    int64_t stage_ms, round_ms;          /* when they began */
    int64_t moved_ms;                    /* when anything of the stage went on */
    const char *awaited;                 /* of members, in words: "votes"; NULL between rounds */
    uint32_t present, needed; /* members ready for a round, or of it that are there; the least */
    uint32_t slice_count;
    struct swarm_timing timing;
    char derivation[VIEW_DERIVATION_BYTES]; /* of the deadlines, from what was measured */
    uint32_t member_count;
    struct tracker_view_member members[SWARM_MEMBERS_MAX];
};

/* tracker_stage_name: what it does now: "ready", "train", "exchange" or "vote". */
const char *tracker_stage_name(const struct tracker *tracker);

/* tracker_read_view: a copy of what is true now. */
void tracker_read_view(const struct tracker *tracker, struct tracker_view *view);

#endif
