/* Tests of train/spread: what strategy keys become over the ranks of a site, what is refused. */
#include "runtime/session/session.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false}";

static struct session session;
static struct fault fault;

static int write_model(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        scratch_write_text("m/config.json", CONFIG);
    }
    return failed;
}

static int finish_session(void **state) {
    (void)state;
    session_finish(&session);
    return 0;
}

static enum status read_for(int ranks, const char *override) {
    session_finish(&session);
    memset(&session, 0, sizeof session);
    memset(&fault, 0, sizeof fault);
    session.ranks = ranks;
    return session_read(&session, "m", &override, override != NULL, &fault);
}

static void refused(int ranks, const char *override, const char *why, const char *remedy) {
    assert_int_equal(read_for(ranks, override), STATUS_INPUT);
    char named[NAME_BYTES];
    int width = (int)strcspn(override, "=");
    snprintf(named, sizeof named, "command line: %.*s", width, override);
    if (strcmp(fault.subject, named) != 0 && strncmp(fault.reason, override, (size_t)width) != 0) {
        fail_msg("%s is blamed on \"%s: %s\"", override, fault.subject, fault.reason);
    }
    if (strstr(fault.reason, why) == NULL || strstr(fault.remedy, remedy) == NULL) {
        fail_msg("%s gives \"%s; %s\"", override, fault.reason, fault.remedy);
    }
}

static void ranks_split_everything_unless_told_otherwise(void **state) {
    (void)state;
    assert_int_equal(read_for(4, NULL), OK);
    const struct sharding_settings *sharding_settings = &session.sharding_settings;
    assert_int_equal(sharding_settings->sharding.shard, 4);
    assert_int_equal(sharding_settings->sharding.replicate, 1);
    assert_int_equal(sharding_settings->sharding.prefetch, 1);
    for (int unit = 0; unit < sharding_settings->units.unit_count; unit++) {
        assert_int_equal(sharding_settings->sharding.units[unit].zero, 3);
        assert_int_equal(sharding_settings->units.units[unit].elements % (4 * 64), 0);
    }
    const struct sharding passed = session_schedule_options(&session, PURPOSE_TRAIN).sharding;
    assert_int_equal(passed.shard, sharding_settings->sharding.shard);
    assert_int_equal(passed.replicate, sharding_settings->sharding.replicate);
    assert_ptr_equal(passed.units, sharding_settings->sharding.units);
    assert_int_equal(passed.prefetch, sharding_settings->sharding.prefetch);
    assert_int_equal(passed.gathered_units_max, sharding_settings->sharding.gathered_units_max);
    assert_int_equal(passed.reduce_at, sharding_settings->sharding.reduce_at);
    assert_int_equal(passed.reduce, sharding_settings->sharding.reduce);
    assert_int_equal(passed.wire_sum, sharding_settings->sharding.wire_sum);
}

static void one_rank_shares_with_nobody(void **state) {
    (void)state;
    assert_int_equal(read_for(1, NULL), OK);
    assert_int_equal(session_schedule_options(&session, PURPOSE_TRAIN).sharding.shard, 0);
    assert_int_equal(read_for(0, "strategy.replicate=2"), OK);
    assert_int_equal(session.sharding_settings.sharding.replicate, 1);
}

static void replicas_divide_the_ranks(void **state) {
    (void)state;
    assert_int_equal(read_for(6, "strategy.replicate=2"), OK);
    assert_int_equal(session.sharding_settings.sharding.shard, 3);
    assert_int_equal(session.sharding_settings.sharding.replicate, 2);
    refused(6, "strategy.replicate=4", "is 4, which does not divide 6 ranks", "1, 2, 3 or 6");
    refused(1, "strategy.replicate=2", "does not divide 1 rank", "start more ranks");
}

static void units_have_strategies_of_their_own(void **state) {
    (void)state;
    assert_int_equal(read_for(2, "strategy.overrides=embed=zero:1"), OK);
    assert_int_equal(session.sharding_settings.sharding.units[0].zero, 1);
    assert_int_equal(session.sharding_settings.sharding.units[1].zero, 3);
    assert_int_equal(read_for(2, "strategy.units=root"), OK);
    assert_int_equal(session.sharding_settings.units.unit_count, 1);
    refused(2, "strategy.overrides=embd=zero:1", "embed", "unit");
    refused(2, "strategy.units=blocks", "blocks", "");
}

static void some_parameters_may_be_frozen_but_not_all(void **state) {
    (void)state;
    assert_int_equal(read_for(1, "frozen=model.embed_tokens,model.layers.0"), OK);
    int frozen = 0;
    for (int unit = 0; unit < session.sharding_settings.units.unit_count; unit++) {
        frozen += session.sharding_settings.units.units[unit].frozen;
    }
    assert_int_equal(frozen, 2);
    refused(1, "frozen=model,lm_head", "freezes every parameter", "freeze fewer");
    refused(1, "frozen=model.layer", "model.layers", "inspect");
}

static void sums_at_the_end_of_a_step_need_whole_gradients(void **state) {
    (void)state;
    refused(2, "strategy.reduce_at=step", "ZeRO 3", "strategy.zero to 0 or 1");
    assert_int_equal(read_for(1, "strategy.reduce_at=step"), OK);
}

static void a_step_is_cut_into_equal_microbatches_for_all_ranks(void **state) {
    (void)state;
    assert_int_equal(read_for(3, NULL), OK);
    assert_int_equal(session.settings.batch_tokens, 3 * 64);
    assert_int_equal(session_schedule_options(&session, PURPOSE_TRAIN).accumulation, 1);
    assert_int_equal(read_for(3, "batch.tokens=640"), OK);
    assert_int_equal(session_schedule_options(&session, PURPOSE_TRAIN).accumulation, 4);
}

static void ranks_of_one_machine_share_its_memory_and_threads(void **state) {
    (void)state;
    assert_int_equal(read_for(1, "target=cpu-zen5-2c-24g"), OK);
    uint64_t whole = session.target->spaces[SPACE_DEVICE].capacity_bytes;
    uint64_t room = target_available_bytes(session.target, SPACE_DEVICE);
    int threads = session.target->threads;
    assert_int_equal(read_for(4, "target=cpu-zen5-2c-24g"), OK);
    assert_int_equal(session.target->spaces[SPACE_DEVICE].capacity_bytes, whole / 4);
    assert_in_range(target_available_bytes(session.target, SPACE_DEVICE), room / 4 - 8, room / 4);
    assert_int_equal(session.target->threads, threads > 4 ? threads / 4 : 1);
    assert_int_equal(read_for(1000, "target=cpu-zen5-2c-24g"), OK);
    assert_int_equal(session.target->threads, 1);
    assert_int_equal(read_for(4, "threads=3"), OK);
    assert_int_equal(session.target->threads, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_split_everything_unless_told_otherwise),
        cmocka_unit_test(one_rank_shares_with_nobody),
        cmocka_unit_test(replicas_divide_the_ranks),
        cmocka_unit_test(units_have_strategies_of_their_own),
        cmocka_unit_test(some_parameters_may_be_frozen_but_not_all),
        cmocka_unit_test(sums_at_the_end_of_a_step_need_whole_gradients),
        cmocka_unit_test(a_step_is_cut_into_equal_microbatches_for_all_ranks),
        cmocka_unit_test(ranks_of_one_machine_share_its_memory_and_threads),
    };
    int failed = cmocka_run_group_tests(tests, write_model, scratch_close);
    finish_session(NULL);
    return failed;
}
