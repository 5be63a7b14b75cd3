/* Kernels written for a GPU, loaded and launched as on one, on the emulated driver. */
#include "kernels/cuda/launch/launch.h"
#include "tests/emulated/device.h"
#include "tests/emulated/planted_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1000, BLOCKS = 3 };

static struct cuda_driver driver;

static void open_driver(bool without_func_load) {
    CUcontext context;
    emulated_driver_open(&(struct emulated_options){.seed = 7,
                                                    .without_func_load = without_func_load,
                                                    .find = emulated_device_find},
                         &driver);
    assert_int_equal(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(driver.cuCtxSetCurrent(context), CUDA_SUCCESS);
}

static void load_and_sum(bool without_func_load) {
    CUfunction sum;
    CUdeviceptr in;
    CUdeviceptr out;
    float values[COUNT];
    float sums[BLOCKS];
    struct fault fault;
    float expected = 0;
    open_driver(without_func_load);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(i % 17);
        expected += values[i];
    }
    assert_int_equal(cuda_load_family(&driver, "planted", "code",
                                      &(struct cuda_entry){"planted_sum", &sum, 0}, 1, &fault),
                     OK);
    assert_int_equal(driver.cuMemAlloc(&in, sizeof values), CUDA_SUCCESS);
    assert_int_equal(driver.cuMemAlloc(&out, sizeof sums), CUDA_SUCCESS);
    emulated_driver_write(in, values, sizeof values);
    struct cuda_failure failure = {CUDA_SUCCESS, NULL};
    struct cuda_compute compute = {.driver = &driver, .failure = &failure};
    struct planted_params params = {(const void *)(uintptr_t)in, (void *)(uintptr_t)out, COUNT};
    cuda_launch(&compute, sum, &(struct cuda_shape){{BLOCKS, 1, 1}, 256, 0}, &params);
    assert_int_equal(failure.result, CUDA_SUCCESS);
    emulated_driver_read(sums, out, sizeof sums);
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(sums[i] == expected);
    }
    emulated_driver_close();
}

static void a_family_is_loaded_and_its_kernel_sums_on_the_device(void **state) {
    (void)state;
    load_and_sum(false);
    assert_int_equal(emulated_driver_calls("cuFuncLoad"), 1);
}

/* As before CUDA 12.4. The emulated driver refuses to launch what was not loaded. */
static void a_driver_without_cuFuncLoad_loads_kernels_too(void **state) {
    (void)state;
    load_and_sum(true);
    assert_int_equal(emulated_driver_calls("cuFuncLoad"), 0);
}

static void ptx_that_the_driver_cannot_compile_has_a_remedy(void **state) {
    (void)state;
    CUfunction function;
    struct fault fault;
    open_driver(false);
    emulated_driver_fail("cuLibraryLoadData", 1, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert_int_equal(cuda_load_family(&driver, "planted", "code",
                                      &(struct cuda_entry){"planted_sum", &function, 0}, 1, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "kernels of planted");
    assert_non_null(strstr(fault.reason, "this build has only PTX for this GPU"));
    assert_non_null(strstr(fault.remedy, "install a newer NVIDIA driver"));
    emulated_driver_close();
}

static void a_kernel_that_is_not_there_is_named(void **state) {
    (void)state;
    CUfunction function;
    struct fault fault;
    open_driver(false);
    assert_int_equal(cuda_load_family(&driver, "planted", "code",
                                      &(struct cuda_entry){"absent", &function, 0}, 1, &fault),
                     STATUS_FAILED);
    assert_string_equal(fault.subject, "kernels of planted, absent");
    emulated_driver_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_is_loaded_and_its_kernel_sums_on_the_device),
        cmocka_unit_test(a_driver_without_cuFuncLoad_loads_kernels_too),
        cmocka_unit_test(ptx_that_the_driver_cannot_compile_has_a_remedy),
        cmocka_unit_test(a_kernel_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
