#include "runtime/inner_training/inner_weights.h"

#include "base/bytes.h"
#include "runtime/session/rank_parts.h"

/* ---- plan ---- */

/* Finds the elements of parameter `index` that shard `owner` holds. The parameter starts at element
 * `begin` of the flat space. */
static bool find_owned_span(const struct session *session, int index, int owner, int64_t begin,
                            struct inner_span *span) {
    const struct rank_indices *ranks = &session->bound.ranks;
    struct tensor_piece piece;
    int64_t first;
    int64_t count;
    if (!rank_parts_find_range(session, index, VIEW_MASTER, owner, &first, &count)) {
        return false;
    }
    *span = (struct inner_span){.owner = owner, .begin = begin + first, .count = count};
    if (ranks->index[AXIS_WORLD] == owner) {
        bool is_stored = rank_parts_find_piece(session, index, VIEW_MASTER, PART_SAVED, &piece);
        ASSERT(is_stored && piece.dtype == DTYPE_F32 && piece.device_memory == NULL);
        ASSERT(piece.first == first && piece.count == count);
        span->values = piece.memory;
    }
    return true;
}

/* Returns the number of spans, and lists them in `spans` unless it is NULL. */
static int list_spans(const struct session *session, struct inner_span *spans) {
    const struct blueprint *blueprint = &session->blueprint;
    struct inner_span span;
    int count = 0;
    for (int owner = 0; owner < session->bound.ranks.size[AXIS_SHARD]; owner++) {
        int64_t begin = 0;
        for (int i = 0; i < blueprint->param_count; i++) {
            if (find_owned_span(session, i, owner, begin, &span)) {
                if (spans != NULL) {
                    spans[count] = span;
                }
                count++;
            }
            begin += param_elements(&blueprint->params[i]);
        }
    }
    return count;
}

/* Returns the index of the first element of a parameter in the flat space. */
static int64_t param_begin(const struct blueprint *blueprint, const char *name) {
    int64_t begin = 0;
    int index = 0;
    while (index < blueprint->param_count && blueprint->params[index].name != name) {
        begin += param_elements(&blueprint->params[index++]);
    }
    ASSERT(index < blueprint->param_count);
    return begin;
}

static void list_pieces(struct session *session, struct inner_weights *weights) {
    struct tensor_piece *pieces;
    weights->piece_count = rank_parts_of_weights(session, &pieces);
    weights->pieces =
        region_alloc(&session->region, (size_t)weights->piece_count, sizeof *weights->pieces);
    for (int i = 0; i < weights->piece_count; i++) {
        weights->pieces[i] = (struct inner_piece){
            .piece = pieces[i],
            .begin = param_begin(&session->blueprint, pieces[i].name) + pieces[i].first};
    }
}

void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights) {
    struct inner_weights made = {.flat_copy = flat,
                                 .count = blueprint_elements(&session->blueprint)};
    ASSERT((session->bound.ranks.index[AXIS_WORLD] == 0) == (flat != NULL));
    made.span_count = list_spans(session, NULL);
    made.spans = region_alloc(&session->region, (size_t)made.span_count, sizeof *made.spans);
    (void)list_spans(session, made.spans);
    list_pieces(session, &made);
    *weights = made;
}

/* ---- move ---- */

/* The two halves of the staging buffer: `values` contains broadcast weights,
 * `conversion_scratch` is scratch memory for conversions between types. */
struct staging_transfer {
    float *values;
    int64_t values_max; /* capacity of `values` */
    struct staging conversion_scratch;
};

static struct staging_transfer make_staging_transfer(const struct session *session) {
    const struct staging staging = session_staging(session);
    size_t half = staging.bytes / 2;
    return (struct staging_transfer){
        .values = staging.memory,
        .values_max = (int64_t)(half / sizeof(float)),
        .conversion_scratch = {.memory = (char *)staging.memory + half, .bytes = half}};
}

