/* A state that is fetched while rounds go on: real replicas and results, sources of several kinds,
 * a clock of the test's own. */
#include "runtime/swarm/replica/leaf_fetch.h"

#include "tests/unit/swarm/replica_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    SOURCES = 3,
    QUEUE = 256,
    LEAVES = 12,
    STEP_MS = 10,
    ROUND_MS = 300,
    ROUNDS_MAX = 8,
    LEAF_MS = ROUND_MS * 4 / LEAVES, /* a quarter of the state in a round, all sources together */
};

static const int64_t MS = 1000000;
static const struct fixture_shape SHAPE = {.count = (LEAVES - 1) * LEAF_ELEMENTS + 1000,
                                           .codec = CODEC_INT8,
                                           .members = 1,
                                           .rate = 0.7F,
                                           .momentum = 0.9F};

struct asked {
    enum { ASKED_NAMES, ASKED_LEAF, ASKED_RESULT } kind;
    uint32_t source;
    uint64_t index;
    uint32_t number; /* of the commit whose root was wanted */
    struct replay_request result;
};

struct scene {
    struct fixture_replica members, joiner; /* all members are one replica: they are equal */
    struct leaf_fetch fetch;
    void *tables;
    struct entry commit;
    uint32_t round, number;
    bool is_gone[SOURCES], lies[SOURCES];
    bool keeps_results;
    struct asked queue[QUEUE];
    int count;
    int leaves, results, lies_told;
    int64_t now_ns, leaf_ns;
};

static bool note(struct scene *scene, struct asked asked) {
    assert_in_range(scene->count, 0, QUEUE - 1);
    assert_false(scene->is_gone[asked.source]);
    asked.number = scene->number;
    scene->queue[scene->count++] = asked;
    return true;
}

static bool ask_names(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    (void)root;
    return note(context, (struct asked){ASKED_NAMES, source, index, 0, {0}});
}

static bool ask_leaf(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    (void)root;
    return note(context, (struct asked){ASKED_LEAF, source, index, 0, {0}});
}

static bool ask_result(void *context, uint32_t source, const struct replay_request *ask) {
    return note(context, (struct asked){ASKED_RESULT, source, 0, 0, *ask});
}

/* ---- the members' rounds ---- */

static void commit(struct scene *scene) {
    struct replica *replica = &scene->members.replica;
    struct entry *entry = &scene->commit;
    scene->round++;
    scene->number++;
    for (int64_t i = 0; i < SHAPE.count; i++) {
        *fixture_inner(&scene->members, i) += 0.01F * fixture_noise(100 + scene->round, i);
    }
    assert_true(replica_encode_contribution(replica));
    entry->round = scene->round;
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        struct addend own = {replica_own_contribution(replica, s), 1, 1, true};
        entry->slices[s].hash = replica_sum(replica, scene->round, s, &own, 1);
    }
    entry->root = replica_apply(replica, entry, -1);
}

static struct scene *begin(void) {
    struct scene *scene = calloc(1, sizeof(*scene));
    assert_non_null(scene);
    struct fixture_replica *made[] = {&scene->members, &scene->joiner};
    for (size_t m = 0; m < ARRAY_COUNT(made); m++) {
        fixture_replica_make(&SHAPE, made[m]);
        for (int64_t i = 0; i < SHAPE.count; i++) {
            *fixture_inner(made[m], i) = fixture_noise(m, i);
        }
        replica_init_state(&made[m]->replica);
    }
    struct replica *replica = &scene->joiner.replica;
    scene->commit.kind = ENTRY_COMMIT;
    scene->commit.seat_count = 1;
    scene->commit.slice_count = replica->shape.slices.count;
    scene->commit.slices = calloc(scene->commit.slice_count, sizeof *scene->commit.slices);
    scene->tables = malloc(leaf_fetch_memory_bytes(&replica->shape));
    scene->now_ns = 1000 * MS;
    scene->keeps_results = true;
    leaf_fetch_init(&scene->fetch, scene->tables, replica,
                    (struct leaf_fetch_callbacks){scene, ask_names, ask_leaf, ask_result});
    for (uint32_t i = 0; i < SOURCES; i++) {
        leaf_fetch_set_source_connected(&scene->fetch, i, true);
    }
    commit(scene);
    leaf_fetch_begin(&scene->fetch, &scene->commit.root);
    return scene;
}

