#include "runtime/model/model.h"

#include <stdio.h>

struct param_span blueprint_span(const struct blueprint *blueprint) {
    struct param_span span = {0};
    while (blueprint->params[span.first].layer == PARAM_NO_LAYER) {
        span.first++;
    }
    while (blueprint->params[span.first + span.per_layer].layer == 0) {
        span.per_layer++;
    }
    span.after = span.first + (int)blueprint->layers * span.per_layer;
    return span;
}

static const struct param *find(const struct blueprint *blueprint, int begin, int end,
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
    struct param_span span = blueprint_span(blueprint);
    if (layer != PARAM_NO_LAYER) {
        int begin = span.first + layer * span.per_layer;
        return find(blueprint, begin, begin + span.per_layer, kind);
    }
    const struct param *param = find(blueprint, 0, span.first, kind);
    return param != NULL ? param : find(blueprint, span.after, blueprint->param_count, kind);
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
