#include "tests/unit/swarm/replica_fixture.h"

#include "kernels/cpu/cpu.h"
#include "tests/kernels/codec_reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GAP = 5 }; /* elements between two parts */

static const uintptr_t FAR_AWAY = (uintptr_t)1 << 62;

static void *filled(size_t bytes) {
    void *memory = malloc(bytes + 1);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes + 1); /* nothing may count on zeros */
    return memory;
}

static void *room(uint64_t bytes) {
    return bytes == 0 ? NULL : filled(bytes);
}

/* Two threads, at the strongest level of this machine. */
static const struct compute *compute_of_tests(void) {
    static struct pool pool;
    static struct kernel_table table;
    static struct compute compute;
    if (pool.thread_count == 0) {
        struct fault fault;
        assert_int_equal(pool_init(&pool, 2, &fault), OK);
        kernel_table_init(&table, cpu_level_detect());
        compute = (struct compute){.table = &table, .pool = &pool};
    }
    return &compute;
}

float fixture_noise(uint64_t seed, int64_t i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)i * 0xd1342543de82ef95u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return (float)(x >> 40) * 0x1p-23F - 1;
}

/* ---- replicas ---- */

static enum status read_device(void *context, const void *device, void *host, size_t bytes,
                               struct fault *fault) {
    (void)context;
    (void)fault;
    memcpy(host, (const char *)device - FAR_AWAY, bytes);
    return OK;
}

static enum status write_device(void *context, void *device, const void *host, size_t bytes,
                                struct fault *fault) {
    (void)context;
    (void)fault;
    memcpy((char *)device - FAR_AWAY, host, bytes);
    return OK;
}

static const struct device_memory FAR = {read_device, write_device, NULL};

static void put_far(struct fixture_replica *made) {
    for (int i = 0; i < made->replica.part_count; i++) {
        struct flat_span *part = &made->parts[i];
        part->values = (float *)((char *)part->values + FAR_AWAY);
        part->device_memory = &FAR;
    }
}

static void cut_parts(struct fixture_replica *made, int64_t count) {
    int64_t bounds[FIXTURE_PARTS + 1] = {0, count / 3, count / 3 + 1, count};
    int used = 0;
    int64_t at = 0;
    for (int i = 0; i < FIXTURE_PARTS; i++) {
        int64_t length = bounds[i + 1] - bounds[i];
        if (length > 0) {
            made->parts[used++] =
                (struct flat_span){.begin = bounds[i], .count = length, .values = made->inner + at};
            at += length + GAP;
        }
    }
    made->replica.parts = made->parts;
    made->replica.part_count = used;
}

static void make_replica(const struct replica_shape *own, struct fixture_replica *made) {
    const int64_t count = own->slices.parameter_count;
    struct replica_memory memory = replica_memory_of(own);
    made->replica = (struct replica){
        .shape = *own,
        .compute = compute_of_tests(),
        .params = room(memory.params),
        .momentum = room(memory.momentum),
        .feedback = room(memory.feedback),
        .residual = room(memory.residual),
        .contribution = room(memory.contribution),
        .results = room(memory.results),
        .slots = room(memory.slots),
        .residual_sources = room(memory.residual_sources),
        .leaves = room(memory.leaves),
        .scratch = room(memory.scratch),
    };
    made->replica.voted_leaves = made->replica.leaves + replica_leaf_count(&own->slices);
    made->inner = filled(sizeof(float) * (size_t)(count + FIXTURE_PARTS * GAP));
    replica_bind_declared(&made->replica, filled(memory.declared));
    cut_parts(made, count);
    static unsigned made_before;
    if (made_before++ % 2 == 1) {
        put_far(made);
    }
}

void fixture_replica_make(const struct fixture_shape *shape, struct fixture_replica *made) {
    struct fault fault;
    struct replica_shape own = {.members_max = FIXTURE_MEMBERS_MAX,
                                .outer_rate = shape->rate,
                                .outer_momentum = shape->momentum};
    assert_int_equal(
        slices_divide(shape->count, shape->codec, own.members_max, &own.slices, &fault), OK);
    make_replica(&own, made);
}

void fixture_replica_make_sparse(const struct fixture_shape *shape, struct sparse_shape sparse,
                                 struct fixture_replica *made) {
    struct fault fault;
    struct replica_shape own = {.members_max = FIXTURE_MEMBERS_MAX, .outer_rate = shape->rate};
    assert_int_equal(
        slices_divide_sparse(shape->count, sparse, own.members_max, &own.slices, &fault), OK);
    make_replica(&own, made);
}

void fixture_replica_free(struct fixture_replica *made) {
    struct replica *replica = &made->replica;
    void *all[] = {
        replica->params,       replica->momentum, replica->feedback, replica->residual,
        replica->contribution, replica->results,  replica->slots,    replica->residual_sources,
        replica->leaves,       replica->scratch,  made->inner,       replica->declared_nodes};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        free(all[i]);
    }
}

float *fixture_inner(struct fixture_replica *made, int64_t i) {
    int part = made->replica.part_count - 1;
    while (made->parts[part].begin > i) {
        part--;
    }
    const struct flat_span *of = &made->parts[part];
    char *values = (char *)of->values - (of->device_memory != NULL ? FAR_AWAY : 0);
    return (float *)values + (i - of->begin);
}

