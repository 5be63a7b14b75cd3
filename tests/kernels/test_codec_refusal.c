/* What no codec encodes, on every kind of processor. */
#include "base/check.h"
#include "kernels/codec.h"
#include "tests/kernels/harness.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/codec.h"
#include "tests/kernels/device_scalars.h"
#endif

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

struct refusal {
    enum codec codec;
    struct tensor source, refused;
};

static void run_refusal(const struct compute *compute, void *context) {
    struct refusal *refusal = context;
    uint8_t bytes[4096];
    struct codec_encode_args args = {
        .codec = refusal->codec, .count = refusal->source.count, .source = refusal->source.data};
    *(float *)refusal->refused.data = codec_encode(compute, &args, bytes) ? 0 : 1;
}

#if SKEP_CUDA
static void run_refusal_cuda(const struct cuda_compute *compute, struct device_run *device,
                             void *context) {
    struct refusal *refusal = context;
    struct codec_encode_args args = {.codec = refusal->codec,
                                     .count = refusal->source.count,
                                     .source = device_of(device, &refusal->source)};
    int refused = 0;
    int *on_device = device_put(compute, device, &refused, sizeof refused);
    cuda_codec_encode(compute, &args, device_workspace(device, codec_bytes(args.codec, args.count)),
                      on_device);
    device_copy(compute, &refused, on_device, sizeof refused);
    *(float *)refusal->refused.data = refused == 0 ? 0 : 1;
}
#endif

static void check_refusal(enum codec codec, int64_t place, float value, bool refused) {
    struct refusal refusal = {.codec = codec,
                              .source = tensor_random(DTYPE_F32, 531, PATTERN_NORMAL, 1),
                              .refused = tensor_unset(DTYPE_F32, 1)};
    ((float *)refusal.source.data)[place] = value;
    refusal.refused.exact[0] = refused;
    struct operation operation = {
        .name = "fill",
        .run = run_refusal,
        .run_cuda = ON_CUDA(run_refusal_cuda),
        .context = &refusal,
        .output_count = 1,
        .outputs = {{"refused", &refusal.refused, refusal.refused.exact}}};
    operation_describe(&operation, "%s, %g at %lld", codec_name(codec), (double)value,
                       (long long)place);
    operation_check(&operation);
    tensor_free(&refusal.source);
    tensor_free(&refusal.refused);
}

static void what_is_not_finite_is_refused_by_every_kernel(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        check_refusal((enum codec)codec, 0, NAN, true);
        check_refusal((enum codec)codec, 255, INFINITY, true);
        check_refusal((enum codec)codec, 530, -INFINITY, true);
        check_refusal((enum codec)codec, 300, FLT_MAX, codec == CODEC_BF16 || codec == CODEC_INT8);
        check_refusal((enum codec)codec, 300, FLT_MAX / 2, false);
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_finite_is_refused_by_every_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
