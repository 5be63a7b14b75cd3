#include "runtime/swarm/replica/leaf_fetch.h"

#include "runtime/swarm/replica/replica_state.h"

#include "base/clock.h"

#include <string.h>

enum {
    /* timeout of a source's first result, in units of timeout_ns */
    FIRST_RESULT_TIMEOUT_FACTOR = 8,
    /* shortest timeout of a source's later results, in units of timeout_ns */
    RESULT_TIMEOUT_MIN_FACTOR = 2,
    /* timeout of a later result, in units of the duration of the source's latest result */
    RESULT_TIMEOUT_FACTOR = 6,
    STEP_TIMEOUT_S = 30, /* time without a new result before a step is dropped */
};

size_t leaf_replay_memory_bytes(uint32_t slice_count) {
    return (size_t)REPLAY_STEPS_MAX * slice_count * sizeof(struct replay_slice);
}

void leaf_replay_init(struct leaf_replay *replay, void *memory, struct replica *replica,
                      struct replay_callbacks callbacks) {
    uint32_t slice_count = replica->shape.slices.count;
    memset(replay, 0, sizeof(*replay));
    replay->replica = replica;
    replay->callbacks = callbacks;
    for (uint32_t i = 0; i < REPLAY_STEPS_MAX; i++) {
        replay->steps[i].slices = (struct replay_slice *)memory + (size_t)i * slice_count;
    }
}

static uint32_t slice_count_of(const struct leaf_replay *replay) {
    return replay->replica->shape.slices.count;
}

static uint64_t source_bit(uint32_t source) {
    return UINT64_C(1) << source;
}

static void cancel_request(struct leaf_replay *replay, struct replay_slice *slice) {
    ASSERT(slice->state == RESULT_REQUESTED);
    replay->pending[slice->source]--;
    slice->state = RESULT_MISSING;
}

/* Cancels the requests of a step to the sources in the mask `sources`. */
static void cancel_requests(struct leaf_replay *replay, struct replay_step *step,
                            uint64_t sources) {
    for (uint32_t s = 0; s < slice_count_of(replay); s++) {
        struct replay_slice *slice = &step->slices[s];
        if (slice->state == RESULT_REQUESTED && (sources & source_bit(slice->source)) != 0) {
            cancel_request(replay, slice);
        }
    }
}

void leaf_replay_cancel_requests(struct leaf_replay *replay) {
    for (uint32_t i = 0; i < replay->step_count; i++) {
        cancel_requests(replay, &replay->steps[i], UINT64_MAX);
    }
}

void leaf_replay_drop_steps(struct leaf_replay *replay) {
    leaf_replay_cancel_requests(replay);
    replay->step_count = 0;
}

void leaf_replay_set_source_connected(struct leaf_replay *replay, uint32_t source,
                                      bool is_connected) {
    ASSERT(source < REPLAY_SOURCES_MAX);
    uint64_t others = replay->connected & ~source_bit(source);
    replay->connected = is_connected ? others | source_bit(source) : others;
    for (uint32_t i = 0; i < replay->step_count && !is_connected; i++) {
        cancel_requests(replay, &replay->steps[i], source_bit(source));
    }
}

/* ---- steps ---- */

/* Removes the oldest step and keeps its table for the next step to be added. */
static void drop_oldest_step(struct leaf_replay *replay) {
    struct replay_step first = replay->steps[0];
    cancel_requests(replay, &first, UINT64_MAX);
    for (uint32_t i = 1; i < replay->step_count; i++) {
        replay->steps[i - 1] = replay->steps[i];
    }
    replay->steps[--replay->step_count] = first;
}

/* Marks as missing the results of the slices that overlap a leaf to which this step will be
 * applied. */
static void mark_needed_results(struct leaf_replay *replay, struct replay_step *step,
                                const uint32_t *versions) {
    const struct slices *slices = &replay->replica->shape.slices;
    uint64_t leaf_count = replica_leaf_count(slices);
    for (uint64_t leaf = 0; leaf < leaf_count; leaf++) {
        struct replica_chunk elements = replica_chunk_of_leaf(replay->replica, leaf);
        int64_t begin = elements.begin;
        int64_t end = begin + elements.count;
        bool needs_step = versions[leaf] > 0 && versions[leaf] <= step->from_version;
        for (int64_t s = begin / slices->elements; needs_step && s * slices->elements < end; s++) {
            step->missing_count += step->slices[s].state == RESULT_UNUSED;
            step->slices[s].state = RESULT_MISSING;
        }
    }
}

