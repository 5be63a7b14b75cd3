#include "runtime/shard/ranges.h"

#include "base/check.h"

#include <stdbool.h>

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Elements [start, start + count) of one dimension. */
struct replica_chunk {
    int64_t start, count;
};

static struct replica_chunk chunk(struct replica_chunk of, int pieces, int index) {
    int64_t each = (of.count + pieces - 1) / pieces;
    int64_t begin = least(each * index, of.count);
    return (struct replica_chunk){of.start + begin, least(each, of.count - begin)};
}

static void check_layout(const struct tensor_layout *layout) {
    ASSERT(layout->rank >= 1 && layout->rank <= 4);
    ASSERT(layout->mesh_dims >= 0 && layout->mesh_dims <= 4);
    for (int m = 0; m < layout->mesh_dims; m++) {
        const struct placement *placement = &layout->placements[m];
        ASSERT(layout->mesh_sizes[m] >= 1);
        ASSERT(placement->kind == PLACEMENT_REPLICATE ||
               (placement->dim >= 0 && placement->dim < layout->rank));
    }
}

static int cell_count(const struct tensor_layout *layout) {
    int cells = 1;
    for (int m = 0; m < layout->mesh_dims; m++) {
        cells *= layout->mesh_sizes[m];
    }
    return cells;
}

static void coordinate_of(const struct tensor_layout *layout, int cell, int coordinate[4]) {
    for (int m = layout->mesh_dims - 1; m >= 0; m--) {
        coordinate[m] = cell % layout->mesh_sizes[m];
        cell /= layout->mesh_sizes[m];
    }
}

static int cell_of(const struct tensor_layout *layout, const int coordinate[4]) {
    int cell = 0;
    for (int m = 0; m < layout->mesh_dims; m++) {
        cell = cell * layout->mesh_sizes[m] + coordinate[m];
    }
    return cell;
}

static bool splits(const struct tensor_layout *layout, int mesh_dim, int dim) {
    const struct placement *placement = &layout->placements[mesh_dim];
    return placement->kind == PLACEMENT_SHARD && placement->dim == dim;
}

/* What the cell at `coordinate` holds of each dimension. */
static void find_box(const struct tensor_layout *layout, const int coordinate[4],
                     struct replica_chunk box[4]) {
    for (int dim = 0; dim < layout->rank; dim++) {
        box[dim] = (struct replica_chunk){0, layout->shape[dim]};
        for (int m = 0; m < layout->mesh_dims; m++) {
            if (splits(layout, m, dim)) {
                box[dim] = chunk(box[dim], layout->mesh_sizes[m], coordinate[m]);
            }
        }
    }
}

/* The stretch of `dim` that holds `element`, and where in the mesh it lies. */
static struct replica_chunk locate(const struct tensor_layout *layout, int dim, int64_t element,
                                   int coordinate[4]) {
    struct replica_chunk within = {0, layout->shape[dim]};
    for (int m = 0; m < layout->mesh_dims; m++) {
        if (splits(layout, m, dim)) {
            int64_t each = (within.count + layout->mesh_sizes[m] - 1) / layout->mesh_sizes[m];
            coordinate[m] = (int)((element - within.start) / each);
            within = chunk(within, layout->mesh_sizes[m], coordinate[m]);
        }
    }
    return within;
}

int64_t ranges_local_elements(const struct tensor_layout *layout, int cell) {
    check_layout(layout);
    ASSERT(cell >= 0 && cell < cell_count(layout));
    int coordinate[4];
    struct replica_chunk box[4];
    coordinate_of(layout, cell, coordinate);
    find_box(layout, coordinate, box);
    int64_t elements = 1;
    for (int dim = 0; dim < layout->rank; dim++) {
        elements *= box[dim].count;
    }
    return elements;
}

