#include "runtime/swarm_setup/swarm_memory.h"

struct member_loop_options swarm_loop_options(const struct swarm_terms *terms,
                                              struct replica *replica) {
    return (struct member_loop_options){.members_max = terms->shape.members_max,
                                        .bulk_connections = SWARM_BULK_CONNECTIONS,
                                        .queued_frames = SWARM_QUEUED_FRAMES,
                                        .replica = replica};
}

const struct target *swarm_memory_declare_queues(const struct swarm_terms *terms,
                                                 const struct target *target,
                                                 struct region *region) {
    struct replica replica = {.shape = terms->shape};
    const struct member_loop_options options = swarm_loop_options(terms, &replica);
    const struct target_declared_use queues = {
        .name = "ZeroMQ",
        .bytes = member_loop_declared_bytes(&options),
        .source = "full queues of all connections, and one message of the maximum length"};
    return target_with_declared_use(target, SPACE_HOST, &queues, region);
}

bool swarm_device_computes_on_replica(const struct target *target) {
    return target->kind == TARGET_CUDA && !target->unified;
}

void swarm_memory_list_extents(const struct swarm_terms *terms, const struct target *target,
                               struct swarm_member_kind kind,
                               struct resident_extent extents[static SWARM_EXTENT_COUNT]) {
    const struct replica_memory memory = replica_memory_of(&terms->shape);
    const struct replica_device_memory device = replica_device_memory_of(&terms->shape);
    bool on_device = swarm_device_computes_on_replica(target);
    enum space copied = on_device ? SPACE_PINNED : SPACE_HOST;
    struct replica replica = {.shape = terms->shape};
    const struct member_loop_options options = swarm_loop_options(terms, &replica);
    const struct resident_extent made[] = {
        [SWARM_EXTENT_PARAMS] = {"outer params", ROLE_OUTER, copied, memory.params},
        [SWARM_EXTENT_MOMENTUM] = {"outer momentum", ROLE_OUTER, copied, memory.momentum},
        [SWARM_EXTENT_FEEDBACK] = {"error feedback", ROLE_OUTER, copied, memory.feedback},
        [SWARM_EXTENT_RESIDUAL] = {"re-encoding residual", ROLE_OUTER, SPACE_HOST, memory.residual},
        [SWARM_EXTENT_RESIDUAL_SOURCES] = {"residual marks", ROLE_OUTER, SPACE_HOST,
                                           memory.residual_sources},
        [SWARM_EXTENT_LEAF_HASHES] = {"leaf names", ROLE_OUTER, SPACE_HOST, memory.leaves},
        [SWARM_EXTENT_CONTRIBUTION] = {"own contribution", ROLE_EXCHANGE, copied,
                                       memory.contribution},
        [SWARM_EXTENT_DECLARED] = {"declared slices", ROLE_EXCHANGE, SPACE_HOST, memory.declared},
        [SWARM_EXTENT_RESULTS] = {"results", ROLE_EXCHANGE, copied, memory.results},
        [SWARM_EXTENT_CONTRIBUTION_SLOTS] = {"contributions to own slices", ROLE_EXCHANGE,
                                             SPACE_HOST, memory.slots},
        [SWARM_EXTENT_OUTER_SCRATCH] = {"outer scratch", ROLE_EXCHANGE, copied,
                                        on_device ? device.scratch : memory.scratch},
        [SWARM_EXTENT_DEVICE_SLOTS] = {"outer stretches", ROLE_EXCHANGE, SPACE_DEVICE,
                                       on_device ? device.slots : 0},
        [SWARM_EXTENT_INNER_WEIGHTS] = {"inner weights", ROLE_OUTER, copied,
                                        kind.is_site ? memory.params : 0},
        [SWARM_EXTENT_RECORDED_CONTRIBUTION] = {"recorded contribution", ROLE_EXCHANGE, SPACE_HOST,
                                                kind.records_rounds ? memory.params : 0},
        [SWARM_EXTENT_NETWORK_TABLES] = {"members and messages", ROLE_EXCHANGE, SPACE_HOST,
                                         member_loop_memory_bytes(&options)}};
    _Static_assert(ARRAY_COUNT(made) == SWARM_EXTENT_COUNT, "each extent has a row");
    for (int i = 0; i < SWARM_EXTENT_COUNT; i++) {
        extents[i] = made[i];
        extents[i].space = target->unified ? SPACE_DEVICE : made[i].space;
    }
}
