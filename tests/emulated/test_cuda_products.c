/* Programs on the emulated device whose products a cuBLASLt computes, here the fake one: the CPU's
 * losses, and each distinct product executed once before anything is captured. */
#include "tests/emulated/device.h"
#include "tests/kernels/fake_cublas_lt.h"
#include "tests/support/small_program.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEED = 20, CONFIGURATIONS = 3, MEMORY_MIB = 256 };

static int warm_ups; /* products enqueued before the first capture */

static void enqueue(cudaStream_t stream, void (*run)(void *context), void *context) {
    warm_ups += emulated_driver_calls("cuStreamBeginCapture") == 0;
    assert_int_equal(emulated_driver_enqueue(stream, run, context), CUDA_SUCCESS);
}

static struct target device_target(void) {
    const struct target_space space = {.capacity_bytes = (uint64_t)MEMORY_MIB << 20,
                                       .capacity_source = "the test"};
    return (struct target){.name = "emulated",
                           .description = "",
                           .origin = "the test",
                           .kind = TARGET_CUDA,
                           .align_bytes = ARENA_ALIGN_BYTES,
                           .threads = 1,
                           .spaces = {space, space, space},
                           .isa = "",
                           .compute_major = 9,
                           .multiprocessor_count = 4};
}

static void open_device(uint64_t seed) {
    struct cuda_driver driver;
    emulated_driver_open(&(struct emulated_options){.seed = seed,
                                                    .memory_bytes = (uint64_t)MEMORY_MIB << 20,
                                                    .find = emulated_device_find},
                         &driver);
    warm_ups = 0;
    fake_cublas_lt =
        (struct fake_cublas_lt){.proposals = {{.id = 66, .split_k = 1, .workspace_bytes = 1024}},
                                .proposal_count = 1,
                                .enqueue = enqueue};
}

static void each_distinct_product_is_warmed_up_once(void **state) {
    (void)state;
    const struct cublas_lt library = fake_cublas_lt_table();
    const struct target target = device_target();
    emulated_cublas_lt = &library;
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program host, device;
        small_program_init(&host, SEED, index);
        small_program_run(&host, NULL, NULL);
        open_device(index);
        small_program_init_on(&device, SEED, index, &target);
        int distinct = fake_cublas_lt.heuristic_calls;
        int captured = fake_cublas_lt.runs - warm_ups;
        assert_true(distinct > 0);
        assert_int_equal(warm_ups, distinct);
        assert_true(captured > distinct); /* several layers have the same products */
        small_program_run(&device, NULL, NULL);
        double tolerance = device.options.compute == DTYPE_F32 ? 2e-3 : 6e-2;
        for (int i = 0; i < SMALL_LOSSES; i++) {
            double there = host.losses[i];
            assert_true(fabs(device.losses[i] - there) <= tolerance * (fabs(there) + 1e-3));
        }
        small_program_finish(&device);
        assert_int_equal(fake_cublas_lt.objects, 0);
        assert_int_equal(emulated_driver_live(), 0);
        emulated_driver_close();
        small_program_finish(&host);
    }
    emulated_cublas_lt = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_distinct_product_is_warmed_up_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
