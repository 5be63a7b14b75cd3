/* Snapshots: saved, found, judged, thinned out, loaded and exported. */
#include "tests/unit/checkpoint/run_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/safetensors.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void file_of(const struct run_fixture *run, int64_t step, const char *name,
                    char path[static PATH_BYTES]) {
    static char folder[PATH_BYTES];
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, step, folder);
    path_join(folder, name, path, PATH_BYTES);
}

static void flip_byte(const struct run_fixture *run, int64_t step, const char *name, off_t at) {
    static char path[PATH_BYTES];
    char byte;
    file_of(run, step, name, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void saved_state_comes_back_bit_for_bit(void **state) {
    (void)state;
    struct run_fixture *run = run_start(3);
    struct snapshot_writer writer;
    assert_int_equal(run_newest(run), -1);
    run_fixture_open(run, &writer);
    assert_int_equal(run_newest(run), -1);
    assert_int_equal(run_save(run, &writer, 0), OK);
    assert_int_equal(run_newest(run), 0);
    assert_int_equal(run_save(run, &writer, 1000), OK);
    assert_int_equal(run_newest(run), 1000);
    run_finish(run);
}

/* Two ranks' ranges make the same file as one rank's whole tensors, and read from it. */
static void ranges_leave_no_trace(void **state) {
    (void)state;
    struct run_fixture *run = run_start(3);
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 1), OK);
    struct tensor_piece halves[2 * RUN_TENSORS];
    for (int t = 0; t < RUN_TENSORS; t++) {
        const struct tensor_piece *whole = &run->pieces[0][t];
        int64_t half = piece_tensor_elements(whole) / 2 - 1;
        halves[2 * t] = *whole;
        halves[2 * t].count = half;
        halves[2 * t + 1] = *whole;
        halves[2 * t + 1].first = half;
        halves[2 * t + 1].count = piece_tensor_elements(whole) - half;
        halves[2 * t + 1].memory = (float *)whole->memory + half;
    }
    run->groups[0].set.pieces = halves;
    run->groups[0].set.piece_count = 2 * RUN_TENSORS;
    assert_int_equal(run_newest(run), 1);
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 2), OK);
    run->groups[0].set.pieces = run->pieces[0];
    run->groups[0].set.piece_count = RUN_TENSORS;
    assert_int_equal(run_newest(run), 2);
    run_finish(run);
}

static void retention_goes_by_the_order_of_saving(void **state) {
    (void)state;
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    static const int64_t STEPS[] = {10, 20, 30, 15, 20};
    static const char *const LEFT[] = {"10", "10 20", "20 30", "30 15", "15 20"};
    for (size_t i = 0; i < ARRAY_COUNT(STEPS); i++) {
        assert_int_equal(run_save(run, &writer, STEPS[i]), OK);
        assert_string_equal(run_steps(run), LEFT[i]);
        assert_int_equal(run_newest(run), STEPS[i]);
    }
    /* Another process continues the sequence; a step that is saved again is replaced. */
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 15), OK);
    assert_string_equal(run_steps(run), "20 15");
    assert_int_equal(run_newest(run), 15);
    run_finish(run);
}

static void damage_is_found_and_the_one_before_is_used(void **state) {
    (void)state;
    static const struct {
        const char *file;
        off_t at;
    } CASES[] = {{"weights.safetensors", 700},   {"weights.safetensors", 3},
                 {"optimizer.safetensors", 900}, {"config.json", 5},
                 {"snapshot.json", 20},          {"snapshot.json", 300}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct run_fixture *run = run_start(3);
        struct snapshot_writer writer;
        run_fixture_open(run, &writer);
        assert_int_equal(run_save(run, &writer, 1), OK);
        assert_int_equal(run_save(run, &writer, 2), OK);
        flip_byte(run, 2, CASES[i].file, CASES[i].at);
        assert_int_equal(run_newest(run), 1);
        flip_byte(run, 1, CASES[i].file, CASES[i].at);
        assert_int_equal(run_newest(run), -1);
        assert_non_null(strstr(run->fault.reason, "2 snapshots, all of them damaged"));
        run_finish(run);
    }
}

static void short_and_missing_files_are_damage(void **state) {
    (void)state;
    struct run_fixture *run = run_start(9);
    struct snapshot_writer writer;
    static char path[PATH_BYTES];
    run_fixture_open(run, &writer);
    for (int64_t step = 1; step <= 5; step++) {
        assert_int_equal(run_save(run, &writer, step), OK);
    }
    file_of(run, 5, "weights.safetensors", path);
    assert_int_equal(truncate(path, 100), 0);
    file_of(run, 4, "optimizer.safetensors", path);
    assert_int_equal(unlink(path), 0);
    file_of(run, 3, "snapshot.json", path);
    assert_int_equal(unlink(path), 0);
    file_of(run, 2, "snapshot.json", path);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(run_newest(run), 1);
    run_finish(run);
}

