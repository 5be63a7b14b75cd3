#include "runtime/shard/spans.h"

/* The state of spans_find for one graph. */
struct span_search {
    const struct graph *graph;
    const struct unit_table *units;
    const struct sharding *sharding;
    struct region *region;
    struct spans *spans;
    int gather_capacity; /* allocated length of spans->gathers */
    int *span_of_unit;   /* index of the newest gather span of each unit; -1: none yet */
    int use_count;       /* number of ops so far that use params of any unit */
    int *last_use;       /* per unit: value of use_count at its newest use */
};

static int unit_of_param_tensor(const struct span_search *search, int tensor) {
    int param = search->graph->tensors[tensor].param;
    return search->units->params[search->units->position_of_param[param]].unit;
}

static bool operand_has_kind(const struct span_search *search, const struct op *op, int index,
                             enum tensor_kind kind) {
    return op_access(op, index) != 0 && search->graph->tensors[op->operands[index]].kind == kind;
}

static bool params_are_split(const struct span_search *search, int unit) {
    return search->sharding->shard > 1 &&
           zero_stage_row(search->sharding->units[unit].zero)->params;
}

static void add_gather(struct span_search *search, struct gather_span span) {
    struct spans *spans = search->spans;
    if (spans->gather_count == search->gather_capacity) {
        int capacity = 2 * search->gather_capacity + search->units->unit_count;
        struct gather_span *bigger = region_alloc(search->region, (size_t)capacity, sizeof *bigger);
        if (spans->gather_count > 0) {
            memcpy(bigger, spans->gathers, (size_t)spans->gather_count * sizeof *bigger);
        }
        spans->gathers = bigger;
        search->gather_capacity = capacity;
    }
    spans->gathers[spans->gather_count++] = span;
}

static bool is_kept_gathered(const struct span_search *search, const struct gather_span *span,
                             int op) {
    int forward = search->graph->forward_count;
    return search->sharding->units[span->unit].keep_gathered && span->last < forward &&
           op >= forward;
}

/* Extend the newest gather span of the unit to op `op`, or start a new span. is_adjacent: no op
 * has used other units' params since the last use. */
static void record_param_use(struct span_search *search, int unit, int op, bool is_adjacent) {
    int newest = search->span_of_unit[unit];
    struct gather_span *span = newest < 0 ? NULL : &search->spans->gathers[newest];
    if (span != NULL && (is_adjacent || span->last == op || is_kept_gathered(search, span, op))) {
        span->last = op;
        return;
    }
    search->span_of_unit[unit] = search->spans->gather_count;
    add_gather(search, (struct gather_span){.unit = unit, .first = op, .last = op});
}

/* Find all uses of params. A use is adjacent if the previous op that used any params also used
 * this unit; otherwise ops that use other units may lie between. */
static void find_param_uses(struct span_search *search) {
    const struct graph *graph = search->graph;
    for (int i = 0; i < graph->op_count; i++) {
        const struct op *op = &graph->ops[i];
        bool uses = false;
        for (int k = 0; k < OPERANDS_MAX; k++) {
            if (!operand_has_kind(search, op, k, TENSOR_PARAM)) {
                continue;
            }
            int unit = unit_of_param_tensor(search, op->operands[k]);
            search->use_count += !uses;
            uses = true;
            bool is_adjacent = search->last_use[unit] >= search->use_count - 1;
            search->last_use[unit] = search->use_count;
            if (params_are_split(search, unit)) {
                record_param_use(search, unit, i, is_adjacent);
            }
        }
    }
}

/* The set of units that are gathered at the current position of the schedule. */
struct gather_state {
    const struct span_search *search;
    int *active; /* indices of the gather spans that are active at this position, unordered */
    int active_count;
    int64_t elements;     /* sum of the elements of the active spans */
    int64_t elements_max; /* upper limit of `elements` */
};

static int64_t gathered_elements(const struct span_search *search, int span) {
    return search->units->units[search->spans->gathers[span].unit].elements;
}

/* Remove the spans that end before op `at` from the active set. */
static void remove_ended_spans(struct gather_state *gather_state, int at) {
    int count = 0;
    gather_state->elements = 0;
    for (int i = 0; i < gather_state->active_count; i++) {
        int span = gather_state->active[i];
        if (gather_state->search->spans->gathers[span].last >= at) {
            gather_state->active[count++] = span;
            gather_state->elements += gathered_elements(gather_state->search, span);
        }
    }
    gather_state->active_count = count;
}

static bool can_gather(const struct gather_state *gather_state, int span) {
    const struct span_search *search = gather_state->search;
    const struct sharding *sharding = search->sharding;
    if (sharding->gathered_units_max > 0 &&
        gather_state->active_count >= sharding->gathered_units_max) {
        return false;
    }
    for (int i = 0; i < gather_state->active_count; i++) {
        if (search->spans->gathers[gather_state->active[i]].unit ==
            search->spans->gathers[span].unit) {
            return false;
        }
    }
    return gather_state->elements + gathered_elements(search, span) <= gather_state->elements_max;
}

