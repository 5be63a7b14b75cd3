#include "tests/contract/reference.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

void model_init(struct model *model, uint64_t bytes) {
    model->after = calloc(1, bytes);
    ASSERT(model->after != NULL);
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        model->before[rank] = calloc(1, bytes);
        ASSERT(model->before[rank] != NULL);
    }
}

void model_finish(struct model *model) {
    free(model->after);
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        free(model->before[rank]);
    }
}

/* source  Steele et al. 2014, "Fast splittable pseudorandom number generators" (its finisher) */
uint64_t reference_mix(uint64_t a, uint64_t b) {
    uint64_t mixed = a * 0x9e3779b97f4a7c15u + b;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* Sign and fraction from the bits as they are, exponent from 2^-12 to 2^11. */
static uint32_t moderate_bf16(uint32_t bits) {
    uint32_t exponent = 115 + ((bits >> 7) & 0xff) * 24 / 256;
    return (bits & 0x807f) | exponent << 7;
}

static uint32_t moderate_f32(uint32_t bits) {
    return moderate_bf16(bits >> 16) << 16 | moderate_bf16(bits & 0xffff);
}

void reference_fill(unsigned char *memory, uint64_t bytes, uint64_t key, int rank) {
    uint64_t seed = reference_mix(key, (uint64_t)rank);
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t bits = reference_mix(seed, at);
        uint32_t words[2] = {moderate_f32((uint32_t)bits), moderate_f32((uint32_t)(bits >> 32))};
        memcpy(memory + at, words, sizeof words);
    }
}

void model_fill(struct model *model, const struct collective_group *group, uint64_t bytes,
                uint64_t key) {
    for (int i = 0; i < group->size; i++) {
        reference_fill(model->before[group->ranks[i]], bytes, key, group->ranks[i]);
    }
}

static float value_at(const unsigned char *memory, enum dtype wire, uint64_t index) {
    uint32_t word = 0;
    if (wire == DTYPE_BF16) {
        memcpy((unsigned char *)&word + 2, memory + index * 2, 2); /* the upper half */
    } else {
        memcpy(&word, memory + index * 4, 4);
    }
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Slot `slot` of the sum of all members. */
static void sum_slot(struct model *model, const struct collective_group *group,
                     const struct collective_call *call, int slot) {
    uint64_t elements = call->slot_bytes / (call->wire == DTYPE_BF16 ? 2 : 4);
    uint64_t from = call->from + (uint64_t)slot * call->slot_bytes;
    for (uint64_t e = 0; e < elements; e++) {
        float sum = value_at(model->before[group->ranks[0]] + from, call->wire, e);
        for (int i = 1; i < group->size; i++) {
            sum = sum + value_at(model->before[group->ranks[i]] + from, call->wire, e);
        }
        memcpy(model->after + call->to + ((uint64_t)slot * elements + e) * 4, &sum, 4);
    }
}

void model_call(struct model *model, const struct collective_group *group,
                const struct collective_call *call, uint64_t bytes) {
    uint64_t slot = call->slot_bytes;
    memcpy(model->after, model->before[group->ranks[group->index]], bytes);
    for (int i = 0; i < group->size; i++) {
        const unsigned char *peer = model->before[group->ranks[i]];
        uint64_t to = call->to + (uint64_t)i * slot;
        if (call->kind == COLLECTIVE_ALL_GATHER) {
            memcpy(model->after + to, peer + to, slot);
        } else if (call->kind == COLLECTIVE_ALL_TO_ALL) {
            memcpy(model->after + to, peer + call->from + (uint64_t)group->index * slot, slot);
        } else if (call->kind == COLLECTIVE_BROADCAST && i == call->root) {
            memcpy(model->after + call->to, peer + call->to, slot);
        } else if (call->kind == COLLECTIVE_ALL_REDUCE ||
                   (call->kind == COLLECTIVE_REDUCE_SCATTER && i == group->index)) {
            sum_slot(model, group, call, i);
        }
    }
}

uint64_t reference_received(const struct collective_group *group,
                            const struct collective_call *call) {
    uint64_t ranks = (uint64_t)group->size;
    uint64_t whole = ranks * call->slot_bytes; /* N on the wire */
    switch (call->kind) {
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALL_TO_ALL:
        return whole * (ranks - 1) / ranks;
    case COLLECTIVE_ALL_REDUCE:
        return 2 * whole * (ranks - 1) / ranks;
    case COLLECTIVE_BROADCAST:
        return group->index == call->root ? 0 : call->slot_bytes;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_KIND_COUNT:
        break;
    }
    return 0;
}
