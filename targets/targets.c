#include "targets/targets.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

uint64_t target_declared_bytes(const struct target *target, enum space space) {
    uint64_t sum = 0;
    for (int i = 0; i < target->spaces[space].declared_use_count; i++) {
        sum += target->spaces[space].declared[i].bytes;
    }
    return sum;
}

uint64_t target_available_bytes(const struct target *target, enum space space) {
    uint64_t declared = target_declared_bytes(target, space);
    uint64_t capacity = target->spaces[space].capacity_bytes;
    return capacity > declared ? capacity - declared : 0;
}

uint64_t target_shortage(const struct target *target, const uint64_t peak_bytes[static SPACE_COUNT],
                         enum space *space) {
    uint64_t needed[SPACE_COUNT];
    memcpy(needed, peak_bytes, sizeof needed);
    if (target->unified) {
        needed[SPACE_DEVICE] += needed[SPACE_PINNED] + needed[SPACE_HOST];
        needed[SPACE_PINNED] = 0;
        needed[SPACE_HOST] = 0;
    }
    for (int i = 0; i < SPACE_COUNT; i++) {
        uint64_t room = target_available_bytes(target, (enum space)i);
        if (needed[i] > room) {
            *space = (enum space)i;
            return needed[i] - room;
        }
    }
    return 0;
}

const struct target *target_with_declared_use(const struct target *target, enum space space,
                                              const struct target_declared_use *use,
                                              struct region *region) {
    struct target *copy = region_alloc(region, 1, sizeof *copy);
    *copy = *target;
    struct target_space *of = &copy->spaces[target->unified ? SPACE_DEVICE : space];
    size_t count = (size_t)of->declared_use_count;
    struct target_declared_use *lines = region_alloc(region, count + 1, sizeof *lines);
    for (size_t i = 0; i < count; i++) {
        lines[i] = of->declared[i];
    }
    lines[count] = *use;
    of->declared = lines;
    of->declared_use_count += 1;
    return copy;
}

static void divide_uses_among_processes(struct target_space *space, int groups,
                                        struct region *region) {
    struct target_declared_use *lines =
        region_alloc(region, (size_t)space->declared_use_count + 1, sizeof *lines);
    int count = 0;
    for (int i = 0; i < space->declared_use_count; i++) {
        struct target_declared_use line = space->declared[i];
        int times = line.per == PER_PROCESS ? 1 : line.per == PER_SITE ? groups > 0 : groups - 1;
        if (times > 0) {
            line.bytes *= (uint64_t)times;
            line.per = PER_PROCESS;
            lines[count++] = line;
        }
    }
    space->declared = lines;
    space->declared_use_count = count;
}

const struct target *target_with_groups(const struct target *target, int groups,
                                        struct region *region) {
    struct target *copy = region_alloc(region, 1, sizeof *copy);
    *copy = *target;
    for (int space = 0; space < SPACE_COUNT; space++) {
        divide_uses_among_processes(&copy->spaces[space], groups, region);
    }
    return copy;
}

enum status target_lower_capacity(const struct target *target, uint64_t bytes,
                                  struct region *region, const struct target **lowered,
                                  struct fault *fault) {
    uint64_t declared = target_declared_bytes(target, SPACE_DEVICE);
    if (bytes <= declared) {
        char subject[sizeof fault->subject];
        char wanted[24];
        char reserved[24];
        snprintf(subject, sizeof subject, "target %.200s", target->name);
        return fault_set(fault, STATUS_FIT, subject, "increase limits.device",
                         "is limited to %s of device memory, but drivers, libraries and other "
                         "programs use %s",
                         text_format_bytes(bytes, wanted), text_format_bytes(declared, reserved));
    }
    struct target *copy = region_alloc(region, 1, sizeof *copy);
    *copy = *target;
    struct target_space *device = &copy->spaces[SPACE_DEVICE];
    if (bytes < device->capacity_bytes) {
        device->capacity_bytes = bytes;
        device->capacity_source = "limits.device";
    }
    *lowered = copy;
    return OK;
}
