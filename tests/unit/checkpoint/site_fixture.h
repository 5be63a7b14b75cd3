/* site_fixture: ranks as processes of their own, which come to agreements through the test. */
#ifndef SKEP_TESTS_UNIT_CHECKPOINT_SITE_FIXTURE_H
#define SKEP_TESTS_UNIT_CHECKPOINT_SITE_FIXTURE_H

#include "runtime/checkpoint/checkpoint.h"

enum {
    SITE_RANKS_MAX = 8,
    SITE_ANY = -1, /* no rank */
    SITE_LOST = 4, /* the exit code of a rank when another is lost */
};

/* What N processes do, each a copy of the test's. */
struct site_work {
    int world;
    /* One rank's work. Runs outside the test's own process: no assertions of cmocka in it. */
    enum status (*run)(void *context, const struct checkpoint_ranks *site, struct fault *fault);
    void *context;
    int failing_rank; /* fails before its agreement `failing_round` (from 1); SITE_ANY: none */
    int failing_round;
};

/* How one of them ended. */
struct site_outcome {
    int exit_code;      /* 0 for any that gave its status */
    int rounds;         /* agreements that it made */
    enum status status; /* with `fault`, when it is not OK */
    struct fault fault;
};

/* site_run: all of them, to their end. When one ends early the others end with SITE_LOST at their
 * next agreement. Ranks that agree where others do not are a failure of the test. */
void site_run(const struct site_work *work, struct site_outcome outcomes[static SITE_RANKS_MAX]);

/* site_assert_same: every rank's status is `status`; the fault, if any, is the same on all. */
void site_assert_same(const struct site_work *work, const struct site_outcome *outcomes,
                      enum status status);

#endif