/* ---- the reference ---- */

static float *vector(int64_t count) {
    float *made = filled(sizeof(float) * (size_t)count);
    memset(made, 0, sizeof(float) * (size_t)count);
    return made;
}

void reference_make(const struct fixture_shape *shape, struct reference *reference) {
    *reference = (struct reference){.shape = *shape,
                                    .params = vector(shape->count),
                                    .momentum = vector(shape->count),
                                    .meant = vector(shape->count),
                                    .mean = vector(shape->count),
                                    .applied = vector(shape->count),
                                    .result = filled(codec_bytes(shape->codec, shape->count))};
    for (uint32_t m = 0; m < shape->members; m++) {
        reference->inner[m] = vector(shape->count);
        reference->feedback[m] = vector(shape->count);
        reference->decoded[m] = vector(shape->count);
        reference->sent[m] = filled(codec_bytes(shape->codec, shape->count));
    }
}

void reference_free(struct reference *reference) {
    void *all[] = {reference->params, reference->momentum, reference->meant,
                   reference->mean,   reference->applied,  reference->result};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        free(all[i]);
    }
    for (uint32_t m = 0; m < reference->shape.members; m++) {
        free(reference->inner[m]);
        free(reference->feedback[m]);
        free(reference->decoded[m]);
        free(reference->sent[m]);
    }
}

static float meant_by(const struct reference *reference, uint32_t m, int64_t i) {
    float gradient = reference->params[i] - reference->inner[m][i];
    return gradient + reference->feedback[m][i];
}

void reference_encode(struct reference *reference) {
    for (uint32_t m = 0; m < reference->shape.members; m++) {
        for (int64_t i = 0; i < reference->shape.count; i++) {
            reference->meant[i] = meant_by(reference, m, i);
        }
        codec_reference_encode(reference->shape.codec, reference->shape.count, reference->meant,
                               reference->sent[m], reference->decoded[m]);
    }
}

static const struct entry_slice *line_of(const struct reference_round *round, int64_t i) {
    return &round->slices[i / round->cut->elements];
}

static bool names(const struct entry_slice *line, uint32_t m) {
    return (line->contributors >> m & 1) != 0;
}

/* What member m is of the mean of a slice. */
static float share_of(const struct reference *reference, const struct reference_round *round,
                      const struct entry_slice *line, uint32_t m) {
    uint64_t total = 0;
    for (uint32_t other = 0; other < reference->shape.members; other++) {
        total += names(line, other) ? round->weights[other] : 0;
    }
    return total == 0 ? 0 : (float)((double)round->weights[m] / (double)total) * round->clips[m];
}

void reference_mean(struct reference *reference, const struct reference_round *round) {
    for (int64_t i = 0; i < reference->shape.count; i++) {
        const struct entry_slice *line = line_of(round, i);
        float sum = 0;
        for (uint32_t m = 0; m < reference->shape.members; m++) {
            if (names(line, m)) {
                float part = share_of(reference, round, line, m) * reference->decoded[m][i];
                sum = sum + part;
            }
        }
        reference->mean[i] = sum;
    }
    codec_reference_encode(reference->shape.codec, reference->shape.count, reference->mean,
                           reference->result, reference->applied);
}

static void advance_feedback(struct reference *reference, const struct reference_round *round,
                             int64_t i) {
    const struct entry_slice *line = line_of(round, i);
    for (uint32_t m = 0; m < reference->shape.members; m++) {
        float share = share_of(reference, round, line, m);
        if (names(line, m)) {
            float meant = meant_by(reference, m, i);
            reference->feedback[m][i] = meant - reference->decoded[m][i];
        }
        if (names(line, m) && line->owner == m && share > 0) {
            float left = reference->mean[i] - reference->applied[i];
            reference->feedback[m][i] = left / share + reference->feedback[m][i];
        }
    }
}

void reference_apply(struct reference *reference, const struct reference_round *round) {
    const struct fixture_shape *shape = &reference->shape;
    for (int64_t i = 0; i < shape->count; i++) {
        if (shape->codec == CODEC_INT4) {
            advance_feedback(reference, round, i);
        }
        float kept = shape->momentum * reference->momentum[i];
        float next = kept + reference->applied[i];
        float ahead = shape->momentum * next;
        float step = reference->applied[i] + ahead;
        float moved = shape->rate * step;
        reference->momentum[i] = next;
        reference->params[i] = reference->params[i] - moved;
        for (uint32_t m = 0; m < shape->members; m++) {
            reference->inner[m][i] = reference->params[i];
        }
    }
}

struct hash reference_root(const struct reference *reference) {
    static struct merkle_stream stream;
    merkle_begin(&stream);
    for (int64_t at = 0; at < reference->shape.count; at += LEAF_ELEMENTS) {
        int64_t left = reference->shape.count - at;
        size_t bytes = sizeof(float) * (size_t)(left < LEAF_ELEMENTS ? left : LEAF_ELEMENTS);
        merkle_add(&stream, reference->params + at, bytes);
        merkle_add(&stream, reference->momentum + at, bytes);
    }
    return merkle_end(&stream);
}
