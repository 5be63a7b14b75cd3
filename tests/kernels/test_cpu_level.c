/* test_cpu_level: names of levels, and the environment variable that lowers the machine's own. */
#include "base/check.h"
#include "kernels/cpu_level.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void every_level_parses_from_its_own_name(void **state) {
    (void)state;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        enum cpu_level parsed = CPU_LEVEL_COUNT;
        assert_true(cpu_level_parse(cpu_level_name(level), &parsed));
        assert_int_equal(parsed, level);
    }
}

static void unknown_name_leaves_the_level_untouched(void **state) {
    (void)state;
    static const char *const names[] = {"", "avx", "AVX2", "avx512_bf16 ", "scalarx"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        enum cpu_level level = CPU_AVX512;
        assert_false(cpu_level_parse(names[i], &level));
        assert_int_equal(level, CPU_AVX512);
    }
}

static void environment_lowers_the_level_when_the_machine_runs_it(void **state) {
    (void)state;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level(level)) {
            setenv("SKEP_CPU", cpu_level_name(level), 1);
            assert_int_equal(cpu_level_detect(), level);
        }
    }
    unsetenv("SKEP_CPU");
}

static void environment_is_passed_over_when_it_names_no_level_of_the_machine(void **state) {
    (void)state;
    unsetenv("SKEP_CPU");
    enum cpu_level own = cpu_level_detect();
    assert_true(cpu_supports_level(own));
    setenv("SKEP_CPU", "fast", 1);
    assert_int_equal(cpu_level_detect(), own);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_supports_level(level)) {
            setenv("SKEP_CPU", cpu_level_name(level), 1);
            assert_int_equal(cpu_level_detect(), own);
        }
    }
    unsetenv("SKEP_CPU");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_parses_from_its_own_name),
        cmocka_unit_test(unknown_name_leaves_the_level_untouched),
        cmocka_unit_test(environment_lowers_the_level_when_the_machine_runs_it),
        cmocka_unit_test(environment_is_passed_over_when_it_names_no_level_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
