#include "base/bytes.h"
#include "runtime/shard/shard.h"

#include "base/bytes.h"
#include "runtime/shard/pattern.h"
#include "runtime/shard/wrap.h"

struct unit_layout {
    const struct blueprint *blueprint;
    struct wrapping wrapping;
    const bool *frozen; /* [param_count] true: the parameter is not trained */
    struct unit *units;
    int unit_count;
    int *unit_of_param; /* [param_count] */
    struct unit_param *params;
    int *position_of_param; /* [param_count]: index of each parameter in `params` */
};

static enum status read_frozen(const struct blueprint *blueprint,
                               const struct unit_options *options, struct region *region,
                               const bool **frozen, struct fault *fault) {
    struct name_patterns patterns;
    const char *subject = options->frozen_subject != NULL ? options->frozen_subject : "frozen";
    TRY(patterns_read(options->frozen, subject, blueprint, region, &patterns, fault));
    int training = 0;
    bool *flags = region_alloc(region, (size_t)blueprint->param_count, sizeof *flags);
    for (int i = 0; i < blueprint->param_count; i++) {
        flags[i] = patterns_find_match(&patterns, blueprint->params[i].name) >= 0;
        training += !flags[i];
    }
    if (training == 0) {
        return fault_set(fault, STATUS_INPUT, subject, "freeze fewer parameters",
                         "the list freezes every parameter of the model");
    }
    *frozen = flags;
    return OK;
}

/* Returns the kind of the first of the parameters whose product one matrix product may compute: q
 * for k and v, else the kind itself. */
static enum param_kind first_kind_of_product(enum param_kind kind) {
    switch (kind) {
    case PARAM_K:
    case PARAM_V:
        return PARAM_Q;
    case PARAM_K_BIAS:
    case PARAM_V_BIAS:
        return PARAM_Q_BIAS;
    default:
        return kind;
    }
}

/* Checks that q, k and v of a layer are in the same unit and frozen together, because one matrix
 * product may compute all three (graph_param_span_tensor). */
static enum status check_qkv_together(const struct unit_layout *layout,
                                      const struct unit_options *options, struct fault *fault) {
    const struct blueprint *blueprint = layout->blueprint;
    for (int i = 0; i < blueprint->param_count; i++) {
        const struct param *param = &blueprint->params[i];
        enum param_kind kind = first_kind_of_product(param->kind);
        if (kind == param->kind) {
            continue;
        }
        const struct param *first = blueprint_param(blueprint, kind, param->layer);
        int with = (int)(first - blueprint->params);
        if (layout->wrapping.group_of_param[i] != layout->wrapping.group_of_param[with]) {
            const char *subject = options->wrap_subject;
            return fault_set(
                fault, STATUS_INPUT, subject != NULL ? subject : "strategy.units",
                "list a module that contains q, k and v, such as self_attn",
                "puts %s and %s in different units, but one matrix product computes q, k and v",
                first->name, param->name);
        }
        if (layout->frozen[i] != layout->frozen[with]) {
            const char *subject = options->frozen_subject;
            return fault_set(
                fault, STATUS_INPUT, subject != NULL ? subject : "frozen",
                "freeze q, k and v of a layer together, or none of them",
                "freezes only one of %s and %s, but one matrix product computes q, k and v",
                first->name, param->name);
        }
    }
    return OK;
}

static struct unit make_unit(const struct wrapping *wrapping, int group, bool frozen,
                             struct region *region) {
    struct unit unit = {
        .name = wrapping->names[group], .layer = wrapping->layers[group], .frozen = frozen};
    if (frozen) {
        unit.name = region_format(region, "%s.frozen", unit.name);
    }
    return unit;
}

/* Number the units in the order of their first parameters. */
static void number_units(struct unit_layout *layout, struct region *region) {
    int kinds = 2 * layout->wrapping.group_count;
    int *numbers = region_alloc(region, (size_t)kinds, sizeof *numbers);
    memset(numbers, 0xff, (size_t)kinds * sizeof *numbers); /* -1: no number yet */
    layout->units = region_alloc(region, (size_t)kinds, sizeof *layout->units);
    for (int i = 0; i < layout->blueprint->param_count; i++) {
        int group = layout->wrapping.group_of_param[i];
        int *number = &numbers[2 * group + layout->frozen[i]];
        if (*number < 0) {
            *number = layout->unit_count++;
            layout->units[*number] = make_unit(&layout->wrapping, group, layout->frozen[i], region);
        }
        layout->unit_of_param[i] = *number;
        layout->units[*number].param_count++;
    }
}

