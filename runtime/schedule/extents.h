/* extents: the buffers that outlive one segment: units, moments, and the inputs that the CPU
 * writes. */
#ifndef SKEP_SCHEDULE_EXTENTS_H
#define SKEP_SCHEDULE_EXTENTS_H

#include "runtime/schedule/extent_table.h"

/* Device extents of the inputs that the CPU writes. */
struct device_inputs {
    int ids, positions, labels, scalars, rope_table; /* extents in device memory */
};

enum {
    /* maximum size of the staging: a sum in larger parts would not use a link better */
    SUM_STAGING_MAX = 64 << 20,
    /* minimum size of the staging per rank, as nccl_staging_bytes_min requires */
    SUM_STAGING_MIN = 64 * 4,
};

/* extents_add_sum_staging: on GPUs that sum in the order of ranks, add the staging buffer for these
 * sums and set schedule->sum_staging to it. */
void extents_add_sum_staging(struct schedule *schedule);

/* extents_add_units: add the parameters of every unit, and the master, gradients and moments of
 * trained units. The sharding strategy of the unit determines which of them are whole and which are
 * this rank's shard. */
void extents_add_units(struct schedule *schedule);

/* extents_add_gathered_unit: add a buffer for all elements of a unit whose params are split. */
int extents_add_gathered_unit(struct schedule *schedule, enum segment_kind segment, int unit);

/* extents_add_inputs: add the inputs that the CPU writes, and set schedule->host to the extents
 * that it writes. Returns the extents of these inputs on the device. */
struct device_inputs extents_add_inputs(struct schedule *schedule);

/* extents_add_resident: add the resident extents of the options; sets schedule->resident. */
void extents_add_resident(struct schedule *schedule);

/* extents_add_result: add a device buffer for a result, and return its extent. The CPU reads the
 * result from extent *host after the segment. */
int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host);

#endif
