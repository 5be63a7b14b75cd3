/* A state that is brought by its leaves, from sources of every kind. */
#include "runtime/swarm/replica/leaf_fetch.h"

#include "tests/unit/swarm/replica_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SOURCES = 4, QUEUE = 512, STEPS_MAX = 4000, STEP_MS = 20 };

static const int64_t MS = 1000000;
static const struct fixture_shape SHAPE = {
    .count = 5 * LEAF_ELEMENTS + 1000, .codec = CODEC_FP32, .members = 1, .rate = 1};

enum manner {
    GOOD,
    SILENT,      /* takes every ask and answers none */
    OTHER_ROOT,  /* says that it does not have it */
    WRONG_NAMES, /* and leaves, of another state */
    WRONG_LEAF,  /* right names, and bytes of another state */
};

struct asked {
    uint32_t source;
    bool is_names;
    uint64_t index;
};

struct scene {
    struct fixture_replica good, bad, own;
    struct leaf_fetch fetch;
    void *tables;
    enum manner manners[SOURCES];
    struct asked queue[QUEUE];
    int first, count;
    int leaves_of[SOURCES];
    int64_t now_ns;
    const struct replica *file; /* what the member's own file has; NULL: there is none */
    uint64_t damaged_leaf;      /* of the file */
};

static bool read_own_hashes(void *context, const struct hash *root, struct hash *hashes) {
    const struct scene *scene = context;
    (void)root;
    if (scene->file != NULL) {
        memcpy(hashes, scene->file->leaves, scene->fetch.leaf_count * sizeof *hashes);
    }
    return scene->file != NULL;
}

static size_t read_own_leaf(void *context, const struct hash *root, uint64_t index,
                            uint8_t *bytes) {
    const struct scene *scene = context;
    (void)root;
    size_t length = replica_read_leaf(scene->file, index, bytes);
    bytes[7] ^= index == scene->damaged_leaf;
    return length;
}

static bool note(struct scene *scene, struct asked asked) {
    assert_in_range(scene->count, 0, QUEUE - 1);
    scene->queue[(scene->first + scene->count++) % QUEUE] = asked;
    return true;
}

static bool ask_names(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    (void)root;
    return note(context, (struct asked){source, true, index});
}

static bool ask_leaf(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    (void)root;
    return note(context, (struct asked){source, false, index});
}

static bool ask_result(void *context, uint32_t source, const struct replay_request *ask) {
    (void)context, (void)source, (void)ask;
    fail_msg("no round was committed");
    return false;
}

static void fill(struct fixture_replica *made, uint64_t seed) {
    fixture_replica_make(&SHAPE, made);
    for (int64_t i = 0; i < SHAPE.count; i++) {
        made->replica.params[i] = fixture_noise(seed, i);
        made->replica.momentum[i] = fixture_noise(seed + 1, i);
    }
    replica_refresh_hashes(&made->replica);
}

static struct scene *begin(const enum manner *manners) {
    struct scene *scene = calloc(1, sizeof(*scene));
    fill(&scene->good, 10);
    fill(&scene->bad, 20);
    fill(&scene->own, 30);
    memcpy(scene->manners, manners, sizeof(scene->manners));
    scene->damaged_leaf = UINT64_MAX;
    scene->now_ns = 1000 * MS;
    scene->tables = malloc(leaf_fetch_memory_bytes(&scene->own.replica.shape));
    leaf_fetch_init(&scene->fetch, scene->tables, &scene->own.replica,
                    (struct leaf_fetch_callbacks){scene, ask_names, ask_leaf, ask_result});
    leaf_fetch_set_file(&scene->fetch, &(struct leaf_file){.context = scene,
                                                           .read_hashes = read_own_hashes,
                                                           .read_leaf = read_own_leaf});
    for (uint32_t i = 0; i < SOURCES; i++) {
        leaf_fetch_set_source_connected(&scene->fetch, i, true);
    }
    leaf_fetch_begin(&scene->fetch, &scene->good.replica.root);
    return scene;
}

static void end(struct scene *scene) {
    fixture_replica_free(&scene->good);
    fixture_replica_free(&scene->bad);
    fixture_replica_free(&scene->own);
    free(scene->tables);
    free(scene);
}

