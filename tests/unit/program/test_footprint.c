/* What the executor was really handed, against what the plan says: to the byte, over several
 * hundred small programs. */
#include "tests/support/small_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEED = 20, CONFIGURATIONS = 210 };

static void every_space_is_used_to_its_peak_and_no_further(void **state) {
    (void)state;
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program small;
        small_program_init(&small, SEED, index);
        small_program_run(&small, NULL, NULL);
        for (int space = 0; space < SPACE_COUNT; space++) {
            uint64_t used = small.bound.high_water[space];
            uint64_t planned = small.program.plan.peak_bytes[space];
            if (used != planned) {
                fail_msg("%s: %s: %llu bytes used, %llu planned", small.title,
                         space_name((enum space)space), (unsigned long long)used,
                         (unsigned long long)planned);
            }
        }
        small_program_finish(&small);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_space_is_used_to_its_peak_and_no_further),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
