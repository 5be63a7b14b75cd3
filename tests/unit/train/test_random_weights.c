/* Initial weights of one parameter: every piece has the values of param_init_fill, in whatever
 * ranges, types and memories the pieces are, and device memory receives few copies. */
#include "base/dtype.h"
#include "kernels/cpu/cpu.h"
#include "runtime/session/random_weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    ROWS = 500,
    COLUMNS = 401,
    ELEMENTS = ROWS * COLUMNS,
    MARGIN = 64, /* elements before and after a piece, which stay as they were */
    MEMORY_BYTES = (ELEMENTS + 2 * MARGIN) * (int)sizeof(float),
    UNSET = 0x5a,
    SEED = 11,
    WRITES_MAX = 4 * ELEMENTS * (int)sizeof(float) / STAGING_BYTES_MIN
};

/* ---- a device whose addresses the CPU cannot access ---- */

struct fake_device {
    int writes;     /* copies so far */
    int fails_from; /* the first copy that fails */
    unsigned char memory[MEMORY_BYTES];
};

static char *const DEVICE_BEGIN = (char *)4096;

static enum status read_nothing(void *context, const void *device, void *host, size_t bytes,
                                struct fault *fault) {
    (void)context, (void)device, (void)host, (void)bytes, (void)fault;
    fail_msg("initial weights are never read from the device");
    return STATUS_FAILED;
}

static enum status write_device(void *context, void *device, const void *host, size_t bytes,
                                struct fault *fault) {
    struct fake_device *fake = context;
    size_t at = (size_t)((char *)device - DEVICE_BEGIN);
    assert_true(at <= MEMORY_BYTES && bytes <= MEMORY_BYTES - at);
    if (fake->writes++ >= fake->fails_from) {
        return fault_set(fault, STATUS_FAILED, "device", NULL, "the copy failed");
    }
    memcpy(fake->memory + at, host, bytes);
    return OK;
}

/* ---- pieces and what they must have ---- */

/* One piece of a case: a range of elements in a type and a memory. */
struct piece_case {
    enum dtype dtype;
    bool on_device;
    int64_t first, count;
};

struct weights_case {
    const char *name;
    enum param_init init;
    int piece_count;
    struct piece_case pieces[RANDOM_NORMALS_OUTPUTS_MAX];
};

static const struct weights_case CASES[] = {
    {"one copy", INIT_NORMAL, 1, {{DTYPE_F32, false, 0, ELEMENTS}}},
    {"one copy of a part", INIT_NORMAL, 1, {{DTYPE_BF16, false, 4097, 20001}}},
    {"copy and master",
     INIT_NORMAL,
     2,
     {{DTYPE_BF16, false, 0, ELEMENTS}, {DTYPE_F32, false, 0, ELEMENTS}}},
    {"whole copy, master of a shard",
     INIT_NORMAL,
     2,
     {{DTYPE_BF16, false, 0, ELEMENTS}, {DTYPE_F32, false, 77777, 50001}}},
    {"ranges that overlap",
     INIT_NORMAL,
     2,
     {{DTYPE_BF16, false, 3, 70000}, {DTYPE_F32, false, 66666, 80001}}},
    {"ranges with a gap", INIT_NORMAL, 2, {{DTYPE_F32, false, 9000, 5}, {DTYPE_F32, false, 1, 7}}},
    {"copy and master on a device",
     INIT_NORMAL,
     2,
     {{DTYPE_BF16, true, 0, ELEMENTS}, {DTYPE_F32, true, 0, ELEMENTS}}},
    {"copy on a device, master of a shard in host memory",
     INIT_NORMAL,
     2,
     {{DTYPE_BF16, true, 0, ELEMENTS}, {DTYPE_F32, false, 12345, 100001}}},
    {"part of a copy on a device", INIT_NORMAL, 1, {{DTYPE_F32, true, 501, 100003}}},
    {"ones", INIT_ONE, 2, {{DTYPE_BF16, true, 0, 2049}, {DTYPE_F32, true, 7, 2042}}},
    {"zeros", INIT_ZERO, 2, {{DTYPE_BF16, false, 0, 1025}, {DTYPE_F32, false, 0, 1025}}},
};

static struct fake_device devices[RANDOM_NORMALS_OUTPUTS_MAX];
static _Alignas(64) unsigned char host[RANDOM_NORMALS_OUTPUTS_MAX][MEMORY_BYTES];
static _Alignas(64) unsigned char staging_memory[STAGING_BYTES_MIN + MARGIN];
static float expected[ELEMENTS];
static const struct device_memory FAKES[] = {{read_nothing, write_device, &devices[0]},
                                             {read_nothing, write_device, &devices[1]}};

static struct param make_param(enum param_init init) {
    return (struct param){.name = "layers.0.weight",
                          .rank = 2,
                          .shape = {ROWS, COLUMNS},
                          .init = init,
                          .init_std = 0.02f};
}

