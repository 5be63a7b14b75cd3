#include "tests/unit/swarm/member_scene.h"

#include "base/clock.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/replica/sum_check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
    SAMPLES = 8, /* of a seat in a round */
    SAMPLE_TOKENS = 16,
    NEXT_MS = 20,
    TRAIN_MS = 60, /* for the steps of a round; longer than a state fetch takes */
};

static const struct fixture_shape SHAPE = {.count = 3 * LEAF_ELEMENTS + 777,
                                           .codec = CODEC_INT8,
                                           .members = FIXTURE_MEMBERS_MAX,
                                           .rate = 0.7F,
                                           .momentum = 0.9F};
static const struct hash MANIFEST = {{7, 7, 7}};

/* ---- the compute thread of a site ---- */

static float trained(uint32_t number, uint32_t round, float from, int64_t i) {
    return from + 0.01F * fixture_noise(1000 * (number + 1) + round, i);
}

/* False: a newer job makes these steps pointless. */
static bool take_time(const struct site *site, const struct member_job *work) {
    int64_t until_ns = clock_monotonic_ns() + TRAIN_MS * INT64_C(1000000);
    while (!mailbox_is_job_stale(member_loop_mailbox(site->loop), work->kind) &&
           clock_monotonic_ns() < until_ns) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return !mailbox_is_job_stale(member_loop_mailbox(site->loop), work->kind);
}

static void train(struct site *site, const struct member_job *work) {
    struct replica *replica = &site->replica.replica;
    for (int p = 0; p < replica->part_count; p++) {
        const struct flat_span *part = &replica->parts[p];
        for (int64_t i = 0; i < part->count; i++) {
            int64_t at = part->begin + i;
            *fixture_inner(&site->replica, at) =
                trained(site->number, work->round, replica->params[at], at);
        }
    }
    if (!take_time(site, work)) {
        return;
    }
    uint64_t tokens = 0;
    for (uint32_t r = 0; r < work->range_count; r++) {
        tokens += SAMPLE_TOKENS * (work->ranges[r].end - work->ranges[r].begin);
    }
    ASSERT(replica_encode_contribution(replica));
    struct event event = {.kind = EVENT_TRAINED,
                          .round = work->round,
                          .trained = {tokens, tokens / SAMPLE_TOKENS, 0}};
    event.root = replica_declare_contribution(replica, &event.trained.norm);
    mailbox_post_answer(member_loop_mailbox(site->loop), &event);
}

static void stand_on(struct site *site, const struct hash *root, bool is_adopted) {
    pthread_mutex_lock(&site->scene->lock);
    site->root = *root;
    site->adopted += is_adopted;
    site->applied += !is_adopted;
    pthread_cond_broadcast(&site->scene->changed);
    pthread_mutex_unlock(&site->scene->lock);
}

static void compute(struct site *site, const struct member_job *work) {
    struct replica *replica = &site->replica.replica;
    struct event event = {.job = work->job};
    switch (work->kind) {
    case ACTION_SUM:
        event.kind = EVENT_SUMMED;
        event.hash =
            replica_sum(replica, work->round, work->slice, work->addends, work->addend_count);
        break;
    case ACTION_ROOT:
        event.root = replica_root_after(replica, work->round, work->entry->seat_count);
        member_loop_vote(site->loop, work, &event.root);
        return;
    case ACTION_STORE:
        event.kind = EVENT_STORED;
        break;
    case ACTION_SKETCH:
        event.kind = EVENT_SKETCHED;
        for (uint32_t s = 0; s < replica->shape.slices.count; s++) {
            sum_check_sketch(replica, s, &work->seed, replica_own_contribution(replica, s),
                             work->own_sketches + (size_t)s * SKETCH_BYTES);
        }
        break;
    case ACTION_CHECK:
        event.kind = EVENT_CHECKED;
        event.slice = replica->shape.slices.count;
        break;
    case ACTION_APPLY:
        event.kind = EVENT_APPLIED;
        event.root = replica_apply(replica, work->entry, work->seat);
        stand_on(site, &event.root, false);
        break;
    default:
        ASSERT(work->kind == ACTION_ADOPT);
        replica_refresh_hashes(
            replica); /* hash the bytes again: the state that was fetched is the one requested */
        ASSERT(hash_equal(&replica->root, &work->entry->root));
        replica_clear_feedback(replica);
        replica_reset_inner(replica);
        event.kind = EVENT_APPLIED;
        event.root = replica->root;
        stand_on(site, &event.root, true);
        break;
    }
    mailbox_post_answer(member_loop_mailbox(site->loop), &event);
}

