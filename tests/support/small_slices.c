/* small_slices: `skep` with the smallest slices, so that a small model has as many as the largest
 * one. The linker places __wrap_slices_divide between the plan of a swarm and that of its slices
 * (--wrap), so nothing of this is in the program. */
#include "runtime/swarm/replica/replica.h"

#include "base/bytes.h"

enum status __real_slices_divide(int64_t parameter_count, enum codec codec, uint32_t members_max,
                                 struct slices *slices, struct fault *fault);
enum status __wrap_slices_divide(int64_t parameter_count, enum codec codec, uint32_t members_max,
                                 struct slices *slices, struct fault *fault);

enum status __wrap_slices_divide(int64_t parameter_count, enum codec codec, uint32_t members_max,
                                 struct slices *slices, struct fault *fault) {
    TRY(__real_slices_divide(parameter_count, codec, members_max, slices, fault));
    const int64_t even = div_ceil(parameter_count, SWARM_SLICES_MAX);
    slices->elements = div_ceil(even, SLICE_GRANULE) * SLICE_GRANULE;
    slices->count = (uint32_t)div_ceil(parameter_count, slices->elements);
    slices->bytes_max = codec_bytes(codec, slices->elements);
    return OK;
}
