#include "runtime/swarm/replica/leaf_replay.h"

#include <string.h>

static const int64_t SECOND_NS = 1000000000;

enum {
    FIRST_FACTOR = 8, /* times the patience: for a result from a source that has sent none yet */
    LEAST_FACTOR = 2,
    WAIT_FACTOR = 6, /* times what its last one took */
    GIVE_UP_S = 30,  /* without any result of a step that are lacking: nobody has them */
};

size_t leaf_replay_bytes(uint32_t slice_count) {
    return (size_t)REPLAY_STEPS_MAX * slice_count * sizeof(struct replay_slice);
}

void leaf_replay_bind(struct leaf_replay *forward, void *memory, struct replica *replica,
                      struct replay_callbacks way) {
    uint32_t slice_count = replica->shape.slices.count;
    memset(forward, 0, sizeof(*forward));
    forward->replica = replica;
    forward->way = way;
    for (uint32_t i = 0; i < REPLAY_STEPS_MAX; i++) {
        forward->steps[i].slices = (struct replay_slice *)memory + (size_t)i * slice_count;
    }
}

static uint32_t slice_count_of(const struct leaf_replay *forward) {
    return forward->replica->shape.slices.count;
}

static uint64_t bit_of(uint32_t source) {
    return UINT64_C(1) << source;
}

static void not_asked(struct leaf_replay *forward, struct replay_slice *slice) {
    ASSERT(slice->state == RESULT_ASKED);
    forward->asked[slice->source]--;
    slice->state = RESULT_LACKING;
}

/* What of a step is asked of these sources is not any more. */
static void ask_no_more(struct leaf_replay *forward, struct replay_step *step, uint64_t sources) {
    for (uint32_t s = 0; s < slice_count_of(forward); s++) {
        struct replay_slice *slice = &step->slices[s];
        if (slice->state == RESULT_ASKED && (sources & bit_of(slice->source)) != 0) {
            not_asked(forward, slice);
        }
    }
}

void leaf_replay_stop(struct leaf_replay *forward) {
    for (uint32_t i = 0; i < forward->step_count; i++) {
        ask_no_more(forward, &forward->steps[i], UINT64_MAX);
    }
}

void leaf_replay_reset(struct leaf_replay *forward) {
    leaf_replay_stop(forward);
    forward->step_count = 0;
}

void leaf_replay_set_source(struct leaf_replay *forward, uint32_t source, bool is_there) {
    ASSERT(source < REPLAY_SOURCES_MAX);
    uint64_t others = forward->there & ~bit_of(source);
    forward->there = is_there ? others | bit_of(source) : others;
    for (uint32_t i = 0; i < forward->step_count && !is_there; i++) {
        ask_no_more(forward, &forward->steps[i], bit_of(source));
    }
}

/* ---- steps ---- */

/* The first step goes; its tables are used for the next that comes. */
static void take_off(struct leaf_replay *forward) {
    struct replay_step first = forward->steps[0];
    ask_no_more(forward, &first, UINT64_MAX);
    for (uint32_t i = 1; i < forward->step_count; i++) {
        forward->steps[i - 1] = forward->steps[i];
    }
    forward->steps[--forward->step_count] = first;
}

/* Which slices lie over leaves that are to take this step. */
static void mark_used(struct leaf_replay *forward, struct replay_step *step,
                      const uint32_t *places) {
    const struct slices *slices = &forward->replica->shape.slices;
    uint64_t leaf_count = replica_leaf_count(slices->parameter_count);
    for (uint64_t leaf = 0; leaf < leaf_count; leaf++) {
        int64_t begin = (int64_t)leaf * LEAF_ELEMENTS;
        int64_t left = slices->parameter_count - begin;
        int64_t end = begin + (left < LEAF_ELEMENTS ? left : LEAF_ELEMENTS);
        bool is_to = places[leaf] > 0 && places[leaf] <= step->from;
        for (int64_t s = begin / slices->elements; is_to && s * slices->elements < end; s++) {
            step->lacking += step->slices[s].state == RESULT_UNUSED;
            step->slices[s].state = RESULT_LACKING;
        }
    }
}

