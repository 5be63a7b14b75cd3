/* What the suite of contract A runs on where there is no GPU. */
#include "tests/contract/processes.h"

const struct implementation IMPLEMENTATIONS[] = {
    {.name = "in-process",
     .run_threads = world_run_inproc,
     .world_most = WORLD_MAX,
     .random_calls = 1000},
    {.name = "shm", .run_member = run_shm_member, .world_most = WORLD_MAX, .random_calls = 1000},
};
const int IMPLEMENTATION_COUNT = (int)ARRAY_COUNT(IMPLEMENTATIONS);

bool implementations_can_run(void) {
    return true;
}
