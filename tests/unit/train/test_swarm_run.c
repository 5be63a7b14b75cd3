/* Tests of train/swarm_run, swarm_offer and member_session_read: a run becomes a manifest, a member
 * reads it back with the same mathematics, and nobody changes those or the other's folders. */
#include "runtime/session/rank_parts.h"
#include "runtime/swarm/ledger/merkle.h"
#include "runtime/swarm_setup/manifest_make.h"
#include "runtime/swarm_setup/member_session.h"
#include "runtime/swarm_setup/swarm_memory.h"
#include "scratch.h"
#include "swarm_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LINE_BYTES = 256 };

static struct fault fault;
static struct region region;
static struct manifest_draft offer;
static struct manifest manifest;
static struct swarm_terms terms;
static const char *manifest_text;

static void expect_ok(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

static int make_swarm(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        manifest_text = swarm_fixture_make(&region, &offer, &manifest);
    }
    return failed;
}

static int forget_swarm(void **state) {
    region_finish(&region);
    return scratch_close(state);
}

static enum status read_with(const struct manifest *of, const char *override,
                             struct settings *settings) {
    struct swarm_member_source source = {.manifest = of,
                                         .subject = "it.skep",
                                         .overrides = &override,
                                         .override_count = override != NULL};
    memset(&fault, 0, sizeof fault);
    return swarm_settings_read(&source, &region, settings, &fault);
}

static void write_value(const struct settings *settings, const struct setting_key *key,
                        char line[static LINE_BYTES]) {
    struct text text = text_over(line, LINE_BYTES);
    settings_describe_key(settings, key, &text);
    assert_false(text.truncated);
}

static void a_member_has_the_mathematics_of_the_tracker_and_nothing_else(void **state) {
    (void)state;
    struct settings settings;
    expect_ok(read_with(&manifest, NULL, &settings));
    for (int i = 0; i < setting_key_count(); i++) {
        char theirs[LINE_BYTES], mine[LINE_BYTES];
        if (swarm_shares_key(setting_key_at(i))) {
            write_value(&offer.settings, setting_key_at(i), theirs);
            write_value(&settings, setting_key_at(i), mine);
            assert_string_equal(mine, theirs);
        }
    }
    assert_int_equal(settings.seed, 5);
    assert_int_equal(settings.batch_tokens, 192);
    assert_int_equal(settings.swarm_codec, CODEC_INT4);
    assert_int_equal(settings.microbatch, 1);
    assert_int_equal(settings.threads, 0);
    assert_int_equal(settings.limit_device, 0);
    assert_null(settings.model);
    assert_string_equal(settings.snapshot_folder, "/state/skep/heather/snapshots");
    assert_null(strstr(manifest_text, "tracker/"));
}

static void what_the_model_settles_is_in_the_manifest(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {
        "batch.sequence=", "batch.tokens=", "batch.microbatch=2"};
    struct manifest_draft other;
    expect_ok(manifest_draft_read("tracker/run.yaml", OVERRIDES, 3, &region, &other, &fault));
    assert_non_null(strstr(other.run_text, "batch.sequence: 64\n"));
    assert_non_null(strstr(other.run_text, "batch.tokens: 128\n"));
}

static void terms_follow_from_settings_and_model(void **state) {
    (void)state;
    assert_int_equal(offer.terms.seat_samples, 40 * (192 / 32));
    assert_int_equal(offer.terms.sample_tokens, 32);
    assert_int_equal(offer.terms.commits_max, 7); /* 250 / 40 */
    assert_int_equal(offer.terms.shape.members_max, 5);
    assert_int_equal(offer.terms.shape.slices.parameter_count,
                     blueprint_elements(&offer.blueprint));
    assert_true(offer.terms.shape.outer_momentum == 0.9f);
}

static void every_shared_key_is_refused_on_the_command_line(void **state) {
    (void)state;
    int refused = 0;
    for (int i = 0; i < setting_key_count(); i++) {
        struct settings settings = {.steps = 77};
        char override[LINE_BYTES];
        snprintf(override, sizeof override, "%s=1", setting_key_at(i)->name);
        if (!swarm_shares_key(setting_key_at(i))) {
            continue;
        }
        assert_int_equal(read_with(&manifest, override, &settings), STATUS_INPUT);
        assert_string_equal(fault.subject, "command line");
        assert_non_null(strstr(fault.reason, setting_key_at(i)->name));
        assert_non_null(strstr(fault.reason, " is a shared setting: it is "));
        assert_int_equal(settings.steps, 77);
        refused++;
    }
    assert_int_equal(refused, 42); /* as many as the table has but for places */
    struct settings settings;
    assert_int_equal(read_with(&manifest, "swarm.codec=int8", &settings), STATUS_INPUT);
    assert_string_equal(fault.reason, "swarm.codec is a shared setting: it is int4 in the swarm "
                                      "heather, and int8 on the command line");
}