/* Two names in a piece, so that there are several. */
static void say_names(struct scene *scene, const struct asked *asked) {
    enum manner manner = scene->manners[asked->source];
    const struct replica *replica =
        manner == WRONG_NAMES ? &scene->bad.replica : &scene->good.replica;
    uint64_t left = scene->fetch.leaf_count - asked->index;
    size_t count = manner == OTHER_ROOT ? 0 : left < 2 ? 1 : 2;
    leaf_fetch_on_hashes(&scene->fetch, asked->source, &scene->fetch.root, asked->index,
                         (const uint8_t *)&replica->leaves[asked->index], count * HASH_BYTES,
                         scene->now_ns);
}

static void say_leaf(struct scene *scene, const struct asked *asked) {
    static uint8_t bytes[LEAF_BYTES];
    enum manner manner = scene->manners[asked->source];
    const struct replica *replica =
        manner == GOOD || manner == OTHER_ROOT ? &scene->good.replica : &scene->bad.replica;
    size_t count = manner == OTHER_ROOT ? 0 : replica_read_leaf(replica, asked->index, bytes);
    leaf_fetch_on_leaf(&scene->fetch, asked->source, asked->index, bytes, count, scene->now_ns);
    scene->leaves_of[asked->source] += manner == GOOD;
}

static void answer_one(struct scene *scene) {
    struct asked asked = scene->queue[scene->first];
    scene->first = (scene->first + 1) % QUEUE;
    scene->count--;
    if (scene->manners[asked.source] == SILENT) {
        return;
    }
    if (asked.is_names) {
        say_names(scene, &asked);
    } else {
        say_leaf(scene, &asked);
    }
}

/* One ask is answered a step. */
static int run(struct scene *scene) {
    int steps = 0;
    while (leaf_fetch_step(&scene->fetch, scene->now_ns) != LEAF_STAGE_DONE && steps < STEPS_MAX) {
        if (scene->count > 0) {
            answer_one(scene);
        }
        scene->now_ns += STEP_MS * MS;
        steps++;
    }
    return steps;
}

static void assert_is_good(const struct scene *scene) {
    size_t bytes = (size_t)SHAPE.count * sizeof(float);
    assert_int_equal(scene->fetch.stage, LEAF_STAGE_DONE);
    assert_memory_equal(scene->own.replica.params, scene->good.replica.params, bytes);
    assert_memory_equal(scene->own.replica.momentum, scene->good.replica.momentum, bytes);
    assert_true(hash_equal(&scene->own.replica.root, &scene->good.replica.root));
    assert_memory_equal(scene->own.replica.leaves, scene->good.replica.leaves,
                        scene->fetch.leaf_count * sizeof(struct hash));
}

static void a_file_of_its_own_spares_every_request(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, GOOD, GOOD, GOOD};
    struct scene *scene = begin(manners);
    scene->file = &scene->good.replica;
    run(scene);
    assert_is_good(scene);
    assert_int_equal(scene->count, 0);
    assert_int_equal(scene->fetch.received_bytes, 0);
    end(scene);
}

static void the_rest_of_a_damaged_file_comes_from_others(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, GOOD, GOOD, GOOD};
    for (uint64_t damaged = 0; damaged < 6; damaged++) {
        struct scene *scene = begin(manners);
        scene->file = &scene->good.replica;
        scene->damaged_leaf = damaged;
        run(scene);
        assert_is_good(scene);
        int leaves = 0;
        for (int i = 0; i < SOURCES; i++) {
            leaves += scene->leaves_of[i];
        }
        assert_int_equal(leaves, 6 - damaged);
        end(scene);
    }
}

static void a_file_with_other_hashes_is_not_used(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, GOOD, GOOD, GOOD};
    struct scene *scene = begin(manners);
    scene->file = &scene->bad.replica;
    run(scene);
    assert_is_good(scene);
    end(scene);
}

static void fetch_brings_every_leaf_once_from_several_sources(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, GOOD, GOOD, GOOD};
    struct scene *scene = begin(manners);
    assert_int_equal(leaf_fetch_outdated_count(&scene->fetch), 6);
    run(scene);
    assert_is_good(scene);
    int leaves = 0;
    int sources = 0;
    for (int i = 0; i < SOURCES; i++) {
        leaves += scene->leaves_of[i];
        sources += scene->leaves_of[i] > 0;
    }
    assert_int_equal(leaves, 6);
    assert_true(sources >= 3);
    end(scene);
}

static void fetch_goes_round_those_who_are_of_no_use(void **state) {
    (void)state;
    const enum manner bad[] = {SILENT, OTHER_ROOT, WRONG_NAMES, WRONG_LEAF};
    for (size_t which = 0; which < ARRAY_COUNT(bad); which++) {
        enum manner manners[SOURCES] = {bad[which], bad[which], bad[which], bad[which]};
        manners[which % SOURCES] = GOOD;
        struct scene *scene = begin(manners);
        run(scene);
        assert_is_good(scene);
        end(scene);
    }
}

