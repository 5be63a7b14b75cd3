/* token_cache: the token files of a folder that `skep data`, or a run with text, has made. */
#ifndef SKEP_DATA_TOKEN_CACHE_H
#define SKEP_DATA_TOKEN_CACHE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/settings/path_list.h"

/* token_cache_list: list the token files for training in `folder`, after a check that their number
 * is that in data.json and that each file has the size that its header states. The tokens are not
 * read.
 * memory  paths in `region`
 * errors  STATUS_INPUT with the file that is missing or damaged; *list is then unchanged */
MUST_CHECK enum status token_cache_list(const char *folder, struct region *region,
                                        struct path_list *list, struct fault *fault);

#endif
