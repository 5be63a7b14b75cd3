/* tokenizer_folder: the folder of a model's tokenizer. */
#ifndef SKEP_CORPUS_TOKENIZER_FOLDER_H
#define SKEP_CORPUS_TOKENIZER_FOLDER_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/limits.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdbool.h>

/* tokenizer_folder_find: find the folder of `model`: a folder, a file in it such as config.json, or
 * org/name in the Hub cache. The model itself need not be supported.
 * errors  STATUS_INPUT when there is no such folder */
MUST_CHECK enum status tokenizer_folder_find(const char *model, char folder[static PATH_BYTES],
                                             struct fault *fault);

/* tokenizer_folder_warn: log a warning if the tokenizer has more ids than the `vocab_size` of the
 * config.json in its folder, because training would reject such an id only after all text is
 * tokenised. It is no error, because the text may use none of these ids. */
void tokenizer_folder_warn(const char *folder, const struct tokenizer *tokenizer);

/* tokenizer_folder_hash: the BLAKE2b-256 of the tokenizer.json of `model`, which headers of token
 * files contain.
 * returns  false when the model has none, or it cannot be read; *hash is then unchanged */
bool tokenizer_folder_hash(const char *model, struct hash *hash);

#endif
