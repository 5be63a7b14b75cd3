/* hf_fields: judges every field of a config.json that no family reads: harmless, neutral, or
 * refused. */
#ifndef SKEP_MODEL_FAMILIES_HF_FIELDS_H
#define SKEP_MODEL_FAMILIES_HF_FIELDS_H

#include "runtime/model/families/hf_config.h"

/* hf_fields_check: each member of `root` is read by `fields`, or known to change nothing, or has
 * the one value that changes nothing. A field that is not known may change the mathematics:
 * refused.
 * *notice  a line about dropout that is run as 0, or NULL; lives in `region`
 * errors   STATUS_INPUT naming the field, and what is supported or the nearest known name */
MUST_CHECK enum status hf_fields_check(const struct json_node *root, const struct hf_field *fields,
                                       int field_count, struct region *region, const char **notice,
                                       struct fault *fault);

#endif