static void verify_names_the_damaged_file(void **state) {
    (void)state;
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    struct snapshot snapshot;
    static char path[PATH_BYTES];
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 1), OK);
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, 1, path);
    assert_int_equal(snapshot_verify(path, &run->region, &snapshot, &run->fault), OK);
    flip_byte(run, 1, "optimizer.safetensors", 900);
    assert_int_equal(snapshot_verify(path, &run->region, &snapshot, &run->fault), STATUS_INPUT);
    assert_non_null(strstr(run->fault.subject, "step-000000001/optimizer.safetensors"));
    run_finish(run);
}

static void leftovers_are_cleared_and_what_stood_aside_returns(void **state) {
    (void)state;
    struct run_fixture *run = run_start(5);
    struct snapshot_writer writer;
    static char done[PATH_BYTES];
    static char other[PATH_BYTES];
    run_fixture_open(run, &writer);
    for (int64_t step = 1; step <= 3; step++) {
        assert_int_equal(run_save(run, &writer, step), OK);
    }
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, 3, done);
    snapshot_path(run->folder, SNAPSHOT_REPLACED, 3, other);
    assert_int_equal(rename(done, other), 0);
    snapshot_path(run->folder, SNAPSHOT_COMPLETE, 2, done);
    snapshot_path(run->folder, SNAPSHOT_INCOMPLETE, 2, other);
    assert_int_equal(rename(done, other), 0);
    assert_int_equal(run_newest(run), 3); /* from aside */
    run_fixture_open(run, &writer);
    assert_string_equal(run_steps(run), "1 3");
    assert_false(file_exists(other));
    assert_int_equal(run_newest(run), 3);
    run_finish(run);
}

static void a_link_in_the_place_of_a_save_is_removed_not_followed(void **state) {
    (void)state;
    struct run_fixture *run = run_start(1);
    struct snapshot_writer writer;
    static char thesis[PATH_BYTES];
    static char text[PATH_BYTES];
    static char link[PATH_BYTES];
    run_fixture_open(run, &writer);
    path_join(run->folder, "thesis", thesis, sizeof thesis);
    path_join(thesis, "text", text, sizeof text);
    assert_int_equal(mkdir(thesis, 0755), 0);
    assert_int_equal(folder_write_file(thesis, "text", "of years", 8, &run->fault), OK);
    snapshot_path(run->folder, SNAPSHOT_INCOMPLETE, 1, link);
    assert_int_equal(symlink("thesis", link), 0);
    assert_int_equal(run_save(run, &writer, 1), OK);
    snapshot_path(run->folder, SNAPSHOT_REPLACED, 1, link);
    assert_int_equal(symlink("thesis", link), 0);
    assert_int_equal(run_save(run, &writer, 2), OK); /* removes 1, and what is called so */
    assert_string_equal(run_steps(run), "2");
    assert_true(file_exists(text));
    assert_int_equal(folder_remove(thesis, &run->fault), OK);
    run_finish(run);
}

static void a_folder_full_of_snapshots_is_a_fault_that_names_it(void **state) {
    (void)state;
    struct run_fixture *run = run_start(1);
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 1), OK);
    struct snapshot_retained first = writer.retained[0];
    for (int i = 0; i < SNAPSHOTS_MAX; i++) { /* as if none could have been removed */
        writer.retained[i] = (struct snapshot_retained){i + 1, (uint64_t)i + 1};
    }
    writer.retained_count = SNAPSHOTS_MAX;
    assert_int_equal(run_save(run, &writer, SNAPSHOTS_MAX + 1), STATUS_FAILED);
    assert_string_equal(run->fault.subject, run->folder);
    assert_non_null(strstr(run->fault.reason, "4096"));
    assert_non_null(strstr(run->fault.remedy, "move older snapshots"));
    assert_string_equal(run_steps(run), "1");
    writer.retained[0] = first;
    writer.retained_count = 1;
    assert_int_equal(run_save(run, &writer, 2), OK);
    assert_string_equal(run_steps(run), "2");
    run_finish(run);
}

