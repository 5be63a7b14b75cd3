#include "runtime/swarm/member/idle_reason.h"

#include "base/text.h"

#include <string.h>

bool idle_reason_set(struct idle_reason *reason, const char *text) {
    char truncated[WIRE_REASON_BYTES];
    struct text to = text_over(truncated, sizeof truncated);
    text_add(&to, "%s", text);
    bool has_changed = strcmp(reason->text, truncated) != 0;
    memcpy(reason->text, truncated, sizeof truncated);
    return has_changed;
}

void idle_reason_clear(struct idle_reason *reason) {
    reason->text[0] = '\0';
}
