#include "runtime/shard/unit.h"

#include <stdio.h>

struct layout {
    const struct blueprint *blueprint;
    struct unit *units;
    struct unit_slot *slots;
    int *slot_of_param;
    int unit_count, slot_count;
};

static bool in_final(enum param_kind kind) {
    return kind == PARAM_FINAL_NORM || kind == PARAM_FINAL_NORM_BIAS || kind == PARAM_HEAD;
}

/* Units in order: 0 embed, 1 + layer, 1 + layers final. */
static int unit_of(const struct blueprint *blueprint, const struct param *param) {
    if (param->layer != PARAM_NO_LAYER) {
        return 1 + param->layer;
    }
    return in_final(param->kind) ? 1 + (int)blueprint->layers : 0;
}

static int64_t round_to_granule(int64_t elements) {
    return (elements + GRANULE_ELEMENTS - 1) / GRANULE_ELEMENTS * GRANULE_ELEMENTS;
}

/* Adds those parameters of `unit`, all within [begin, end), that are matrices (decayed) or vectors.
 * */
static void add_slots(struct layout *layout, int unit, bool matrices, int begin, int end) {
    struct unit *into = &layout->units[unit];
    for (int i = begin; i < end; i++) {
        const struct param *param = &layout->blueprint->params[i];
        if (unit_of(layout->blueprint, param) != unit || (param->rank == 2) != matrices) {
            continue;
        }
        int64_t elements = param_elements(param);
        layout->slot_of_param[i] = layout->slot_count;
        layout->slots[layout->slot_count++] = (struct unit_slot){
            .param = i, .unit = unit, .offset = into->elements, .elements = elements};
        into->slot_count++;
        into->padding_elements += round_to_granule(elements) - elements;
        into->elements += round_to_granule(elements);
    }
}

static const char *unit_name(const struct blueprint *blueprint, int unit, struct region *region) {
    if (unit == 0) {
        return "embed";
    }
    if (unit == 1 + (int)blueprint->layers) {
        return "final";
    }
    char name[32];
    snprintf(name, sizeof name, "layers.%d", unit - 1);
    return region_text(region, name);
}

/* First parameter index of each unit and one past its last, in one pass. */
static void find_ranges(const struct blueprint *blueprint, int unit_count, int *begin, int *end) {
    for (int unit = 0; unit < unit_count; unit++) {
        begin[unit] = blueprint->param_count;
        end[unit] = 0;
    }
    for (int i = 0; i < blueprint->param_count; i++) {
        int unit = unit_of(blueprint, &blueprint->params[i]);
        begin[unit] = i < begin[unit] ? i : begin[unit];
        end[unit] = i + 1;
    }
}

void unit_table_init(const struct blueprint *blueprint, struct region *region,
                     struct unit_table *table) {
    int unit_count = (int)blueprint->layers + 2;
    size_t params = (size_t)blueprint->param_count;
    struct layout layout = {.blueprint = blueprint,
                            .units = region_alloc(region, (size_t)unit_count, sizeof(struct unit)),
                            .slots = region_alloc(region, params, sizeof(struct unit_slot)),
                            .slot_of_param = region_alloc(region, params, sizeof(int))};
    int *begin = region_alloc(region, (size_t)unit_count, sizeof(int));
    int *end = region_alloc(region, (size_t)unit_count, sizeof(int));
    find_ranges(blueprint, unit_count, begin, end);
    for (int unit = 0; unit < unit_count; unit++) {
        struct unit *into = &layout.units[unit];
        into->name = unit_name(blueprint, unit, region);
        into->layer = unit == 0 || unit == unit_count - 1 ? PARAM_NO_LAYER : unit - 1;
        into->first_slot = layout.slot_count;
        add_slots(&layout, unit, true, begin[unit], end[unit]);
        into->decayed_elements = into->elements;
        add_slots(&layout, unit, false, begin[unit], end[unit]);
    }
    ASSERT(layout.slot_count == blueprint->param_count);
    *table = (struct unit_table){.units = layout.units,
                                 .unit_count = unit_count,
                                 .slots = layout.slots,
                                 .slot_count = layout.slot_count,
                                 .slot_of_param = layout.slot_of_param};
}

struct unit_range unit_shard(const struct unit *unit, int64_t ranks, int64_t rank) {
    ASSERT(rank >= 0 && rank < ranks);
    int64_t granules = unit->elements / GRANULE_ELEMENTS;
    int64_t each = (granules + ranks - 1) / ranks;
    int64_t begin = rank * each < granules ? rank * each : granules;
    int64_t end = begin + each < granules ? begin + each : granules;
    return (struct unit_range){begin * GRANULE_ELEMENTS, end * GRANULE_ELEMENTS};
}
