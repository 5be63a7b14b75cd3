/* slices: the fixed partition of the flat parameter space [0, P) that an exchange goes by.
 *
 *     [0, P)   |---- slice 0 ----|---- slice 1 ----| ... |-- last --|     in blueprint order
 *
 * It follows from P, the codec and members_max alone, so that all members have the same. */
#ifndef SKEP_SWARM_SLICES_H
#define SKEP_SWARM_SLICES_H

#include "kernels/codec.h"
#include "runtime/swarm/limits.h"

struct slices {
    int64_t parameter_count;
    enum codec codec;
    int64_t elements;   /* of each slice but the last, which may have fewer; whole blocks */
    uint32_t count;     /* 1 .. SWARM_SLICES_MAX */
    uint64_t bytes_max; /* of one, encoded; at most FRAME_PAYLOAD_MAX */
    uint64_t bytes;     /* of all, encoded */
};

struct slice_range {
    int64_t begin, end; /* elements */
    uint64_t offset;    /* of its first encoded byte when slices lie one behind the other */
    uint64_t bytes;     /* encoded */
};

/* slices_cut: slices of at most 1 MiB encoded; shorter ones, down to 16 KiB, while there are fewer
 * than SLICES_PER_MEMBER for each of members_max, so that small models can be shared out too.
 * errors  STATUS_INPUT when P needs more than SWARM_SLICES_MAX slices; *slices untouched */
MUST_CHECK enum status slices_cut(int64_t parameter_count, enum codec codec, uint32_t members_max,
                                  struct slices *slices, struct fault *fault);

/* slices_range: where slice `index` lies.
 * limits  index < slices->count */
struct slice_range slices_range(const struct slices *slices, uint32_t index);

enum { SLICES_PER_MEMBER = 4 };

#endif
