/* random_normals: the initial weights of a model, which are normal values of a random stream of
 * base/random.h. */
#ifndef SKEP_KERNELS_RANDOM_NORMALS_H
#define SKEP_KERNELS_RANDOM_NORMALS_H

#include "base/dtype.h"
#include "kernels/kernels.h"

#include <stdint.h>

enum { RANDOM_NORMALS_OUTPUTS_MAX = 2 }; /* such as a master and its copy in the compute dtype */

/* One buffer that receives the values. */
struct random_normals_output {
    enum dtype dtype; /* f32 or bf16 */
    void *values;     /* [count of the call], aligned to an element */
};

struct random_normals_args {
    uint64_t key;    /* key of the stream */
    int64_t first;   /* index of the first value in the stream */
    int64_t count;   /* number of values */
    float deviation; /* standard deviation */
    int output_count;
    struct random_normals_output outputs[RANDOM_NORMALS_OUTPUTS_MAX];
};

/* random_normals_run: element i of every output = deviation x random_normal(key, first + i).
 * dtypes    each value is computed once, in f32, and rounded to nearest even for bf16 outputs
 * limits    first >= 0, count >= 0; 1 <= output_count <= RANDOM_NORMALS_OUTPUTS_MAX; outputs do not
 *           overlap
 * memory    caller owns all
 * errors    none
 * accuracy  defined to the bit: the same values at every CPU level, for any thread count, and for
 *           any division of a range into calls
 * source    base/random.h; CPU only */
void random_normals_run(const struct compute *compute, const struct random_normals_args *args);

#endif
