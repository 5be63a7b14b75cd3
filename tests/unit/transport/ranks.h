/* ranks: a test's ranks as processes, each with a record that the test can read. */
#ifndef SKEP_TESTS_UNIT_TRANSPORT_RANKS_H
#define SKEP_TESTS_UNIT_TRANSPORT_RANKS_H

#include "transport/site/site.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { TEST_RANKS_MAX = 16 };

/* One process's, in memory that the test shares with it. */
struct record {
    _Atomic int phase;      /* how far it has come */
    _Atomic int lost_calls; /* of the callback */
    _Atomic int64_t lost_ns;
    struct fault lost;  /* the callback's */
    _Atomic int status; /* of what it was to do; -1 before */
    struct fault fault;
};

/* What a rank does; it ends when this returns. */
typedef void rank_body(const struct launch_info *place, struct record *record);

struct ranks {
    int world;
    int listener, port; /* rank 0 inherits the first */
    int join_timeout_ms;
    int count; /* processes started */
    pid_t pids[TEST_RANKS_MAX];
    int exit_codes[TEST_RANKS_MAX]; /* 128 + signal when killed; -1 while it runs */
    _Atomic int *stop;              /* the bodies look at it */
    struct record *records;         /* [TEST_RANKS_MAX], in the order of starting */
};

/* ranks_init: nobody started; a port is taken. The test fails where the system refuses. */
void ranks_init(struct ranks *ranks, int world, int join_timeout_ms);

/* ranks_start: one more process; gives its index. */
int ranks_start(struct ranks *ranks, int rank, rank_body *body);
int ranks_start_place(struct ranks *ranks, const struct launch_info *place, rank_body *body);
void ranks_start_all(struct ranks *ranks, rank_body *body);
struct launch_info ranks_place(const struct ranks *ranks, int rank);

typedef bool ranks_condition(const struct ranks *ranks, int index);

/* ranks_await: until `done` of every started process but `but` (or -1) holds; false: not in
 * time. */
bool ranks_await(struct ranks *ranks, ranks_condition *done, int but, int timeout_ms);
bool ranks_have_met(const struct ranks *ranks, int index); /* phase 1 or more */
bool ranks_lost_one(const struct ranks *ranks, int index); /* the callback was called */
bool ranks_have_ended(const struct ranks *ranks, int index);

/* ranks_finish: every process ended (killed where need be), memory and port given back. */
void ranks_finish(struct ranks *ranks);

/* Bodies. ranks_work: open, watch, exchange until *stop, then leave; phase 1 after the first
 * exchange. ranks_meet: open and leave. */
void ranks_work(const struct launch_info *place, struct record *record);
void ranks_meet(const struct launch_info *place, struct record *record);
void ranks_note_lost(void *context, const struct fault *fault);

#endif