static void leave(struct site *site) {
    pthread_mutex_lock(&site->scene->lock);
    site->has_left = true;
    pthread_cond_broadcast(&site->scene->changed);
    pthread_mutex_unlock(&site->scene->lock);
}

static bool is_over(struct site *site) {
    pthread_mutex_lock(&site->scene->lock);
    bool over = site->is_over;
    pthread_mutex_unlock(&site->scene->lock);
    return over;
}

static void *run_site(void *argument) {
    struct site *site = argument;
    while (!is_over(site)) {
        struct member_job work;
        if (!mailbox_wait_job(member_loop_mailbox(site->loop), NEXT_MS, &work)) {
            continue;
        }
        if (work.kind == ACTION_TRAIN) {
            train(site, &work);
        } else if (work.kind == ACTION_LEFT) {
            leave(site);
        } else {
            compute(site, &work);
        }
    }
    return NULL;
}

static uint32_t site_of(const struct scene *scene, const struct identity *id) {
    uint32_t number = 0;
    while (number < SCENE_SITES &&
           memcmp(scene->sites[number].keys.public_keys.sign, id->bytes, KEY_BYTES) != 0) {
        number++;
    }
    ASSERT(number < SCENE_SITES);
    return number;
}

static void see_contributors(struct scene *scene, const struct entry *entry) {
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        scene->contributed[site_of(scene, &entry->seats[seat].id)] +=
            (uint32_t)(entry->slices[0].contributors >> seat & 1);
    }
}

static bool see_entry(void *context, const struct ledger_chain *checkpoint,
                      const struct entry *entry) {
    (void)checkpoint;
    struct site *site = context;
    if (entry == NULL) {
        return true;
    }
    pthread_mutex_lock(&site->scene->lock);
    ASSERT(site->seen_count < SCENE_SEEN_MAX);
    site->seen[site->seen_count++] = entry->hash;
    if (site->number == 0 && entry->kind == ENTRY_COMMIT) {
        see_contributors(site->scene, entry);
    }
    pthread_cond_broadcast(&site->scene->changed);
    pthread_mutex_unlock(&site->scene->lock);
    return true;
}

/* ---- a scene ---- */

static struct replica *replica_of(struct site *site) {
    return &site->replica.replica;
}

static void make_site(struct scene *scene, uint32_t number) {
    struct site *site = &scene->sites[number];
    struct fault fault;
    site->scene = scene;
    site->number = number;
    keys_generate(&site->keys);
    fixture_replica_make(&SHAPE, &site->replica);
    assert_int_equal(pool_init(&site->pool, 1, &fault), OK);
    kernel_table_init(&site->table, cpu_level_detect());
    site->compute = (struct compute){.table = &site->table, .pool = &site->pool};
    replica_of(site)->compute = &site->compute;
    for (int64_t i = 0; i < SHAPE.count; i++) {
        *fixture_inner(&site->replica, i) = fixture_noise(1, i);
    }
    replica_init_state(replica_of(site));
    site->root = replica_of(site)->root;
}

