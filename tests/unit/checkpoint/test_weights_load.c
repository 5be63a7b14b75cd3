/* weights_load over folders written here byte by byte. */
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

static void load_fills_masters_and_copies_from_each_type(void **state) {
    (void)state;
    static const enum safetensors_dtype STORED[] = {ST_F32, ST_BF16, ST_F16};
    for (size_t i = 0; i < ARRAY_COUNT(STORED); i++) {
        struct fixture *fixture = fixture_start(false, STORED[i]);
        fixture_write_single(fixture);
        fixture_add_pieces(fixture, DTYPE_F32);
        fixture_add_pieces(fixture, DTYPE_BF16);
        assert_int_equal(fixture_load(fixture), OK);
        fixture_assert_loaded(fixture);
        fixture_finish(fixture);
    }
}

static void load_rounds_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        float stored, loaded;
    } CASES[] = {{0x1.01p0f, 0x1p0f},
                 {0x1.03p0f, 0x1.04p0f},
                 {-0x1.010002p0f, -0x1.02p0f},
                 {0x1.fep127f, 0x1.fep127f}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct fixture *fixture = fixture_start(false, ST_F32);
        fixture->poison_at = 5;
        fixture->poison = CASES[i].stored;
        fixture_write_single(fixture);
        fixture_add_pieces(fixture, DTYPE_BF16);
        assert_int_equal(fixture_load(fixture), OK);
        const uint16_t *loaded = fixture->pieces[2].memory;
        assert_true(bf16_to_f32(loaded[5]) == CASES[i].loaded);
        fixture_finish(fixture);
    }
}

static void load_fills_a_range(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_BF16);
    fixture_write_single(fixture);
    fixture_add_pieces(fixture, DTYPE_F32);
    fixture->pieces[0].first = 37;
    fixture->pieces[0].count = 64;
    fixture->pieces[3].first = 1;
    fixture->pieces[3].count = 1;
    float *behind = (float *)fixture->pieces[0].memory + 64;
    *behind = 99.0f;
    assert_int_equal(fixture_load(fixture), OK);
    fixture_assert_loaded(fixture);
    assert_true(*behind == 99.0f);
    fixture_finish(fixture);
}

static void load_crosses_staging_chunks(void **state) {
    (void)state;
    /* A tensor larger than the staging buffer, converted through it chunk by chunk. */
    enum { ELEMENTS = 3 * STAGING / 4 + 5 };
    static uint16_t stored[ELEMENTS];
    static float loaded[ELEMENTS];
    static _Alignas(64) char memory[STAGING];
    char path[] = "/tmp/skep-piece-XXXXXX";
    int fd = mkstemp(path);
    for (int i = 0; i < ELEMENTS; i++) {
        stored[i] = bf16_from_f32((float)(i % 251));
    }
    assert_int_equal(pwrite(fd, stored, sizeof stored, 3), sizeof stored);
    const struct piece_span place = {.fd = fd, .path = path, .at = 3, .dtype = DTYPE_BF16};
    const struct tensor_piece piece = {
        .name = "t", .dtype = DTYPE_F32, .rank = 1, .shape = {ELEMENTS}, .memory = loaded};
    const struct staging staging = {memory, sizeof memory};
    struct fault fault;
    assert_int_equal(piece_read(&place, &piece, true, &staging, &fault), OK);
    for (int i = 0; i < ELEMENTS; i++) {
        assert_true(loaded[i] == (float)(i % 251));
    }
    memset(stored, 0, sizeof stored);
    assert_int_equal(piece_write(&place, &piece, &staging, &fault), OK);
    assert_int_equal(pread(fd, stored, sizeof stored, 3), sizeof stored);
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(stored[i], bf16_from_f32((float)(i % 251)));
    }
    close(fd);
    unlink(path);
}

static void load_refuses_values_that_are_not_finite(void **state) {
    (void)state;
    static const struct {
        float value;
        enum dtype memory;
    } CASES[] = {{NAN, DTYPE_F32},
                 {-INFINITY, DTYPE_F32},
                 {NAN, DTYPE_BF16},
                 {0x1.ffp127f, DTYPE_BF16},
                 {65520.0f, DTYPE_F16}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct fixture *fixture = fixture_start(false, ST_F32);
        fixture->poison_at = 7;
        fixture->poison = CASES[i].value;
        fixture_write_single(fixture);
        fixture_add_pieces(fixture, CASES[i].memory);
        fixture_assert_refused(fixture, "element 7 is");
        assert_non_null(strstr(fixture->fault.reason, fixture->entries[2].name));
        fixture_finish(fixture);
    }
}

static void load_names_what_does_not_fit_the_model(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);

    struct safetensors_entry last = fixture->entries[--fixture->entry_count];
    fixture_write_single(fixture);
    fixture_assert_refused(fixture, "'lm_head.weight' is missing (1 of ");
    assert_non_null(strstr(fixture->fault.remedy, "tie_word_embeddings"));

    fixture->entries[fixture->entry_count++] = last;
    fixture_add_entry(fixture, "model.layers.1.mlp.up_proj.weight", ST_F32, 2, 12, 8);
    fixture_write_single(fixture);
    fixture_assert_refused(fixture,
                           "'model.layers.1.mlp.up_proj.weight' is not a parameter of this llama");

    fixture->entry_count--;
    fixture_add_entry(fixture, "model.layers.0.self_attn.rotary_emb.inv_freq", ST_I64, 1, 2, 0);
    fixture_write_single(fixture);
    assert_int_equal(fixture_load(fixture), OK);
    fixture_assert_loaded(fixture);

    fixture->entry_count--;
    fixture->entries[1].shape[0] = 9;
    fixture_write_single(fixture);
    fixture_assert_refused(fixture, "has the shape [9], but config.json requires [8]");
    fixture->entries[1].shape[0] = 8;

    fixture->entries[0].dtype = ST_I64;
    fixture_write_single(fixture);
    fixture_assert_refused(fixture, "'model.embed_tokens.weight' is I64; weights must be F32");
    fixture->entries[0].dtype = ST_F32;

    fixture_add_entry(fixture, "embed_tokens.weight", ST_F32, 2, 16, 8);
    fixture_write_single(fixture);
    fixture_assert_refused(fixture, "is also in");
    fixture_finish(fixture);
}

