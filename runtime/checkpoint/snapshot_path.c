#include "runtime/checkpoint/snapshot_path.h"

#include "base/text.h"

#include <string.h>

enum { STEP_DIGITS = 9 };

static const char *const PREFIXES[] = {
    [SNAPSHOT_DONE] = "step-", [SNAPSHOT_BEGUN] = ".tmp-step-", [SNAPSHOT_ASIDE] = ".old-step-"};

void snapshot_path(const char *folder, enum snapshot_path_kind place, int64_t step,
                   char out[static PATH_BYTES]) {
    struct text text = text_over(out, PATH_BYTES);
    text_add(&text, "%s/%s%0*lld", folder, PREFIXES[place], STEP_DIGITS, (long long)step);
    ASSERT(!text.truncated && step >= 0);
}

bool snapshot_parse_name(const char *name, enum snapshot_path_kind *place, int64_t *step) {
    for (size_t i = 0; i < ARRAY_COUNT(PREFIXES); i++) {
        size_t length = strlen(PREFIXES[i]);
        const char *digits = name + length;
        if (strncmp(name, PREFIXES[i], length) == 0 && strlen(digits) >= STEP_DIGITS &&
            strspn(digits, "0123456789") == strlen(digits) && text_parse_i64(digits, step)) {
            *place = (enum snapshot_path_kind)i;
            return true;
        }
    }
    return false;
}