static void load_names_what_the_run_does_not_share(void **state) {
    (void)state;
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    struct snapshot snapshot;
    bool found = false;
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 1), OK);
    assert_int_equal(
        snapshot_find_newest(run->folder, &run->region, &snapshot, &found, &run->fault), OK);
    for (int g = 0; g < RUN_GROUPS; g++) {
        run->groups[g].set.piece_count = 0; /* a rank that holds nothing checks all the same */
    }
    run->tensors[0][1].name = "model.other.weight";
    assert_int_equal(snapshot_load(&snapshot, run->groups, RUN_GROUPS, &run->fault), STATUS_INPUT);
    assert_non_null(strstr(run->fault.reason, "'model.other.weight' is missing"));
    run->tensors[0][1].name = "model.norm.weight";
    run->tensors[0][1].shape[0] = 5;
    assert_int_equal(snapshot_load(&snapshot, run->groups, RUN_GROUPS, &run->fault), STATUS_INPUT);
    assert_non_null(strstr(run->fault.reason, "shape of tensor 'model.norm.weight' differs"));
    run->tensors[0][1].shape[0] = 6;
    run->tensors[1][2].dtype = DTYPE_BF16;
    assert_int_equal(snapshot_load(&snapshot, run->groups, RUN_GROUPS, &run->fault), STATUS_INPUT);
    assert_non_null(strstr(run->fault.reason, "'exp_avg.lm_head.weight' is F32, expected BF16"));
    run->groups[0].set.tensor_count = 2;
    assert_int_equal(snapshot_load(&snapshot, run->groups, 1, &run->fault), STATUS_INPUT);
    assert_non_null(strstr(run->fault.reason, "3 tensors, expected 2"));
    run_finish(run);
}

static void texts_that_could_not_be_read_back_are_refused_before_anything_is_saved(void **state) {
    (void)state;
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    run->args.model_folder = "/models/\xff";
    assert_int_equal(snapshot_writer_init(&run->args, &run->region, &writer, &run->fault),
                     STATUS_INPUT);
    run_finish(run);
}

/* The weights' floats, rounded, under the names of the model folder. */
static void export_is_a_model_folder(void **state) {
    (void)state;
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    struct snapshot snapshot;
    struct safetensors file;
    bool found = false;
    static char target[PATH_BYTES];
    static char path[PATH_BYTES];
    char config[256];
    size_t length = 0;
    run_fixture_open(run, &writer);
    const struct snapshot_state saved = {.step = 4};
    float *norm = run->pieces[0][1].memory; /* the others stay 0 */
    norm[2] = 0x1.03p0f;
    assert_int_equal(snapshot_save(&writer, &saved, &run->staging, &run->fault), OK);
    assert_int_equal(
        snapshot_find_newest(run->folder, &run->region, &snapshot, &found, &run->fault), OK);
    snprintf(target, sizeof target, "%s-model", snapshot.path);
    assert_int_equal(snapshot_export(&snapshot, target, DTYPE_BF16, &run->fault), OK);
    path_join(target, "model.safetensors", path, sizeof path);
    assert_int_equal(safetensors_open(path, &run->region, &file, &run->fault), OK);
    assert_int_equal(file.header.count, RUN_TENSORS);
    const struct safetensors_entry *entry = safetensors_find(&file, "model.norm.weight");
    uint16_t halves[6];
    assert_int_equal(entry->dtype, ST_BF16);
    assert_int_equal(safetensors_read(&file, entry, 0, halves, sizeof halves, &run->fault), OK);
    assert_true(bf16_to_f32(halves[2]) == 0x1.04p0f && halves[1] == 0 && halves[3] == 0);
    safetensors_close(&file);
    path_join(target, "config.json", path, sizeof path);
    assert_int_equal(file_read_text(path, config, sizeof config, &length, &run->fault), OK);
    assert_string_equal(config, run->args.config_text);
    assert_int_equal(snapshot_export(&snapshot, target, DTYPE_F32, &run->fault), OK);
    assert_int_equal(file_read_text(path, config, sizeof config, &length, &run->fault), OK);
    assert_non_null(strstr(config, "\"torch_dtype\": \"float32\"}"));
    assert_int_equal(folder_remove(target, &run->fault), OK);
    run_finish(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_state_comes_back_bit_for_bit),
        cmocka_unit_test(ranges_leave_no_trace),
        cmocka_unit_test(retention_goes_by_the_order_of_saving),
        cmocka_unit_test(damage_is_found_and_the_one_before_is_used),
        cmocka_unit_test(short_and_missing_files_are_damage),
        cmocka_unit_test(verify_names_the_damaged_file),
        cmocka_unit_test(leftovers_are_cleared_and_what_stood_aside_returns),
        cmocka_unit_test(a_link_in_the_place_of_a_save_is_removed_not_followed),
        cmocka_unit_test(a_folder_full_of_snapshots_is_a_fault_that_names_it),
        cmocka_unit_test(load_names_what_the_run_does_not_share),
        cmocka_unit_test(texts_that_could_not_be_read_back_are_refused_before_anything_is_saved),
        cmocka_unit_test(export_is_a_model_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