/* Return the index of the op that follows the earliest end of an active span. */
static int find_next_span_end(const struct gather_state *gather_state) {
    int end = gather_state->search->graph->op_count;
    for (int i = 0; i < gather_state->active_count; i++) {
        int last = gather_state->search->spans->gathers[gather_state->active[i]].last;
        end = last + 1 < end ? last + 1 : end;
    }
    return end;
}

static void set_gather_positions(const struct span_search *search) {
    struct spans *spans = search->spans;
    const struct sharding *sharding = search->sharding;
    struct gather_state gather_state = {
        .search = search,
        .active = region_alloc(search->region, (size_t)spans->gather_count + 1, sizeof(int))};
    for (int unit = 0; unit < search->units->unit_count; unit++) {
        if (params_are_split(search, unit)) {
            const struct unit *of = &search->units->units[unit];
            gather_state.elements_max += of->elements - unit_shard_elements(of, sharding->shard);
        }
    }
    for (int i = 0; i < spans->gather_count; i++) {
        struct gather_span *span = &spans->gathers[i];
        int ahead = i > sharding->prefetch ? i - sharding->prefetch : 0;
        int at = spans->gathers[ahead].first;
        at = i > 0 && spans->gathers[i - 1].gather_at > at ? spans->gathers[i - 1].gather_at : at;
        remove_ended_spans(&gather_state, at);
        while (at < span->first && !can_gather(&gather_state, i)) {
            int end = find_next_span_end(&gather_state);
            at = end < span->first ? end : span->first;
            remove_ended_spans(&gather_state, at);
        }
        span->gather_at = at;
        gather_state.active[gather_state.active_count++] = i;
    }
}

/* Return the unit whose gradients operand `index` holds, or -1. */
static int gradient_unit(const struct span_search *search, const struct op *op, int index) {
    bool gradient = operand_has_kind(search, op, index, TENSOR_PARAM_GRADIENT);
    return gradient ? unit_of_param_tensor(search, op->operands[index]) : -1;
}

/* Find the first and last op that writes each unit's gradients; first is -1 if no op writes them
 * or the unit is frozen. */
static struct reduce_span *find_gradient_writers(const struct span_search *search) {
    const struct graph *graph = search->graph;
    int units = search->units->unit_count;
    struct reduce_span *writers = region_alloc(search->region, (size_t)units, sizeof *writers);
    for (int unit = 0; unit < units; unit++) {
        writers[unit] = (struct reduce_span){.unit = unit, .first = -1};
    }
    for (int i = 0; i < graph->op_count; i++) {
        for (int k = 0; k < OPERANDS_MAX; k++) {
            int unit = gradient_unit(search, &graph->ops[i], k);
            if (unit >= 0 && !search->units->units[unit].frozen) {
                writers[unit].first = writers[unit].first < 0 ? i : writers[unit].first;
                writers[unit].last = i;
            }
        }
    }
    return writers;
}

static void find_reduce_spans(const struct span_search *search) {
    const struct graph *graph = search->graph;
    struct spans *spans = search->spans;
    struct reduce_span *writers = find_gradient_writers(search);
    spans->reduces =
        region_alloc(search->region, (size_t)search->units->unit_count, sizeof *spans->reduces);
    for (int i = 0; i < graph->op_count; i++) {
        for (int k = 0; k < OPERANDS_MAX; k++) {
            int unit = gradient_unit(search, &graph->ops[i], k);
            if (unit >= 0 && writers[unit].first >= 0 && writers[unit].last == i) {
                spans->reduces[spans->reduce_count++] = writers[unit];
                writers[unit].first = -1; /* listed */
            }
        }
    }
}

static void set_accumulate_positions(const struct span_search *search) {
    struct spans *spans = search->spans;
    for (int i = 0; i < spans->reduce_count; i++) {
        struct reduce_span *span = &spans->reduces[i];
        if (search->sharding->prefetch == 0) {
            span->accumulate_at = span->last + 1;
        } else if (i + 1 < spans->reduce_count) {
            span->accumulate_at = spans->reduces[i + 1].last + 1;
        } else {
            span->accumulate_at = search->graph->op_count;
        }
    }
}

void spans_find(const struct graph *graph, const struct unit_table *units,
                const struct sharding *sharding, struct region *region, struct spans *spans) {
    ASSERT(sharding->shard >= 1 && sharding->prefetch >= 0 && sharding->gathered_units_max >= 0);
    *spans = (struct spans){0};
    size_t count = (size_t)units->unit_count;
    struct span_search search = {.graph = graph,
                                 .units = units,
                                 .sharding = sharding,
                                 .region = region,
                                 .spans = spans,
                                 .span_of_unit = region_alloc(region, count, sizeof(int)),
                                 .last_use = region_alloc(region, count, sizeof(int))};
    for (size_t unit = 0; unit < count; unit++) {
        search.span_of_unit[unit] = -1;
    }
    find_param_uses(&search);
    set_gather_positions(&search);
    find_reduce_spans(&search);
    set_accumulate_positions(&search);
}