void site_start(struct site *site) {
    struct scene *scene = site->scene;
    struct fault fault;
    struct member_loop_options options = {
        .keys = &site->keys,
        .tracker = scene->tracker.keys.public_keys,
        .tracker_address = scene->tracker.address,
        .listen = "tcp://127.0.0.1:*",
        .name = "site",
        .manifest = MANIFEST,
        .members_max = FIXTURE_MEMBERS_MAX,
        .bulk_connections = 2,
        .queued_frames = 8,
        .replica = replica_of(site),
        .start = {.sample_tokens = SAMPLE_TOKENS, .root = replica_of(site)->root},
        .ledger_context = site,
        .append_ledger_entry = see_entry};
    memcpy(options.operator_key, scene->tracker.operator_keys.public_keys.sign, KEY_BYTES);
    size_t bytes = (size_t)member_loop_memory_bytes(&options);
    site->tables = aligned_alloc(64, (bytes + 63) / 64 * 64);
    site->is_over = false;
    site->has_left = false;
    site->seen_count = 0;
    if (member_loop_start(&options, site->tables, &site->region, &site->loop, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    assert_int_equal(pthread_create(&site->thread, NULL, run_site, site), 0);
    site->runs = true;
}

/* The network thread ends first, as if the process had been killed. */
void site_stop(struct site *site) {
    pthread_mutex_lock(&site->scene->lock);
    site->is_over = true;
    pthread_mutex_unlock(&site->scene->lock);
    pthread_join(site->thread, NULL);
    member_loop_stop(site->loop, NULL);
    free(site->tables);
    region_finish(&site->region);
    site->runs = false;
}

int scene_begin(void **state) {
    struct scene *scene = calloc(1, sizeof(*scene));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&scene->changed, &attributes);
    pthread_mutex_init(&scene->lock, NULL);
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        make_site(scene, i);
    }
    const struct replica *replica = replica_of(&scene->sites[0]);
    scene->tracker.settings =
        (struct tracker_settings){.slice_count = replica->shape.slices.count,
                                  .slice_elements = (uint64_t)replica->shape.slices.elements,
                                  .parameter_count = (uint64_t)SHAPE.count,
                                  .seat_samples = SAMPLES,
                                  .sample_tokens = SAMPLE_TOKENS,
                                  .members_min = 2,
                                  .shrink_after_ms = 2000,
                                  .training = {1, 2},
                                  .times = {1500, 400, 400, 100, 20}};
    scene->tracker.shape = (struct wire_shape){.slice_count = replica->shape.slices.count,
                                               .members_max = FIXTURE_MEMBERS_MAX,
                                               .swarm = MANIFEST};
    tiny_tracker_start(&scene->tracker, &replica->root);
    *state = scene;
    return 0;
}

int scene_end(void **state) {
    struct scene *scene = *state;
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        if (scene->sites[i].runs) {
            site_stop(&scene->sites[i]);
        }
        fixture_replica_free(&scene->sites[i].replica);
        pool_finish(&scene->sites[i].pool);
    }
    tiny_tracker_stop(&scene->tracker);
    tiny_tracker_free(&scene->tracker);
    pthread_mutex_destroy(&scene->lock);
    pthread_cond_destroy(&scene->changed);
    free(scene);
    return 0;
}

/* ---- waiting ---- */

/* The conditions that tests wait for. The lock is held. */
struct wish {
    bool (*is_true)(struct scene *scene, const struct wish *wish);
    uint32_t site, count;
};

static void wait_for(struct scene *scene, struct wish wish) {
    struct timespec until = {.tv_sec = clock_monotonic_ns() / 1000000000 + SCENE_WAIT_S};
    int result = 0;
    pthread_mutex_lock(&scene->lock);
    while (!wish.is_true(scene, &wish) && result != ETIMEDOUT) {
        result = pthread_cond_timedwait(&scene->changed, &scene->lock, &until);
    }
    pthread_mutex_unlock(&scene->lock);
    if (result == ETIMEDOUT) {
        fail_msg("site %u: waited for %u in vain", wish.site, wish.count);
    }
}

static bool has_applied(struct scene *scene, const struct wish *wish) {
    return scene->sites[wish->site].applied >= wish->count;
}

