/* A replica whose arithmetic is a device's, beside one whose arithmetic is the processor's: the
 * same contributions, feedback, votes, states and weights, to the bit, in every order that streams
 * allow. */
#include "kernels/cuda/launch/table.h"
#include "runtime/swarm/replica/replica_cuda.h"
#include "tests/emulated/device.h"
#include "tests/unit/swarm/replica_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS = 2, NEAR_PART = 1, INNER_MOVES = 100 };

/* One member twice. */
struct pair {
    struct cuda_device *gpu;
    struct cuda_kernel_table kernels;
    struct cuda_failure failure;
    struct fixture_replica host;
    struct replica replica; /* with lines in pinned memory */
    struct replica_cuda cuda;
    struct flat_span parts[FIXTURE_PARTS];
    float *inner;  /* [count] device memory: all parts but NEAR_PART, which is `near` */
    float *near;   /* [count] */
    float *values; /* [count] scratch of the test */
    struct entry entry;
};

static struct fault fault;

static void *pinned(const struct pair *pair, uint64_t bytes) {
    void *memory = NULL;
    if (bytes > 0) {
        assert_int_equal(pair->gpu->driver.cuMemHostAlloc(&memory, bytes, 0), CUDA_SUCCESS);
        memset(memory, 0, bytes);
    }
    return memory;
}

static void *on_device(const struct pair *pair, uint64_t bytes) {
    CUdeviceptr memory;
    void *zeros = calloc(1, bytes);
    assert_non_null(zeros);
    assert_int_equal(pair->gpu->driver.cuMemAlloc(&memory, bytes), CUDA_SUCCESS);
    emulated_driver_write(memory, zeros, bytes);
    free(zeros);
    return (void *)(uintptr_t)memory;
}

static const struct device_memory UNREACHED;

static void cut_parts(struct pair *pair) {
    for (int i = 0; i < pair->host.replica.part_count; i++) {
        const struct flat_span *like = &pair->host.parts[i];
        bool is_near = i == NEAR_PART;
        pair->parts[i] =
            (struct flat_span){.begin = like->begin,
                               .count = like->count,
                               .values = (is_near ? pair->near : pair->inner) + like->begin,
                               .device_memory = is_near ? NULL : &UNREACHED};
    }
}

static void make_replica(struct pair *pair) {
    const struct replica_shape *shape = &pair->host.replica.shape;
    struct replica_memory memory = replica_memory_of(shape);
    pair->replica = (struct replica){
        .shape = *shape,
        .compute = pair->host.replica.compute,
        .params = pinned(pair, memory.params),
        .momentum = pinned(pair, memory.momentum),
        .feedback = pinned(pair, memory.feedback),
        .residual = pinned(pair, memory.residual),
        .contribution = pinned(pair, memory.contribution),
        .results = pinned(pair, memory.results),
        .slots = pinned(pair, memory.slots),
        .residual_sources = pinned(pair, memory.residual_sources),
        .leaves = pinned(pair, memory.leaves),
        .scratch = pinned(pair, replica_device_memory_of(shape).scratch),
        .parts = pair->parts,
        .part_count = pair->host.replica.part_count,
    };
    pair->replica.voted_leaves = pair->replica.leaves + replica_leaf_count(&shape->slices);
    replica_bind_declared(&pair->replica, malloc(memory.declared));
    assert_non_null(pair->replica.declared_nodes);
    cut_parts(pair);
}

static void open_pair(const struct fixture_shape *shape, uint64_t seed, struct pair *pair) {
    struct cuda_driver driver;
    memset(pair, 0, sizeof *pair);
    emulated_driver_open(&(struct emulated_options){.seed = seed, .find = emulated_device_find},
                         &driver);
    assert_int_equal(cuda_device_acquire(&pair->gpu, &fault), OK);
    assert_int_equal(cuda_codec_kernels_init(&driver, &pair->kernels.codec, &fault), OK);
    assert_int_equal(cuda_outer_kernels_init(&driver, &pair->kernels.outer, &fault), OK);
    uint64_t bytes = sizeof(float) * (uint64_t)shape->count;
    fixture_replica_make(shape, &pair->host);
    pair->inner = on_device(pair, bytes);
    pair->near = calloc(1, bytes);
    pair->values = malloc(bytes);
    assert_non_null(pair->near);
    make_replica(pair);
    const struct cuda_compute with = {
        .driver = &pair->gpu->driver, .table = &pair->kernels, .failure = &pair->failure};
    const struct replica_cuda_args args = {
        .compute = &with,
        .gpu = pair->gpu,
        .device_slots = on_device(pair, replica_device_memory_of(&pair->replica.shape).slots)};
    assert_int_equal(replica_cuda_init(&args, &pair->replica, &pair->cuda, &fault), OK);
    const struct slices *slices = &pair->replica.shape.slices;
    pair->entry =
        (struct entry){.kind = ENTRY_COMMIT, .seat_count = SEATS, .slice_count = slices->count};
    pair->entry.slices = calloc(slices->count, sizeof *pair->entry.slices);
    assert_non_null(pair->entry.slices);
}

