/* config_text: sets the element type in a config.json, the only change that an export makes. */
#ifndef SKEP_CHECKPOINT_CONFIG_TEXT_H
#define SKEP_CHECKPOINT_CONFIG_TEXT_H

#include "base/dtype.h"
#include "base/fault.h"

#include <stddef.h>

/* maximum number of bytes that a new dtype adds to the text, including the final NUL */
enum { CONFIG_TEXT_GROWTH = 64 };

/* config_text_set_dtype: copy `config` with `dtype` as the value of its top-level "dtype" and
 * "torch_dtype". All other bytes are copied unchanged. A config that has neither gets
 * "torch_dtype", unless `dtype` is F32, which is the default.
 * memory  out of length + CONFIG_TEXT_GROWTH, NUL-terminated; `config` must be NUL-terminated
 * errors  STATUS_INPUT when the text is not a JSON object; *out_length is then unchanged */
MUST_CHECK enum status config_text_set_dtype(const char *config, size_t length, enum dtype dtype,
                                             char *out, size_t capacity, size_t *out_length,
                                             struct fault *fault);

#endif
