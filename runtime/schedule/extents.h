/* extents: the buffers that outlive one segment: units, moments, and what the host fills. */
#ifndef SKEP_SCHEDULE_EXTENTS_H
#define SKEP_SCHEDULE_EXTENTS_H

#include "runtime/schedule/extent_table.h"

/* Device sides of what the host fills. */
struct device_inputs {
    int ids, positions, labels, scalars, rope_table;
};

enum {
    SUM_STAGING_MOST = 64 << 20, /* pieces that large keep any link busy */
    SUM_STAGING_LEAST = 64 * 4,  /* of each rank (nccl_staging_min) */
};

/* extents_add_sum_staging: schedule->sum_staging, between GPUs that sum in order. */
void extents_add_sum_staging(struct schedule *schedule);

/* extents_add_units: every unit's parameters, and where it trains master, gradients and moments:
 * whole, or this rank's slot, as its strategy says. */
void extents_add_units(struct schedule *schedule);

/* extents_add_gathered: room for all of a unit whose params are split. */
int extents_add_gathered(struct schedule *schedule, enum segment_kind segment, int unit);

/* extents_add_host: fills schedule->host; gives the device's side of each. */
struct device_inputs extents_add_host(struct schedule *schedule);

/* extents_add_resident: what the options ask to be kept; fills schedule->kept. */
void extents_add_resident(struct schedule *schedule);

/* extents_add_result: a device buffer that the host reads after the segment; *host is where. */
int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host);

#endif