static void close_pair(struct pair *pair) {
    pair->replica.device->methods->release(pair->replica.device);
    cuda_device_release(pair->gpu);
    emulated_driver_close();
    fixture_replica_free(&pair->host);
    free(pair->near);
    free(pair->values);
    free(pair->replica.declared_nodes);
    free(pair->entry.slices);
}

/* ---- inner weights ---- */

static int64_t count_of(const struct pair *pair) {
    return pair->replica.shape.slices.parameter_count;
}

static void set_inner(struct pair *pair) {
    int64_t count = count_of(pair);
    for (int64_t i = 0; i < count; i++) {
        *fixture_inner(&pair->host, i) = pair->values[i];
        pair->near[i] = pair->values[i];
    }
    emulated_driver_write((CUdeviceptr)(uintptr_t)pair->inner, pair->values,
                          sizeof(float) * (size_t)count);
}

static void assert_same_inner(struct pair *pair) {
    int64_t count = count_of(pair);
    emulated_driver_read(pair->values, (CUdeviceptr)(uintptr_t)pair->inner,
                         sizeof(float) * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        int part = 0;
        while (part + 1 < pair->replica.part_count && pair->parts[part + 1].begin <= i) {
            part++;
        }
        float found = pair->parts[part].device_memory == NULL ? pair->near[i] : pair->values[i];
        if (found != *fixture_inner(&pair->host, i)) {
            fail_msg("inner weight %lld: %a on the device, %a on the host", (long long)i,
                     (double)found, (double)*fixture_inner(&pair->host, i));
        }
    }
}

/* Both begin with the same weights, on the device as on the host. */
static void begin(struct pair *pair) {
    for (int64_t i = 0; i < count_of(pair); i++) {
        pair->values[i] = fixture_noise(1, i);
    }
    set_inner(pair);
    replica_init_state(&pair->host.replica);
    memcpy(pair->replica.params, pair->host.replica.params, sizeof(float) * (size_t)count_of(pair));
    replica_refresh_hashes(&pair->replica);
    assert_true(hash_equal(&pair->replica.root, &pair->host.replica.root));
}

static void train(struct pair *pair, uint32_t round) {
    for (int64_t i = 0; i < count_of(pair); i++) {
        pair->values[i] =
            pair->host.replica.params[i] + 0.01F * fixture_noise(INNER_MOVES + round, i);
    }
    set_inner(pair);
}

/* ---- rounds ---- */

static void encode(struct pair *pair) {
    struct replica *host = &pair->host.replica;
    assert_true(replica_encode_contribution(host));
    assert_true(replica_encode_contribution(&pair->replica));
    assert_memory_equal(pair->replica.contribution, host->contribution, host->shape.slices.bytes);
    double norms[2];
    const struct hash roots[2] = {replica_declare_contribution(host, &norms[0]),
                                  replica_declare_contribution(&pair->replica, &norms[1])};
    assert_true(hash_equal(&roots[0], &roots[1]) && norms[0] == norms[1]);
}

/* This member is in every slice but some, and owns every second one. */
static void deal(struct pair *pair, uint32_t round) {
    pair->entry.round = round;
    for (uint32_t m = 0; m < SEATS; m++) {
        pair->entry.members[m].weight = 100 + round * m;
    }
    for (uint32_t s = 0; s < pair->entry.slice_count; s++) {
        struct entry_slice *line = &pair->entry.slices[s];
        line->contributors = round > 1 && s % 3 == 1 ? 0 : 1;
        line->owner = s % 2;
        struct hash hashes[2];
        struct replica *both[2] = {&pair->host.replica, &pair->replica};
        for (int i = 0; i < 2; i++) {
            struct addend own = {replica_own_contribution(both[i], s), 100, 1, true};
            hashes[i] = replica_sum(both[i], round, s, &own, line->contributors == 0 ? 0 : 1);
        }
        assert_true(hash_equal(&hashes[0], &hashes[1]));
        line->hash = hashes[0];
    }
}

static void assert_same_state(struct pair *pair) {
    const struct replica *host = &pair->host.replica;
    size_t bytes = sizeof(float) * (size_t)count_of(pair);
    assert_memory_equal(pair->replica.params, host->params, bytes);
    assert_memory_equal(pair->replica.momentum, host->momentum, bytes);
    if (host->feedback != NULL) {
        assert_memory_equal(pair->replica.feedback, host->feedback, bytes);
    }
    assert_same_inner(pair);
}

