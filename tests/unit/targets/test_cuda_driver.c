/* test_cuda_driver: what cuda_driver_open makes of the libcuda.so.1 that it finds. The argument
 * names the library, which LD_LIBRARY_PATH provides: "old" (tests/support/old_driver) or "first"
 * (tests/support/first_driver). */
#include "targets/ports/cuda_driver.h"

#include "build_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fault fault;

/* "580 (CUDA 13.0)" */
static void format_needed(char text[static 32]) {
    snprintf(text, 32, "%d (CUDA %d.%d)", CUDA_DRIVER_BRANCH_MIN, CUDA_DRIVER_VERSION_MIN / 1000,
             CUDA_DRIVER_VERSION_MIN % 1000 / 10);
}

static void assert_text(const char *text, const char *part) {
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, part);
    }
}

static void an_old_driver_is_refused_before_it_starts(void **state) {
    (void)state;
    struct cuda_driver driver;
    char needed[32];
    char version[16];
    format_needed(needed);
    snprintf(version, sizeof version, "%d", CUDA_DRIVER_VERSION_MIN - 10);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuda_driver_open(&driver, &fault), STATUS_INPUT);
        assert_string_equal(fault.subject, "libcuda.so.1");
        assert_text(fault.reason, i == 0 ? "(CUDA 11.4) is too old" : "is too old");
        assert_text(fault.reason, needed);
        assert_text(fault.remedy, "install NVIDIA's driver ");
        assert_text(fault.remedy, ", or use a cpu target");
        setenv("OLD_DRIVER_CUDA", version, 1);
    }
}

static void a_missing_function_is_named(void **state) {
    (void)state;
    struct cuda_driver driver;
    char version[16];
    snprintf(version, sizeof version, "%d", CUDA_DRIVER_VERSION_MIN);
    setenv("OLD_DRIVER_CUDA", version, 1);
    assert_int_equal(cuda_driver_open(&driver, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "the installed driver lacks: cuGetErrorName");
}

static void the_oldest_driver_has_all_but_optional_functions(void **state) {
    (void)state;
    struct cuda_driver driver;
    if (cuda_driver_open(&driver, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_null(driver.cuFuncLoad);
    assert_non_null(driver.cuFuncGetAttribute);
    assert_non_null(driver.cuEventElapsedTime);
}

int main(int argc, char **argv) {
    const struct CMUnitTest old[] = {
        cmocka_unit_test(an_old_driver_is_refused_before_it_starts),
        cmocka_unit_test(a_missing_function_is_named),
    };
    const struct CMUnitTest first[] = {
        cmocka_unit_test(the_oldest_driver_has_all_but_optional_functions),
    };
    bool is_old = argc > 1 && strcmp(argv[1], "old") == 0;
    return is_old ? cmocka_run_group_tests(old, NULL, NULL)
                  : cmocka_run_group_tests(first, NULL, NULL);
}
