/* extent: one buffer that the planner must place. The planner has no other information about the
 * buffer, and never changes an extent: the plan has the offsets. */
#ifndef SKEP_ARENA_EXTENT_H
#define SKEP_ARENA_EXTENT_H

#include "base/space.h"

#include <stdint.h>

/* The purpose of a buffer; only reports and drawings use it. */
enum extent_role {
    ROLE_PARAMS,
    ROLE_MASTER,   /* fp32 copies of parameters, for the optimizer */
    ROLE_GATHERED, /* gathered units: all elements of a unit that is otherwise sharded */
    ROLE_GRADIENTS,
    ROLE_MOMENTS,
    ROLE_CONSTANTS, /* tables that never change, such as rotary embeddings */
    ROLE_SCALARS,   /* values that change at every step (struct step_scalars) */
    ROLE_BATCH,     /* ids, labels and positions of a microbatch's tokens */
    ROLE_ACTIVATIONS,
    ROLE_ACTIVATION_GRADIENTS,
    ROLE_WORKSPACE,
    ROLE_CACHE,    /* keys and values of earlier tokens, for generation */
    ROLE_STAGING,  /* buffers between files or host memory and the device */
    ROLE_OUTER,    /* a swarm member's outer optimizer state and error feedback */
    ROLE_EXCHANGE, /* a swarm member's encoded contributions and results of a round */
    ROLE_COUNT
};

const char *space_name(enum space space); /* "device", "pinned", "host" */
/* name of a role: "params", "master", "activation gradients", ... */
const char *extent_role_name(enum extent_role role);

struct extent {
    const char *name;
    enum extent_role role;
    enum space space;
    uint64_t bytes;       /* > 0 */
    uint64_t align;       /* a power of two */
    uint32_t first, last; /* life in program steps, half-open: [first, last), first < last */
};

#endif
