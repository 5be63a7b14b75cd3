/* rank_exchange: lists the collectives between the ranks of a site: gathers of params, reductions
 * of gradients, and sums of tallies. With one rank, these functions list nothing. */
#ifndef SKEP_SCHEDULE_RANK_EXCHANGE_H
#define SKEP_SCHEDULE_RANK_EXCHANGE_H

#include "runtime/schedule/schedule.h"

/* ranks_gather_split_params: gather the split params of `unit` into a new extent. This rank's shard
 * is cast from the master, or copied from params in host memory. Returns the extent. */
int ranks_gather_split_params(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_gather_whole_params: gather params that are whole on every rank, after each rank has
 * updated its own shard. */
void ranks_gather_whole_params(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_reduce: sum a unit's whole f32 gradients in extent `sums` over all ranks. The sums replace
 * this rank's shard, or the whole extent when all ranks keep whole gradients (ZeRO 0). Call
 * ranks_finish_reduce, which adds the wait of the compute lane, before any use of the sums. */
void ranks_reduce(struct schedule *schedule, enum segment_kind segment, int unit, int sums);
void ranks_finish_reduce(struct schedule *schedule, enum segment_kind segment, int unit, int sums);

/* ranks_add_to_step_gradients: add the reduced gradients of a microbatch to those of the step. */
void ranks_add_to_step_gradients(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_shard_operand: returns this rank's shard in `extent`, which contains all of `unit` or only
 * the shard. */
struct operand ranks_shard_operand(const struct schedule *schedule, int unit, int extent,
                                   enum access access, enum dtype dtype);

/* ranks_tally_send, ranks_tally_receive: sum `parts` (kernels/tally.h) of the scalars over all
 * ranks. Instructions between the two execute while the transfer is in progress. */
void ranks_tally_send(struct schedule *schedule, enum segment_kind segment);
void ranks_tally_receive(struct schedule *schedule, enum segment_kind segment, unsigned parts);

#endif
