/* compute: what every kernel call is given: the table of chosen variants and the thread pool. */
#ifndef SKEP_KERNELS_COMPUTE_H
#define SKEP_KERNELS_COMPUTE_H

#include "targets/os/pool.h"

struct kernel_table;

struct compute {
    const struct kernel_table *table; /* filled by kernel_table_init */
    struct pool *pool;
};

#endif
