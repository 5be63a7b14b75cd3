/* corpus_summary: data.json, which describes the token files of a folder. */
#ifndef SKEP_CORPUS_CORPUS_SUMMARY_H
#define SKEP_CORPUS_CORPUS_SUMMARY_H

#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/corpus.h"

/* corpus_summary_write: write data.json to `folder` (docs/FORMATS.md).
 * errors  those of file_write_new */
MUST_CHECK enum status corpus_summary_write(const char *folder,
                                            const struct corpus_options *options,
                                            const struct corpus_report *report,
                                            struct fault *fault);

/* chat_summary_write: write data.json of a corpus of conversations to `folder`. */
MUST_CHECK enum status chat_summary_write(const char *folder,
                                          const struct chat_corpus_options *options,
                                          const struct chat_corpus_report *report,
                                          struct fault *fault);

#endif