static void end(struct scene *scene) {
    fixture_replica_free(&scene->members);
    fixture_replica_free(&scene->joiner);
    free(scene->commit.slices);
    free(scene->tables);
    free(scene);
}

static void go_on(struct scene *scene) {
    commit(scene);
    leaf_fetch_follow_commit(&scene->fetch, &scene->commit, (UINT64_C(1) << SOURCES) - 1);
}

/* ---- what sources answer ---- */

static void say_names(struct scene *scene, const struct asked *asked) {
    const struct replica *replica = &scene->members.replica;
    leaf_fetch_on_hashes(&scene->fetch, asked->source, &replica->root, asked->index,
                         (const uint8_t *)&replica->leaves[asked->index],
                         (LEAVES - asked->index) * HASH_BYTES, scene->now_ns);
}

static void say_leaf(struct scene *scene, const struct asked *asked) {
    static uint8_t bytes[LEAF_BYTES];
    size_t count = replica_read_leaf(&scene->members.replica, asked->index, bytes);
    bytes[count / 2] ^= scene->lies[asked->source] ? 1 : 0;
    leaf_fetch_on_leaf(&scene->fetch, asked->source, asked->index, bytes, count, scene->now_ns);
    scene->leaves += !scene->lies[asked->source];
    scene->lies_told += scene->lies[asked->source];
    scene->leaf_ns = scene->now_ns + LEAF_MS * MS;
}

static void say_result(struct scene *scene, const struct asked *asked) {
    const struct replay_request *ask = &asked->result;
    bool is_kept = scene->keeps_results && ask->round + RESULT_ROUNDS > scene->round;
    if (is_kept &&
        leaf_fetch_accept_slice_result(&scene->fetch, asked->source, ask, scene->now_ns)) {
        struct slice_range range = slices_range(&scene->joiner.replica.shape.slices, ask->slice);
        memcpy(replica_result(&scene->joiner.replica, ask->round, ask->slice),
               replica_result(&scene->members.replica, ask->round, ask->slice), range.bytes);
        scene->results++;
    }
}

/* False: not yet, the limit holds it back. What was asked for another root is lost. */
static bool answer(struct scene *scene, const struct asked *asked) {
    bool is_lost = scene->is_gone[asked->source] || asked->number != scene->number;
    if (asked->kind == ASKED_RESULT && !scene->is_gone[asked->source]) {
        say_result(scene, asked);
    } else if (asked->kind == ASKED_NAMES && !is_lost) {
        say_names(scene, asked);
    } else if (asked->kind == ASKED_LEAF && !is_lost) {
        if (scene->now_ns < scene->leaf_ns) {
            return false;
        }
        say_leaf(scene, asked);
    }
    return true;
}

static void answer_all(struct scene *scene) {
    int kept = 0;
    for (int i = 0; i < scene->count; i++) {
        struct asked asked = scene->queue[i];
        if (!answer(scene, &asked)) {
            scene->queue[kept++] = asked;
        }
    }
    scene->count = kept;
}

/* Until it is done, or for so long. */
static bool run(struct scene *scene, int64_t ms) {
    int64_t until_ns = scene->now_ns + ms * MS;
    while (scene->now_ns < until_ns) {
        if (leaf_fetch_step(&scene->fetch, scene->now_ns) == LEAF_STAGE_DONE) {
            return true;
        }
        answer_all(scene);
        scene->now_ns += STEP_MS * MS;
    }
    return false;
}

/* A commit at the end of every round. The number of rounds that it took. */
static uint32_t run_rounds(struct scene *scene) {
    uint32_t first = scene->round;
    while (!run(scene, ROUND_MS) && scene->round - first < ROUNDS_MAX) {
        go_on(scene);
    }
    return scene->round - first + 1;
}

