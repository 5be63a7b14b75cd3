/* Tests of contract A: every implementation against a plain reference, byte for byte, canaries and
 * counted bytes included. */
#include "tests/contract/reference.h"
#include "tests/contract/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum {
    CANARY_BYTES = 192, /* untouched before, between and behind the buffers */
    RANDOM_ELEMENTS_MAX = 300,
    CHECK_BYTES = 512 << 10, /* fits all sizes of SLOTS, twice, for WORLD_MAX slots in f32 */
    USUAL_ELEMENTS = 1000,   /* from here on only two of the groups: to be quick */
    LARGE_BYTES = 12 << 20,
};

/* Elements of a slot: none, odd, around vectors, cache lines and the sums' blocks of 4096. */
static const char *collective_name(enum collective_kind kind) {
    static const char *const NAMES[COLLECTIVE_KIND_COUNT] = {
        [COLLECTIVE_ALL_GATHER] = "all-gather", [COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
        [COLLECTIVE_ALL_REDUCE] = "all-reduce", [COLLECTIVE_ALL_TO_ALL] = "all-to-all",
        [COLLECTIVE_BROADCAST] = "broadcast",   [COLLECTIVE_BARRIER] = "barrier"};
    return NAMES[kind];
}

static const uint64_t SLOTS[] = {0, 1, 2, 3, 7, 16, 17, 63, 64, 65, 1000, 4096, 4097};

/* A call of one kind with a size and a place. */
struct shape {
    enum collective_kind kind;
    enum dtype wire;
    bool in_place;
    uint64_t elements; /* of a slot */
    uint64_t shift;    /* elements that the buffers are off a cache line */
    int root;
};

static bool is_sum(enum collective_kind kind) {
    return kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_REDUCE;
}

/* The call, and in *used the bytes from the beginning of the space up to the last canary. Kinds
 * that only move bytes have slots of odd sizes. */
static struct collective_call call_of(const struct shape *shape, const struct collective_group *g,
                                      int group, enum space space, uint64_t *used) {
    bool sums = is_sum(shape->kind);
    uint64_t element = shape->wire == DTYPE_BF16 ? 2 : 4;
    uint64_t odd = !sums && shape->elements > 0 ? shape->elements % 4 : 0;
    struct collective_call call = {.kind = shape->kind,
                                   .group = group,
                                   .space = space,
                                   .wire = shape->wire,
                                   .from = CANARY_BYTES + shape->shift * 4,
                                   .slot_bytes = shape->elements * element - odd,
                                   .root = shape->root % g->size};
    uint64_t slots = (uint64_t)g->size;
    uint64_t apart = (call.from + slots * call.slot_bytes + CANARY_BYTES) / 4 * 4;
    bool in_place = shape->in_place || shape->kind == COLLECTIVE_ALL_REDUCE;
    call.to = in_place ? call.from : apart;
    uint64_t to_bytes = slots * (sums ? shape->elements * 4 : call.slot_bytes);
    *used = (call.to + to_bytes + CANARY_BYTES) / 8 * 8;
    return call;
}

/* Own memory after the call is the model's, and the bytes received are counted. */
static void run_and_compare(struct member *member, struct model *model,
                            const struct collective_call *call, uint64_t used, uint64_t key) {
    struct communicator *communicator = &member->communicator;
    const struct collective_group *group = &member->groups.groups[call->group];
    unsigned char *memory = member->memory[call->space];
    uint64_t received = communicator->received_bytes[call->kind];
    uint64_t calls = communicator->call_counts[call->kind];
    reference_fill(memory, used, key, member->rank);
    member_push(member, call->space, used);
    collective_run(communicator, call);
    member_pull(member, call->space, used);
    model_fill(model, group, used, key);
    model_call(model, group, call, used);
    const unsigned char *expected = model->after;
    if (memcmp(memory, expected, used) != 0) {
        uint64_t at = 0;
        while (memory[at] == expected[at]) {
            at++;
        }
        outcome_fail(member->outcome,
                     "%s, %s, group %d of %d, slot %llu B, from %llu, to %llu, key %llu: byte %llu "
                     "of %llu differs",
                     collective_name(call->kind), dtype_name(call->wire), call->group, group->size,
                     (unsigned long long)call->slot_bytes, (unsigned long long)call->from,
                     (unsigned long long)call->to, (unsigned long long)key, (unsigned long long)at,
                     (unsigned long long)used);
    }
    received = communicator->received_bytes[call->kind] - received;
    if (received != reference_received(group, call) ||
        communicator->call_counts[call->kind] != calls + 1) {
        outcome_fail(member->outcome, "%s of %d: %llu bytes counted, %llu moved",
                     collective_name(call->kind), group->size, (unsigned long long)received,
                     (unsigned long long)reference_received(group, call));
    }
}

static void check_shape(struct member *member, struct model *model, const struct shape *shape) {
    for (int g = 0; g < LAYOUT_GROUPS; g++) {
        const struct collective_group *group = &member->groups.groups[g];
        bool usual = g == GROUP_SHARD || g == GROUP_WORLD;
        if (group->index >= 0 && (usual || shape->elements < USUAL_ELEMENTS)) {
            uint64_t used;
            struct collective_call call = call_of(shape, group, g, SPACE_DEVICE, &used);
            ASSERT(used <= member->bytes);
            run_and_compare(member, model, &call, used, shape->elements * 64 + shape->kind);
        }
    }
}

static void check_size(struct member *member, struct model *model, uint64_t elements) {
    for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
        struct shape shape = {.kind = (enum collective_kind)kind,
                              .wire = DTYPE_F32,
                              .elements = elements,
                              .shift = elements % 5,
                              .root = (int)(elements % 3)};
        check_shape(member, model, &shape);
        if (kind == COLLECTIVE_REDUCE_SCATTER) {
            shape.in_place = true;
            check_shape(member, model, &shape);
            shape.in_place = false;
            shape.wire = DTYPE_BF16;
            check_shape(member, model, &shape);
        }
    }
}