static bool has_adopted(struct scene *scene, const struct wish *wish) {
    return scene->sites[wish->site].adopted >= wish->count;
}

void site_wait_adopted(struct scene *scene, uint32_t site, uint32_t count) {
    wait_for(scene, (struct wish){has_adopted, site, count});
}

static bool has_left(struct scene *scene, const struct wish *wish) {
    return scene->sites[wish->site].has_left;
}

static bool has_contributed(struct scene *scene, const struct wish *wish) {
    return scene->contributed[wish->site] >= wish->count;
}

void site_wait_contributes(struct scene *scene, uint32_t site, uint32_t more) {
    pthread_mutex_lock(&scene->lock);
    uint32_t count = scene->contributed[site] + more;
    pthread_mutex_unlock(&scene->lock);
    wait_for(scene, (struct wish){has_contributed, site, count});
}

void site_wait_left(struct scene *scene, uint32_t site) {
    wait_for(scene, (struct wish){has_left, site, 1});
}

void site_wait_applied(struct scene *scene, uint32_t site, uint32_t count) {
    wait_for(scene, (struct wish){has_applied, site, count});
}

uint32_t site_applied(struct scene *scene, uint32_t site) {
    pthread_mutex_lock(&scene->lock);
    uint32_t applied = scene->sites[site].applied;
    pthread_mutex_unlock(&scene->lock);
    return applied;
}

/* ---- the ledger computed again ---- */

static void commit_again(const struct scene *scene, struct reference *reference,
                         const struct entry *entry) {
    struct reference_round round = {.slices = entry->slices,
                                    .cut = &scene->sites[0].replica.replica.shape.slices};
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        uint32_t number = site_of(scene, &entry->seats[seat].id);
        round.weights[seat] = entry->members[seat].weight;
        round.clips[seat] = norms_clip_factor(entry->members[seat].norm, entry->reference_norm);
        for (int64_t i = 0; i < SHAPE.count; i++) {
            reference->inner[seat][i] = trained(number, entry->round, reference->params[i], i);
        }
    }
    reference_encode(reference);
    reference_mean(reference, &round);
    reference_apply(reference, &round);
}

struct scene_found scene_check(struct scene *scene) {
    struct reference reference;
    struct scene_found found = {0};
    reference_make(&SHAPE, &reference);
    for (int64_t i = 0; i < SHAPE.count; i++) {
        reference.params[i] = fixture_noise(1, i);
    }
    const struct entry *entry = NULL;
    for (uint32_t n = 0; (entry = tiny_tracker_entry(&scene->tracker, n)) != NULL; n++) {
        if (entry->kind != ENTRY_COMMIT) {
            continue;
        }
        commit_again(scene, &reference, entry);
        struct hash root = reference_root(&reference);
        assert_memory_equal(&root, &entry->root, sizeof root);
        found.commits++;
        found.contributed_last = 0;
        for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
            bool is_in = (entry->slices[0].contributors >> seat & 1) != 0;
            found.contributed_last |=
                is_in ? UINT64_C(1) << site_of(scene, &entry->seats[seat].id) : 0;
        }
        found.contributed |= found.contributed_last;
        for (uint32_t i = 0; i < SCENE_SITES; i++) {
            bool is_on = memcmp(&scene->sites[i].root, &entry->root, sizeof root) == 0;
            found.stands |= is_on ? UINT64_C(1) << i : 0;
        }
    }
    reference_free(&reference);
    return found;
}

static void check_what_site_saw(struct scene *scene, const struct site *site) {
    for (uint32_t n = 0; n < site->seen_count; n++) {
        const struct entry *entry = tiny_tracker_entry(&scene->tracker, n);
        assert_non_null(entry);
        assert_memory_equal(&site->seen[n], &entry->hash, sizeof entry->hash);
    }
}

void scene_stop(struct scene *scene) {
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_stop(&scene->sites[i]);
        check_what_site_saw(scene, &scene->sites[i]);
    }
}
