/* reference: what a call must do, written as plainly as the contract's words, on a model of all
 * ranks' memory; and the values that it is done with. */
#ifndef SKEP_TESTS_CONTRACT_REFERENCE_H
#define SKEP_TESTS_CONTRACT_REFERENCE_H

#include "tests/contract/layout.h"

/* Before a call all ranks' memory, and one rank's after it. */
struct model {
    unsigned char *before[WORLD_MAX]; /* by world rank */
    unsigned char *after;
};

void model_init(struct model *model, uint64_t bytes);
void model_finish(struct model *model);

/* reference_mix: 64 well-mixed bits of two numbers. */
uint64_t reference_mix(uint64_t a, uint64_t b);

/* reference_fill: `bytes`, a multiple of 8, of values of `rank` under `key`: every 32-bit word is
 * an f32, and each of its halves a bf16, of magnitude 2^-12 to 2^12, so that sums in another order
 * have other bits. */
void reference_fill(unsigned char *memory, uint64_t bytes, uint64_t key, int rank);

/* model_fill: reference_fill for all members of a group. */
void model_fill(struct model *model, const struct collective_group *group, uint64_t bytes,
                uint64_t key);

/* model_call: into model->after, the first `bytes` of the memory of the member group->index. */
void model_call(struct model *model, const struct collective_group *group,
                const struct collective_call *call, uint64_t bytes);

/* reference_received: bytes that the member with `index` must receive. */
uint64_t reference_received(const struct collective_group *group,
                            const struct collective_call *call);

#endif
