/* Shared memory of the block that is running, static and dynamic. */
#include "tests/emulated/block.h"

#include "base/check.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    DYNAMIC_ALIGNMENT = 128,
    GARBAGE = 0xFF, /* NaN in every type, and no index */
    RED = 0xA5,
};

static unsigned char *dynamic_end; /* the page behind it cannot be touched */
static unsigned char *dynamic_bytes;
static size_t dynamic_count;
static struct emulated_shared *entered; /* by the block */
static size_t static_count;

void shared_init(void) {
    size_t bytes = (EMULATED_SHARED_MAX + 2 * PAGE) / PAGE * PAGE;
    unsigned char *base =
        mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(base != MAP_FAILED);
    dynamic_end = base + bytes;
    ASSERT(mprotect(dynamic_end, PAGE, PROT_NONE) == 0);
}

void shared_begin(unsigned bytes) {
    size_t rounded = (bytes + DYNAMIC_ALIGNMENT - 1) / DYNAMIC_ALIGNMENT * DYNAMIC_ALIGNMENT;
    dynamic_bytes = dynamic_end - rounded;
    dynamic_count = bytes;
    memset(dynamic_bytes - EMULATED_RED_ZONE, RED, EMULATED_RED_ZONE);
    memset(dynamic_bytes, GARBAGE, bytes);
    memset(dynamic_bytes + bytes, RED, rounded - bytes);
    entered = NULL;
    static_count = 0;
}

/* Dynamic memory begins behind the static one, at its alignment; what a kernel was granted counts,
 * not what this launch takes of it. */
static void check_sum(void) {
    size_t granted = emulated_block.kernel->shared_allowed;
    size_t most = granted > 0 ? EMULATED_SHARED_MAX : EMULATED_SHARED_DEFAULT;
    size_t dynamic = granted > dynamic_count ? granted : dynamic_count;
    size_t before =
        dynamic > 0 ? (static_count + DYNAMIC_ALIGNMENT - 1) / DYNAMIC_ALIGNMENT * DYNAMIC_ALIGNMENT
                    : static_count;
    if (static_count > EMULATED_SHARED_DEFAULT || before + dynamic > most) {
        emulated_fail("%zu bytes of static and %zu of dynamic shared memory", static_count,
                      dynamic);
    }
}

void emulated_shared_enter(struct emulated_shared *shared, unsigned char *bytes, size_t count) {
    if (shared->block == emulated_block.number) {
        return;
    }
    static_count += count;
    check_sum();
    *shared = (struct emulated_shared){bytes, count, emulated_block.number, entered};
    entered = shared;
    memset(bytes - EMULATED_RED_ZONE, RED, EMULATED_RED_ZONE);
    memset(bytes, GARBAGE, count);
    memset(bytes + count, RED, EMULATED_RED_ZONE);
}

unsigned char *emulated_dynamic_shared(void) {
    return dynamic_bytes;
}

static void check_red(const unsigned char *zone, const unsigned char *end, const char *where) {
    for (; zone < end; zone++) {
        if (*zone != RED) {
            emulated_fail("the block wrote %s shared memory", where);
        }
    }
}

void shared_end(void) {
    check_red(dynamic_bytes - EMULATED_RED_ZONE, dynamic_bytes, "before its dynamic");
    check_red(dynamic_bytes + dynamic_count, dynamic_end, "beyond its dynamic");
    for (struct emulated_shared *shared = entered; shared != NULL; shared = shared->next) {
        unsigned char *end = shared->bytes + shared->count;
        check_red(shared->bytes - EMULATED_RED_ZONE, shared->bytes, "before its static");
        check_red(end, end + EMULATED_RED_ZONE, "beyond its static");
    }
}

static bool lies_in(const unsigned char *bytes, size_t count, const unsigned char *from,
                    size_t size) {
    return bytes >= from && bytes + count <= from + size;
}

bool shared_holds(const void *bytes, size_t count) {
    if (lies_in(bytes, count, dynamic_bytes, dynamic_count)) {
        return true;
    }
    for (struct emulated_shared *shared = entered; shared != NULL; shared = shared->next) {
        if (lies_in(bytes, count, shared->bytes, shared->count)) {
            return true;
        }
    }
    return false;
}