static void check_all_sizes(struct member *member, void *context) {
    (void)context;
    struct model model;
    model_init(&model, member->bytes);
    for (size_t i = 0; i < ARRAY_COUNT(SLOTS); i++) {
        check_size(member, &model, SLOTS[i]);
    }
    model_finish(&model);
}

static void check_large(struct member *member, void *context) {
    (void)context;
    struct model model;
    model_init(&model, member->bytes);
    check_size(member, &model, 300007);
    model_finish(&model);
}

/* One of all calls, the same for all members of a group, another for each group of a layout: ranks
 * are in different kinds of calls at one time, and their memory changes once a call returns. */
static void check_random_call(struct member *member, struct model *model, uint64_t key) {
    int g = (int)(reference_mix(key, 1) % LAYOUT_GROUPS);
    const struct collective_group *group = &member->groups.groups[g];
    if (group->index < 0) {
        return;
    }
    uint64_t choice = reference_mix(key, (uint64_t)group->ranks[0] + 2);
    struct shape shape = {.kind = (enum collective_kind)(choice % COLLECTIVE_KIND_COUNT),
                          .wire = DTYPE_F32,
                          .in_place = (choice >> 8) % 2 == 0,
                          .elements = (choice >> 16) % RANDOM_ELEMENTS_MAX,
                          .shift = (choice >> 32) % 16,
                          .root = (int)((choice >> 40) % WORLD_MAX)};
    if (shape.kind == COLLECTIVE_REDUCE_SCATTER && (choice >> 48) % 2 == 0) {
        shape.wire = DTYPE_BF16;
        shape.in_place = false;
    }
    if (shape.kind == COLLECTIVE_ALL_TO_ALL) {
        shape.in_place = false;
    }
    uint64_t used;
    enum space space = (choice >> 56) % 4 == 0 ? SPACE_HOST : SPACE_DEVICE;
    struct collective_call call = call_of(&shape, group, g, space, &used);
    ASSERT(used <= member->bytes);
    run_and_compare(member, model, &call, used, choice);
}

struct random_calls {
    uint64_t seed;
    uint64_t count;
};

static void check_random_calls(struct member *member, void *context) {
    const struct random_calls *calls = context;
    struct model model;
    model_init(&model, member->bytes);
    for (uint64_t i = 0; i < calls->count; i++) {
        check_random_call(member, &model, reference_mix(calls->seed, i));
    }
    model_finish(&model);
}

static void every_kind_matches_the_reference_at_all_sizes(void **state) {
    (void)state;
    for (int i = 0; i < IMPLEMENTATION_COUNT; i++) {
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            world_run(&IMPLEMENTATIONS[i], &LAYOUTS[l], CHECK_BYTES, check_all_sizes, NULL);
        }
    }
}

static void every_kind_matches_the_reference_when_large(void **state) {
    (void)state;
    for (int i = 0; i < IMPLEMENTATION_COUNT; i++) {
        world_run(&IMPLEMENTATIONS[i], &(struct layout){"3 shards, large", 3, 3}, LARGE_BYTES,
                  check_large, NULL);
    }
}

static void random_calls_on_interleaved_groups_match_the_reference(void **state) {
    (void)state;
    for (int i = 0; i < IMPLEMENTATION_COUNT; i++) {
        for (int l = 0; l < LAYOUT_COUNT; l++) {
            struct random_calls calls = {.seed = 20240 + (uint64_t)l,
                                         .count = (uint64_t)IMPLEMENTATIONS[i].random_calls};
            world_run(&IMPLEMENTATIONS[i], &LAYOUTS[l], CHECK_BYTES, check_random_calls, &calls);
        }
    }
}

static float sum_of(const unsigned char *const *memory, int count, int first, int step,
                    uint64_t at) {
    float sum = 0;
    for (int i = 0; i < count; i++) {
        float value;
        memcpy(&value, memory[first + i * step] + at, sizeof value);
        sum = i == 0 ? value : sum + value;
    }
    return sum;
}

/* Without this the comparisons above could not see a sum that is made in another order. */
static void values_summed_in_reverse_have_other_bits(void **state) {
    (void)state;
    enum { ELEMENTS = 1000 };
    static unsigned char memory[3][ELEMENTS * 4];
    const unsigned char *ranks[3] = {memory[0], memory[1], memory[2]};
    int differ = 0;
    for (int rank = 0; rank < 3; rank++) {
        reference_fill(memory[rank], sizeof memory[rank], 7, rank);
    }
    for (uint64_t e = 0; e < ELEMENTS; e++) {
        float forward = sum_of(ranks, 3, 0, 1, e * 4);
        float backward = sum_of(ranks, 3, 2, -1, e * 4);
        differ += memcmp(&forward, &backward, sizeof forward) != 0;
    }
    assert_true(differ > ELEMENTS / 10);
}

int main(void) {
    if (!implementations_can_run()) {
        return 77; /* a test that was skipped */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_summed_in_reverse_have_other_bits),
        cmocka_unit_test(every_kind_matches_the_reference_at_all_sizes),
        cmocka_unit_test(every_kind_matches_the_reference_when_large),
        cmocka_unit_test(random_calls_on_interleaved_groups_match_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
