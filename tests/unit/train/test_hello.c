/* Tests of train/hello: ranks that were told different things say so, all of them the same. */
#include "runtime/session/ranks_check.h"
#include "scratch.h"
#include "tests/unit/transport/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 3, MEET_MS = 5000, TIMEOUT_MS = 20000 };

static const char CONFIG[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": "
    "\"silu\", \"hidden_size\": 32, \"intermediate_size\": 24, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 97, "
    "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false}";

/* What the ranks of the case under test are told; rank 0 always has the defaults. */
static struct {
    const char *override[WORLD];
    int data[WORLD];
} told;

static int write_model(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        scratch_write_text("m/config.json", CONFIG);
    }
    return failed;
}

static void compare(const struct launch_info *place, struct record *record) {
    static struct session session;
    const char *overrides[] = {"threads=1", told.override[place->rank]};
    struct hash data = hash_of(&told.data[place->rank], sizeof(int));
    session.ranks = WORLD;
    enum status status =
        session_read(&session, "m", overrides, overrides[1] != NULL ? 2 : 1, &record->fault);
    if (status == OK) {
        status = session_compile(&session, PURPOSE_TRAIN, &record->fault);
    }
    if (status == OK) {
        status = site_open(place, &session.region, &session.site, &record->fault);
    }
    if (status == OK) {
        status = ranks_check_equal(&session, &data, &record->fault);
        site_leave(session.site);
    }
    atomic_store(&record->status, (int)status);
}

/* All ranks end with `status`; of a refusal they say the same. */
static void expect(enum status status, const char *place, const char *const *words) {
    struct ranks ranks;
    ranks_init(&ranks, WORLD, MEET_MS);
    ranks_start_all(&ranks, compare);
    assert_true(ranks_await(&ranks, ranks_have_ended, -1, TIMEOUT_MS));
    for (int rank = 0; rank < WORLD; rank++) {
        const struct record *record = &ranks.records[rank];
        if (atomic_load(&record->status) != (int)status) {
            fail_msg("rank %d: %d: %s: %s", rank, atomic_load(&record->status),
                     record->fault.subject, record->fault.reason);
        }
        for (int i = 0; status != OK && words[i] != NULL; i++) {
            if (strstr(record->fault.reason, words[i]) == NULL) {
                fail_msg("\"%s\" lacks \"%s\"", record->fault.reason, words[i]);
            }
        }
        if (status != OK) {
            assert_string_equal(record->fault.subject, place);
        }
    }
    ranks_finish(&ranks);
}

static void ranks_that_agree_go_on(void **state) {
    (void)state;
    memset(&told, 0, sizeof told);
    expect(OK, NULL, NULL);
}

static void what_is_one_machines_business_may_differ(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {"limits.disk=1GiB", "metrics=elsewhere.jsonl"};
    for (size_t i = 0; i < ARRAY_COUNT(OVERRIDES); i++) {
        memset(&told, 0, sizeof told);
        told.override[1] = OVERRIDES[i];
        expect(OK, NULL, NULL);
    }
}

static void a_key_that_differs_is_named_with_both_values(void **state) {
    (void)state;
    static const struct {
        const char *override, *words[3];
    } CASES[] = {
        {"optimizer.lr=0.125", {"optimizer.lr is 0.125, but rank 0 has 0.0003"}},
        {"seed=2", {"seed is 2, but rank 0 has 1"}},
        {"data.train=a,b", {"data.train is [\"a\", \"b\"], but rank 0 has null"}},
        {"strategy.zero=1", {"strategy.zero is 1, but rank 0 has 3"}},
        {"pause_at=7", {"pause_at is 7, but rank 0 has 0"}},
        {"batch.microbatch=2", {"batch.microbatch is 2, but rank 0 has 1"}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        memset(&told, 0, sizeof told);
        told.override[2] = CASES[i].override;
        /* batch.tokens follows from the microbatch, and is later in the table */
        expect(STATUS_INPUT, "rank 2", CASES[i].words);
    }
}

static void the_lowest_rank_that_differs_is_named(void **state) {
    (void)state;
    memset(&told, 0, sizeof told);
    told.override[1] = "seed=5";
    told.override[2] = "steps=6";
    expect(STATUS_INPUT, "rank 1", (const char *[]){"seed is 5", NULL});
}

static void other_data_are_found_under_the_same_keys(void **state) {
    (void)state;
    memset(&told, 0, sizeof told);
    told.data[1] = 1;
    expect(STATUS_INPUT, "rank 1", (const char *[]){"data is ", "rank 0 has ", NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_agree_go_on),
        cmocka_unit_test(what_is_one_machines_business_may_differ),
        cmocka_unit_test(a_key_that_differs_is_named_with_both_values),
        cmocka_unit_test(the_lowest_rank_that_differs_is_named),
        cmocka_unit_test(other_data_are_found_under_the_same_keys),
    };
    return cmocka_run_group_tests(tests, write_model, scratch_close);
}