uint32_t leaf_replay_add(struct leaf_replay *forward, const struct entry *commit, uint64_t sources,
                         uint32_t from, const uint32_t *places) {
    uint32_t slice_count = slice_count_of(forward);
    ASSERT(commit->slice_count == slice_count);
    uint32_t lost = 0;
    for (uint32_t i = forward->step_count; i > 0 && lost == 0; i--) {
        const struct replay_step *older = &forward->steps[i - 1];
        bool has_its_row = older->round % RESULT_ROUNDS == commit->round % RESULT_ROUNDS;
        lost = has_its_row ? older->from + 1 : 0;
    }
    while (forward->step_count > 0 && forward->steps[0].from < lost) {
        take_off(forward);
    }
    ASSERT(forward->step_count < REPLAY_STEPS_MAX);
    struct replay_step *step = &forward->steps[forward->step_count++];
    *step = (struct replay_step){
        .round = commit->round, .from = from, .sources = sources, .slices = step->slices};
    for (uint32_t s = 0; s < slice_count; s++) {
        step->slices[s] =
            (struct replay_slice){.epoch = commit->slices[s].epoch, .hash = commit->slices[s].hash};
    }
    mark_used(forward, step, places);
    return lost;
}

const struct replay_step *leaf_replay_ready(const struct leaf_replay *forward) {
    bool is_ready = forward->step_count > 0 && forward->steps[0].lacking == 0;
    return is_ready ? &forward->steps[0] : NULL;
}

void leaf_replay_step_done(struct leaf_replay *forward) {
    ASSERT(leaf_replay_ready(forward) != NULL);
    take_off(forward);
}

/* ---- results ---- */

static int64_t wait_ns(const struct leaf_replay *forward, uint32_t source) {
    int64_t took_ns = forward->took_ns[source];
    int64_t least_ns = (took_ns == 0 ? FIRST_FACTOR : LEAST_FACTOR) * forward->patience_ns;
    return WAIT_FACTOR * took_ns > least_ns ? WAIT_FACTOR * took_ns : least_ns;
}

/* Each slice begins with another source; in vain, the next one. */
static bool find_source(const struct leaf_replay *forward, uint64_t sources,
                        const struct replay_request *ask, uint32_t turn, uint32_t *source) {
    uint32_t count = (uint32_t)__builtin_popcountll(sources);
    uint32_t skip = count > 0 ? (ask->slice + turn) % count : 0;
    for (; skip > 0; skip--) {
        sources &= sources - 1;
    }
    *source = count > 0 ? (uint32_t)__builtin_ctzll(sources) : 0;
    return count > 0 && forward->asked[*source] < REPLAY_REQUESTS_MAX;
}

static void ask_one(struct leaf_replay *forward, struct replay_step *step, uint32_t index,
                    int64_t now_ns) {
    struct replay_slice *slice = &step->slices[index];
    struct replay_request ask = {step->round, index, slice->epoch, slice->hash};
    uint32_t source;
    if (slice->state == RESULT_ASKED &&
        now_ns - slice->since_ns > wait_ns(forward, slice->source)) {
        not_asked(forward, slice);
        slice->turn++;
    }
    if (slice->state == RESULT_LACKING &&
        find_source(forward, forward->there & step->sources, &ask, slice->turn, &source) &&
        forward->way.ask_result(forward->way.context, source, &ask)) {
        slice->state = RESULT_ASKED;
        slice->source = source;
        slice->since_ns = now_ns;
        forward->asked[source]++;
    }
}

uint32_t leaf_replay_request(struct leaf_replay *forward, int64_t now_ns) {
    for (uint32_t i = 0; i < forward->step_count; i++) {
        struct replay_step *step = &forward->steps[i];
        step->moved_ns = step->moved_ns > 0 ? step->moved_ns : now_ns;
        for (uint32_t s = 0; step->lacking > 0 && s < slice_count_of(forward); s++) {
            ask_one(forward, step, s, now_ns);
        }
    }
    const struct replay_step *oldest = &forward->steps[0];
    if (forward->step_count == 0 || oldest->lacking == 0 ||
        now_ns - oldest->moved_ns < GIVE_UP_S * SECOND_NS) {
        return 0;
    }
    uint32_t lost = oldest->from + 1;
    take_off(forward);
    return lost;
}

bool leaf_replay_on_result(struct leaf_replay *forward, uint32_t source,
                           const struct replay_request *result, int64_t now_ns) {
    for (uint32_t i = 0; i < forward->step_count; i++) {
        struct replay_step *step = &forward->steps[i];
        if (step->round != result->round || result->slice >= slice_count_of(forward)) {
            continue;
        }
        struct replay_slice *slice = &step->slices[result->slice];
        if ((slice->state != RESULT_LACKING && slice->state != RESULT_ASKED) ||
            !hash_equal(&slice->hash, &result->hash)) {
            return false;
        }
        if (slice->state == RESULT_ASKED) {
            bool is_its = slice->source == source;
            forward->took_ns[source] = is_its ? now_ns - slice->since_ns : forward->took_ns[source];
            not_asked(forward, slice);
        }
        slice->state = RESULT_HERE;
        step->lacking--;
        step->moved_ns = now_ns;
        return true;
    }
    return false;
}
