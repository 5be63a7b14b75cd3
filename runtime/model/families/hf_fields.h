/* hf_fields: decides about every field of a config.json that no family reads: it is harmless, has a
 * neutral value, or is rejected. */
#ifndef SKEP_MODEL_FAMILIES_HF_FIELDS_H
#define SKEP_MODEL_FAMILIES_HF_FIELDS_H

#include "runtime/model/families/hf_config.h"

/* hf_fields_check: accept a member of `root` if `fields` reads it, if it is known to have no
 * effect, or if it has the one value without effect. Reject any other, since it may change the
 * mathematics. *notice  a line about dropout that is treated as 0, or NULL; in `region`
 * errors   STATUS_INPUT naming the field, and what is supported or the nearest known name */
MUST_CHECK enum status hf_fields_check(const struct json_node *root, const struct hf_field *fields,
                                       int field_count, struct region *region, const char **notice,
                                       struct fault *fault);

#endif
