#include "runtime/model/model.h"

#include <stdio.h>

struct param_layout blueprint_param_layout(const struct blueprint *blueprint) {
    struct param_layout layout = {0};
    while (blueprint->params[layout.blocks_begin].layer == PARAM_NO_LAYER) {
        layout.blocks_begin++;
    }
    while (blueprint->params[layout.blocks_begin + layout.params_per_layer].layer == 0) {
        layout.params_per_layer++;
    }
    layout.blocks_end = layout.blocks_begin + (int)blueprint->layers * layout.params_per_layer;
    return layout;
}

static const struct param *find_param_of_kind(const struct blueprint *blueprint, int begin, int end,
                                              enum param_kind kind) {
    for (int i = begin; i < end; i++) {
        if (blueprint->params[i].kind == kind) {
            return &blueprint->params[i];
        }
    }
    return NULL;
}

const struct param *blueprint_param(const struct blueprint *blueprint, enum param_kind kind,
                                    int layer) {
    ASSERT(layer == PARAM_NO_LAYER || (layer >= 0 && layer < blueprint->layers));
    struct param_layout layout = blueprint_param_layout(blueprint);
    if (layer != PARAM_NO_LAYER) {
        int begin = layout.blocks_begin + layer * layout.params_per_layer;
        return find_param_of_kind(blueprint, begin, begin + layout.params_per_layer, kind);
    }
    const struct param *param = find_param_of_kind(blueprint, 0, layout.blocks_begin, kind);
    return param != NULL
               ? param
               : find_param_of_kind(blueprint, layout.blocks_end, blueprint->param_count, kind);
}

int64_t param_elements(const struct param *param) {
    return param->rank == 2 ? param->shape[0] * param->shape[1] : param->shape[0];
}

int64_t blueprint_elements(const struct blueprint *blueprint) {
    int64_t elements = 0;
    for (int i = 0; i < blueprint->param_count; i++) {
        elements += param_elements(&blueprint->params[i]);
    }
    return elements;
}
