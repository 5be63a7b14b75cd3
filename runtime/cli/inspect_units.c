/* inspect_units: groups a blueprint's parameters into units, and cuts units into shards. */
#include "runtime/cli/inspect_report.h"

#include <stdio.h>

static struct inspect_unit unit_over(const struct blueprint *blueprint, int first, int end) {
    struct inspect_unit unit = {
        .first_param = first, .param_count = end - first, .layer = blueprint->params[first].layer};
    for (int i = first; i < end; i++) {
        int64_t elements = param_elements(&blueprint->params[i]);
        unit.elements += elements;
        unit.granules += (elements + GRANULE_ELEMENTS - 1) / GRANULE_ELEMENTS;
    }
    return unit;
}

void inspect_list_units(const struct blueprint *blueprint, struct inspect_unit *units) {
    struct param_span span = blueprint_span(blueprint);
    int count = 0;
    units[count++] = unit_over(blueprint, 0, span.first);
    for (int begin = span.first; begin < span.behind; begin += span.per_layer) {
        units[count++] = unit_over(blueprint, begin, begin + span.per_layer);
    }
    units[count++] = unit_over(blueprint, span.behind, blueprint->param_count);
    ASSERT(count == blueprint->layers + 2);
}

const char *inspect_unit_name(const struct inspect_unit *unit, char buffer[static 24]) {
    if (unit->layer != PARAM_NO_LAYER) {
        snprintf(buffer, 24, "block %d", unit->layer);
    } else {
        snprintf(buffer, 24, "%s", unit->first_param == 0 ? "embedding" : "final");
    }
    return buffer;
}

struct inspect_range inspect_shard(const struct inspect_unit *unit, int64_t shards, int64_t rank) {
    int64_t each = (unit->granules + shards - 1) / shards;
    int64_t begin = rank * each < unit->granules ? rank * each : unit->granules;
    int64_t end = begin + each < unit->granules ? begin + each : unit->granules;
    return (struct inspect_range){begin * GRANULE_ELEMENTS, end * GRANULE_ELEMENTS};
}
