#include "tests/unit/program/drawn_lanes.h"

#include "base/random.h"
#include "runtime/schedule/schedule.h"
#include "targets/probe/detect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { BUFFER_BYTES = DRAWN_FLOATS * 4, SLOT_BYTES = DRAWN_SLOT_FLOATS * 4 };

static uint32_t draw(uint64_t seed, uint64_t index, uint32_t below) {
    uint32_t words[4];
    random_block(random_key(seed, "drawn lanes"), index, words);
    return words[0] % below;
}

/* ---- a communicator: other ranks' slots are made from the own one ---- */

static void made_up_run(void *self, const struct collective_call *call) {
    struct drawn_lanes *drawn = self;
    char *base = drawn->bound.base[call->space];
    float *to = (float *)(base + call->to);
    const float *own = to + DRAWN_RANK * DRAWN_SLOT_FLOATS;
    if (call->kind == COLLECTIVE_ALL_GATHER) {
        for (int i = 0; i < DRAWN_FLOATS; i++) {
            int slot = i / DRAWN_SLOT_FLOATS;
            if (slot != DRAWN_RANK) {
                to[i] = own[i % DRAWN_SLOT_FLOATS] * 0.5f + (float)slot;
            }
        }
        return;
    }
    assert_int_equal(call->kind, COLLECTIVE_REDUCE_SCATTER);
    const float *from = (const float *)(base + call->from);
    for (int i = 0; i < DRAWN_SLOT_FLOATS; i++) {
        float sum = from[i] + from[i + DRAWN_SLOT_FLOATS] + from[i + 2 * DRAWN_SLOT_FLOATS];
        to[DRAWN_RANK * DRAWN_SLOT_FLOATS + i] = sum * 0.25f;
    }
}

static void nothing(void *self) {
    (void)self;
}

static const struct communicator_methods MADE_UP = {
    .name = "made up", .run = made_up_run, .abort = nothing, .close = nothing};

static const struct collective_group GROUPS[AXIS_COUNT] = {
    [AXIS_SHARD] = {.size = DRAWN_RANKS, .index = DRAWN_RANK},
    [AXIS_REPLICATE] = {.size = 1},
    [AXIS_WORLD] = {.size = DRAWN_RANKS, .index = DRAWN_RANK}};

/* ---- the program ---- */

static struct operand whole(int buffer, enum access access) {
    return (struct operand){.extent = buffer, .access = access, .bytes = BUFFER_BYTES};
}

static void add_operands(struct instruction *into, const struct operand *operands, int count) {
    memcpy(into->operands, operands, (size_t)count * sizeof *operands);
}

static void draw_compute(struct instruction *into, int a, int b, int c) {
    into->lane = LANE_COMPUTE;
    into->op = OP_ADD;
    into->args.elementwise = (struct elementwise_args){.count = DRAWN_FLOATS, .dtype = DTYPE_F32};
    add_operands(
        into,
        (struct operand[]){whole(a, ACCESS_READ), whole(b, ACCESS_READ), whole(c, ACCESS_WRITE)},
        3);
}

static void draw_copy(struct instruction *into, int a, int b) {
    into->lane = LANE_COPY;
    into->op = OP_COPY;
    into->args.count = SLOT_BYTES;
    struct operand from = whole(a, ACCESS_READ);
    struct operand to = whole(b, ACCESS_WRITE);
    from.bytes = to.bytes = SLOT_BYTES;
    from.stride = SLOT_BYTES; /* the own slot becomes the first */
    add_operands(into, (struct operand[]){from, to}, 2);
}

static void draw_collective(struct instruction *into, bool sums, int a, int b) {
    into->lane = LANE_COLLECTIVE;
    into->op = sums ? OP_REDUCE_SCATTER : OP_ALL_GATHER;
    into->args.collective =
        (struct collective_args){.axis = AXIS_SHARD, .wire = DTYPE_F32, .slot_bytes = SLOT_BYTES};
    if (sums) {
        add_operands(into, (struct operand[]){whole(a, ACCESS_READ), whole(b, ACCESS_UPDATE)}, 2);
    } else {
        add_operands(into, (struct operand[]){whole(b, ACCESS_UPDATE)}, 1);
    }
}

static void draw_instruction(struct instruction *into, uint64_t seed, uint64_t index) {
    memset(into, 0, sizeof *into);
    for (int k = 0; k < OPERANDS_MAX; k++) {
        into->operands[k].extent = EXTENT_NONE;
    }
    into->workspace.extent = EXTENT_NONE;
    into->segment = SEGMENT_MICROBATCH;
    int a = (int)draw(seed, 8 * index, DRAWN_BUFFERS);
    int b = (a + 1 + (int)draw(seed, 8 * index + 1, DRAWN_BUFFERS - 1)) % DRAWN_BUFFERS;
    int c = (int)draw(seed, 8 * index + 2, DRAWN_BUFFERS);
    uint32_t kind = draw(seed, 8 * index + 3, 8);
    if (kind < 4) {
        draw_compute(into, a, b, c);
    } else if (kind < 6) {
        draw_collective(into, kind == 4, a, b);
    } else {
        draw_copy(into, a, b);
    }
}