/* Broadcasts the first `count` staged values of rank `root` to all ranks. */
static void broadcast_staged(struct session *session, int root, int64_t count) {
    const struct program *program = &session->program;
    int staging = program->schedule.host.staging;
    const struct collective_call call = {.kind = COLLECTIVE_BROADCAST,
                                         .group = AXIS_WORLD,
                                         .space = program->schedule.extents[staging].space,
                                         .wire = DTYPE_F32,
                                         .to = program->plan.offsets[staging],
                                         .slot_bytes = (uint64_t)count * sizeof(float),
                                         .root = root};
    collective_run(&session->communicator, &call);
}

/* A position in the list of spans. */
struct span_position {
    int span;     /* index in inner_weights.spans */
    int64_t done; /* number of elements of the span that are already copied */
};

/* what copy_owner_elements does with each element */
enum copy_direction { SKIP_ELEMENTS, INTO_STAGING, INTO_FLAT };

/* Copies or skips the next elements that one shard holds from *position, up to the capacity of the
 * staging, and advances *position. Returns the number of elements. */
static int64_t copy_owner_elements(const struct inner_weights *weights,
                                   const struct staging_transfer *transfer,
                                   enum copy_direction direction, struct span_position *position) {
    int owner = weights->spans[position->span].owner;
    int64_t count = 0;
    while (count < transfer->values_max && position->span < weights->span_count &&
           weights->spans[position->span].owner == owner) {
        const struct inner_span *span = &weights->spans[position->span];
        int64_t part = min_i64(span->count - position->done, transfer->values_max - count);
        size_t bytes = (size_t)part * sizeof(float);
        if (direction == INTO_STAGING) {
            memcpy(transfer->values + count, span->values + position->done, bytes);
        } else if (direction == INTO_FLAT) {
            memcpy(weights->flat_copy + span->begin + position->done, transfer->values + count,
                   bytes);
        }
        count += part;
        position->done += part;
        if (position->done == span->count) {
            *position = (struct span_position){.span = position->span + 1};
        }
    }
    return count;
}

void inner_weights_gather(struct session *session, const struct inner_weights *weights) {
    const struct staging_transfer transfer = make_staging_transfer(session);
    int rank = session->bound.ranks.index[AXIS_WORLD];
    struct span_position position = {0};
    while (position.span < weights->span_count) {
        int owner =
            /* in the first replica, the shard index is also the world rank */
            weights->spans[position.span].owner;
        struct span_position owner_position = position;
        int64_t count = copy_owner_elements(
            weights, &transfer, rank == owner ? INTO_STAGING : SKIP_ELEMENTS, &owner_position);
        if (owner != 0) {
            broadcast_staged(session, owner, count);
        }
        (void)copy_owner_elements(weights, &transfer, rank == 0 ? INTO_FLAT : SKIP_ELEMENTS,
                                  &position);
    }
}

/* Stores the staged values that belong to `piece`. The staged values start at element `begin` of
 * the flat space. */
static void store_piece(const struct inner_piece *piece, const struct staging_transfer *transfer,
                        int64_t begin, int64_t count) {
    struct fault never; /* required by the call, but access to host memory cannot fail */
    int64_t first = piece->begin > begin ? piece->begin : begin;
    int64_t end = min_i64(piece->begin + piece_range_elements(&piece->piece), begin + count);
    if (first < end) {
        enum status status = piece_set_values(&piece->piece, first - piece->begin, end - first,
                                              transfer->values + (first - begin),
                                              &transfer->conversion_scratch, &never);
        ASSERT(status == OK);
    }
}

void inner_weights_scatter(struct session *session, const struct inner_weights *weights) {
    const struct staging_transfer transfer = make_staging_transfer(session);
    for (int64_t begin = 0; begin < weights->count; begin += transfer.values_max) {
        int64_t count = min_i64(weights->count - begin, transfer.values_max);
        if (weights->flat_copy != NULL) {
            memcpy(transfer.values, weights->flat_copy + begin, (size_t)count * sizeof(float));
        }
        broadcast_staged(session, 0, count);
        for (int i = 0; i < weights->piece_count; i++) {
            store_piece(&weights->pieces[i], &transfer, begin, count);
        }
    }
}
