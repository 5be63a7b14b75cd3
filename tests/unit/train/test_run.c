/* Tests of train/run: what a run file and overrides become, and where a refusal points. */
#include "base/file.h"
#include "base/limits.h"
#include "runtime/schedule/schedule.h"
#include "runtime/settings/settings.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct region region;
static struct fault fault;

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static struct settings read_at(const char *path, const char *text) {
    struct settings settings;
    memset(&fault, 0, sizeof fault);
    if (settings_open_text(text, strlen(text), path, &region, &settings, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return settings;
}

static struct settings read_text(const char *text) {
    return read_at("run.yaml", text);
}

static void refused(const char *text, const char *place, const char *why) {
    struct settings settings = {.steps = 77};
    memset(&fault, 0, sizeof fault);
    assert_int_equal(settings_open_text(text, strlen(text), "run.yaml", &region, &settings, &fault),
                     STATUS_INPUT);
    assert_int_equal(settings.steps, 77);
    if (strcmp(fault.subject, place) != 0 || strstr(fault.reason, why) == NULL) {
        fail_msg("\"%s\" gives \"%s: %s\", not \"%s: %s\"", text, fault.subject, fault.reason,
                 place, why);
    }
}

static enum status override(const char *text, struct settings *settings) {
    memset(&fault, 0, sizeof fault);
    return settings_open(NULL, &text, 1, &region, settings, &fault);
}

static struct settings overridden(const char *text) {
    struct settings settings;
    if (override(text, &settings) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return settings;
}

/* The paths of a list, a bar between them. */
static const char *barred(struct path_list list) {
    size_t room = (size_t)list.count * 2 * PATH_BYTES + 1;
    struct text text = text_over(region_alloc(&region, room, 1), room);
    for (int i = 0; i < list.count; i++) {
        text_add(&text, "%s%s", i > 0 ? "|" : "", list.paths[i]);
    }
    return text.bytes;
}

static void an_empty_run_has_the_documented_defaults(void **state) {
    (void)state;
    struct settings settings;
    assert_int_equal(settings_open(NULL, NULL, 0, &region, &settings, &fault), OK);
    assert_null(settings.model);
    assert_null(settings.target);
    assert_int_equal(settings.train_files.count, 0);
    assert_int_equal(settings.init_kind, INIT_FROM_WEIGHTS);
    assert_int_equal(settings.steps, 1000);
    assert_int_equal(settings.threads, 0);
    assert_int_equal(settings.document_end_token, -1);
    assert_int_equal(settings.microbatch, 1);
    assert_true(settings.learning_rate == 3e-4 && settings.epsilon == 1e-8 &&
                settings.weight_decay == 0.1);
    assert_true(settings.betas.first == 0.9 && settings.betas.second == 0.95 &&
                settings.clip_norm == 1);
    assert_int_equal(settings.learning_rate_kind, RATE_COSINE);
    assert_int_equal(settings.params_dtype, DTYPE_AUTO);
    assert_int_equal(settings.eval_tokens, 262144);
    assert_true(settings.stop_within_s == 8);
    assert_true(settings.swarm_outer_lr == 0.7 && settings.swarm_outer_momentum == 0.9);
    assert_string_equal(settings.snapshot_folder, "skep-run/snapshots");
}

/* A value of each type that is not the default, as text. */
static const char *other_value(const struct setting_key *key, char buffer[static 64]) {
    switch (key->type) {
    case SETTING_INTEGER:
    case SETTING_REAL:
    case SETTING_SECONDS:
        snprintf(buffer, 64, "%.10g", key->type == SETTING_INTEGER ? key->minimum : key->maximum);
        return buffer;
    case SETTING_PAIR:
        return "[0.25, 0.5]";
    case SETTING_BYTES:
        return "12345";
    case SETTING_DTYPE:
        return "f32";
    case SETTING_CHOICE:
    case SETTING_TEXT:
        snprintf(buffer, 64, "%s",
                 key->choices != NULL ? strrchr(key->choices, '|') + 1 : key->default_text);
        return buffer;
    case SETTING_MODEL:
    case SETTING_PROFILE:
    case SETTING_PATH:
        return "\"./some/where\"";
    case SETTING_PATHS:
        return "[\"a.u16\", \"b*.u16\"]";
    }
    return NULL;
}

static void every_key_reads_back_what_it_writes(void **state) {
    (void)state;
    for (int i = 0; i < setting_key_count(); i++) {
        const struct setting_key *key = setting_key_at(i);
        if (key->type == SETTING_TEXT && key->choices == NULL) {
            continue; /* free text */
        }
        char value[64], line[256], written[512], again[512];
        snprintf(line, sizeof line, "%s: %s\n", key->name, other_value(key, value));
        struct settings settings = read_text(line);
        struct text text = text_over(written, sizeof written);
        text_add(&text, "%s: ", key->name);
        settings_describe_key(&settings, key, &text);
        struct settings second = read_text(written);
        text = text_over(again, sizeof again);
        text_add(&text, "%s: ", key->name);
        settings_describe_key(&second, key, &text);
        assert_string_equal(written, again);
        bool is_number = key->type == SETTING_INTEGER || key->type == SETTING_PAIR;
        if (is_number || key->type == SETTING_CHOICE || key->type == SETTING_PATHS) {
            assert_non_null(strstr(written, other_value(key, value)));
        }
    }
}

static void a_described_run_reads_back_as_the_same_run(void **state) {
    (void)state;
    static char first[16384], second[16384];
    struct settings settings =
        read_at("exp/run.yaml", "model: m\nsteps: 3\noptimizer.lr: 0.1\n"
                                "data.train: [x.u16, /abs/y.u16]\nswarm.name: n\n"
                                "limits.up: 20MB/s\nexport: out\n");
    struct text text = text_over(first, sizeof first);
    settings_describe(&settings, false, &text);
    assert_false(text.truncated);
    settings = read_at("exp/run.yaml", first);
    text = text_over(second, sizeof second);
    settings_describe(&settings, false, &text);
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "optimizer.lr: 0.1\n"));
    assert_non_null(strstr(first, "data.train: [\"x.u16\", \"/abs/y.u16\"]\n"));
    assert_non_null(strstr(first, "model: \"m\"\n"));
    assert_non_null(strstr(first, "precision.params: auto\n"));
    text = text_over(second, sizeof second);
    settings_describe(&settings, true, &text);
    assert_null(strstr(second, "export"));
    assert_non_null(strstr(second, "data.train"));
}

static void shared_keys_do_not_change_with_the_working_directory(void **state) {
    (void)state;
    static char here[16384], above[16384];
    static const char TEXT[] = "model: m\ndata.train: [a.u16, sub/b.u16]\n";
    struct settings settings = read_at("run.yaml", TEXT);
    struct text text = text_over(here, sizeof here);
    settings_describe(&settings, true, &text);
    settings = read_at("one/two/run.yaml", TEXT);
    assert_string_equal(barred(settings.train_files), "one/two/a.u16|one/two/sub/b.u16");
    text = text_over(above, sizeof above);
    settings_describe(&settings, true, &text);
    assert_string_equal(here, above);
}

static void numbers_are_taken_in_their_usual_forms(void **state) {
    (void)state;
    assert_int_equal(overridden("steps=1e6").steps, 1000000);
    assert_int_equal(overridden("batch.tokens=5.12e5").batch_tokens, 512000);
    assert_int_equal(overridden("threads=3").threads, 3);
    assert_int_equal(overridden("data.documents=50256").document_end_token, 50256);
    assert_int_equal(overridden("seed=9000000000000000").seed, 9000000000000000);
    assert_true(overridden("optimizer.lr=6e-4").learning_rate == 6e-4);
    assert_true(overridden("stop_within=2.5s").stop_within_s == 2.5);
    assert_true(overridden("stop_within=30 s").stop_within_s == 30);
    assert_int_equal(overridden("limits.device=9GiB").limit_device, (uint64_t)9 << 30);
    assert_int_equal(overridden("limits.disk=1.5GB").limit_disk, 1500000000);
    assert_int_equal(overridden("limits.up=20 MB/s").limit_up, 20000000);
    assert_int_equal(overridden("limits.down=4096").limit_down, 4096);
    assert_int_equal(overridden("schedule.kind=wsd").learning_rate_kind, RATE_WSD);
    assert_int_equal(overridden("strategy.keep_gathered=true").keep_gathered, 1);
    assert_int_equal(overridden("precision.moments=bf16").moments_dtype, DTYPE_BF16);
    assert_int_equal(overridden("precision.rounding=nearest").rounding, ROUNDING_NEAREST);
    assert_int_equal(overridden("precision.rounding=stochastic").rounding, ROUNDING_STOCHASTIC);
}

static void values_of_another_type_or_range_are_refused_where_they_stand(void **state) {
    (void)state;
    static const struct {
        const char *text, *place, *why;
    } ROWS[] = {
        {"steps: 1.5\n", "run.yaml:1:1", "steps is \"1.5\", not a whole number"},
        {"seed: 1\nsteps: 0\n", "run.yaml:2:1", "steps is 0, but must be from 1 to 1000000000"},
        {"steps: 0x10\n", "run.yaml:1:1", "whole number"},
        {"steps: 1e400\n", "run.yaml:1:1", "whole number"},
        {"steps: 99999999999999999999\n", "run.yaml:1:1", "whole number"},
        {"steps: [1, 2]\n", "run.yaml:1:1", "is a list, not one value"},
        {"steps:\n", "run.yaml:1:1", "has no value"},
        {"steps: \"\"\n", "run.yaml:1:1", "whole number"},
        {"threads: 100000\n", "run.yaml:1:1", "threads is 100000, but must be from 0 to 256"},
        {"optimizer:\n  lr: fast\n", "run.yaml:2:3", "optimizer.lr is \"fast\", not a number"},
        {"optimizer:\n  lr: nan\n", "run.yaml:2:3", "not a number"},
        {"optimizer: {lr: -1}\n", "run.yaml:1:13", "must be from 0 to 1000"},
        {"optimizer.betas: 0.9\n", "run.yaml:1:1", "a list of two numbers"},
        {"optimizer.betas: [0.9, 0.95, 0.99]\n", "run.yaml:1:1", "a list of two numbers"},
        {"optimizer.betas: [0.9, x]\n", "run.yaml:1:1", "a list of two numbers"},
        {"optimizer.betas: [0.9, 1]\n", "run.yaml:1:1", "must be from 0 to 0.99999999"},
        {"optimizer.betas: [0.9, [1]]\n", "run.yaml:1:25", "not a known key"},
        {"limits.device: much\n", "run.yaml:1:1", "an amount like 9GiB"},
        {"limits.device: 2e15\n", "run.yaml:1:1", "must be from"},
        {"limits.up: 1 MB/h\n", "run.yaml:1:1", "a rate like 20 MB/s"},
        {"stop_within: 8 min\n", "run.yaml:1:1", "not a number"},
        {"precision.params: f16\n", "run.yaml:1:1", "f32 or bf16"},
        {"schedule.kind: linear\n", "run.yaml:1:1", "not one of constant|cosine|wsd"},
        {"schedule.kind: con\n", "run.yaml:1:1", "not one of"},
        {"schedule.kind: \"\"\n", "run.yaml:1:1", "not one of"},
        {"data.format: u8\n", "run.yaml:1:1", "not one of u16|u32|bytes"},
        {"optimizer.betas: [\"0.9,1\", 0]\n", "run.yaml:1:20", "betas[0] contains a comma"},
        {"data.train: [a.u16, \"\"]\n", "run.yaml:1:22",
         "is empty, or is a map or a list, where one value is expected"},
        {"model: [a, b]\n", "run.yaml:1:1", "model is a list, not one value"},
        {"steps: {x: 1}\n", "run.yaml:1:9", "steps.x is not a known key"},
        {"steps: {}\n", "run.yaml:1:1", "has no value"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        refused(ROWS[i].text, ROWS[i].place, ROWS[i].why);
    }
}

static void a_number_too_long_to_be_one_is_refused_not_cut(void **state) {
    (void)state;
    char text[256] = "stop_within: 0.";
    memset(text + strlen(text), '0', 100);
    strcat(text, "9s\n");
    refused(text, "run.yaml:1:1", "not a number");
}

static void unknown_keys_name_the_nearest(void **state) {
    (void)state;
    refused("model: m\noptimizer:\n  weigth_decay: 0.1\n", "run.yaml:3:3", "not a known key");
    assert_string_equal(fault.remedy, "did you mean optimizer.weight_decay?");
    refused("optimiser:\n  lr: 1\n", "run.yaml:1:1", "not a known key");
    assert_string_equal(fault.remedy, "did you mean optimizer?");
    refused("strategy: {zero: 3, zero_stage: 1}\n", "run.yaml:1:21", "not a known key");
    struct settings settings;
    assert_int_equal(override("batch.token=1", &settings), STATUS_INPUT);
    assert_string_equal(fault.subject, "command line");
    assert_string_equal(fault.remedy, "did you mean batch.tokens?");
    assert_int_equal(override("qqqqqqqqqqqq=1", &settings), STATUS_INPUT);
    assert_string_equal(fault.remedy, "`skep help keys` lists them");
}

static void a_key_given_twice_is_refused(void **state) {
    (void)state;
    struct settings settings;
    static const char *const TEXTS[] = {"steps: 1\nsteps: 2\n",
                                        "optimizer: {lr: 1}\noptimizer.lr: 2\n"};
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        assert_int_equal(
            settings_open_text(TEXTS[i], strlen(TEXTS[i]), "run.yaml", &region, &settings, &fault),
            STATUS_INPUT);
        assert_memory_equal(fault.subject, "run.yaml:2:", 11);
    }
}

static void null_and_an_empty_override_mean_the_default(void **state) {
    (void)state;
    struct settings settings = read_text("steps: null\nmodel: ~\nexport: null\ndata.train: []\n");
    assert_int_equal(settings.steps, 1000);
    assert_null(settings.model);
    assert_int_equal(settings.train_files.count, 0);
    assert_string_equal(settings.export_folder, "run/model");
    assert_string_equal(read_text("swarm.name: \"null\"\n").swarm_name, "null");
    assert_string_equal(read_text("strategy.units: \"\"\n").unit_policy, "block");
    assert_null(read_text("model: \"\"\n").model);
    scratch_write_text("o.yaml", "steps: 5\nexport: out\n");
    const char *overrides[] = {"steps=", "export="};
    assert_int_equal(settings_open("o.yaml", overrides, 2, &region, &settings, &fault), OK);
    assert_int_equal(settings.steps, 1000);
    assert_string_equal(settings.export_folder, "o/model");
}

static void overrides_win_in_their_order(void **state) {
    (void)state;
    struct settings settings;
    scratch_write_text("w.yaml", "steps: 5\noptimizer: {betas: [0.8, 0.9]}\n");
    const char *overrides[] = {"steps=6", "steps=7", "optimizer.betas=[0.5, 0.75]"};
    assert_int_equal(settings_open("w.yaml", overrides, 3, &region, &settings, &fault), OK);
    assert_int_equal(settings.steps, 7);
    assert_true(settings.betas.first == 0.5 && settings.betas.second == 0.75);
    assert_true(overridden("optimizer.betas=0.5 , 0.75").betas.second == 0.75);
    assert_int_equal(override("steps", &settings), STATUS_USAGE);
    assert_int_equal(override("=5", &settings), STATUS_USAGE);
    assert_int_equal(override("steps=x", &settings), STATUS_INPUT);
    assert_string_equal(fault.subject, "command line");
}

static void paths_of_a_run_file_are_relative_to_it(void **state) {
    (void)state;
    struct settings settings =
        read_at("exp/a/run.yaml", "data: {train: [x.u16, y*.u16], validation: "
                                  "/abs/z.u16}\nsnapshot.folder: ../snaps\n");
    assert_string_equal(barred(settings.train_files), "exp/a/x.u16|exp/a/y*.u16");
    assert_string_equal(barred(settings.validation_files), "/abs/z.u16");
    assert_string_equal(settings.snapshot_folder, "exp/a/../snaps");
    assert_string_equal(settings.export_folder, "exp/a/run/model");
    assert_string_equal(settings.metrics_path, "exp/a/run/metrics.jsonl");
    assert_string_equal(barred(read_at("/r.yaml", "data.train: x\n").train_files), "/x");
    assert_string_equal(barred(read_at("./r.yaml", "data.train: x\n").train_files), "./x");
    assert_string_equal(barred(read_at("r.yaml", "data.train: x\n").train_files), "x");
    assert_string_equal(read_at("no-suffix", "seed: 1\n").export_folder, "no-suffix.run/model");
    assert_string_equal(read_at("a.b/run", "seed: 1\n").export_folder, "a.b/run.run/model");
    assert_string_equal(read_at(".run", "seed: 1\n").stem, ".run.run");
}

static void a_comma_is_part_of_a_path_but_on_the_command_line(void **state) {
    (void)state;
    struct settings settings = read_text("data.train: a,b.u16\n");
    assert_string_equal(barred(settings.train_files), "a,b.u16");
    settings = read_at("d/run.yaml", "data.train: [\"a, b.u16\", \" c\", d]\n");
    assert_string_equal(barred(settings.train_files), "d/a, b.u16|d/ c|d/d");
    static char described[16384];
    struct text text = text_over(described, sizeof described);
    settings_describe(&settings, false, &text);
    assert_string_equal(barred(read_at("d/run.yaml", described).train_files),
                        "d/a, b.u16|d/ c|d/d");
    assert_string_equal(barred(overridden("data.train=x,y").train_files), "x|y");
    assert_string_equal(barred(overridden("data.train=[x, y]").train_files), "x|y");
    assert_int_equal(overridden("data.train=").train_files.count, 0);
    assert_int_equal(override("data.train=x,,y", &settings), STATUS_INPUT);
}

static void a_model_is_a_path_unless_the_hub_has_such_names(void **state) {
    (void)state;
    assert_int_equal(file_make_folders("m/org/name", &fault), OK);
    assert_int_equal(file_make_folders("m/cpu", &fault), OK);
    assert_string_equal(read_at("m/run.yaml", "model: org/name\n").model, "m/org/name");
    assert_string_equal(read_at("m/run.yaml", "model: org/other\n").model, "org/other");
    assert_string_equal(read_at("m/run.yaml", "model: my-model\n").model, "m/my-model");
    assert_string_equal(read_at("m/run.yaml", "model: ./mine\n").model, "m/./mine");
    assert_string_equal(read_at("m/run.yaml", "model: ../up/mine\n").model, "m/../up/mine");
    assert_string_equal(read_at("m/run.yaml", "target: cpu\n").target, "cpu");
    assert_string_equal(read_at("m/run.yaml", "target: my.yaml\n").target, "m/my.yaml");
    assert_string_equal(read_at("m/run.yaml", "target: p/my.yaml\n").target, "m/p/my.yaml");
    assert_string_equal(overridden("model=org/name").model, "org/name");
}

static void keys_that_contradict_each_other_are_refused(void **state) {
    (void)state;
    refused("precision.params: bf16\nprecision.compute: f32\n", "run.yaml:1:1",
            "precision.params is bf16, but");
    refused("steps: 3\nepochs: 2\n", "run.yaml:1:1", "epochs and steps both set the length");
    refused("epochs: 2\nsteps: 3\n", "run.yaml:2:1", "epochs and steps both set the length");
    refused("precision: {params: bf16, compute: bf16, master: bf16}\n", "run.yaml:1:42",
            "precision.master");
    refused("strategy.offload: moments\n", "run.yaml:1:1",
            "\"moments\" is not one of activations, optimizer and params");
    refused("strategy.offload: params\n", "run.yaml:1:1", "lists params, which requires optimizer");
    refused("strategy.offload: [activations, none]\n", "run.yaml:1:1", "\"none\" is not one of");
    refused("strategy.offload: \"optimizer,,activations\"\n", "run.yaml:1:1", "\"\" is not one of");
    assert_int_equal(read_text("strategy.offload: none\n").offload_kinds, 0);
    assert_int_equal(read_text("strategy.offload: optimizer\n").offload_kinds, OFFLOAD_OPTIMIZER);
    assert_int_equal(read_text("strategy: {offload: [optimizer, activations]}\n").offload_kinds,
                     OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER);
    assert_int_equal(read_text("precision: {params: bf16, compute: bf16}\n").compute_dtype,
                     DTYPE_BF16);
    struct settings settings;
    scratch_write_text("p.yaml", "precision: {params: bf16, compute: bf16}\n");
    const char *compute = "precision.compute=f32";
    assert_int_equal(settings_open("p.yaml", &compute, 1, &region, &settings, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "command line");
}

static void one_type_sets_the_other_and_precision_sets_both(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "precision: bf16\n", "precision.params: bf16\n", "precision.compute: bfloat16\n",
        "precision: {compute: bf16, params: auto}\n", "precision:\n  params: bf16\n"};
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        const struct settings settings = read_text(TEXTS[i]);
        assert_int_equal(settings.params_dtype, DTYPE_BF16);
        assert_int_equal(settings.compute_dtype, DTYPE_BF16);
    }
    struct settings settings;
    assert_int_equal(override("precision=bf16", &settings), OK);
    assert_int_equal(settings.params_dtype, DTYPE_BF16);
    assert_int_equal(settings.compute_dtype, DTYPE_BF16);
    refused("precision: fp16\n", "run.yaml:1:1", "\"fp16\", not f32 or bf16");
    refused("precision: bf16\nprecision.params: f32\n", "run.yaml:2:1",
            "precision.params is f32, but precision.compute is bf16");
    assert_string_equal(read_text("export: out\nexport.dtype: bf16\n").export_folder, "out");
    assert_int_equal(read_text("export: {dtype: bf16}\n").export_dtype, DTYPE_BF16);
}

