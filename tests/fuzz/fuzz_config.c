/* fuzz_config: any bytes as a config.json are refused or give a consistent blueprint. */
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_params(const struct blueprint *blueprint) {
    int64_t elements = 0;
    for (int i = 0; i < blueprint->param_count; i++) {
        const struct param *param = &blueprint->params[i];
        ASSERT(strlen(param->name) < NAME_BYTES && param_elements(param) > 0);
        ASSERT(!__builtin_add_overflow(elements, param_elements(param), &elements));
        ASSERT(isfinite(param->init_std) && param->init_std >= 0);
    }
    ASSERT(elements == blueprint_elements(blueprint));
    ASSERT(elements < (int64_t)1 << 60);
}

static void check_rope(const struct blueprint *blueprint) {
    float frequencies[HEAD_DIM_MAX / 2];
    if (blueprint->rope.kind == ROPE_NONE) {
        return;
    }
    blueprint_rope_frequencies(blueprint, frequencies);
    for (int64_t i = 0; i < blueprint->head_dim / 2; i++) {
        ASSERT(isfinite(frequencies[i]) && frequencies[i] >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct region region = {0};
    struct blueprint blueprint = {.layers = 77};
    struct fault fault = {0};
    enum status status =
        blueprint_read((const char *)data, size, "fuzz.json", &region, &blueprint, &fault);
    if (status == OK) {
        check_params(&blueprint);
        check_rope(&blueprint);
        ASSERT(blueprint.heads % blueprint.kv_heads == 0);
        ASSERT(blueprint_param(&blueprint, PARAM_EMBEDDING, PARAM_NO_LAYER) != NULL);
    } else {
        ASSERT(status == STATUS_INPUT && fault.reason[0] != '\0' && blueprint.layers == 77);
    }
    region_finish(&region);
    return 0;
}
