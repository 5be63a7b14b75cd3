#include "runtime/model/families/param_list.h"

#include <stdio.h>

struct param_list param_list_create(struct region *region, int64_t layers) {
    int capacity = (int)(layers + 1) * PARAM_KIND_COUNT;
    return (struct param_list){.region = region,
                               .params =
                                   region_alloc(region, (size_t)capacity, sizeof(struct param)),
                               .capacity = capacity,
                               .layer = PARAM_NO_LAYER};
}

void param_list_set_layer(struct param_list *list, const char *prefix, int layer) {
    list->prefix = prefix;
    list->layer = layer;
}

static struct param *append_param(struct param_list *list, enum param_kind kind, const char *name) {
    ASSERT(list->count < list->capacity);
    char full[NAME_BYTES];
    int length = list->layer == PARAM_NO_LAYER
                     ? snprintf(full, sizeof full, "%s", name)
                     : snprintf(full, sizeof full, "%s%d.%s", list->prefix, list->layer, name);
    ASSERT(length > 0 && (size_t)length < sizeof full);
    struct param *param = &list->params[list->count++];
    *param = (struct param){
        .name = region_copy_text(list->region, full), .kind = kind, .layer = list->layer};
    return param;
}

struct param *param_list_append_matrix(struct param_list *list, enum param_kind kind,
                                       const char *name, int64_t rows, int64_t columns, float std) {
    struct param *param = append_param(list, kind, name);
    param->rank = 2;
    param->shape[0] = rows;
    param->shape[1] = columns;
    param->init = INIT_NORMAL;
    param->init_std = std;
    return param;
}

struct param *param_list_append_vector(struct param_list *list, enum param_kind kind,
                                       const char *name, int64_t elements, enum param_init init) {
    struct param *param = append_param(list, kind, name);
    param->rank = 1;
    param->shape[0] = elements;
    param->shape[1] = 1;
    param->init = init;
    return param;
}