uint32_t leaf_replay_add_step(struct leaf_replay *replay, const struct entry *commit,
                              uint64_t sources, uint32_t from_version, const uint32_t *versions) {
    uint32_t slice_count = slice_count_of(replay);
    ASSERT(commit->slice_count == slice_count);
    uint32_t first_valid = 0;
    for (uint32_t i = replay->step_count; i > 0 && first_valid == 0; i--) {
        const struct replay_step *older = &replay->steps[i - 1];
        bool shares_row = older->round % RESULT_ROUNDS == commit->round % RESULT_ROUNDS;
        first_valid = shares_row ? older->from_version + 1 : 0;
    }
    while (replay->step_count > 0 && replay->steps[0].from_version < first_valid) {
        drop_oldest_step(replay);
    }
    ASSERT(replay->step_count < REPLAY_STEPS_MAX);
    struct replay_step *step = &replay->steps[replay->step_count++];
    *step = (struct replay_step){.round = commit->round,
                                 .members = commit->seat_count,
                                 .from_version = from_version,
                                 .sources = sources,
                                 .slices = step->slices};
    for (uint32_t s = 0; s < slice_count; s++) {
        step->slices[s] =
            (struct replay_slice){.epoch = commit->slices[s].epoch, .hash = commit->slices[s].hash};
    }
    mark_needed_results(replay, step, versions);
    return first_valid;
}

const struct replay_step *leaf_replay_ready_step(const struct leaf_replay *replay) {
    bool is_ready = replay->step_count > 0 && replay->steps[0].missing_count == 0;
    return is_ready ? &replay->steps[0] : NULL;
}

void leaf_replay_remove_step(struct leaf_replay *replay) {
    ASSERT(leaf_replay_ready_step(replay) != NULL);
    drop_oldest_step(replay);
}

/* ---- results ---- */

static int64_t result_timeout_ns(const struct leaf_replay *replay, uint32_t source) {
    int64_t response_ns = replay->response_ns[source];
    int64_t min_ns = (response_ns == 0 ? FIRST_RESULT_TIMEOUT_FACTOR : RESULT_TIMEOUT_MIN_FACTOR) *
                     replay->timeout_ns;
    return RESULT_TIMEOUT_FACTOR * response_ns > min_ns ? RESULT_TIMEOUT_FACTOR * response_ns
                                                        : min_ns;
}

/* Chooses the source of the next request for a result. Returns false if no source is connected, or
 * if the chosen one has too many unanswered requests. Slices start with different sources, which
 * spreads the load; each retry uses the next source. */
static bool find_source(const struct leaf_replay *replay, uint64_t sources,
                        const struct replay_request *request, uint32_t timeouts, uint32_t *source) {
    uint32_t count = (uint32_t)__builtin_popcountll(sources);
    uint32_t skip = count > 0 ? (request->slice + timeouts) % count : 0;
    for (; skip > 0; skip--) {
        sources &= sources - 1;
    }
    *source = count > 0 ? (uint32_t)__builtin_ctzll(sources) : 0;
    return count > 0 && replay->pending[*source] < REPLAY_REQUESTS_MAX;
}

static void request_slice_result(struct leaf_replay *replay, struct replay_step *step,
                                 uint32_t index, int64_t now_ns) {
    struct replay_slice *slice = &step->slices[index];
    struct replay_request request = {step->round, index, slice->epoch, slice->hash};
    uint32_t source;
    if (slice->state == RESULT_REQUESTED &&
        now_ns - slice->sent_ns > result_timeout_ns(replay, slice->source)) {
        cancel_request(replay, slice);
        slice->timeouts++;
    }
    if (slice->state == RESULT_MISSING &&
        find_source(replay, replay->connected & step->sources, &request, slice->timeouts,
                    &source) &&
        replay->callbacks.request_result(replay->callbacks.context, source, &request)) {
        slice->state = RESULT_REQUESTED;
        slice->source = source;
        slice->sent_ns = now_ns;
        replay->pending[source]++;
    }
}

uint32_t leaf_replay_send_requests(struct leaf_replay *replay, int64_t now_ns) {
    for (uint32_t i = 0; i < replay->step_count; i++) {
        struct replay_step *step = &replay->steps[i];
        step->last_result_ns = step->last_result_ns > 0 ? step->last_result_ns : now_ns;
        for (uint32_t s = 0; step->missing_count > 0 && s < slice_count_of(replay); s++) {
            request_slice_result(replay, step, s, now_ns);
        }
    }
    const struct replay_step *oldest = &replay->steps[0];
    if (replay->step_count == 0 || oldest->missing_count == 0 ||
        now_ns - oldest->last_result_ns < STEP_TIMEOUT_S * NS_PER_SECOND) {
        return 0;
    }
    uint32_t first_valid = oldest->from_version + 1;
    drop_oldest_step(replay);
    return first_valid;
}

bool leaf_replay_accept_result(struct leaf_replay *replay, uint32_t source,
                               const struct replay_request *result, int64_t now_ns) {
    for (uint32_t i = 0; i < replay->step_count; i++) {
        struct replay_step *step = &replay->steps[i];
        if (step->round != result->round || result->slice >= slice_count_of(replay)) {
            continue;
        }
        struct replay_slice *slice = &step->slices[result->slice];
        if ((slice->state != RESULT_MISSING && slice->state != RESULT_REQUESTED) ||
            !hash_equal(&slice->hash, &result->hash)) {
            return false;
        }
        if (slice->state == RESULT_REQUESTED) {
            bool is_answer = slice->source == source;
            replay->response_ns[source] =
                is_answer ? now_ns - slice->sent_ns : replay->response_ns[source];
            cancel_request(replay, slice);
        }
        slice->state = RESULT_STORED;
        step->missing_count--;
        step->last_result_ns = now_ns;
        return true;
    }
    return false;
}
