/* member_checks: sketches of this member's contribution, and checks of the sums of a proposal. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/member_run_state.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/replica/opposition.h"
#include "runtime/swarm/replica/sum_check.h"

#include <stdatomic.h>
#include <string.h>

struct check_work { /* arguments of the functions that handle one slice */
    const struct replica *replica;
    const struct member_job *job;
    _Atomic uint32_t first_failed; /* lowest slice whose check failed */
};

static size_t sketch_offset(uint32_t slice) {
    return (size_t)slice * SKETCH_BYTES;
}

/* Computes the sketches of one slice. Slices to which this member did not contribute have sketches
 * of zeros. */
static void sketch_slice(void *context, int64_t item, int thread) {
    (void)thread;
    const struct check_work *work = context;
    const struct member_job *job = work->job;
    const uint32_t slice = (uint32_t)item;
    uint8_t *sketch = job->own_sketches + sketch_offset(slice);
    memset(sketch, 0, SKETCH_BYTES);
    if ((job->entry->slices[slice].contributors >> job->seat & 1) != 0) {
        sum_check_sketch(work->replica, slice, &job->seed,
                         replica_own_contribution(work->replica, slice), sketch);
    }
}

static bool passes_sum_check(const struct check_work *work, uint32_t slice) {
    const struct member_job *job = work->job;
    const struct entry *entry = job->entry;
    struct sum_part parts[SWARM_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const struct entry_member *member = &entry->members[seat];
        if ((entry->slices[slice].contributors >> seat & 1) == 0 || member->weight == 0) {
            continue;
        }
        bool is_missing = (job->silent >> seat & 1) != 0;
        parts[count++] = (struct sum_part){
            .sketch = is_missing ? NULL : job->sketches[seat] + sketch_offset(slice),
            .weight = member->weight,
            .clip = norms_clip_factor(member->norm, entry->reference_norm),
            .norm = member->norm};
    }
    return sum_check_matches_parts(work->replica, entry->round, slice, &job->seed, parts, count);
}

static void check_slice(void *context, int64_t item, int thread) {
    (void)thread;
    struct check_work *work = context;
    const uint32_t slice = work->job->slice + (uint32_t)item;
    if (passes_sum_check(work, slice)) {
        return;
    }
    uint32_t failed = atomic_load(&work->first_failed);
    while (slice < failed && !atomic_compare_exchange_weak(&work->first_failed, &failed, slice)) {
    }
}

/* Returns a refusal if a contribution of the job differs from the sketch that its member sent;
 * REFUSAL_NONE if all are equal. Members whose sketches are missing are left out. */
static struct message_refusal compare_sketches(const struct replica *replica,
                                               const struct member_job *job) {
    struct message_refusal refusal = {.reason = REFUSAL_NONE};
    uint32_t addend = 0;
    for (uint32_t seat = 0; seat < job->entry->seat_count; seat++) {
        if ((job->contributors >> seat & 1) == 0) {
            continue;
        }
        uint8_t sketch[SKETCH_BYTES];
        const uint8_t *bytes = job->addends[addend++].bytes;
        if ((job->silent >> seat & 1) != 0 || (int)seat == job->seat ||
            job->entry->members[seat].weight == 0) {
            continue;
        }
        sum_check_sketch(replica, job->slice, &job->seed, bytes, sketch);
        if (memcmp(sketch, job->sketches[seat] + sketch_offset(job->slice), sizeof sketch) != 0) {
            refusal = (struct message_refusal){.reason = REFUSAL_SKETCH, .suspect = seat};
        }
    }
    return refusal;
}

/* Audits a slice: compares contributions with their sketches, and recomputes the result if all are
 * present. If the recomputed result differs from the owner's, the refusal is REFUSAL_SUM, even if a
 * sketch differs too: an owner of a false result may send a false sketch to hide it. */
static struct message_refusal recheck_slice(const struct replica *replica,
                                            const struct member_job *job) {
    const struct entry_slice *slice = &job->entry->slices[job->slice];
    struct message_refusal refusal = {.reason = REFUSAL_NONE};
    if (sum_check_has_sketches(&replica->shape.slices)) {
        refusal = compare_sketches(replica, job);
    }
    if (job->contributors != slice->contributors) {
        return refusal;
    }
    const struct hash hash =
        sum_check_recompute(replica, job->slice, job->addends, job->addend_count);
    return hash_equal(&hash, &slice->hash)
               ? refusal
               : (struct message_refusal){.reason = REFUSAL_SUM, .suspect = slice->owner};
}

