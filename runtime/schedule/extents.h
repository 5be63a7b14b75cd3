/* extents: the buffers that outlive one segment: units, moments, and the inputs that the CPU
 * writes. */
#ifndef SKEP_SCHEDULE_EXTENTS_H
#define SKEP_SCHEDULE_EXTENTS_H

#include "runtime/schedule/extent_table.h"

/* The extents on the device of the inputs that the CPU writes. */
struct device_inputs {
    int ids, positions, labels, scalars, rope_table;
};

enum {
    SUM_STAGING_MAX = 64 << 20, /* parts of this size keep any link busy */
    SUM_STAGING_MIN = 64 * 4,   /* per rank (nccl_staging_min) */
};

/* extents_add_sum_staging: set schedule->sum_staging, for GPUs that sum in order. */
void extents_add_sum_staging(struct schedule *schedule);

/* extents_add_units: add the parameters of every unit, and for trained units master, gradients and
 * moments: whole, or this rank's shard, by the unit's strategy. */
void extents_add_units(struct schedule *schedule);

/* extents_add_gathered: add a buffer for the whole of a unit whose params are split. */
int extents_add_gathered(struct schedule *schedule, enum segment_kind segment, int unit);

/* extents_add_host: set schedule->host; returns the extents on the device. */
struct device_inputs extents_add_host(struct schedule *schedule);

/* extents_add_resident: add the resident extents of the options; sets schedule->resident. */
void extents_add_resident(struct schedule *schedule);

/* extents_add_result: add a device buffer that the CPU reads after the segment, in extent *host. */
int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host);

#endif
