#include "runtime/swarm/ledger/entry.h"

#include <string.h>

void entry_copy(struct entry *to, const struct entry *from) {
    struct entry_slice *slices = to->slices;
    *to = *from;
    to->slices = slices;
    if (from->slice_count > 0) {
        memcpy(slices, from->slices, from->slice_count * sizeof(*slices));
    }
}