static void local_keys_are_each_members_own(void **state) {
    (void)state;
    struct settings settings;
    expect_ok(read_with(&manifest, "batch.microbatch=2", &settings));
    assert_int_equal(settings.microbatch, 2);
    expect_ok(read_with(&manifest, "limits.up=1MB/s", &settings));
    assert_int_equal(settings.limit_up, 1000000);
    expect_ok(read_with(&manifest, "snapshot.folder=mine", &settings));
    assert_string_equal(settings.snapshot_folder, "mine");
    expect_ok(read_with(&manifest, "model=tracker/model", &settings));
    assert_string_equal(settings.model, "tracker/model");
    expect_ok(read_with(&manifest, "data.train=[x.u16,y.u16]", &settings));
    assert_int_equal(settings.train_files.count, 2);
    assert_string_equal(settings.train_files.paths[1], "y.u16");
    assert_int_equal(read_with(&manifest, "batch.microbatsch=2", &settings), STATUS_INPUT);
    assert_int_equal(read_with(&manifest, "no override", &settings), STATUS_USAGE);
}

static void a_manifest_that_would_say_where_to_write_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *place, *reason;
    } ROWS[] = {
        {"metrics: /etc/passwd\n", "it.skep:run:1:1",
         "the manifest sets metrics, which is a local setting of each member"},
        {"export: x\n", "it.skep:run:1:1",
         "the manifest sets export, which is a local setting of each member"},
        {"data.train: /dev/zero\n", "it.skep:run:1:1",
         "the manifest sets data.train, which is a local setting of each member"},
        {"model: /etc\n", "it.skep:run:1:1",
         "the manifest sets model, which is a local setting of each member"},
        {"swarm.sparse_bits: 2\n", "it.skep:run:1:1",
         "swarm.sparse_bits is set, but swarm.codec is not sparse"},
        {"batch.tokens: 0\n", "it.skep:run:1:1",
         "batch.tokens is 0, but the manifest must set it for all members"},
        {"swarm.quorum: 0.6\n", "it.skep:run:1:1",
         "swarm.quorum is not 0.5: more than half of a roster must vote for a commit"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct settings settings = {.steps = 77};
        struct manifest bad = manifest;
        char text[LINE_BYTES];
        bool named = strncmp(ROWS[i].line, "batch.tokens", 12) == 0;
        snprintf(text, sizeof text, "%sswarm.name: heather\nbatch.sequence: 32\n%s", ROWS[i].line,
                 named ? "" : "batch.tokens: 192\n");
        bad.run_text = text;
        assert_int_equal(read_with(&bad, NULL, &settings), STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, ROWS[i].place);
        assert_int_equal(settings.steps, 77);
    }
}

static void a_run_that_cannot_be_a_swarm_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *override, *reason;
    } ROWS[] = {
        {"swarm.name=", "swarm.name is missing"},
        {"swarm.name=a/b",
         "swarm.name has a character other than letters, digits, '-', '_' and '.'"},
        {"swarm.members_max=65",
         "swarm.members_max is more than 64: a round's roster has 64 seats"},
        {"swarm.members_min=17",
         "swarm.members_min is more than swarm.members_max: no round would ever open"},
        {"swarm.sparse_values=128", "swarm.sparse_values is set, but swarm.codec is not sparse"},
        {"swarm.quorum=0.75",
         "swarm.quorum is not 0.5: more than half of a roster must vote for a commit"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct manifest_draft refused = {.run_text = "untouched"};
        assert_int_equal(manifest_draft_read("tracker/run.yaml", &ROWS[i].override, 1, &region,
                                             &refused, &fault),
                         STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, "command line");
        assert_string_equal(refused.run_text, "untouched");
    }
}

