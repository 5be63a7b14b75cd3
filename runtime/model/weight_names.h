/* weight_names: which parameter a tensor of a weight file is, by any name the ecosystem writes. */
#ifndef SKEP_MODEL_WEIGHT_NAMES_H
#define SKEP_MODEL_WEIGHT_NAMES_H

#include "runtime/model/blueprint.h"

/* What weight_name_match answers besides an index. */
enum {
    WEIGHT_IGNORED = -1, /* legacy buffers, and the head of a model whose head is tied */
    WEIGHT_UNKNOWN = -2,
};

/* weight_name_match: the index of the parameter that `file_name` names, WEIGHT_IGNORED or
 * WEIGHT_UNKNOWN. Accepts the names of transformers, with or without the base model's prefix
 * ("model.", "transformer."). Compares with the parameters of one layer only, so a file of
 * thousands of tensors is matched in no time.
 * limits  any NUL-terminated text
 * memory  none */
int weight_name_match(const struct blueprint *blueprint, const char *file_name);

#endif