static void assert_is_equal(const struct scene *scene) {
    const struct replica *own = &scene->joiner.replica;
    const struct replica *other = &scene->members.replica;
    size_t bytes = (size_t)SHAPE.count * sizeof(float);
    assert_int_equal(scene->fetch.stage, LEAF_STAGE_DONE);
    assert_int_equal(leaf_fetch_outdated_count(&scene->fetch), 0);
    assert_memory_equal(own->params, other->params, bytes);
    assert_memory_equal(own->momentum, other->momentum, bytes);
    assert_true(hash_equal(&own->root, &other->root));
    assert_memory_equal(own->leaves, other->leaves, LEAVES * sizeof(struct hash));
}

static void a_slow_joiner_gets_in_while_rounds_go_on(void **state) {
    (void)state;
    struct scene *scene = begin();
    uint32_t rounds = run_rounds(scene);
    assert_in_range(rounds, 4, ROUNDS_MAX);
    assert_is_equal(scene);
    assert_int_equal(scene->leaves, LEAVES); /* none came twice */
    assert_true(scene->fetch.received_bytes > (uint64_t)LEAF_BYTES * (LEAVES - 1));
    end(scene);
}

static void a_joiner_goes_on_when_sources_go(void **state) {
    (void)state;
    struct scene *scene = begin();
    assert_false(run(scene, ROUND_MS + ROUND_MS / 2));
    for (uint32_t i = 0; i + 1 < SOURCES; i++) {
        scene->is_gone[i] = true;
        leaf_fetch_set_source_connected(&scene->fetch, i, false);
    }
    go_on(scene);
    assert_in_range(run_rounds(scene), 1, ROUNDS_MAX);
    assert_is_equal(scene);
    assert_int_equal(scene->leaves, LEAVES);
    end(scene);
}

static void a_joiner_takes_nothing_from_who_sends_wrong_bytes(void **state) {
    (void)state;
    struct scene *scene = begin();
    scene->lies[1] = true;
    assert_in_range(run_rounds(scene), 4, ROUNDS_MAX);
    assert_is_equal(scene);
    assert_int_equal(scene->leaves, LEAVES);
    assert_in_range(scene->lies_told, 1, LEAF_REQUESTS_PER_SOURCE);
    end(scene);
}

/* Leaves that no result brings forward come anew; the others stay. */
static void a_joiner_fetches_again_what_lost_its_results(void **state) {
    (void)state;
    struct scene *scene = begin();
    assert_false(run(scene, ROUND_MS));
    int before = scene->leaves;
    assert_in_range(before, 2, LEAVES - 2);
    scene->keeps_results = false;
    for (int i = 0; i < RESULT_ROUNDS; i++) {
        go_on(scene);
        assert_false(run(scene, ROUND_MS));
    }
    go_on(scene); /* the first of these rounds has no row any more */
    scene->keeps_results = true;
    assert_in_range(run_rounds(scene), 1, ROUNDS_MAX);
    assert_is_equal(scene);
    assert_in_range(scene->leaves, LEAVES + 1, LEAVES + before);
    end(scene);
}

/* A state that was whole and not made durable in time: results alone lead on. */
static void a_whole_state_follows_by_results_alone(void **state) {
    (void)state;
    struct scene *scene = begin();
    assert_true(run(scene, 4 * ROUND_MS + ROUND_MS));
    leaf_fetch_end(&scene->fetch);
    for (int i = 0; i < 2; i++) {
        go_on(scene);
    }
    assert_true(run(scene, ROUND_MS));
    assert_is_equal(scene);
    assert_int_equal(scene->leaves, LEAVES);
    assert_int_equal(scene->results, 2 * (int)scene->commit.slice_count);
    end(scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_joiner_gets_in_while_rounds_go_on),
        cmocka_unit_test(a_joiner_goes_on_when_sources_go),
        cmocka_unit_test(a_joiner_takes_nothing_from_who_sends_wrong_bytes),
        cmocka_unit_test(a_joiner_fetches_again_what_lost_its_results),
        cmocka_unit_test(a_whole_state_follows_by_results_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
