/* config_text: the one change that saving makes to a config.json: its element type. */
#ifndef SKEP_CHECKPOINT_CONFIG_TEXT_H
#define SKEP_CHECKPOINT_CONFIG_TEXT_H

#include "base/dtype.h"
#include "base/fault.h"

#include <stddef.h>

enum { CONFIG_TEXT_GROWTH = 64 }; /* bytes that the change may add, the final NUL included */

/* config_text_set_dtype: `config` with its top-level "dtype" and "torch_dtype" saying `dtype`,
 * under the spelling that is there; every other byte is kept. A config without either gets
 * "torch_dtype" unless `dtype` is F32, which is what absence means.
 * memory  out of length + CONFIG_TEXT_GROWTH, NUL-terminated; `config` must be NUL-terminated
 * errors  STATUS_INPUT when the text is not a JSON object; *out_length untouched */
MUST_CHECK enum status config_text_set_dtype(const char *config, size_t length, enum dtype dtype,
                                             char *out, size_t capacity, size_t *out_length,
                                             struct fault *fault);

#endif
