/* world: a number of ranks that run one body, each with memory and a communicator of its own; one
 * row for each implementation of contract A. */
#ifndef SKEP_TESTS_CONTRACT_WORLD_H
#define SKEP_TESTS_CONTRACT_WORLD_H

#include "base/check.h"
#include "tests/contract/layout.h"

#include <stdbool.h>

/* What a rank found, readable by the test when the rank has ended. */
struct outcome {
    bool ended;        /* came to the end of its body */
    char failure[300]; /* the first one; empty: none */
};

/* A rank at work. Its spaces are SPACE_DEVICE and SPACE_HOST. Where `memory` is but the host's copy
 * of them, push takes its first bytes there, and pull back. */
struct member {
    int rank;
    const struct layout *layout;
    struct layout_groups groups;
    struct communicator communicator;
    unsigned char *memory[SPACE_COUNT];
    uint64_t bytes; /* of each */
    struct outcome *outcome;
    void (*push)(struct member *member, enum space space, uint64_t bytes); /* NULL: no copy */
    void (*pull)(struct member *member, enum space space, uint64_t bytes);
};

typedef void member_body(struct member *member, void *context);

struct processes;

/* Ranks are threads, or processes that run one member each from opening to closing. */
struct implementation {
    const char *name;
    void (*run_threads)(const struct layout *layout, uint64_t bytes, member_body *body,
                        void *context, struct outcome *outcomes);
    void (*run_member)(struct processes *processes, struct member *member, member_body *body,
                       void *context);
    int world_most;   /* ranks that one machine runs in a test's time, */
    int random_calls; /* and calls */
};

/* Those that a test is built with. */
extern const struct implementation IMPLEMENTATIONS[];
extern const int IMPLEMENTATION_COUNT;

/* implementations_can_run: whether this machine has what they need. */
bool implementations_can_run(void);

/* outcome_fail: remember the first failure. */
void outcome_fail(struct outcome *outcome, const char *format, ...) PRINTF_LIKE(2, 3);

/* world_run: run `body` on all ranks and fail the test where one of them failed or did not end.
 * `context` is the same for all, not to be written. */
void world_run(const struct implementation *implementation, const struct layout *layout,
               uint64_t bytes, member_body *body, void *context);

/* world_run_outcomes: run it, and leave it to the caller what the ranks found. */
void world_run_outcomes(const struct implementation *implementation, const struct layout *layout,
                        uint64_t bytes, member_body *body, void *context, struct outcome *outcomes);

/* member_push, member_pull: where memory has a copy. */
void member_push(struct member *member, enum space space, uint64_t bytes);
void member_pull(struct member *member, enum space space, uint64_t bytes);

/* world_run_inproc: ranks as threads. */
void world_run_inproc(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                      struct outcome *outcomes);

#endif