static void make_pieces(const struct weights_case *of, const struct param *param,
                        struct tensor_piece *pieces) {
    memset(devices, UNSET, sizeof devices);
    memset(host, UNSET, sizeof host);
    memset(staging_memory, UNSET, sizeof staging_memory);
    for (int i = 0; i < of->piece_count; i++) {
        const struct piece_case *piece = &of->pieces[i];
        int64_t margin = MARGIN * dtype_bytes(piece->dtype);
        devices[i].writes = 0;
        devices[i].fails_from = WRITES_MAX;
        pieces[i] = (struct tensor_piece){
            .name = param->name,
            .dtype = piece->dtype,
            .rank = param->rank,
            .shape = {param->shape[0], param->shape[1]},
            .memory = (piece->on_device ? DEVICE_BEGIN : (char *)host[i]) + margin,
            .device_memory = piece->on_device ? &FAKES[i] : NULL,
            .first = piece->first,
            .count = piece->count};
    }
}

static void expect_margin(const char *name, const unsigned char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (bytes[i] != UNSET) {
            fail_msg("%s: a byte outside a piece was written", name);
        }
    }
}

static void expect_piece(const char *name, const struct piece_case *piece,
                         const unsigned char *memory) {
    int64_t width = dtype_bytes(piece->dtype);
    const unsigned char *values = memory + MARGIN * width;
    for (int64_t i = 0; i < piece->count; i++) {
        float value = expected[piece->first + i];
        uint16_t rounded = bf16_from_f32(value);
        const void *bits = piece->dtype == DTYPE_BF16 ? (const void *)&rounded : &value;
        if (memcmp(values + i * width, bits, (size_t)width) != 0) {
            fail_msg("%s: element %lld has another value", name, (long long)(piece->first + i));
        }
    }
    expect_margin(name, memory, MARGIN * width);
    expect_margin(name, values + piece->count * width, MARGIN * width);
}

static void draw_with(struct pool *pool, const struct weights_case *of) {
    const struct param param = make_param(of->init);
    struct tensor_piece pieces[RANDOM_NORMALS_OUTPUTS_MAX];
    struct kernel_table table;
    kernel_table_init(&table, cpu_level_detect());
    const struct compute compute = {.table = &table, .pool = pool};
    const struct random_weights weights = {
        .compute = &compute, .seed = SEED, .staging = {staging_memory, STAGING_BYTES_MIN}};
    struct fault fault;
    make_pieces(of, &param, pieces);
    param_init_fill(&param, SEED, 0, ELEMENTS, expected);
    assert_int_equal(random_weights_draw(&weights, &param, pieces, of->piece_count, &fault), OK);
    for (int i = 0; i < of->piece_count; i++) {
        const struct piece_case *piece = &of->pieces[i];
        expect_piece(of->name, piece, piece->on_device ? devices[i].memory : host[i]);
    }
    expect_margin(of->name, staging_memory + STAGING_BYTES_MIN, MARGIN);
}

static void every_piece_has_the_values_of_its_range(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct pool pool;
        struct fault fault;
        assert_int_equal(pool_init(&pool, threads, &fault), OK);
        for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
            draw_with(&pool, &CASES[i]);
        }
        pool_finish(&pool);
    }
}

/* The master and the copy fill the staging buffer together: 6 bytes an element. */
static void a_device_receives_one_copy_for_each_filling_of_the_staging(void **state) {
    (void)state;
    static const struct weights_case both = {
        "both", INIT_NORMAL, 2, {{DTYPE_BF16, true, 0, ELEMENTS}, {DTYPE_F32, true, 0, ELEMENTS}}};
    struct pool pool;
    struct fault fault;
    assert_int_equal(pool_init(&pool, 1, &fault), OK);
    draw_with(&pool, &both);
    pool_finish(&pool);
    int fillings = ELEMENTS * 6 / STAGING_BYTES_MIN + 1;
    assert_in_range(devices[0].writes, 1, fillings);
    assert_in_range(devices[1].writes, 1, fillings);
}

static void a_failed_copy_ends_the_draw(void **state) {
    (void)state;
    static const struct weights_case whole = {
        "whole", INIT_NORMAL, 1, {{DTYPE_F32, true, 0, ELEMENTS}}};
    const struct param param = make_param(INIT_NORMAL);
    struct tensor_piece piece;
    struct kernel_table table;
    struct pool pool;
    struct fault fault;
    assert_int_equal(pool_init(&pool, 1, &fault), OK);
    kernel_table_init(&table, CPU_SCALAR);
    const struct compute compute = {.table = &table, .pool = &pool};
    const struct random_weights weights = {
        .compute = &compute, .seed = SEED, .staging = {staging_memory, STAGING_BYTES_MIN}};
    make_pieces(&whole, &param, &piece);
    devices[0].fails_from = 2;
    assert_int_equal(random_weights_draw(&weights, &param, &piece, 1, &fault), STATUS_FAILED);
    assert_int_equal(devices[0].writes, 3);
    pool_finish(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_has_the_values_of_its_range),
        cmocka_unit_test(a_device_receives_one_copy_for_each_filling_of_the_staging),
        cmocka_unit_test(a_failed_copy_ends_the_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
