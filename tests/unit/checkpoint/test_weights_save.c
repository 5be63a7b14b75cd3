/* weights_save: written folders, loaded again and looked into. */
#include "tests/unit/checkpoint/model_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct weights_save_args save_args(const struct fixture *fixture) {
    return (struct weights_save_args){.folder = fixture->target,
                                      .model_folder = fixture->folder,
                                      .config_text = fixture->config,
                                      .config_length = strlen(fixture->config),
                                      .set = {fixture->tensors, fixture->blueprint.param_count,
                                              fixture->pieces, fixture->piece_count},
                                      .dtype = DTYPE_F32};
}

static void save_now(struct fixture *fixture, const struct weights_save_args *args) {
    static struct weights_save save;
    assert_int_equal(weights_save_plan(args, &fixture->region, &save, &fixture->fault), OK);
    process_seal();
    assert_int_equal(weights_save_run(&save, &fixture->staging, &fixture->fault), OK);
    process_unseal();
}

static size_t read_target(const struct fixture *fixture, const char *name, char *buffer,
                          size_t capacity) {
    static char path[PATH_BYTES];
    size_t length = 0;
    struct fault fault;
    path_join(fixture->target, name, path, sizeof path);
    assert_int_equal(file_read_text(path, buffer, capacity, &length, &fault), OK);
    return length;
}

static bool target_has(const struct fixture *fixture, const char *name) {
    static char path[PATH_BYTES];
    path_join(fixture->target, name, path, sizeof path);
    return file_exists(path);
}

static void save_and_load_agree_in_every_type_and_shard_size(void **state) {
    (void)state;
    static const enum dtype TYPES[] = {DTYPE_F32, DTYPE_BF16};
    static const int64_t SHARDS[] = {0, 600, 1};
    for (size_t t = 0; t < ARRAY_COUNT(TYPES); t++) {
        for (size_t s = 0; s < ARRAY_COUNT(SHARDS); s++) {
            struct fixture *fixture = fixture_start(false, ST_F32);
            fixture_write_single(fixture);
            fixture_add_pieces(fixture, DTYPE_F32);
            assert_int_equal(fixture_load(fixture), OK);
            struct weights_save_args args = save_args(fixture);
            args.dtype = TYPES[t];
            args.shard_bytes_max = SHARDS[s];
            save_now(fixture, &args);
            assert_int_equal(target_has(fixture, "model.safetensors"), SHARDS[s] == 0);
            assert_int_equal(target_has(fixture, "model.safetensors.index.json"), SHARDS[s] != 0);
            fixture_clear(fixture);
            assert_int_equal(fixture_load_from(fixture, fixture->target), OK);
            fixture_assert_loaded(fixture);
            fixture_finish(fixture);
        }
    }
}

static void save_writes_shards_within_the_limit_and_their_index(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(true, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);
    fixture_write_single(fixture);
    assert_int_equal(fixture_load(fixture), OK);
    struct weights_save_args args = save_args(fixture);
    args.shard_bytes_max = 512; /* the embedding alone */
    save_now(fixture, &args);
    static char index[8192];
    read_target(fixture, "model.safetensors.index.json", index, sizeof index);
    /* 16*8 + 4 norms.. : embedding 128, norms 3*8, q 64, k 32, v 32, o 64, mlp 3*96 = 632 */
    assert_non_null(strstr(index, "\"total_parameters\": 632,"));
    assert_non_null(strstr(index, "\"total_size\": 2528\n"));
    assert_non_null(strstr(index, "\"model.embed_tokens.weight\": \"model-00001-of-0000"));
    assert_null(strstr(index, "lm_head"));
    fixture_finish(fixture);
}

static void save_keeps_config_but_for_its_type_and_copies_the_tokenizer(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);
    fixture_write_single(fixture);
    fixture_write_text(fixture, "tokenizer.json", "{\"model\": {}}");
    fixture_write_text(fixture, "chat_template.jinja", "{{ x }}");
    fixture_write_text(fixture, "private.txt", "not copied");
    assert_int_equal(fixture_load(fixture), OK);
    struct weights_save_args args = save_args(fixture);
    args.dtype = DTYPE_BF16;
    save_now(fixture, &args);
    static char text[2048];
    static char wanted[2048];
    read_target(fixture, "config.json", text, sizeof text);
    strcpy(wanted, fixture->config);
    strcpy(strstr(wanted, "\"float32\""), "\"bfloat16\"\n}\n");
    assert_string_equal(text, wanted);
    read_target(fixture, "tokenizer.json", text, sizeof text);
    assert_string_equal(text, "{\"model\": {}}");
    assert_true(target_has(fixture, "chat_template.jinja"));
    assert_false(target_has(fixture, "private.txt"));

    /* An earlier export is replaced as a whole. */
    args.dtype = DTYPE_F32;
    args.model_folder = "";
    save_now(fixture, &args);
    assert_false(target_has(fixture, "tokenizer.json"));
    fixture_clear(fixture);
    assert_int_equal(fixture_load_from(fixture, fixture->target), OK);
    fixture_assert_loaded(fixture);
    fixture_finish(fixture);
}

static void save_refuses_to_replace_what_is_not_an_export(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);
    fixture_write_single(fixture);
    static struct weights_save save;
    struct weights_save_args args = save_args(fixture);
    args.folder = fixture->folder;
    assert_int_equal(weights_save_plan(&args, &fixture->region, &save, &fixture->fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fixture->fault.reason, "that the model was read from"));
    fixture_write_text(fixture, "thesis.tex", "...");
    args.model_folder = "";
    assert_int_equal(weights_save_plan(&args, &fixture->region, &save, &fixture->fault),
                     STATUS_INPUT);
    assert_non_null(strstr(fixture->fault.reason, "contains 'thesis.tex'"));
    fixture_finish(fixture);
}

static void save_leaves_nothing_when_a_weight_is_not_finite(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);
    ((float *)fixture->pieces[1].memory)[3] = NAN;
    struct weights_save_args args = save_args(fixture);
    args.model_folder = "";
    args.dtype = DTYPE_BF16;
    static struct weights_save save;
    assert_int_equal(weights_save_plan(&args, &fixture->region, &save, &fixture->fault), OK);
    assert_int_equal(weights_save_run(&save, &fixture->staging, &fixture->fault), STATUS_FAILED);
    assert_non_null(strstr(fixture->fault.reason, "element 3 is nan"));
    assert_false(file_exists(fixture->target));
    assert_false(file_exists(save.temporary));
    fixture_finish(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_and_load_agree_in_every_type_and_shard_size),
        cmocka_unit_test(save_writes_shards_within_the_limit_and_their_index),
        cmocka_unit_test(save_keeps_config_but_for_its_type_and_copies_the_tokenizer),
        cmocka_unit_test(save_refuses_to_replace_what_is_not_an_export),
        cmocka_unit_test(save_leaves_nothing_when_a_weight_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
