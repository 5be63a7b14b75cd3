/* replica_fixture: replicas in memory of their own, and a round written a second time, element by
 * element: the truth that they are held against. */
#ifndef SKEP_TESTS_UNIT_SWARM_REPLICA_FIXTURE_H
#define SKEP_TESTS_UNIT_SWARM_REPLICA_FIXTURE_H

#include "runtime/swarm/replica/replica.h"

enum { FIXTURE_MEMBERS_MAX = 5, FIXTURE_PARTS = 3 };

/* What members must agree on. */
struct fixture_shape {
    int64_t count; /* parameters */
    enum codec codec;
    uint32_t members;
    float rate, momentum;
};

/* A replica whose inner weights lie in up to three parts; those of every second one made are in far
 * memory: their addresses are such that nobody can follow them. */
struct fixture_replica {
    struct replica replica;
    struct flat_span parts[FIXTURE_PARTS];
    float *inner; /* [count]: the parts, one behind the other with gaps */
};

void fixture_replica_make(const struct fixture_shape *shape, struct fixture_replica *made);

/* fixture_replica_make_sparse: the same with a sparse codec; shape->codec and momentum are not
 * used. */
void fixture_replica_make_sparse(const struct fixture_shape *shape, struct sparse_shape sparse,
                                 struct fixture_replica *made);
void fixture_replica_free(struct fixture_replica *made);

/* fixture_inner: inner weight `i` of the replica. */
float *fixture_inner(struct fixture_replica *made, int64_t i);

/* fixture_noise: value `i` of a stream, uniform in [-1, 1). */
float fixture_noise(uint64_t seed, int64_t i);

/* The same swarm in plain arrays. */
struct reference {
    struct fixture_shape shape;
    float *params, *momentum;             /* [count] */
    float *inner[FIXTURE_MEMBERS_MAX];    /* [count] */
    float *feedback[FIXTURE_MEMBERS_MAX]; /* [count], zeros with other codecs than int4 */
    float *meant, *decoded[FIXTURE_MEMBERS_MAX];
    float *mean, *applied;              /* before and after its encoding */
    uint8_t *sent[FIXTURE_MEMBERS_MAX]; /* encoded contributions */
    uint8_t *result;
};

/* Who does what in a round; in slices one by one. */
struct reference_round {
    uint64_t weights[FIXTURE_MEMBERS_MAX];
    float clips[FIXTURE_MEMBERS_MAX]; /* factors of the contributions, beside their shares */
    const struct entry_slice *slices; /* contributors and owner are read */
    const struct slices *cut;
};

void reference_make(const struct fixture_shape *shape, struct reference *reference);
void reference_free(struct reference *reference);

/* reference_encode, reference_mean, reference_apply: the stages of a round. */
void reference_encode(struct reference *reference);
void reference_mean(struct reference *reference, const struct reference_round *round);
void reference_apply(struct reference *reference, const struct reference_round *round);

/* reference_root: of params and momentum, leaf by leaf through a stream. */
struct hash reference_root(const struct reference *reference);

#endif
