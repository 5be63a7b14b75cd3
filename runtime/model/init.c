#include "runtime/model/model.h"

#include "base/random.h"

uint64_t param_init_key(const struct param *param, uint64_t seed) {
    ASSERT(param->init == INIT_NORMAL);
    return random_key(seed, param->name);
}

void param_init_fill(const struct param *param, uint64_t seed, int64_t first, int64_t count,
                     float *out) {
    ASSERT(first >= 0 && count >= 0 && first <= param_elements(param) - count);
    if (param->init != INIT_NORMAL) {
        float value = param->init == INIT_ONE ? 1.0f : 0.0f;
        for (int64_t i = 0; i < count; i++) {
            out[i] = value;
        }
        return;
    }
    uint64_t key = param_init_key(param, seed);
    for (int64_t i = 0; i < count; i++) {
        out[i] = param->init_std * random_normal(key, (uint64_t)(first + i));
    }
}
