/* slices: the fixed partition of the flat parameter space [0, P) into the units of an exchange.
 *
 *     [0, P)   |---- slice 0 ----|---- slice 1 ----| ... |-- last --|     in blueprint order
 *
 * It depends only on P, the codec and members_max, so all members compute the same one. */
#ifndef SKEP_SWARM_REPLICA_SLICES_H
#define SKEP_SWARM_REPLICA_SLICES_H

#include "kernels/codec.h"
#include "runtime/swarm/ledger/limits.h"
#include "transport/messages/frame.h"

enum {
    SLICES_PER_MEMBER = 4,
    SLICE_GRANULE = 256, /* elements: whole blocks of every codec, whole vectors of every ISA */
    SLICE_BYTES_MAX = FRAME_PAYLOAD_MAX - 4096, /* the message's fields are in the same frame */
    SLICE_BYTES_MIN = 16 << 10,
};

struct slices {
    int64_t parameter_count;
    enum codec codec;
    int64_t elements;   /* of each slice; the last may have fewer; whole granules */
    uint32_t count;     /* 1 .. SWARM_SLICES_MAX */
    uint64_t bytes_max; /* of the longest slice, encoded; at most SLICE_BYTES_MAX */
    uint64_t bytes;     /* of all slices, encoded */
};

struct slice_range {
    int64_t begin, end; /* elements */
    uint64_t offset;    /* of its first encoded byte when the slices are concatenated */
    uint64_t bytes;     /* encoded */
};

/* slices_plan: the longest slices that give each of members_max members SLICES_PER_MEMBER slices,
 * within SLICE_BYTES_MIN and SLICE_BYTES_MAX encoded bytes. Small models are thereby distributed
 * over all members too.
 * limits  parameter_count > 0, members_max > 0
 * errors  STATUS_INPUT when P needs more than SWARM_SLICES_MAX slices; *slices untouched */
MUST_CHECK enum status slices_plan(int64_t parameter_count, enum codec codec, uint32_t members_max,
                                   struct slices *slices, struct fault *fault);

/* slices_range: the elements and encoded bytes of slice `index`.
 * limits  index < slices->count */
struct slice_range slices_range(const struct slices *slices, uint32_t index);

#endif
