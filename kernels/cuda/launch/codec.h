/* codec on CUDA: kernels/codec.h with device addresses. Bytes and bits are the same as on the
 * CPU. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_CODEC_H
#define SKEP_KERNELS_CUDA_LAUNCH_CODEC_H

#include "kernels/codec.h"
#include "kernels/cuda/launch/launch.h"

struct cuda_codec_kernels {
    CUfunction encode[CODEC_COUNT], decode[CODEC_COUNT]; /* [codec] */
};

/* cuda_codec_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_codec_kernels_init(const struct cuda_driver *driver,
                                               struct cuda_codec_kernels *kernels,
                                               struct fault *fault);

/* cuda_codec_encode: codec_encode. Adds to *nonfinite, in device memory, the number of blocks
 * (fp32, bf16: elements) that are not finite. The caller sets it to zero first, and must use
 * neither bytes nor residual if it is nonzero afterwards. */
void cuda_codec_encode(const struct cuda_compute *compute, const struct codec_encode_args *args,
                       uint8_t *bytes, int *nonfinite);

void cuda_codec_decode(const struct cuda_compute *compute, enum codec codec, int64_t count,
                       const uint8_t *bytes, float *values);

void cuda_codec_decode_add(const struct cuda_compute *compute, const struct codec_add_args *args,
                           const uint8_t *bytes, float *sums);

#endif
