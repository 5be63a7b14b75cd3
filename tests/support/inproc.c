#include "tests/support/inproc.h"

#include <stdbool.h>
#include <string.h>

struct inproc {
    struct communicator *communicator;
    struct inproc_hub *hub;
    unsigned char *memory[SPACE_COUNT];
    uint64_t meetings[COLLECTIVE_GROUPS_MAX]; /* reached by this rank; under the hub's lock */
    bool ended;                               /* under the hub's lock */
};

static bool all_have_reached(const struct inproc *self, int g, uint64_t meeting) {
    const struct collective_group *group = &self->communicator->groups[g];
    for (int i = 0; i < group->size; i++) {
        const struct inproc *member = self->hub->members[group->ranks[i]];
        if (member == NULL || member->meetings[g] < meeting) {
            return false;
        }
    }
    return true;
}

/* Until all members of group `g` are here. false when this rank's calls were ended. */
static bool meet(struct inproc *self, int g) {
    pthread_mutex_lock(&self->hub->lock);
    uint64_t meeting = ++self->meetings[g];
    pthread_cond_broadcast(&self->hub->changed);
    while (!self->ended && !all_have_reached(self, g, meeting)) {
        pthread_cond_wait(&self->hub->changed, &self->hub->lock);
    }
    bool ended = self->ended;
    pthread_mutex_unlock(&self->hub->lock);
    return !ended;
}

/* Between two meetings nobody writes what others read. */
static unsigned char *member_memory(const struct inproc *self, const struct collective_call *call,
                                    int member) {
    const struct collective_group *group = &self->communicator->groups[call->group];
    return self->hub->members[group->ranks[member]]->memory[call->space];
}

static void take(struct inproc *self, const struct collective_call *call, int member, uint64_t from,
                 uint64_t to) {
    memcpy(self->memory[call->space] + to, member_memory(self, call, member) + from,
           call->slot_bytes);
    self->communicator->received_bytes[call->kind] += call->slot_bytes;
}

static float element_address(const unsigned char *memory, enum dtype wire, uint64_t index) {
    if (wire == DTYPE_BF16) {
        uint16_t bits;
        memcpy(&bits, memory + index * sizeof bits, sizeof bits);
        return bf16_to_f32(bits);
    }
    float value;
    memcpy(&value, memory + index * sizeof value, sizeof value);
    return value;
}

static void sum_own_slot(struct inproc *self, const struct collective_call *call) {
    const struct collective_group *group = &self->communicator->groups[call->group];
    uint64_t elements = call->slot_bytes / (uint64_t)dtype_bytes(call->wire);
    uint64_t from = call->from + (uint64_t)group->index * call->slot_bytes;
    unsigned char *to =
        self->memory[call->space] + call->to + (uint64_t)group->index * elements * sizeof(float);
    for (uint64_t i = 0; i < elements; i++) {
        float sum = element_address(member_memory(self, call, 0) + from, call->wire, i);
        for (int member = 1; member < group->size; member++) {
            sum += element_address(member_memory(self, call, member) + from, call->wire, i);
        }
        memcpy(to + i * sizeof sum, &sum, sizeof sum);
    }
    self->communicator->received_bytes[call->kind] +=
        (uint64_t)(group->size - 1) * call->slot_bytes;
}

static void gather(struct inproc *self, const struct collective_call *call) {
    const struct collective_group *group = &self->communicator->groups[call->group];
    for (int member = 0; member < group->size; member++) {
        uint64_t slot = call->to + (uint64_t)member * call->slot_bytes;
        if (member != group->index) {
            take(self, call, member, slot, slot);
        }
    }
}

static void all_to_all(struct inproc *self, const struct collective_call *call) {
    const struct collective_group *group = &self->communicator->groups[call->group];
    uint64_t from = call->from + (uint64_t)group->index * call->slot_bytes;
    unsigned char *own = self->memory[call->space];
    for (int member = 0; member < group->size; member++) {
        uint64_t to = call->to + (uint64_t)member * call->slot_bytes;
        if (member == group->index) {
            memcpy(own + to, own + from, call->slot_bytes);
        } else {
            take(self, call, member, from, to);
        }
    }
}

static void move(struct inproc *self, const struct collective_call *call) {
    switch (call->kind) {
    case COLLECTIVE_ALL_GATHER:
        gather(self, call);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        sum_own_slot(self, call);
        break;
    case COLLECTIVE_ALL_REDUCE:
        sum_own_slot(self, call);
        if (meet(self, call->group)) {
            gather(self, call);
        }
        break;
    case COLLECTIVE_ALL_TO_ALL:
        all_to_all(self, call);
        break;
    case COLLECTIVE_BROADCAST:
        if (call->root != self->communicator->groups[call->group].index) {
            take(self, call, call->root, call->to, call->to);
        }
        break;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
}

static void inproc_run(void *state, const struct collective_call *call) {
    struct inproc *self = state;
    if (meet(self, call->group)) {
        move(self, call);
        (void)meet(self, call->group);
    }
}

static void inproc_abort(void *state) {
    struct inproc *self = state;
    pthread_mutex_lock(&self->hub->lock);
    self->ended = true;
    pthread_cond_broadcast(&self->hub->changed);
    pthread_mutex_unlock(&self->hub->lock);
}

/* It stays among the members: slower ones may still look at how far it has come. */
static void inproc_close(void *state) {
    struct inproc *self = state;
    for (int space = 0; space < SPACE_COUNT; space++) {
        self->communicator->space_bytes[space] = 0;
    }
}

static const struct communicator_methods METHODS = {
    .name = "in-process", .run = inproc_run, .abort = inproc_abort, .close = inproc_close};

void inproc_hub_init(struct inproc_hub *hub, int world) {
    ASSERT(world > 0 && world <= RANKS_MAX);
    *hub = (struct inproc_hub){.world = world};
    pthread_mutex_init(&hub->lock, NULL);
    pthread_cond_init(&hub->changed, NULL);
}

void inproc_hub_finish(struct inproc_hub *hub) {
    pthread_cond_destroy(&hub->changed);
    pthread_mutex_destroy(&hub->lock);
}

void inproc_open_communicator(const struct inproc_args *args, struct region *region,
                              struct communicator *communicator) {
    ASSERT(args->rank >= 0 && args->rank < args->hub->world);
    ASSERT(args->group_count >= 0 && args->group_count <= COLLECTIVE_GROUPS_MAX);
    struct inproc *self = region_alloc(region, 1, sizeof *self);
    self->communicator = communicator;
    self->hub = args->hub;
    *communicator = (struct communicator){.methods = &METHODS,
                                          .self = self,
                                          .rank = args->rank,
                                          .world = args->hub->world,
                                          .group_count = args->group_count};
    for (int g = 0; g < args->group_count; g++) {
        communicator->groups[g] = args->groups[g];
    }
    pthread_mutex_lock(&self->hub->lock);
    ASSERT(self->hub->members[args->rank] == NULL);
    self->hub->members[args->rank] = self;
    pthread_mutex_unlock(&self->hub->lock);
}

void inproc_register(struct communicator *communicator, enum space space, void *address,
                     uint64_t bytes) {
    struct inproc *self = communicator->self;
    ASSERT(space < SPACE_COUNT && bytes > 0 && communicator->space_bytes[space] == 0);
    self->memory[space] = address;
    communicator->space_bytes[space] = bytes;
}