static void state_goes_where_the_environment_says(void **state) {
    (void)state;
    char folder[PATH_BYTES] = "untouched";
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(setenv("HOME", "/folk/a", 1), 0);
    expect_ok(swarm_state_folder("heather", folder, &fault));
    assert_string_equal(folder, "/folk/a/.local/state/skep/heather");
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
    expect_ok(swarm_state_folder("heather", folder, &fault));
    assert_string_equal(folder, "/state/skep/heather");
    assert_int_equal(setenv("STATE_DIRECTORY", "/var/lib/skep:/var/lib/other", 1), 0);
    expect_ok(swarm_state_folder("heather", folder, &fault));
    assert_string_equal(folder, "/var/lib/skep");
    assert_int_equal(unsetenv("STATE_DIRECTORY") | unsetenv("XDG_STATE_HOME") | unsetenv("HOME"),
                     0);
    assert_int_equal(swarm_state_folder("heather", folder, &fault), STATUS_INPUT);
    assert_string_equal(folder, "/var/lib/skep");
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
}

static struct session *read_session(const char *const *overrides, int count) {
    struct session *session = calloc(1, sizeof *session);
    assert_non_null(session);
    expect_ok(
        member_session_or_run_read(session, "heather.skep", overrides, count, &terms, &fault));
    return session;
}

static void finish_session(struct session *session) {
    session_finish(session);
    free(session);
}

static void a_plan_of_a_manifest_has_a_line_for_all_that_a_member_keeps(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {"target=cpu", "batch.microbatch=3"};
    struct session *session = read_session(OVERRIDES, 2);
    const struct replica_memory memory = replica_memory_of(&terms.shape);
    struct replica replica = {.shape = terms.shape};
    const struct member_loop_options loop = swarm_loop_options(&terms, &replica);
    const struct target_space *device = &session->target->spaces[SPACE_DEVICE];
    const struct target_declared_use *last = &device->declared[device->declared_use_count - 1];
    uint64_t kept = 0;
    uint64_t planned = 0;
    expect_ok(session_compile(session, PURPOSE_TRAIN, &fault));
    const struct schedule *schedule = &session->program.schedule;
    assert_int_equal(session->resident_count, SWARM_EXTENT_COUNT);
    for (int i = 0; i < SWARM_EXTENT_COUNT; i++) {
        kept += session->resident[i].bytes;
        planned += schedule->resident[i] == EXTENT_NONE
                       ? 0
                       : schedule->extents[schedule->resident[i]].bytes;
    }
    assert_int_equal(kept, memory.params + memory.momentum + memory.feedback + memory.residual +
                               memory.contribution + memory.declared + memory.results +
                               memory.slots + memory.residual_sources + memory.leaves +
                               memory.scratch + member_loop_memory_bytes(&loop));
    assert_string_equal(last->name, "ZeroMQ");
    assert_int_equal(last->bytes, member_loop_declared_bytes(&loop));
    assert_true(planned >= kept && memory.feedback > 0);
    assert_int_equal(terms.commits_max, offer.terms.commits_max);
    assert_int_equal(terms.shape.slices.count, offer.terms.shape.slices.count);
    finish_session(session);
}

/* On a device what its copies touch is pinned, and only stretches are its own. */
static void a_plan_for_a_device_keeps_the_outer_state_pinned(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {"target=rtx3060-12g"};
    struct session *session = read_session(OVERRIDES, 1);
    const struct replica_memory memory = replica_memory_of(&terms.shape);
    const struct replica_device_memory device = replica_device_memory_of(&terms.shape);
    uint64_t bytes[SPACE_COUNT] = {0};
    expect_ok(session_compile(session, PURPOSE_TRAIN, &fault));
    const struct schedule *schedule = &session->program.schedule;
    for (int i = 0; i < SWARM_EXTENT_COUNT; i++) {
        if (schedule->resident[i] != EXTENT_NONE) {
            const struct extent *extent = &schedule->extents[schedule->resident[i]];
            bytes[extent->space] += extent->bytes;
        }
    }
    assert_int_equal(bytes[SPACE_DEVICE], device.slots);
    assert_int_equal(bytes[SPACE_PINNED], memory.params + memory.momentum + memory.feedback +
                                              memory.contribution + memory.results +
                                              device.scratch);
    assert_true(bytes[SPACE_HOST] >=
                memory.residual + memory.slots + memory.residual_sources + memory.leaves);
    finish_session(session);
}

