/* plan_site: describes a plan for several ranks: padding, and the memory and step time of the other
 * ZeRO stages. */
#ifndef SKEP_DIAGNOSE_PLAN_SITE_H
#define SKEP_DIAGNOSE_PLAN_SITE_H

#include "runtime/session/what_if.h"

/* The memory and step time of the run with one value of strategy.zero. */
struct stage_row {
    int zero;                       /* Value of strategy.zero. */
    struct what_if_outcome outcome; /* outcome of the plan with this stage */
};

enum {
    SITE_NOTES_MAX = 4,   /* maximum number of warnings */
    SITE_NOTE_BYTES = 320 /* size of the text of a warning, with its NUL */
};

struct site_report {
    const struct session *session;
    struct what_if_outcome own; /* Outcome of the plan with the run's strategy.zero. */
    int64_t *padding_of_shard;  /* [ranks of the shard group]: padding elements of each shard */
    struct stage_row
        stages[ZERO_STAGE_COUNT]; /* Outcomes of the ZeRO stages that the other settings permit. */
    int stage_count;
    int fastest; /* Index of the fastest stage that fits in memory; -1 if none fits. */
    char notes[SITE_NOTES_MAX][SITE_NOTE_BYTES]; /* Warnings for the user. */
    int note_count;
};

/* plan_site_read: fill the report of a compiled session with at least two ranks. Compiles the
 * program again for every other ZeRO stage.
 * memory  in `region`; the report points into *session
 * errors  STATUS_FAILED when the proof of another stage's plan fails */
MUST_CHECK enum status plan_site_read(const struct session *session, struct region *region,
                                      struct site_report *report, struct fault *fault);

#endif