/* The target's elements in its own order, cut wherever the source changes. */
struct walk {
    const struct tensor_layout *from;
    struct replica_chunk box[4]; /* of the target */
    int replica[4];            /* coordinate in the source's mesh, for its replicated dimensions */
    int split;                 /* the last dimension that either side splits */
    int64_t inner;             /* elements of what is behind it: whole on both sides */
    struct range_copy *copies; /* NULL: they are only counted */
    int count;
    struct range_copy newest;
};

static void emit(struct walk *walk, int source, int64_t from, int64_t to, int64_t count) {
    struct range_copy *newest = &walk->newest;
    if (walk->count > 0 && newest->source == source && newest->from + newest->count == from) {
        newest->count += count;
    } else {
        newest->source = source;
        newest->from = from;
        newest->to = to;
        newest->count = count;
        walk->count++;
    }
    if (walk->copies != NULL) {
        walk->copies[walk->count - 1] = *newest;
    }
}

/* One row: the outer dimensions stand at `element`, the split one runs. */
static void walk_row(struct walk *walk, int64_t element[4], int64_t *to) {
    const struct tensor_layout *from = walk->from;
    int split = walk->split;
    int coordinate[4];
    for (int m = 0; m < from->mesh_dims; m++) {
        coordinate[m] = walk->replica[m];
    }
    int64_t outer = 0;
    for (int dim = 0; dim < split; dim++) {
        struct replica_chunk in = locate(from, dim, element[dim], coordinate);
        outer = outer * in.count + element[dim] - in.start;
    }
    int64_t end = walk->box[split].start + walk->box[split].count;
    for (int64_t at = walk->box[split].start; at < end;) {
        struct replica_chunk in = locate(from, split, at, coordinate);
        int64_t count = least(in.start + in.count, end) - at;
        int64_t offset = outer * in.count + at - in.start;
        emit(walk, cell_of(from, coordinate), offset * walk->inner, *to, count * walk->inner);
        *to += count * walk->inner;
        at += count;
    }
}

static void walk_all(struct walk *walk) {
    int64_t rows = walk->box[walk->split].count > 0 && walk->inner > 0 ? 1 : 0;
    for (int dim = 0; dim < walk->split; dim++) {
        rows *= walk->box[dim].count;
    }
    int64_t to = 0;
    walk->count = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t element[4] = {0};
        int64_t rest = row;
        for (int dim = walk->split - 1; dim >= 0; dim--) {
            element[dim] = walk->box[dim].start + rest % walk->box[dim].count;
            rest /= walk->box[dim].count;
        }
        walk_row(walk, element, &to);
    }
}

static int last_split(const struct tensor_layout *layout) {
    int last = 0;
    for (int m = 0; m < layout->mesh_dims; m++) {
        const struct placement *placement = &layout->placements[m];
        if (placement->kind == PLACEMENT_SHARD && placement->dim > last) {
            last = placement->dim;
        }
    }
    return last;
}

int ranges_between(const struct tensor_layout *from, const struct tensor_layout *to, int target,
                   struct region *region, struct range_copy **copies) {
    check_layout(from);
    check_layout(to);
    ASSERT(from->rank == to->rank && target >= 0 && target < cell_count(to));
    struct walk walk = {.from = from, .inner = 1, .newest = {.target = target}};
    int coordinate[4];
    coordinate_of(to, target, coordinate);
    find_box(to, coordinate, walk.box);
    coordinate_of(from, target % cell_count(from), walk.replica);
    int split_from = last_split(from);
    int split_to = last_split(to);
    walk.split = split_from > split_to ? split_from : split_to;
    for (int dim = 0; dim < from->rank; dim++) {
        ASSERT(from->shape[dim] == to->shape[dim]);
        walk.inner *= dim > walk.split ? from->shape[dim] : 1;
    }
    walk_all(&walk);
    walk.copies = region_alloc(region, (size_t)walk.count + 1, sizeof *walk.copies);
    walk_all(&walk);
    *copies = walk.copies;
    return walk.count;
}