static void write_member_id(const struct entry *entry, uint32_t seat,
                            char id[static HASH_HEX_BYTES]) {
    struct hash key;
    memcpy(key.bytes, entry->seats[seat].id.bytes, sizeof key.bytes);
    hash_hex(&key, id);
}

static void log_recheck(const struct member_job *job, const struct message_refusal *refusal) {
    char id[HASH_HEX_BYTES];
    write_member_id(job->entry, refusal->suspect, id);
    if (refusal->reason == REFUSAL_NONE) {
        log_line(LOG_INFO,
                 "round %u, slice %u: the result is correct: it matches the contributions",
                 job->entry->round, job->slice);
    } else {
        log_line(LOG_WARNING,
                 "round %u, slice %u: %s of member %.12s is wrong; this member votes against it",
                 job->entry->round, job->slice,
                 refusal->reason == REFUSAL_SUM ? "the sum" : "the sketch", id);
    }
}

/* Logs contributions that point in the opposite direction to the others, and returns their seats.
 * The data of an honest member may have that effect in single rounds. */
static uint64_t find_opposed_contributions(const struct member_job *job) {
    const struct entry *entry = job->entry;
    const struct opposition_round round = {entry, job->sketches, job->silent};
    struct opposition_measure measures[SWARM_MEMBERS_MAX];
    const uint64_t opposed = opposition_find(&round, measures);
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        const bool is_opposed = (opposed >> seat & 1) != 0;
        char id[HASH_HEX_BYTES];
        write_member_id(entry, seat, id);
        log_line(is_opposed ? LOG_INFO : LOG_DEBUG,
                 "round %u: contribution of member %.12s%s: cosine with the others %.3f, "
                 "standard deviation %.3f",
                 entry->round, id, is_opposed ? " is opposed to the others" : "",
                 measures[seat].cosine, measures[seat].deviation);
    }
    return opposed;
}

static double ms_between(int64_t begin_ns, int64_t end_ns) {
    return (double)(end_ns - begin_ns) / NS_PER_MS;
}

/* Logs the duration of a job, and of a check also the wait before it, which began when the results
 * had been stored. */
static void log_check_time(const struct member_run *member, const struct member_job *job,
                           int64_t begin_ns) {
    const int64_t now_ns = clock_monotonic_ns();
    if (job->kind == ACTION_SKETCH) {
        log_line(LOG_DEBUG, "round %u: sketching this member's contribution took %.1f ms",
                 job->entry->round, ms_between(begin_ns, now_ns));
    } else if (job->kind == ACTION_CHECK) {
        log_line(LOG_DEBUG,
                 "round %u: waited %.1f ms for the sketches of the others; comparing them with the "
                 "results took %.1f ms",
                 job->entry->round, ms_between(member->job_ended_ns, begin_ns),
                 ms_between(begin_ns, now_ns));
    }
}

void member_check_execute(struct member_run *member, const struct member_job *job) {
    const int64_t begin_ns = clock_monotonic_ns();
    struct replica *replica = &member->outer.replica;
    struct check_work work = {replica, job, replica->shape.slices.count};
    struct event event = {.job = job->job};
    switch (job->kind) {
    case ACTION_SKETCH:
        event.kind = EVENT_SKETCHED;
        pool_run(replica->compute->pool, sketch_slice, &work, replica->shape.slices.count);
        break;
    case ACTION_CHECK:
        event.kind = EVENT_CHECKED;
        pool_run(replica->compute->pool, check_slice, &work,
                 (int64_t)replica->shape.slices.count - job->slice);
        event.slice = atomic_load(&work.first_failed);
        if (event.slice == replica->shape.slices.count) {
            event.opposed = find_opposed_contributions(job);
        }
        break;
    default:
        event.kind = EVENT_RECHECKED;
        event.refusal = recheck_slice(replica, job);
        log_recheck(job, &event.refusal);
        break;
    }
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
    log_check_time(member, job, begin_ns);
}