/* Every second round is not named for a vote before. */
static void vote_and_apply(struct pair *pair) {
    struct replica *host = &pair->host.replica;
    struct hash one = replica_root_after(host, pair->entry.round, pair->entry.seat_count);
    struct hash other =
        replica_root_after(&pair->replica, pair->entry.round, pair->entry.seat_count);
    assert_true(hash_equal(&one, &other));
    pair->entry.root = pair->entry.round % 2 == 1 ? one : (struct hash){{0}};
    struct hash applied = replica_apply(host, &pair->entry, 0);
    other = replica_apply(&pair->replica, &pair->entry, 0);
    assert_true(hash_equal(&one, &other) && hash_equal(&applied, &other));
    assert_same_state(pair);
}

static void rounds_are_alike(int64_t count, enum codec codec, uint64_t seed, uint32_t rounds) {
    static struct pair pair;
    struct fixture_shape shape = {count, codec, SEATS, 0.7F, 0.9F};
    open_pair(&shape, seed, &pair);
    begin(&pair);
    uint64_t calls = emulated_driver_calls("cuMemAlloc") + emulated_driver_calls("cuMemHostAlloc") +
                     emulated_driver_calls("cuStreamCreateWithPriority");
    for (uint32_t round = 1; round <= rounds; round++) {
        train(&pair, round);
        encode(&pair);
        deal(&pair, round);
        vote_and_apply(&pair);
    }
    assert_int_equal(calls, emulated_driver_calls("cuMemAlloc") +
                                emulated_driver_calls("cuMemHostAlloc") +
                                emulated_driver_calls("cuStreamCreateWithPriority"));
    assert_int_equal(pair.failure.result, CUDA_SUCCESS);
    close_pair(&pair);
}

static void rounds_on_a_device_are_those_of_the_processor(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1, 63, 257, 20011};
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
            rounds_are_alike(COUNTS[i], (enum codec)codec, i + 1, 3);
        }
    }
}

/* Both slots are used again while the other one works. */
static void rounds_of_several_stretches_are(void **state) {
    (void)state;
    rounds_are_alike(2 * REPLICA_CHUNK_ELEMENTS + LEAF_ELEMENTS + 77, CODEC_INT4, 5, 1);
    rounds_are_alike(2 * REPLICA_CHUNK_ELEMENTS + 77, CODEC_INT8, 6, 1);
}

static void what_is_not_finite_is_found_on_the_device(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        static struct pair pair;
        struct fixture_shape shape = {COUNT, (enum codec)codec, SEATS, 1, 0};
        open_pair(&shape, 3, &pair);
        begin(&pair);
        pair.values[COUNT - 1] = codec % 2 == 0 ? NAN : INFINITY;
        set_inner(&pair);
        assert_false(replica_encode_contribution(&pair.replica));
        for (uint64_t i = 0; i < pair.replica.shape.slices.bytes; i++) {
            assert_int_equal(pair.replica.contribution[i], 0);
        }
        train(&pair, 1);
        encode(&pair); /* and forgotten with the next one */
        close_pair(&pair);
    }
}

static void the_weights_follow_a_state_that_came_from_others(void **state) {
    (void)state;
    static struct pair pair;
    struct fixture_shape shape = {3001, CODEC_INT8, SEATS, 1, 0};
    open_pair(&shape, 9, &pair);
    begin(&pair);
    for (int64_t i = 0; i < count_of(&pair); i++) {
        pair.replica.params[i] = pair.host.replica.params[i] = fixture_noise(77, i);
    }
    replica_reset_inner(&pair.replica);
    replica_reset_inner(&pair.host.replica);
    assert_same_inner(&pair);
    close_pair(&pair);
}

static void a_device_that_fails_says_so_and_does_nothing_more(void **state) {
    (void)state;
    static struct pair pair;
    struct fixture_shape shape = {3001, CODEC_INT4, SEATS, 1, 0};
    for (int nth = 1; nth <= 12; nth++) {
        open_pair(&shape, (uint64_t)nth, &pair);
        begin(&pair);
        train(&pair, 1);
        emulated_driver_fail_work(nth, CUDA_ERROR_LAUNCH_FAILED);
        bool was_finite = replica_encode_contribution(&pair.replica);
        (void)was_finite;
        (void)replica_root_after(&pair.replica, 1, 1);
        replica_reset_inner(&pair.replica);
        assert_int_equal(pair.failure.result, CUDA_ERROR_LAUNCH_FAILED);
        close_pair(&pair);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_on_a_device_are_those_of_the_processor),
        cmocka_unit_test(rounds_of_several_stretches_are),
        cmocka_unit_test(what_is_not_finite_is_found_on_the_device),
        cmocka_unit_test(the_weights_follow_a_state_that_came_from_others),
        cmocka_unit_test(a_device_that_fails_says_so_and_does_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
