/* param_list: the parameters of a blueprint while it is being built. */
#ifndef SKEP_MODEL_FAMILIES_PARAM_LIST_H
#define SKEP_MODEL_FAMILIES_PARAM_LIST_H

#include "base/region.h"
#include "runtime/model/model.h"

struct param_list {
    struct region *region;
    struct param *params; /* [capacity] */
    int count;
    int capacity;
    int layer;          /* of the parameters that follow; PARAM_NO_LAYER outside blocks */
    const char *prefix; /* before their names: "model.layers.", "transformer.h.", or NULL */
};

/* param_list_over: an empty list with room for every kind in `layers` layers and outside them. */
struct param_list param_list_over(struct region *region, int64_t layers);

/* param_list_layer: name the parameters that follow PREFIX LAYER "." NAME; NULL and PARAM_NO_LAYER:
 * by NAME only. */
void param_list_layer(struct param_list *list, const char *prefix, int layer);

/* param_list_matrix: append [rows, columns], normal with deviation `std`. param_list_vector: append
 * [elements]. Both return the new parameter, so that the caller can change it. */
struct param *param_list_matrix(struct param_list *list, enum param_kind kind, const char *name,
                                int64_t rows, int64_t columns, float std);
struct param *param_list_vector(struct param_list *list, enum param_kind kind, const char *name,
                                int64_t elements, enum param_init init);

#endif
