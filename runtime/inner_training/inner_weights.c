#include "runtime/inner_training/inner_weights.h"

#include "base/bytes.h"
#include "runtime/session/rank_parts.h"

/* ---- plan ---- */

/* The span of a parameter, which begins at `begin` of the flat space, that shard `owner` owns. */
static bool span_of(const struct session *session, int index, int owner, int64_t begin,
                    struct inner_span *span) {
    const struct rank_indices *ranks = &session->bound.ranks;
    struct tensor_piece piece;
    int64_t first;
    int64_t count;
    if (!rank_parts_range(session, index, VIEW_MASTER, owner, &first, &count)) {
        return false;
    }
    *span = (struct inner_span){.owner = owner, .begin = begin + first, .count = count};
    if (ranks->index[AXIS_WORLD] == owner) {
        bool is_stored = rank_parts_piece(session, index, VIEW_MASTER, PART_SAVED, &piece);
        ASSERT(is_stored && piece.dtype == DTYPE_F32 && piece.device_memory == NULL);
        ASSERT(piece.first == first && piece.count == count);
        span->values = piece.memory;
    }
    return true;
}

/* Returns the number of spans; lists them unless `spans` is NULL. */
static int list_spans(const struct session *session, struct inner_span *spans) {
    const struct blueprint *blueprint = &session->blueprint;
    struct inner_span span;
    int count = 0;
    for (int owner = 0; owner < session->bound.ranks.size[AXIS_SHARD]; owner++) {
        int64_t begin = 0;
        for (int i = 0; i < blueprint->param_count; i++) {
            if (span_of(session, i, owner, begin, &span)) {
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

static int64_t begin_of(const struct blueprint *blueprint, const char *name) {
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
            .begin = begin_of(&session->blueprint, pieces[i].name) + pieces[i].first};
    }
}

void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights) {
    struct inner_weights made = {.flat = flat, .count = blueprint_elements(&session->blueprint)};
    ASSERT((session->bound.ranks.index[AXIS_WORLD] == 0) == (flat != NULL));
    made.span_count = list_spans(session, NULL);
    made.spans = region_alloc(&session->region, (size_t)made.span_count, sizeof *made.spans);
    (void)list_spans(session, made.spans);
    list_pieces(session, &made);
    *weights = made;
}

/* ---- move ---- */

/* One half of the staging buffer holds the weights that are broadcast; the other half is for
 * conversions. */
struct passage {
    float *values;
    int64_t values_max;
    struct staging rest;
};

static struct passage passage_of(const struct session *session) {
    const struct staging staging = session_staging(session);
    size_t half = staging.bytes / 2;
    return (struct passage){.values = staging.memory,
                            .values_max = (int64_t)(half / sizeof(float)),
                            .rest = {.memory = (char *)staging.memory + half, .bytes = half}};
}

/* Copies the first `count` values of the root to all ranks. */
static void broadcast(struct session *session, int root, int64_t count) {
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
struct walk {
    int span;
    int64_t done; /* elements of the span */
};

enum direction { SKIP, INTO_STAGING, INTO_FLAT };

/* Copies or skips the elements of one owner that follow *walk, as many as fit into staging, and
 * advances *walk. Returns their number. */
static int64_t pass(const struct inner_weights *weights, const struct passage *passage,
                    enum direction direction, struct walk *walk) {
    int owner = weights->spans[walk->span].owner;
    int64_t count = 0;
    while (count < passage->values_max && walk->span < weights->span_count &&
           weights->spans[walk->span].owner == owner) {
        const struct inner_span *span = &weights->spans[walk->span];
        int64_t part = min_i64(span->count - walk->done, passage->values_max - count);
        size_t bytes = (size_t)part * sizeof(float);
        if (direction == INTO_STAGING) {
            memcpy(passage->values + count, span->values + walk->done, bytes);
        } else if (direction == INTO_FLAT) {
            memcpy(weights->flat + span->begin + walk->done, passage->values + count, bytes);
        }
        count += part;
        walk->done += part;
        if (walk->done == span->count) {
            *walk = (struct walk){.span = walk->span + 1};
        }
    }
    return count;
}

void inner_weights_gather(struct session *session, const struct inner_weights *weights) {
    const struct passage passage = passage_of(session);
    int rank = session->bound.ranks.index[AXIS_WORLD];
    struct walk walk = {0};
    while (walk.span < weights->span_count) {
        int owner =
            weights->spans[walk.span].owner; /* its world rank too: it is in the first replica */
        struct walk ahead = walk;
        int64_t count = pass(weights, &passage, rank == owner ? INTO_STAGING : SKIP, &ahead);
        if (owner != 0) {
            broadcast(session, owner, count);
        }
        (void)pass(weights, &passage, rank == 0 ? INTO_FLAT : SKIP, &walk);
    }
}

/* Stores the part of the staged values, which begin at `begin` of the flat space, that belongs to a
 * piece. */
static void put(const struct inner_piece *piece, const struct passage *passage, int64_t begin,
                int64_t count) {
    struct fault never; /* host memory cannot fail */
    int64_t first = piece->begin > begin ? piece->begin : begin;
    int64_t end = min_i64(piece->begin + piece_count(&piece->piece), begin + count);
    if (first < end) {
        enum status status = piece_put(&piece->piece, first - piece->begin, end - first,
                                       passage->values + (first - begin), &passage->rest, &never);
        ASSERT(status == OK);
    }
}

void inner_weights_scatter(struct session *session, const struct inner_weights *weights) {
    const struct passage passage = passage_of(session);
    for (int64_t begin = 0; begin < weights->count; begin += passage.values_max) {
        int64_t count = min_i64(weights->count - begin, passage.values_max);
        if (weights->flat != NULL) {
            memcpy(passage.values, weights->flat + begin, (size_t)count * sizeof(float));
        }
        broadcast(session, 0, count);
        for (int i = 0; i < weights->piece_count; i++) {
            put(&weights->pieces[i], &passage, begin, count);
        }
    }
}
