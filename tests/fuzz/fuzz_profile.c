/* fuzz_profile: profiles and, through them, the YAML reader, on arbitrary bytes. */
#include "targets/profile.h"

#include <stdlib.h>
#include <string.h>

enum { WRITTEN_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* What is accepted must keep the promises of the header, and survive being written. */
static void check_accepted(const struct target *target, struct region *region) {
    static char written[WRITTEN_BYTES];
    struct text text = text_over(written, sizeof written);
    struct target again;
    struct fault fault;
    uint64_t declared = 0;
    ASSERT(target->threads >= 1 && (target->align_bytes & (target->align_bytes - 1)) == 0);
    for (int i = 0; i < target->spaces[SPACE_DEVICE].declared_use_count; i++) {
        declared += target->spaces[SPACE_DEVICE].declared[i].bytes;
    }
    ASSERT(declared < target->spaces[SPACE_DEVICE].capacity_bytes);
    profile_write(target, &text);
    if (text.truncated) {
        return;
    }
    ASSERT(profile_read(written, text.length, "written", region, &again, &fault) == OK);
    ASSERT(strcmp(again.name, target->name) == 0);
    ASSERT(again.spaces[SPACE_DEVICE].capacity_bytes ==
           target->spaces[SPACE_DEVICE].capacity_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    struct region region = {0};
    struct target target;
    struct fault fault = {.status = OK};
    enum status status = profile_read((const char *)bytes, count, "fuzz", &region, &target, &fault);
    if (status == OK) {
        check_accepted(&target, &region);
    } else {
        ASSERT(status == STATUS_INPUT && fault.status == STATUS_INPUT);
        ASSERT(fault.subject[0] != '\0' && fault.reason[0] != '\0');
    }
    region_finish(&region);
    return 0;
}
