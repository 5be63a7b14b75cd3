/* hf_fields: checks the fields of a config.json that its family does not read. A field is harmless,
 * has a neutral value, or is rejected. */
#ifndef SKEP_MODEL_FAMILIES_HF_FIELDS_H
#define SKEP_MODEL_FAMILIES_HF_FIELDS_H

#include "runtime/model/families/hf_config.h"

/* hf_fields_check: accept a member of `root` if `fields` reads it, if it is known to have no
 * effect, or if it has its neutral value. Reject every other member, because it may change the
 * mathematics.
 * notice  receives a one-line warning, in `region`, about dropout treated as 0, or NULL
 * errors  STATUS_INPUT with the field, and its supported values or the nearest known name */
MUST_CHECK enum status hf_fields_check(const struct json_node *root, const struct hf_field *fields,
                                       int field_count, struct region *region, const char **notice,
                                       struct fault *fault);

#endif
