/* extents: the buffers that outlive one segment: units, moments, and what the host fills. */
#ifndef SKEP_SCHEDULE_EXTENTS_H
#define SKEP_SCHEDULE_EXTENTS_H

#include "runtime/schedule/schedule.h"

/* Device sides of what the host fills. */
struct device_inputs {
    int ids, positions, labels, scalars, rope_table;
};

int schedule_named_extent(struct schedule *schedule, const char *name, enum extent_role role,
                          enum space space, uint64_t bytes);

/* extents_add_units: parameters of every unit; with training also master, gradients, moments. */
void extents_add_units(struct schedule *schedule);

/* extents_add_host: fills schedule->host; gives the device's side of each. */
struct device_inputs extents_add_host(struct schedule *schedule);

/* extents_add_result: a device buffer that the host reads after the segment; *host is where. */
int extents_add_result(struct schedule *schedule, const char *name, uint64_t bytes, int *host);

#endif