static void fetch_believes_nobody_whose_bytes_are_not_the_name(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {WRONG_LEAF, WRONG_LEAF, WRONG_LEAF, WRONG_NAMES};
    struct scene *scene = begin(manners);
    struct hash before = scene->own.replica.leaves[0];
    assert_int_equal(run(scene), STEPS_MAX);
    assert_true(hash_equal(&before, &scene->own.replica.leaves[0]));
    assert_true(scene->own.replica.params[0] == fixture_noise(30, 0));
    assert_int_equal(leaf_fetch_outdated_count(&scene->fetch), 6);
    end(scene);
}

/* Whoever is wrong comes again and again. */
static void fetch_asks_a_source_that_was_wrong_no_more(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {WRONG_NAMES, WRONG_NAMES, WRONG_NAMES, WRONG_NAMES};
    struct scene *scene = begin(manners);
    int asked = 0;
    for (int turn = 0; turn < 50; turn++) {
        leaf_fetch_step(&scene->fetch, scene->now_ns);
        asked += scene->count;
        while (scene->count > 0) {
            answer_one(scene);
        }
        for (uint32_t i = 0; i < SOURCES && scene->fetch.hash_count == 0; i++) {
            leaf_fetch_set_source_connected(&scene->fetch, i, false);
            leaf_fetch_set_source_connected(&scene->fetch, i, true);
        }
        scene->now_ns += STEP_MS * MS;
    }
    assert_int_equal(asked, 3 * SOURCES); /* three pieces of names from each */
    end(scene);
}

/* A source that goes in the midst: what was asked of it is asked of the others at once. */
static void fetch_asks_others_when_a_source_goes(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, SILENT, SILENT, SILENT};
    struct scene *scene = begin(manners);
    int64_t begin_ns = scene->now_ns;
    while (scene->fetch.stage != LEAF_STAGE_LEAVES) {
        for (uint32_t i = 1; i < SOURCES; i++) {
            leaf_fetch_set_source_connected(&scene->fetch, i,
                                            scene->fetch.stage == LEAF_STAGE_LEAVES);
        }
        leaf_fetch_step(&scene->fetch, scene->now_ns);
        answer_one(scene);
    }
    for (uint32_t i = 1; i < SOURCES; i++) {
        leaf_fetch_set_source_connected(&scene->fetch, i, true);
    }
    leaf_fetch_step(&scene->fetch, scene->now_ns);
    assert_in_range(scene->fetch.sources[1].pending, 1, LEAF_REQUESTS_PER_SOURCE);
    for (uint32_t i = 1; i < SOURCES; i++) {
        leaf_fetch_set_source_connected(&scene->fetch, i, false);
    }
    run(scene);
    assert_is_good(scene);
    assert_true(scene->now_ns - begin_ns < 1000 * MS);
    end(scene);
}

static void fetch_begun_anew_keeps_what_both_states_have(void **state) {
    (void)state;
    const enum manner manners[SOURCES] = {GOOD, GOOD, GOOD, GOOD};
    struct scene *scene = begin(manners);
    run(scene);
    memset(scene->leaves_of, 0, sizeof(scene->leaves_of));
    scene->good.replica.params[2 * LEAF_ELEMENTS + 7] = 12;
    replica_refresh_hashes(&scene->good.replica);
    leaf_fetch_begin(&scene->fetch, &scene->good.replica.root);
    run(scene);
    assert_is_good(scene);
    int leaves = 0;
    for (int i = 0; i < SOURCES; i++) {
        leaves += scene->leaves_of[i];
    }
    assert_int_equal(leaves, 1);
    end(scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_its_own_spares_every_request),
        cmocka_unit_test(the_rest_of_a_damaged_file_comes_from_others),
        cmocka_unit_test(a_file_with_other_hashes_is_not_used),
        cmocka_unit_test(fetch_brings_every_leaf_once_from_several_sources),
        cmocka_unit_test(fetch_goes_round_those_who_are_of_no_use),
        cmocka_unit_test(fetch_believes_nobody_whose_bytes_are_not_the_name),
        cmocka_unit_test(fetch_asks_a_source_that_was_wrong_no_more),
        cmocka_unit_test(fetch_asks_others_when_a_source_goes),
        cmocka_unit_test(fetch_begun_anew_keeps_what_both_states_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