static bool touch_the_same(const struct instruction *a, const struct instruction *b) {
    for (int i = 0; i < OPERANDS_MAX; i++) {
        for (int j = 0; j < OPERANDS_MAX; j++) {
            const struct operand *x = &a->operands[i];
            const struct operand *y = &b->operands[j];
            if (x->extent != EXTENT_NONE && x->extent == y->extent &&
                ((x->access | y->access) & ACCESS_WRITE) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Each waits for the latest earlier one of each other lane that it conflicts with. */
static void add_waits(struct schedule *schedule) {
    for (int i = 0; i < schedule->instruction_count; i++) {
        struct instruction *after = &schedule->instructions[i];
        bool found[LANE_COUNT] = {false};
        int waits = 0;
        found[after->lane] = true;
        for (int j = i - 1; j >= 0; j--) {
            struct instruction *before = &schedule->instructions[j];
            if (found[before->lane] || !touch_the_same(before, after)) {
                continue;
            }
            found[before->lane] = true;
            before->signal =
                before->signal == EVENT_NONE ? ++schedule->event_count : before->signal;
            after->waits[waits++] = before->signal;
        }
    }
}

static void draw_schedule(struct drawn_lanes *drawn, uint64_t seed) {
    struct schedule *schedule = &drawn->program.schedule;
    schedule->region = &drawn->region;
    schedule->extents = region_alloc(&drawn->region, DRAWN_BUFFERS, sizeof(struct extent));
    schedule->extent_count = DRAWN_BUFFERS;
    for (int i = 0; i < DRAWN_BUFFERS; i++) {
        schedule->extents[i] = (struct extent){.name = "drawn \"buffer\"",
                                               .role = ROLE_ACTIVATIONS,
                                               .space = SPACE_DEVICE,
                                               .bytes = BUFFER_BYTES,
                                               .align = 256,
                                               .first = 0,
                                               .last = DRAWN_INSTRUCTIONS};
    }
    schedule->instructions =
        region_alloc(&drawn->region, DRAWN_INSTRUCTIONS, sizeof(struct instruction));
    schedule->instruction_count = DRAWN_INSTRUCTIONS;
    for (int i = 0; i < DRAWN_INSTRUCTIONS; i++) {
        draw_instruction(&schedule->instructions[i], seed, (uint64_t)i);
    }
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        uint32_t first = kind > SEGMENT_MICROBATCH ? DRAWN_INSTRUCTIONS : 0;
        uint32_t end = kind >= SEGMENT_MICROBATCH ? DRAWN_INSTRUCTIONS : 0;
        schedule->segments[kind] = (struct segment){.first = first, .end = end, .repeat = 1};
    }
    add_waits(schedule);
}

void drawn_lanes_init(struct drawn_lanes *drawn, uint64_t seed) {
    struct fault fault;
    memset(drawn, 0, sizeof *drawn);
    drawn->target = *target_detect(&drawn->region);
    drawn->target.threads = 1;
    drawn->program.schedule.target = &drawn->target;
    draw_schedule(drawn, seed);
    struct schedule *schedule = &drawn->program.schedule;
    arena_plan(&(struct arena_problem){schedule->extents, DRAWN_BUFFERS}, &drawn->region,
               &drawn->program.plan);
    assert_int_equal(schedule_verify(schedule, drawn->program.plan.offsets, &drawn->region, &fault),
                     OK);
    struct rank_indices ranks;
    drawn->communicator = (struct communicator){.methods = &MADE_UP,
                                                .self = drawn,
                                                .rank = DRAWN_RANK,
                                                .world = DRAWN_RANKS,
                                                .group_count = AXIS_COUNT};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        drawn->communicator.groups[axis] = GROUPS[axis];
        ranks.index[axis] = GROUPS[axis].index;
        ranks.size[axis] = GROUPS[axis].size;
    }
    assert_int_equal(program_bind(&drawn->program, &ranks, &drawn->region, &drawn->bound, &fault),
                     OK);
    drawn->communicator.space_bytes[SPACE_DEVICE] = drawn->program.plan.peak_bytes[SPACE_DEVICE];
    assert_int_equal(program_connect(&drawn->bound, &drawn->communicator, &fault), OK);
}

void drawn_lanes_fill(struct drawn_lanes *drawn) {
    for (int buffer = 0; buffer < DRAWN_BUFFERS; buffer++) {
        float *values = program_extent_address(&drawn->bound, buffer);
        for (int i = 0; i < DRAWN_FLOATS; i++) {
            values[i] = (float)draw(9, (uint64_t)(buffer * DRAWN_FLOATS + i), 1000) * 0.01f;
        }
    }
}

void drawn_lanes_finish(struct drawn_lanes *drawn) {
    program_release(&drawn->bound);
    region_finish(&drawn->region);
}