static void load_accepts_a_tied_head_only_when_it_is_the_embedding(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(true, ST_F32);
    fixture_add_pieces(fixture, DTYPE_F32);
    fixture_add_entry(fixture, "lm_head.weight", ST_F32, 2, 16, 8);
    fixture_write_single(fixture);
    fixture_assert_refused(
        fixture, "'lm_head.weight' differs from 'model.embed_tokens.weight' at element 0");

    /* Each rank compares its own range; one that holds nothing of the embedding has none. */
    fixture->pieces[0].first = 40;
    fixture->pieces[0].count = 30;
    fixture_assert_refused(
        fixture, "'lm_head.weight' differs from 'model.embed_tokens.weight' at element 40");
    struct tensor_piece embedding_piece = fixture->pieces[0];
    fixture->pieces[0] = fixture->pieces[--fixture->piece_count];
    assert_int_equal(fixture_load(fixture), OK);
    fixture_assert_loaded(fixture);
    fixture->pieces[fixture->piece_count++] = embedding_piece;

    /* Equal bytes: the head's values are written under the embedding's name and moved. */
    struct safetensors file;
    struct region region = {0};
    char path[PATH_BYTES];
    path_join(fixture->folder, "model.safetensors", path, sizeof path);
    assert_int_equal(safetensors_open(path, &region, &file, &fixture->fault), OK);
    const struct safetensors_entry *embedding =
        safetensors_find(&file, "model.embed_tokens.weight");
    const struct safetensors_entry *head = safetensors_find(&file, "lm_head.weight");
    char bytes[512];
    assert_int_equal(head->end - head->begin, sizeof bytes);
    assert_int_equal(safetensors_read(&file, embedding, 0, bytes, sizeof bytes, &fixture->fault),
                     OK);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, file.data_at + head->begin, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, stream), sizeof bytes);
    fclose(stream);
    safetensors_close(&file);
    region_finish(&region);
    assert_int_equal(fixture_load(fixture), OK);
    fixture_assert_loaded(fixture);
    fixture_finish(fixture);
}

static void load_follows_an_index(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_BF16);
    fixture_add_pieces(fixture, DTYPE_F32);
    int half = fixture->entry_count / 2;
    fixture_write_entries(fixture, "a.safetensors", 0, half);
    fixture_write_entries(fixture, "b.safetensors", half, fixture->entry_count);
    char text[4096] = "{\"weight_map\": {";
    for (int i = 0; i < fixture->entry_count; i++) {
        char line[256];
        snprintf(line, sizeof line, "%s\"%s\": \"%s.safetensors\"", i == 0 ? "" : ",",
                 fixture->entries[i].name, i < half ? "a" : "b");
        strcat(text, line);
    }
    strcat(text, "}}");
    fixture_write_text(fixture, "model.safetensors.index.json", text);
    assert_int_equal(fixture_load(fixture), OK);
    fixture_assert_loaded(fixture);

    static const struct {
        const char *index, *reason;
    } CASES[] = {
        {"{\"weight_map\": {\"x\": \"a.safetensors\"}}", "which does not contain this tensor"},
        {"{\"weight_map\": {\"x\": \"../a.safetensors\"}}", "is not a plain file name"},
        {"{\"weight_map\": {\"x\": \"/etc/passwd\"}}", "is not a plain file name"},
        {"{\"weight_map\": {\"x\": \"\"}}", "is not a plain file name"},
        {"{\"weight_map\": {\"x\": 1}}", "x"},
        {"{\"weight_map\": 1}", "weight_map"},
        {"{}", "is missing"},
        {"{\"weight_map\": {\"x\": \"absent.safetensors\"}}", "cannot open"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        fixture_write_text(fixture, "model.safetensors.index.json", CASES[i].index);
        fixture_assert_refused(fixture, CASES[i].reason);
    }
    fixture_finish(fixture);
}

static void load_points_from_pickles_to_safetensors(void **state) {
    (void)state;
    struct fixture *fixture = fixture_start(false, ST_F32);
    fixture_assert_refused(fixture, "has no model.safetensors");
    fixture_write_text(fixture, "pytorch_model.bin", "\x80\x02.");
    fixture_assert_refused(fixture, "weights are read from safetensors");
    assert_non_null(strstr(fixture->fault.remedy, "save_pretrained"));
    fixture_finish(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_fills_masters_and_copies_from_each_type),
        cmocka_unit_test(load_rounds_to_nearest_even),
        cmocka_unit_test(load_fills_a_range),
        cmocka_unit_test(load_crosses_staging_chunks),
        cmocka_unit_test(load_refuses_values_that_are_not_finite),
        cmocka_unit_test(load_names_what_does_not_fit_the_model),
        cmocka_unit_test(load_accepts_a_tied_head_only_when_it_is_the_embedding),
        cmocka_unit_test(load_follows_an_index),
        cmocka_unit_test(load_points_from_pickles_to_safetensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