/* What a member computes its first root over: the inner weights, in blueprint order. */
static struct hash root_of_weights(struct session *session) {
    struct tensor_set set = rank_parts_of_view(session, VIEW_MASTER, PART_STORED);
    int64_t elements = blueprint_elements(&session->blueprint);
    float *values = region_alloc(&session->region, (size_t)elements, sizeof *values);
    static const float ZEROS[LEAF_ELEMENTS];
    static struct merkle_stream stream;
    int64_t at = 0;
    for (int i = 0; i < set.piece_count; i++) {
        assert_string_equal(set.pieces[i].name, session->blueprint.params[i].name);
        memcpy(values + at, set.pieces[i].memory,
               (size_t)piece_range_elements(&set.pieces[i]) * sizeof(float));
        at += piece_range_elements(&set.pieces[i]);
    }
    assert_int_equal(at, elements);
    merkle_begin(&stream);
    for (int64_t first = 0; first < elements; first += LEAF_ELEMENTS) {
        int64_t left = elements - first;
        size_t bytes = sizeof(float) * (size_t)(left < LEAF_ELEMENTS ? left : LEAF_ELEMENTS);
        merkle_add(&stream, values + first, bytes);
        merkle_add(&stream, ZEROS, bytes);
    }
    return merkle_end(&stream);
}

static void a_members_first_weights_have_the_genesis_root(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {"threads=1"};
    struct session *session = read_session(OVERRIDES, 1);
    expect_ok(session_compile(session, PURPOSE_TRAIN, &fault));
    expect_ok(session_bind(session, &fault));
    expect_ok(session_init_weights(session, &fault));
    struct hash root = root_of_weights(session);
    assert_true(hash_equal(&root, &terms.manifest->genesis_root));
    finish_session(session);
}

static void a_folder_of_another_model_is_refused(void **state) {
    (void)state;
    static const char *const OVERRIDES[] = {"model=other"};
    struct session *session = calloc(1, sizeof *session);
    char config[1024];
    assert_true(strlen(offer.config_text) < sizeof config);
    strcpy(config, offer.config_text);
    memcpy(strstr(config, "4099"), "4101", 4);
    scratch_write_text("other/config.json", config);
    assert_non_null(session);
    assert_int_equal(
        member_session_or_run_read(session, "heather.skep", OVERRIDES, 1, &terms, &fault),
        STATUS_INPUT);
    assert_string_equal(fault.subject, "command line");
    assert_non_null(strstr(fault.reason, "model other has "));
    finish_session(session);
}

static void a_tracker_goes_on_with_the_same_run_only(void **state) {
    (void)state;
    static const struct {
        const char *override, *reason;
    } ROWS[] = {
        {"optimizer.lr=2e-3", "the setting is now \"optimizer.lr: 0.002\", but was \"optimizer.lr: "
                              "0.001\" when the swarm was created"},
        {"steps=251",
         "the setting is now \"steps: 251\", but was \"steps: 250\" when the swarm was created"},
    };
    struct manifest_draft again;
    const char *local = "batch.microbatch=6";
    expect_ok(manifest_draft_read("tracker/run.yaml", &local, 1, &region, &again, &fault));
    expect_ok(manifest_draft_compare(&again, &manifest, "heather.skep", &fault));
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        expect_ok(
            manifest_draft_read("tracker/run.yaml", &ROWS[i].override, 1, &region, &again, &fault));
        assert_int_equal(manifest_draft_compare(&again, &manifest, "heather.skep", &fault),
                         STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, "heather.skep");
    }
    expect_ok(manifest_draft_compare(&offer, &manifest, "heather.skep", &fault));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_has_the_mathematics_of_the_tracker_and_nothing_else),
        cmocka_unit_test(what_the_model_settles_is_in_the_manifest),
        cmocka_unit_test(terms_follow_from_settings_and_model),
        cmocka_unit_test(every_shared_key_is_refused_on_the_command_line),
        cmocka_unit_test(local_keys_are_each_members_own),
        cmocka_unit_test(a_manifest_that_would_say_where_to_write_is_refused),
        cmocka_unit_test(a_run_that_cannot_be_a_swarm_is_refused),
        cmocka_unit_test(state_goes_where_the_environment_says),
        cmocka_unit_test(a_plan_of_a_manifest_has_a_line_for_all_that_a_member_keeps),
        cmocka_unit_test(a_plan_for_a_device_keeps_the_outer_state_pinned),
        cmocka_unit_test(a_members_first_weights_have_the_genesis_root),
        cmocka_unit_test(a_folder_of_another_model_is_refused),
        cmocka_unit_test(a_tracker_goes_on_with_the_same_run_only),
    };
    return cmocka_run_group_tests(tests, make_swarm, forget_swarm);
}
