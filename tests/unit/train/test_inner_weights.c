/* Tests of train/inner_weights: what ranks hold in shards is gathered and scattered to the bit,
 * however they share, and compute copies are rounded once. */
#include "runtime/inner_training/inner_weights.h"
#include "runtime/session/rank_parts.h"
#include "scratch.h"
#include "tests/unit/transport/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEET_MS = 10000, TIMEOUT_MS = 60000, OVERRIDES = 7 };

/* Tensors of odd sizes, of which the largest is longer than the staging buffer; norms of 40
 * elements, of which most ranks own nothing. */
static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 40, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 8209, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.3, "
    "\"tie_word_embeddings\": true, \"rope_theta\": 10000.0}";

/* How the ranks of the case under test share. */
static struct layout {
    int ranks, replicate;
    const char *zero, *dtype, *more;
} of;

static const struct layout LAYOUTS[] = {
    {2, 1, "0", "bf16", "strategy.units=block"},
    {2, 1, "3", "f32", "strategy.offload=optimizer"},
    {3, 1, "1", "bf16", "strategy.units=block"},
    {3, 1, "1", "f32", "strategy.units=root"},
    {4, 2, "2", "f32", "strategy.units=block"},
    {4, 4, "3", "bf16", "strategy.units=block"},
    {4, 1, "3", "bf16", "strategy.offload=optimizer,params"},
    {5, 1, "2", "bf16", "strategy.units=block"},
    {5, 1, "3", "f32", "strategy.units=root"},
};

static int write_model(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        scratch_write_text("m/config.json", CONFIG);
    }
    return failed;
}

/* Any bits but those of infinities and NaNs; every eighth is a zero of either sign. */
static float value_at(int64_t index, uint32_t salt) {
    uint32_t bits = ((uint32_t)index + salt) * 2654435761u;
    bits ^= bits >> 15;
    bits = index % 8 == 0 ? bits & 0x80000000u : bits & 0xbfffffffu;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static int64_t begin_of(const struct session *session, const char *name) {
    int64_t begin = 0;
    int index = 0;
    while (strcmp(session->blueprint.params[index].name, name) != 0) {
        begin += param_elements(&session->blueprint.params[index++]);
    }
    return begin;
}

/* Own masters; what is another rank's to tell has other values here. */
static void fill_masters(struct session *session, uint32_t salt) {
    struct tensor_set held = rank_parts_of_view(session, VIEW_MASTER, PART_STORED);
    struct tensor_set own = rank_parts_of_view(session, VIEW_MASTER, PART_SAVED);
    for (int i = 0; i < held.piece_count; i++) {
        float *values = held.pieces[i].memory;
        for (int64_t k = 0; k < held.pieces[i].count; k++) {
            values[k] = -7;
        }
    }
    for (int i = 0; i < own.piece_count; i++) {
        float *values = own.pieces[i].memory;
        int64_t begin = begin_of(session, own.pieces[i].name) + own.pieces[i].first;
        for (int64_t k = 0; k < own.pieces[i].count; k++) {
            values[k] = value_at(begin + k, salt);
        }
    }
}

static bool is_gathered(const float *flat, int64_t count, uint32_t salt) {
    int64_t at = 0;
    while (at < count && same_bits(flat[at], value_at(at, salt))) {
        at++;
    }
    return at == count;
}

static bool is_scattered(struct session *session, uint32_t salt) {
    struct tensor_piece *pieces;
    int count = rank_parts_of_weights(session, &pieces);
    bool same = count > 0;
    for (int i = 0; i < count && same; i++) {
        const struct tensor_piece *piece = &pieces[i];
        int64_t begin = begin_of(session, piece->name) + piece->first;
        for (int64_t k = 0; k < piece->count && same; k++) {
            float value = value_at(begin + k, salt);
            same = piece->dtype == DTYPE_BF16
                       ? ((const uint16_t *)piece->memory)[k] == bf16_from_f32(value)
                       : same_bits(((const float *)piece->memory)[k], value);
        }
    }
    return same;
}

static enum status open_rank(struct session *session, const struct launch_info *place,
                             struct fault *fault) {
    char texts[OVERRIDES][64];
    const char *overrides[OVERRIDES];
    snprintf(texts[0], 64, "init=random");
    snprintf(texts[1], 64, "threads=1");
    snprintf(texts[2], 64, "strategy.zero=%s", of.zero);
    snprintf(texts[3], 64, "strategy.replicate=%d", of.replicate);
    snprintf(texts[4], 64, "precision.params=%s", of.dtype);
    snprintf(texts[5], 64, "precision.compute=%s", of.dtype);
    snprintf(texts[6], 64, "%s", of.more);
    for (int i = 0; i < OVERRIDES; i++) {
        overrides[i] = texts[i];
    }
    session->ranks = of.ranks;
    enum status status = session_read(session, "m", overrides, OVERRIDES, fault);
    if (status == OK) {
        status = session_compile(session, PURPOSE_TRAIN, fault);
    }
    if (status == OK) {
        status = site_open(place, &session->region, &session->site, fault);
    }
    if (status == OK) {
        status = session_bind(session, fault);
    }
    return status == OK ? session_connect(session, fault) : status;
}

/* Twice each, so that a second pass does not lean on what the first one left. */
static enum status move(struct session *session, bool leads, struct fault *fault) {
    struct inner_weights weights;
    size_t count = (size_t)blueprint_elements(&session->blueprint);
    float *flat = leads ? region_alloc(&session->region, count, sizeof *flat) : NULL;
    inner_weights_plan(session, flat, &weights);
    for (uint32_t turn = 1; turn <= 2; turn++) {
        fill_masters(session, turn);
        inner_weights_gather(session, &weights);
        if (leads && !is_gathered(flat, weights.count, turn)) {
            return fault_set(fault, STATUS_FAILED, "gather", NULL, "turn %u", turn);
        }
        for (int64_t i = 0; leads && i < weights.count; i++) {
            flat[i] = value_at(i, 10 + turn);
        }
        inner_weights_scatter(session, &weights);
        if (!is_scattered(session, 10 + turn)) {
            return fault_set(fault, STATUS_FAILED, "scatter", NULL, "turn %u", turn);
        }
    }
    return OK;
}

static void gather_and_scatter(const struct launch_info *place, struct record *record) {
    static struct session session;
    enum status status = open_rank(&session, place, &record->fault);
    if (status == OK) {
        status = move(&session, place->rank == 0, &record->fault);
    }
    site_leave(session.site);
    atomic_store(&record->status, (int)status);
}

static void expect_layout(void) {
    struct ranks ranks;
    ranks_init(&ranks, of.ranks, MEET_MS);
    ranks_start_all(&ranks, gather_and_scatter);
    bool in_time = ranks_await(&ranks, ranks_have_ended, -1, TIMEOUT_MS);
    for (int rank = 0; rank < of.ranks; rank++) {
        const struct record *record = &ranks.records[rank];
        if (!in_time || atomic_load(&record->status) != OK) {
            fail_msg("%d ranks in %d replicas, ZeRO %s, %s, %s: rank %d: %s: %s", of.ranks,
                     of.replicate, of.zero, of.dtype, of.more, rank, record->fault.subject,
                     in_time ? record->fault.reason : "not in time");
        }
    }
    ranks_finish(&ranks);
}

static void weights_are_gathered_and_scattered_to_the_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(LAYOUTS); i++) {
        of = LAYOUTS[i];
        expect_layout();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_gathered_and_scattered_to_the_bit),
    };
    return cmocka_run_group_tests(tests, write_model, scratch_close);
}
