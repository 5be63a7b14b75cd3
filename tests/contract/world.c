#include "tests/contract/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

const struct implementation IMPLEMENTATIONS[] = {{"in-process", world_run_inproc},
                                                 {"shm", world_run_shm}};
const int IMPLEMENTATION_COUNT = (int)ARRAY_COUNT(IMPLEMENTATIONS);

void outcome_fail(struct outcome *outcome, const char *format, ...) {
    if (outcome->failure[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(outcome->failure, sizeof outcome->failure, format, arguments);
        va_end(arguments);
    }
}

void world_run(const struct implementation *implementation, const struct layout *layout,
               uint64_t bytes, member_body *body, void *context) {
    struct outcome outcomes[WORLD_MAX] = {{0}};
    implementation->run(layout, bytes, body, context, outcomes);
    int failures = 0;
    for (int rank = 0; rank < layout->world; rank++) {
        if (!outcomes[rank].ended || outcomes[rank].failure[0] != '\0') {
            print_error("%s, %s, rank %d: %s\n", implementation->name, layout->name, rank,
                        outcomes[rank].failure[0] != '\0' ? outcomes[rank].failure
                                                          : "did not come to its end");
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}
