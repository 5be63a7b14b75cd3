/* text_tokens: text and conversations among the data of a run. For a model with a tokenizer, these
 * files are tokenised once, into a cache, and the run reads the token files from the cache. */
#ifndef SKEP_DATA_TEXT_TOKENS_H
#define SKEP_DATA_TEXT_TOKENS_H

#include "runtime/settings/settings.h"

/* data_tokenise_list: if the files in `list` are text or JSON lines, or folders of them, and the
 * model has a tokenizer.json, replace the list by token files in the cache:
 * $XDG_CACHE_HOME/skep/tokens or ~/.cache/skep/tokens. The name of their folder is a hash of the
 * tokenizer and of path, size and time of each file. If the folder does not exist or its files are
 * damaged (token_cache.h), this function writes the folder and logs the progress; the folder
 * appears when it is complete. While another process writes the folder, this function waits. Lists
 * of other files are unchanged, and so are all lists if data.format is set. JSON lines are
 * conversations if data.chat is set, or the first line has `messages` and no text
 * (chat_corpus_is_chat): conversations become rows of batch.sequence tokens, and their template is
 * that of data.chat or of the model.
 * memory  paths in `region`
 * errors  STATUS_INPUT for a list of both text and tokens, and without a folder for the cache;
 *         those of tokenizer_load, corpus_write, chat_options_find and chat_corpus_write. *list is
 *         then unchanged */
MUST_CHECK enum status data_tokenise_list(const struct settings *settings, struct path_list *list,
                                          struct region *region, struct fault *fault);

/* data_is_text: whether data_tokenise_list would replace the list. */
bool data_is_text(const struct settings *settings, const struct path_list *list);

/* data_tokenise_text: call data_tokenise_list for data.train and for data.validation. */
MUST_CHECK enum status data_tokenise_text(struct settings *settings, struct region *region,
                                          struct fault *fault);

#endif
