/* ranks: the instructions between the ranks of a site: gathers of params, reductions of gradients,
 * tallies. None of them does anything on one rank. */
#ifndef SKEP_SCHEDULE_RANKS_H
#define SKEP_SCHEDULE_RANKS_H

#include "runtime/schedule/schedule.h"

/* ranks_gather_split: a new extent in which `unit`, whose params are split, is whole: the own slot
 * cast from the master, or copied from params in host memory, the others gathered around
 * it. Gives the extent. */
int ranks_gather_split(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_gather_whole: params that every rank has whole, after each has updated its own slot. */
void ranks_gather_whole(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_reduce: sum a unit's whole f32 gradients in extent `sums` over all ranks: in place in the
 * own slot, or everywhere when the unit's gradients are whole on every rank (ZeRO 0).
 * ranks_reduce_end lists what the compute lane must first wait for; it comes before any use. */
void ranks_reduce(struct schedule *schedule, enum segment_kind segment, int unit, int sums);
void ranks_reduce_end(struct schedule *schedule, enum segment_kind segment, int unit, int sums);

/* ranks_accumulate: the reduced gradients of a microbatch join those of the step. */
void ranks_accumulate(struct schedule *schedule, enum segment_kind segment, int unit);

/* ranks_owned: the part of `extent`, which holds all of `unit` or the own slot, that this rank
 * owns. */
struct operand ranks_owned(const struct schedule *schedule, int unit, int extent,
                           enum access access, enum dtype dtype);

/* ranks_tally_send, ranks_tally_receive: `parts` (kernels/tally.h) of the scalars become those of
 * all ranks; between the two they are on their way. */
void ranks_tally_send(struct schedule *schedule, enum segment_kind segment);
void ranks_tally_receive(struct schedule *schedule, enum segment_kind segment, unsigned parts);

#endif
