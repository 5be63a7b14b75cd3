/* values_sparse: what values_real.c needs of a sparse codec. */
#ifndef SKEP_TESTS_SIM_VALUES_SPARSE_H
#define SKEP_TESTS_SIM_VALUES_SPARSE_H

#include "runtime/swarm/replica/replica.h"
#include "tests/sim/values.h"

/* values_sparse_slices  the slices of a world
 * values_encode_sparse  encode the values of a slice by the reference
 * values_mean_of_list   values_mean, by the definition in sparse_result.h
 * values_make_list      the list that an owner makes of these addends by its replica */
struct slices values_sparse_slices(const struct world *world);
void values_encode_sparse(const struct world *world, const float *values, struct coded *coded);
void values_mean_of_list(const struct world *world, const struct entry *entry,
                         const struct value_part *parts, uint32_t count, float *mean);
void values_make_list(struct replica *replica, const struct node *node, const struct action *action,
                      const struct addend *addends, struct coded *list);

#endif
