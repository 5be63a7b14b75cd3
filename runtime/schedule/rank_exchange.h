/* rank_exchange: lists the collectives between the ranks of a site: gathers of params, reductions
 * of gradients, and sums of tallies. With one rank, these functions list nothing. */
#ifndef SKEP_SCHEDULE_RANK_EXCHANGE_H
#define SKEP_SCHEDULE_RANK_EXCHANGE_H

#include "runtime/schedule/schedule.h"

/* append_split_params_gather: append the instructions that gather the split params of `unit` into a
 * new extent. This rank's shard is cast from the master, or copied from params in host memory.
 * Returns the extent. */
int append_split_params_gather(struct schedule *schedule, enum segment_kind segment, int unit);

/* append_whole_params_gather: append the all-gather of params that are whole on every rank, after
 * each rank has updated its own shard. */
void append_whole_params_gather(struct schedule *schedule, enum segment_kind segment, int unit);

/* append_gradient_reduction: append the instructions that sum a unit's whole f32 gradients in
 * extent `sums` over all ranks. The sums replace this rank's shard, or the whole extent when all
 * ranks keep whole gradients (ZeRO 0). append_reduction_end: append the wait of the compute lane
 * for these sums. Call it before any instruction that uses the sums. */
void append_gradient_reduction(struct schedule *schedule, enum segment_kind segment, int unit,
                               int sums);
void append_reduction_end(struct schedule *schedule, enum segment_kind segment, int unit, int sums);

/* append_step_gradient_sum: append the instruction that adds the reduced gradients of a microbatch
 * to those of the step. */
void append_step_gradient_sum(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_shard_operand: returns this rank's shard in `extent`, which contains all of `unit` or only
 * the shard. */
struct operand ranks_shard_operand(const struct schedule *schedule, int unit, int extent,
                                   enum access access, enum dtype dtype);

/* append_tally_send, append_tally_receive: append the instructions that sum `parts`
 * (kernels/tally.h) of the scalars over all ranks. Instructions between the two execute while the
 * transfer is in progress. */
void append_tally_send(struct schedule *schedule, enum segment_kind segment);
void append_tally_receive(struct schedule *schedule, enum segment_kind segment, unsigned parts);

#endif