static void add_unit_param(struct unit_layout *layout, int param, int placed) {
    struct unit *unit = &layout->units[layout->unit_of_param[param]];
    int64_t elements = param_elements(&layout->blueprint->params[param]);
    layout->position_of_param[param] = placed;
    layout->params[placed] = (struct unit_param){.param = param,
                                                 .unit = layout->unit_of_param[param],
                                                 .offset = unit->elements,
                                                 .elements = elements};
    unit->elements += round_up(elements, GRANULE_ELEMENTS);
    unit->padding_elements += round_up(elements, GRANULE_ELEMENTS) - elements;
}

/* Assign offsets in every unit: matrices in blueprint order, then vectors, then padding. */
static void place_params(struct unit_layout *layout, int64_t world, struct region *region) {
    const struct blueprint *blueprint = layout->blueprint;
    int *next = region_alloc(region, (size_t)layout->unit_count, sizeof *next);
    int placed = 0;
    for (int unit = 0; unit < layout->unit_count; unit++) {
        layout->units[unit].first_param = placed;
        next[unit] = placed;
        placed += layout->units[unit].param_count;
    }
    for (int matrices = 1; matrices >= 0; matrices--) {
        for (int i = 0; i < blueprint->param_count; i++) {
            if ((blueprint->params[i].rank == 2) == (matrices == 1)) {
                add_unit_param(layout, i, next[layout->unit_of_param[i]]++);
            }
        }
        for (int unit = 0; unit < layout->unit_count && matrices == 1; unit++) {
            layout->units[unit].decayed_elements = layout->units[unit].elements;
        }
    }
    for (int k = 0; k < layout->unit_count; k++) {
        struct unit *unit = &layout->units[k];
        int64_t elements = round_up(unit->elements, GRANULE_ELEMENTS * world);
        unit->padding_elements += elements - unit->elements;
        unit->elements = elements;
    }
}

enum status unit_table_init(const struct blueprint *blueprint, const struct unit_options *options,
                            struct region *region, struct unit_table *table, struct fault *fault) {
    ASSERT(options->world >= 1);
    size_t params = (size_t)blueprint->param_count;
    const char *subject = options->wrap_subject != NULL ? options->wrap_subject : "strategy.units";
    struct unit_layout layout = {.blueprint = blueprint};
    TRY(wrap_params(blueprint, options->wrap, subject, region, &layout.wrapping, fault));
    TRY(read_frozen(blueprint, options, region, &layout.frozen, fault));
    TRY(check_qkv_together(&layout, options, fault));
    layout.unit_of_param = region_alloc(region, params, sizeof(int));
    layout.params = region_alloc(region, params, sizeof(struct unit_param));
    layout.position_of_param = region_alloc(region, params, sizeof(int));
    number_units(&layout, region);
    place_params(&layout, options->world, region);
    *table = (struct unit_table){.units = layout.units,
                                 .unit_count = layout.unit_count,
                                 .params = layout.params,
                                 .param_count = blueprint->param_count,
                                 .position_of_param = layout.position_of_param};
    return OK;
}

int64_t unit_shard_elements(const struct unit *unit, int64_t shards) {
    ASSERT(shards >= 1 && unit->elements % (GRANULE_ELEMENTS * shards) == 0);
    return unit->elements / shards;
}

struct unit_range unit_shard_range(const struct unit *unit, int64_t shards, int64_t shard) {
    ASSERT(shard >= 0 && shard < shards);
    int64_t elements = unit_shard_elements(unit, shards);
    return (struct unit_range){shard * elements, (shard + 1) * elements};
}

bool unit_find_param_part(const struct unit_table *table, int param, struct unit_range range,
                          struct unit_part *part) {
    const struct unit_param *placed = &table->params[table->position_of_param[param]];
    ASSERT(range.begin >= 0 && range.begin <= range.end);
    ASSERT(range.end <= table->units[placed->unit].elements);
    int64_t end = placed->offset + placed->elements;
    int64_t begin = placed->offset > range.begin ? placed->offset : range.begin;
    end = end < range.end ? end : range.end;
    if (begin >= end) {
        return false;
    }
    *part = (struct unit_part){.param = param,
                               .first = begin - placed->offset,
                               .count = end - begin,
                               .offset = begin - range.begin};
    return true;
}

int unit_list_parts(const struct unit_table *table, int unit, struct unit_range range,
                    struct unit_part *parts) {
    const struct unit *of = &table->units[unit];
    int count = 0;
    for (int i = of->first_param; i < of->first_param + of->param_count; i++) {
        count += unit_find_param_part(table, table->params[i].param, range, &parts[count]);
    }
    return count;
}
