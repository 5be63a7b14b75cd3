/* What it runs on with GPUs, emulated or real. */
#include "tests/contract/world_nccl.h"

const struct implementation IMPLEMENTATIONS[] = {
    {.name = "nccl", .run_member = run_nccl_member, .world_most = 4, .random_calls = 100},
};
const int IMPLEMENTATION_COUNT = (int)ARRAY_COUNT(IMPLEMENTATIONS);

bool implementations_can_run(void) {
    return world_nccl_has_device();
}
