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

/* A rank at work. Its spaces are SPACE_DEVICE and SPACE_HOST. */
struct member {
    int rank;
    const struct layout *layout;
    struct layout_groups groups;
    struct communicator communicator;
    unsigned char *memory[SPACE_COUNT];
    uint64_t bytes; /* of each */
    struct outcome *outcome;
};

typedef void member_body(struct member *member, void *context);

struct implementation {
    const char *name;
    /* All ranks from opening to closing. `context` is the same for all, not to be written. */
    void (*run)(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                struct outcome *outcomes);
};

/* Those that can run on this machine. */
extern const struct implementation IMPLEMENTATIONS[];
extern const int IMPLEMENTATION_COUNT;

/* outcome_fail: remember the first failure. */
void outcome_fail(struct outcome *outcome, const char *format, ...) PRINTF_LIKE(2, 3);

/* world_run: run `body` on all ranks and fail the test where one of them failed or did not end. */
void world_run(const struct implementation *implementation, const struct layout *layout,
               uint64_t bytes, member_body *body, void *context);

/* world_run_shm, world_run_inproc: rows of IMPLEMENTATIONS. */
void world_run_shm(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                   struct outcome *outcomes);
void world_run_inproc(const struct layout *layout, uint64_t bytes, member_body *body, void *context,
                      struct outcome *outcomes);

#endif