static void paths_too_long_are_refused(void **state) {
    (void)state;
    struct settings settings;
    static char text[2 * PATH_BYTES];
    memcpy(text, "export: ", 8);
    memset(text + 8, 'a', PATH_BYTES);
    refused(text, "run.yaml:1:1", "too long");
    memcpy(text, "model: a", 8);
    refused(text, "run.yaml:1:1", "too long");
    memset(text, 'a', PATH_BYTES + 8);
    assert_int_equal(settings_open(text, NULL, 0, &region, &settings, &fault), STATUS_INPUT);
    assert_int_equal(settings_open("missing.yaml", NULL, 0, &region, &settings, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "missing.yaml");
}

/* A list of data files may be long: a thousand shards are usual. */
static void a_list_of_many_paths_is_read_whole(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    size_t room = COUNT * 64 + 64;
    struct text text = text_over(region_alloc(&region, room, 1), room);
    text_add(&text, "data.train: [");
    for (int i = 0; i < COUNT; i++) {
        text_add(&text, "%sfineweb/shard_number_%06d.u16", i > 0 ? ", " : "", i);
    }
    text_add(&text, "]\n");
    assert_false(text.truncated);
    struct settings settings = read_at("some/folder/run.yaml", text.bytes);
    assert_int_equal(settings.train_files.count, COUNT);
    assert_string_equal(settings.train_files.paths[COUNT - 1],
                        "some/folder/fineweb/shard_number_002999.u16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_empty_run_has_the_documented_defaults, finish_region),
        cmocka_unit_test_teardown(every_key_reads_back_what_it_writes, finish_region),
        cmocka_unit_test_teardown(a_described_run_reads_back_as_the_same_run, finish_region),
        cmocka_unit_test_teardown(shared_keys_do_not_change_with_the_working_directory,
                                  finish_region),
        cmocka_unit_test_teardown(numbers_are_taken_in_their_usual_forms, finish_region),
        cmocka_unit_test_teardown(values_of_another_type_or_range_are_refused_where_they_stand,
                                  finish_region),
        cmocka_unit_test_teardown(a_number_too_long_to_be_one_is_refused_not_cut, finish_region),
        cmocka_unit_test_teardown(unknown_keys_name_the_nearest, finish_region),
        cmocka_unit_test_teardown(a_key_given_twice_is_refused, finish_region),
        cmocka_unit_test_teardown(null_and_an_empty_override_mean_the_default, finish_region),
        cmocka_unit_test_teardown(overrides_win_in_their_order, finish_region),
        cmocka_unit_test_teardown(a_comma_is_part_of_a_path_but_on_the_command_line, finish_region),
        cmocka_unit_test_teardown(paths_of_a_run_file_are_relative_to_it, finish_region),
        cmocka_unit_test_teardown(a_model_is_a_path_unless_the_hub_has_such_names, finish_region),
        cmocka_unit_test_teardown(keys_that_contradict_each_other_are_refused, finish_region),
        cmocka_unit_test_teardown(one_type_sets_the_other_and_precision_sets_both, finish_region),
        cmocka_unit_test_teardown(paths_too_long_are_refused, finish_region),
        cmocka_unit_test_teardown(a_list_of_many_paths_is_read_whole, finish_region),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
