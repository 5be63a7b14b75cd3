#include "arena/extent.h"

#include "base/check.h"

const char *space_name(enum space space) {
    static const char *const NAMES[SPACE_COUNT] = {"device", "pinned", "host"};
    ASSERT(space < SPACE_COUNT);
    return NAMES[space];
}

const char *extent_role_name(enum extent_role role) {
    static const char *const NAMES[ROLE_COUNT] = {
        [ROLE_PARAMS] = "params",           [ROLE_MASTER] = "master",
        [ROLE_GATHERED] = "gathered",       [ROLE_GRADIENTS] = "gradients",
        [ROLE_MOMENTS] = "moments",         [ROLE_CONSTANTS] = "constants",
        [ROLE_SCALARS] = "scalars",         [ROLE_BATCH] = "batch",
        [ROLE_ACTIVATIONS] = "activations", [ROLE_ACTIVATION_GRADIENTS] = "activation gradients",
        [ROLE_WORKSPACE] = "workspace",     [ROLE_CACHE] = "cache",
        [ROLE_STAGING] = "staging",         [ROLE_OUTER] = "outer state",
        [ROLE_EXCHANGE] = "exchange",
    };
    ASSERT(role < ROLE_COUNT);
    return NAMES[role];
}
