#include "runtime/session/rank_parts.h"

static const struct unit_param *unit_param_at(const struct session *session, int index) {
    const struct unit_table *units = session->program.schedule.units;
    return &units->params[units->position_of_param[index]];
}

static struct unit_view unit_view_of_param(const struct session *session, int index,
                                           enum param_view view) {
    return schedule_unit_view(&session->program.schedule, unit_param_at(session, index)->unit,
                              view);
}

bool rank_parts_has_view(const struct session *session, int index, enum param_view view) {
    return unit_view_of_param(session, index, view).extent != EXTENT_NONE;
}

struct tensor_spec rank_parts_tensor(const struct session *session, int index,
                                     enum param_view view) {
    const struct param *param = &session->blueprint.params[index];
    return (struct tensor_spec){.name = param->name,
                                .dtype = unit_view_of_param(session, index, view).dtype,
                                .rank = param->rank,
                                .shape = {param->shape[0], param->shape[1]}};
}

bool rank_parts_find_range(const struct session *session, int index, enum param_view view,
                           int shard, int64_t *first, int64_t *count) {
    const struct unit_param *of = unit_param_at(session, index);
    int64_t slot = unit_view_of_param(session, index, view).shard_elements;
    int64_t begin = slot * shard - of->offset;
    int64_t end = begin + slot;
    begin = begin > 0 ? begin : 0;
    end = end < of->elements ? end : of->elements;
    if (begin >= end) {
        return false;
    }
    *first = begin;
    *count = end - begin;
    return true;
}

/* Returns the elements of `part` that this rank saves. Only ranks of the first replica save any. */
static struct param_part saved_part(const struct session *session, int index, enum param_view view,
                                    struct param_part part) {
    const struct rank_indices *ranks = &session->bound.ranks;
    int64_t first;
    int64_t count;
    if (ranks->index[AXIS_REPLICATE] != 0 ||
        !rank_parts_find_range(session, index, view, ranks->index[AXIS_SHARD], &first, &count)) {
        return (struct param_part){0};
    }
    ASSERT(first >= part.first && first + count <= part.first + part.count);
    char *address = part.address;
    return (struct param_part){.first = first,
                               .count = count,
                               .dtype = part.dtype,
                               .device_memory = part.device_memory,
                               .address = address + (first - part.first) * dtype_bytes(part.dtype)};
}

bool rank_parts_find_piece(const struct session *session, int index, enum param_view view,
                           enum part_kind kind, struct tensor_piece *piece) {
    struct param_part part = program_param_part(&session->bound, index, view);
    if (part.count > 0 && kind == PART_SAVED) {
        part = saved_part(session, index, view, part);
    }
    if (part.count == 0) {
        return false;
    }
    struct tensor_spec tensor = rank_parts_tensor(session, index, view);
    *piece = piece_of_spec(&tensor, part.address);
    piece->device_memory = part.device_memory;
    piece->first = part.first;
    piece->count = part.count;
    return true;
}

struct tensor_set rank_parts_of_view(struct session *session, enum param_view view,
                                     enum part_kind kind) {
    size_t count = (size_t)session->blueprint.param_count;
    struct tensor_spec *tensors = region_alloc(&session->region, count, sizeof *tensors);
    struct tensor_piece *pieces = region_alloc(&session->region, count, sizeof *pieces);
    struct tensor_set set = {.tensors = tensors, .pieces = pieces};
    for (int i = 0; i < session->blueprint.param_count; i++) {
        if (rank_parts_has_view(session, i, view)) {
            tensors[set.tensor_count++] = rank_parts_tensor(session, i, view);
            set.piece_count +=
                rank_parts_find_piece(session, i, view, kind, &pieces[set.piece_count]);
        }
    }
    return set;
}

/* Whether the parameter has a master apart from its compute copy. If not, the optimizer updates the
 * compute copy itself. */
static bool has_separate_master(const struct session *session, int index) {
    return unit_view_of_param(session, index, VIEW_MASTER).extent !=
           unit_view_of_param(session, index, VIEW_PARAMS).extent;
}

static int list_parts(struct session *session, bool copies_only, struct tensor_piece **pieces) {
    size_t most = 2 * (size_t)session->blueprint.param_count;
    struct tensor_piece *found = region_alloc(&session->region, most, sizeof *found);
    int count = 0;
    for (int i = 0; i < session->blueprint.param_count; i++) {
        bool has_master = has_separate_master(session, i);
        if (has_master || !copies_only) {
            count += rank_parts_find_piece(session, i, VIEW_PARAMS, PART_STORED, &found[count]);
        }
        if (has_master && !copies_only) {
            count += rank_parts_find_piece(session, i, VIEW_MASTER, PART_STORED, &found[count]);
        }
    }
    *pieces = found;
    return count;
}

int rank_parts_of_weights(struct session *session, struct tensor_piece **pieces) {
    return list_parts(session, false, pieces);
}

int rank_parts_of_compute_copies(struct session *session, struct tensor_piece **pieces) {
    return list_parts(session, true, pieces);
}
