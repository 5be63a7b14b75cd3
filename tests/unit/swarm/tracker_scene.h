/* tracker_scene: the tracker's machine by hand, between a disk and members who say what a test
 * makes them say. */
#ifndef SKEP_TESTS_UNIT_SWARM_TRACKER_SCENE_H
#define SKEP_TESTS_UNIT_SWARM_TRACKER_SCENE_H

#include "runtime/swarm/tracker_machine/tracker_machine.h"

enum {
    SLICES = 16,
    MEMBERS = 5,
    SEATS_ALL = (1 << MEMBERS) - 1,
    ROLLBACK_MS = 20000,
    TRAINED_SAMPLES = 8
};

/* The root that stands for a contribution of zeros. */
extern const struct hash SCENE_ZERO_ROOT;

/* A tracker with its disk, and what it said last to whom. */
extern struct scene {
    struct tracker *tracker;
    struct tracker_record record;
    struct tracker_record written; /* as it was written last; its arrays belong to the tracker */
    struct entry_slice slices[SLICES];
    struct slice_plan plans[SLICES];
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    int64_t now_ms;
    uint64_t number;
    uint8_t entries;                       /* appended so far */
    struct entry head;                     /* the newest that is no suspension */
    struct entry suspension;               /* the newest one */
    struct slice_plan table[SLICES];       /* as it was said */
    struct slice_plan plans_first[SLICES]; /* in the first table of a round */
    uint32_t table_version;
    uint32_t bases[MEMBERS]; /* of the last table to each member */
    uint32_t lost_tables;    /* members that report no table */
    uint32_t poll;
    uint32_t told_to_declare; /* members that a POLL told to end their training */
    uint64_t proposal;        /* number of the last */
    uint32_t recheck;         /* what it asks voters to audit */
    uint64_t goodbyes;        /* by member */
    uint32_t sessions[MEMBERS];
    struct slice_report reports[MEMBERS][SLICES];
    struct timing_measured measured[MEMBERS];
    struct hash stored[MEMBERS][STORED_STATES_MAX];  /* roots that members report as stored */
    uint32_t awaited_ms[MEMBERS][SWARM_MEMBERS_MAX]; /* what a member says of each seat */
    uint64_t unreachable[MEMBERS];
    uint32_t adopting; /* members whose state is on its way */
    int disk_is_full;
} scene;

/* scene_begin: a new swarm that opens its first round with so many members; all are registered.
 * scene_free: after the last. */
void scene_begin(uint32_t commits_max, uint32_t members_min);
void scene_free(void);

/* scene_restart: another process of the tracker, with the record that was written last. The members
 * keep their sessions. */
void scene_restart(void);

/* scene_take: one event; a write that it causes ends at once, and is the last that it causes. */
void scene_take(const struct event *event);

/* scene_say: of a member, in its present session. scene_report: as the scene has it.
 * scene_declare: of a member for the open round.
 * scene_beat: a heartbeat of everybody but those in `silent`. */
void scene_say(uint32_t member, struct message message);
void scene_report(uint32_t member, uint32_t round);
void scene_declare(uint32_t member, struct training_amount trained, const struct hash *root);
void scene_beat(uint32_t round, uint32_t silent);

/* scene_close: its connection is gone. scene_start_anew: it is another process from now on. */
void scene_close(uint32_t member);
void scene_start_anew(uint32_t member);

/* scene_open_and_declare: up to the table of the next round, which all are in.
 * scene_end_round: the open round ends by its age. */
void scene_open_and_declare(void);
void scene_end_round(void);

#endif
