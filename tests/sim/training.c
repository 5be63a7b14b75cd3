/* training: the simulated training of a member, and the contribution that it declares. */
#include "tests/sim/parts.h"
#include "tests/sim/values.h"

#include <string.h>

enum {
    SAMPLE_MS = 25, /* the longest time of a sample */
    IDLE_ONE_IN = 12,
    SHARED_SAMPLE = 1 << 30, /* no member has so many */
    LATE_MS = 400,           /* how long a member waits for the contribution of another one */
};

/* What one sample adds to an element: anything that is not zero on the whole and the same for
 * everybody. */
static float sample_gradient(uint64_t sample, uint32_t element) {
    uint64_t mixed = (sample * 64 + element + 1) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (float)(mixed >> 40) * 0x1p-23f - 1.0f;
}

/* The contribution of `count` samples of the ranges, with what earlier encodings left out. */
static void encode(struct world *world, uint32_t index, const struct action *action,
                   uint64_t count) {
    struct node *node = &world->nodes[index];
    static float values[ELEMENTS_MOST]; /* may be too large for the stack */
    memset(values, 0, sizeof(values));
    for (uint32_t r = 0; r < action->range_count; r++) {
        for (uint64_t k = action->ranges[r].begin; k < action->ranges[r].end && count > 0; k++) {
            count--;
            for (uint32_t i = 0; i < world->slice_count * SLICE_ELEMENTS; i++) {
                values[i] += sample_gradient(k, i) + 0.01f * node->outer.values[i] +
                             world->agreement * sample_gradient(SHARED_SAMPLE, i);
            }
        }
    }
    values_contribute(world, index, values);
    lie_contribution(world, index);
    if (world->mistake == MISTAKE_FEEDBACK) {
        memcpy(node->feedback, node->own.residual, sizeof(node->feedback));
    }
}

/* In a steady world, samples of a member take nearly the same time. */
static uint64_t draw_sample_ms(struct world *world) {
    return world->is_steady ? world->sample_ms - world_draw(world, world->sample_ms / 32 + 1)
                            : 1 + world_draw(world, SAMPLE_MS);
}

/* Encodes what the training of a node gives, and posts its end. The machine ignores the end that
 * was posted before, if this one is earlier. */
static void complete_training(struct world *world, uint32_t index, int64_t delay_ms) {
    struct node *node = &world->nodes[index];
    struct sim_training *training = &node->training;
    training->action.ranges = training->ranges;
    encode(world, index, &training->action, training->samples);
    struct happening *done = world_add(world, HAPPEN_EVENT, index, delay_ms);
    training->ends_ms = world->now + delay_ms;
    done->event.kind = EVENT_TRAINED;
    done->event.round = training->action.round;
    done->event.trained =
        (struct training_amount){.tokens = training->samples, .samples = training->samples};
    done->event.root = values_declare(world, &node->own, &done->event.trained.norm);
    world->truths[training->truth] = node->own;
}

/* A slow member stops at the deadline and declares the samples that it has trained; now and then a
 * member has none. */
void training_begin(struct world *world, uint32_t index, const struct action *action) {
    struct node *node = &world->nodes[index];
    oracle_trained(world, index);
    uint64_t samples = 0;
    for (uint32_t r = 0; r < action->range_count; r++) {
        samples += action->ranges[r].end - action->ranges[r].begin;
    }
    uint64_t sample_ms = (uint64_t)node->slow * draw_sample_ms(world);
    uint64_t in_time = action->time_left_ms / sample_ms;
    uint64_t tokens = samples < in_time ? samples : in_time;
    tokens = !world->is_steady && world_draw(world, IDLE_ONE_IN) == 0 ? 0 : tokens;
    node->own.round = action->round;
    node->own.node = index;
    node->own.start = node->start;
    node->own.store = node->store;
    ASSERT(world->truth_count < TRUTHS);
    node->training = (struct sim_training){.action = *action,
                                           .began_ms = world->now,
                                           .sample_ms = sample_ms,
                                           .samples = tokens,
                                           .truth = world->truth_count++};
    memcpy(node->training.ranges, action->ranges, action->range_count * sizeof *action->ranges);
    complete_training(world, index,
                      1 + (int64_t)(tokens * sample_ms) +
                          (node->hostility == HOSTILE_LATE ? LATE_MS : 0));
    if (tokens > 0) {
        measure_training(node, (int64_t)sample_ms);
    }
}

/* The member completes its current sample, and declares what it has. */
void training_end(struct world *world, uint32_t index, uint32_t round) {
    struct sim_training *training = &world->nodes[index].training;
    uint64_t passed_ms = (uint64_t)(world->now - training->began_ms);
    uint64_t samples = passed_ms / training->sample_ms + 1;
    ASSERT(training->action.round == round);
    if (samples < training->samples) {
        training->samples = samples;
        complete_training(world, index, 1 + (int64_t)(samples * training->sample_ms - passed_ms));
    }
}

void training_replace(struct world *world, uint32_t index, uint32_t round) {
    const struct sim_training *training = &world->nodes[index].training;
    if (training->action.round == round && world->now < training->ends_ms) {
        complete_training(world, index, 0);
    }
}
