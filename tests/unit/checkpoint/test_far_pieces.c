/* Pieces in far memory: what goes to a file and comes from it is what the same piece in ordinary
 * memory has, and no far address is ever followed. */
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/tensor_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ELEMENTS = 50001, STAGED = STAGING_BYTES_MIN };

/* Far memory as an array whose addresses begin where no process has memory. */
static unsigned char beyond[ELEMENTS * sizeof(float)];
static char *const FAR_BEGIN = (char *)4096;
static int broken;

static unsigned char *found(const void *far, size_t bytes) {
    size_t at = (size_t)((const char *)far - FAR_BEGIN);
    assert_true(at <= sizeof beyond && bytes <= sizeof beyond - at);
    return beyond + at;
}

static enum status read_beyond(void *context, const void *far, void *near, size_t bytes,
                               struct fault *fault) {
    assert_ptr_equal(context, beyond);
    if (broken) {
        return fault_set(fault, STATUS_FAILED, "device", NULL, "broken");
    }
    memcpy(near, found(far, bytes), bytes);
    return OK;
}

static enum status write_beyond(void *context, void *far, const void *near, size_t bytes,
                                struct fault *fault) {
    assert_ptr_equal(context, beyond);
    if (broken) {
        return fault_set(fault, STATUS_FAILED, "device", NULL, "broken");
    }
    memcpy(found(far, bytes), near, bytes);
    return OK;
}

static const struct device_memory FAR = {read_beyond, write_beyond, beyond};

/* One tensor in both kinds of memory, and a file. */
struct scene {
    struct tensor_piece near, far;
    struct piece_span place;
    struct staging staging;
};

static _Alignas(64) char staged[STAGED];
static unsigned char ordinary[ELEMENTS * sizeof(float)];

static void scene_init(struct scene *scene, enum dtype in_memory, enum dtype in_file) {
    static char path[] = "/tmp/skep-far-XXXXXX";
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    broken = 0;
    scene->near = (struct tensor_piece){.name = "weight",
                                        .dtype = in_memory,
                                        .rank = 2,
                                        .shape = {3, ELEMENTS},
                                        .memory = ordinary,
                                        .first = 17,
                                        .count = ELEMENTS};
    scene->far = scene->near;
    scene->far.memory = FAR_BEGIN;
    scene->far.device_memory = &FAR;
    scene->place = (struct piece_span){.fd = fd, .path = path, .at = 100, .dtype = in_file};
    scene->staging = (struct staging){staged, sizeof staged};
}

static float value(int64_t i) {
    return (float)(i % 1009) * 0.37F - 150;
}

static const struct {
    enum dtype in_memory, in_file;
} KINDS[] = {{DTYPE_F32, DTYPE_F32},   {DTYPE_F32, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32},
             {DTYPE_BF16, DTYPE_BF16}, {DTYPE_F32, DTYPE_F16},  {DTYPE_BF16, DTYPE_F16}};

static void far_pieces_are_written_and_read_as_near_ones(void **state) {
    (void)state;
    static float values[ELEMENTS];
    static unsigned char files[2][ELEMENTS * sizeof(float)];
    for (int64_t i = 0; i < ELEMENTS; i++) {
        values[i] = value(i);
    }
    for (size_t kind = 0; kind < ARRAY_COUNT(KINDS); kind++) {
        struct scene scene;
        struct fault fault;
        scene_init(&scene, KINDS[kind].in_memory, KINDS[kind].in_file);
        size_t bytes = (size_t)(ELEMENTS * dtype_bytes(KINDS[kind].in_memory));
        size_t file_bytes = (size_t)(ELEMENTS * dtype_bytes(KINDS[kind].in_file));
        int64_t at = scene.place.at + scene.near.first * dtype_bytes(KINDS[kind].in_file);
        memset(beyond, 0xee, sizeof beyond);
        const struct tensor_piece *const both[] = {&scene.near, &scene.far};
        for (int side = 0; side < 2; side++) {
            for (int64_t done = 0; done < ELEMENTS; done += 10000) {
                int64_t some = ELEMENTS - done < 10000 ? ELEMENTS - done : 10000;
                assert_int_equal(
                    piece_set_values(both[side], done, some, values + done, &scene.staging, &fault),
                    OK);
            }
            assert_int_equal(piece_write(&scene.place, both[side], &scene.staging, &fault), OK);
            assert_int_equal(pread(scene.place.fd, files[side], file_bytes, at),
                             (ssize_t)file_bytes);
        }
        assert_memory_equal(beyond, ordinary, bytes);
        assert_memory_equal(files[0], files[1], file_bytes);
        for (int side = 0; side < 2; side++) {
            assert_int_equal(piece_zero(both[side], &scene.staging, &fault), OK);
            assert_int_equal((side == 0 ? ordinary : beyond)[bytes - 1], 0);
            assert_int_equal(piece_read(&scene.place, both[side], true, &scene.staging, &fault),
                             OK);
        }
        assert_memory_equal(beyond, ordinary, bytes);
        close(scene.place.fd);
    }
}

static void bits_pass_unchanged_into_far_memory(void **state) {
    (void)state;
    struct scene scene;
    struct fault fault;
    scene_init(&scene, DTYPE_F32, DTYPE_F32);
    for (size_t i = 0; i < sizeof ordinary; i++) {
        ordinary[i] = (unsigned char)(i * 31 + i / 251); /* NaNs of every kind among them */
    }
    memset(beyond, 0, sizeof beyond);
    assert_int_equal(piece_write(&scene.place, &scene.near, &scene.staging, &fault), OK);
    assert_int_equal(piece_read(&scene.place, &scene.far, false, &scene.staging, &fault), OK);
    assert_memory_equal(beyond, ordinary, sizeof beyond);
    close(scene.place.fd);
}

static void a_value_that_is_not_finite_is_named_on_both_ways(void **state) {
    (void)state;
    struct scene scene;
    struct fault fault;
    const float bad = NAN;
    scene_init(&scene, DTYPE_F32, DTYPE_BF16);
    assert_int_equal(piece_zero(&scene.far, &scene.staging, &fault), OK);
    assert_int_equal(piece_set_values(&scene.far, 40000, 1, &bad, &scene.staging, &fault), OK);
    assert_int_equal(piece_write(&scene.place, &scene.far, &scene.staging, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.reason, "element 40017"));
    close(scene.place.fd);
}

static void a_broken_device_fails_every_way(void **state) {
    (void)state;
    struct scene scene;
    struct fault fault;
    const float one = 1;
    scene_init(&scene, DTYPE_F32, DTYPE_F32);
    assert_int_equal(piece_write(&scene.place, &scene.near, &scene.staging, &fault), OK);
    broken = 1;
    assert_int_equal(piece_write(&scene.place, &scene.far, &scene.staging, &fault), STATUS_FAILED);
    assert_int_equal(piece_read(&scene.place, &scene.far, false, &scene.staging, &fault),
                     STATUS_FAILED);
    assert_int_equal(piece_set_values(&scene.far, 0, 1, &one, &scene.staging, &fault),
                     STATUS_FAILED);
    assert_int_equal(piece_zero(&scene.far, &scene.staging, &fault), STATUS_FAILED);
    close(scene.place.fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_pieces_are_written_and_read_as_near_ones),
        cmocka_unit_test(bits_pass_unchanged_into_far_memory),
        cmocka_unit_test(a_value_that_is_not_finite_is_named_on_both_ways),
        cmocka_unit_test(a_broken_device_fails_every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
