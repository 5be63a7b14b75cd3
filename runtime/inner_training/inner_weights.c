#include "runtime/inner_training/inner_weights.h"

#include "runtime/session/parts.h"

#include <string.h>

/* ---- plan ---- */

/* What shard `owner` owns of a parameter that begins at `begin` of the flat space. */
static bool run_of(const struct session *session, int index, int owner, int64_t begin,
                   struct inner_span *run) {
    const struct rank_indices *ranks = &session->bound.ranks;
    struct tensor_piece piece;
    int64_t first;
    int64_t count;
    if (!rank_parts_range(session, index, VIEW_MASTER, owner, &first, &count)) {
        return false;
    }
    *run = (struct inner_span){.owner = owner, .begin = begin + first, .count = count};
    if (ranks->of[AXIS_WORLD] == owner) {
        bool here = rank_parts_piece(session, index, VIEW_MASTER, PART_SAVED, &piece);
        ASSERT(here && piece.dtype == DTYPE_F32 && piece.far == NULL);
        ASSERT(piece.first == first && piece.count == count);
        run->values = piece.memory;
    }
    return true;
}

/* Without a table: how many runs there are. */
static int list_runs(const struct session *session, struct inner_span *runs) {
    const struct blueprint *blueprint = &session->blueprint;
    struct inner_span run;
    int count = 0;
    for (int owner = 0; owner < session->bound.ranks.size[AXIS_SHARD]; owner++) {
        int64_t begin = 0;
        for (int i = 0; i < blueprint->param_count; i++) {
            if (run_of(session, i, owner, begin, &run)) {
                if (runs != NULL) {
                    runs[count] = run;
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

static void list_held(struct session *session, struct inner_weights *weights) {
    struct tensor_piece *pieces;
    weights->held_count = rank_parts_of_weights(session, &pieces);
    weights->held =
        region_alloc(&session->region, (size_t)weights->held_count, sizeof *weights->held);
    for (int i = 0; i < weights->held_count; i++) {
        weights->held[i] = (struct inner_piece){
            .piece = pieces[i],
            .begin = begin_of(&session->blueprint, pieces[i].name) + pieces[i].first};
    }
}

void inner_weights_plan(struct session *session, float *flat, struct inner_weights *weights) {
    struct inner_weights made = {.flat = flat, .count = blueprint_elements(&session->blueprint)};
    ASSERT((session->bound.ranks.of[AXIS_WORLD] == 0) == (flat != NULL));
    made.run_count = list_runs(session, NULL);
    made.runs = region_alloc(&session->region, (size_t)made.run_count, sizeof *made.runs);
    (void)list_runs(session, made.runs);
    list_held(session, &made);
    *weights = made;
}

/* ---- move ---- */

/* A stretch of weights on its way, in the half of the staging buffer that is broadcast; the other
 * half is for conversions. */
struct passage {
    float *values;
    int64_t room;
    struct staging rest;
};

static struct passage passage_of(const struct session *session) {
    const struct staging staging = session_staging(session);
    size_t half = staging.bytes / 2;
    return (struct passage){.values = staging.memory,
                            .room = (int64_t)(half / sizeof(float)),
                            .rest = {.memory = (char *)staging.memory + half, .bytes = half}};
}

/* The first `count` values of the stretch become the root's on all ranks. */
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

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Where a walk over the runs is. */
struct walk {
    int run;
    int64_t done; /* of it */
};

enum direction { PASS_BY, INTO_STRETCH, INTO_FLAT };

/* The elements of one owner that follow *walk, at most a stretch of them: copied, or passed by.
 * *walk moves on behind them. Gives how many. */
static int64_t pass(const struct inner_weights *weights, const struct passage *passage,
                    enum direction direction, struct walk *walk) {
    int owner = weights->runs[walk->run].owner;
    int64_t count = 0;
    while (count < passage->room && walk->run < weights->run_count &&
           weights->runs[walk->run].owner == owner) {
        const struct inner_span *run = &weights->runs[walk->run];
        int64_t some = least(run->count - walk->done, passage->room - count);
        size_t bytes = (size_t)some * sizeof(float);
        if (direction == INTO_STRETCH) {
            memcpy(passage->values + count, run->values + walk->done, bytes);
        } else if (direction == INTO_FLAT) {
            memcpy(weights->flat + run->begin + walk->done, passage->values + count, bytes);
        }
        count += some;
        walk->done += some;
        if (walk->done == run->count) {
            *walk = (struct walk){.run = walk->run + 1};
        }
    }
    return count;
}

void inner_weights_gather(struct session *session, const struct inner_weights *weights) {
    const struct passage passage = passage_of(session);
    int rank = session->bound.ranks.of[AXIS_WORLD];
    struct walk walk = {0};
    while (walk.run < weights->run_count) {
        int owner = weights->runs[walk.run].owner; /* a rank of the first replica: its world rank */
        struct walk ahead = walk;
        int64_t count = pass(weights, &passage, rank == owner ? INTO_STRETCH : PASS_BY, &ahead);
        if (owner != 0) {
            broadcast(session, owner, count);
        }
        (void)pass(weights, &passage, rank == 0 ? INTO_FLAT : PASS_BY, &walk);
    }
}

/* What of the stretch, which begins at `begin` of the flat space, belongs into a held piece. */
static void put(const struct inner_piece *held, const struct passage *passage, int64_t begin,
                int64_t count) {
    struct fault never; /* memory of the host */
    int64_t first = held->begin > begin ? held->begin : begin;
    int64_t end = least(held->begin + piece_count(&held->piece), begin + count);
    if (first < end) {
        enum status status = piece_put(&held->piece, first - held->begin, end - first,
                                       passage->values + (first - begin), &passage->rest, &never);
        ASSERT(status == OK);
    }
}

void inner_weights_scatter(struct session *session, const struct inner_weights *weights) {
    const struct passage passage = passage_of(session);
    for (int64_t begin = 0; begin < weights->count; begin += passage.room) {
        int64_t count = least(weights->count - begin, passage.room);
        if (weights->flat != NULL) {
            memcpy(passage.values, weights->flat + begin, (size_t)count * sizeof(float));
        }
        broadcast(session, 0, count);
        for (int i = 0; i < weights->held_count; i++) {
            put(&weights->held[i], &passage, begin, count);
        }
    }
}
