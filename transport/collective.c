#include "transport/collective.h"

#include "base/check.h"

static const char *const NAMES[COLLECTIVE_KIND_COUNT] = {
    [COLLECTIVE_ALL_GATHER] = "all-gather", [COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
    [COLLECTIVE_ALL_REDUCE] = "all-reduce", [COLLECTIVE_ALL_TO_ALL] = "all-to-all",
    [COLLECTIVE_BROADCAST] = "broadcast",   [COLLECTIVE_BARRIER] = "barrier"};

const char *collective_name(enum collective_kind kind) {
    ASSERT(kind < COLLECTIVE_KIND_COUNT);
    return NAMES[kind];
}

void collective_run(struct communicator *communicator, const struct collective_call *call) {
    ASSERT(call->kind < COLLECTIVE_KIND_COUNT);
    ASSERT(call->group >= 0 && call->group < communicator->group_count);
    communicator->calls[call->kind]++;
    communicator->methods->run(communicator->self, call);
}

void communicator_abort(struct communicator *communicator) {
    communicator->methods->abort(communicator->self);
}

void communicator_close(struct communicator *communicator) {
    communicator->methods->close(communicator->self);
}
