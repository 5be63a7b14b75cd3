/* param_list: builds the list of a blueprint's parameters. */
#ifndef SKEP_MODEL_FAMILIES_PARAM_LIST_H
#define SKEP_MODEL_FAMILIES_PARAM_LIST_H

#include "base/region.h"
#include "runtime/model/model.h"

struct param_list {
    struct region *region;
    struct param *params; /* [capacity] */
    int count;            /* number of parameters in `params` */
    int capacity;         /* number of parameters that fit in `params` */
    int layer; /* layer of the parameters appended next; PARAM_NO_LAYER outside the blocks */
    /* first part of the names of these parameters, for example "model.layers."; may be NULL */
    const char *prefix;
};

/* param_list_create: create an empty list with capacity for every parameter of a model of `layers`
 * layers. */
struct param_list param_list_create(struct region *region, int64_t layers);

/* param_list_set_layer: set the layer of the parameters appended next. Their names become PREFIX
 * LAYER "." NAME. With NULL and PARAM_NO_LAYER, they are NAME only. */
void param_list_set_layer(struct param_list *list, const char *prefix, int layer);

/* param_list_append_matrix: append a matrix [rows, columns] with normal initial values of standard
 * deviation `std`. param_list_append_vector: append a vector [elements]. Both return the new
 * parameter, so that the caller can change it. */
struct param *param_list_append_matrix(struct param_list *list, enum param_kind kind,
                                       const char *name, int64_t rows, int64_t columns, float std);
struct param *param_list_append_vector(struct param_list *list, enum param_kind kind,
                                       const char *name, int64_t elements, enum param_init init);

#endif
