/* corpus_progress: the file from which an interrupted call of corpus_write or chat_corpus_write
 * continues. */
#ifndef SKEP_CORPUS_CORPUS_PROGRESS_H
#define SKEP_CORPUS_CORPUS_PROGRESS_H

#include "base/hash.h"
#include "runtime/corpus/chat_corpus.h"
#include "runtime/corpus/shard_writer.h"

/* The parts of a corpus, and the number of parts. */
enum corpus_part { CORPUS_TRAIN, CORPUS_VALIDATION, CORPUS_PARTS };

/* Progress of a part of conversations, which are collected, then packed and written together. All
 * zeros for a corpus of text. */
struct chat_progress {
    uint64_t next_number; /* number before which all conversations of this part are in the files */
    /* counts of the conversations in the files; `shards` is not set */
    struct chat_part_report report;
};

/* The extent to which a corpus is durable in the unfinished folder. */
struct corpus_progress {
    struct hash arguments_hash; /* hash of tokenizer, options and inputs */
    uint64_t batches;           /* number of batches of the reader whose tokens are in the files */
    /* chained hash of the text of the batches whose tokens are in the files */
    struct hash text_hash;
    struct shard_position parts[CORPUS_PARTS]; /* by part: end of the durable tokens */
    struct chat_progress chats[CORPUS_PARTS];  /* by part: progress of conversations */
};

/* corpus_progress_write: replace the progress file in `folder` atomically.
 * errors  those of file_replace */
MUST_CHECK enum status corpus_progress_write(const char *folder,
                                             const struct corpus_progress *progress,
                                             struct fault *fault);

/* corpus_progress_read: read the progress file in `folder`.
 * returns  false when there is none, or the file is not valid; *progress is then unchanged */
bool corpus_progress_read(const char *folder, struct corpus_progress *progress);

/* corpus_progress_remove: remove the progress file from `folder`, when the corpus is complete. */
void corpus_progress_remove(const char *folder);

/* corpus_part_name: the name of a part: "train" or "validation". */
const char *corpus_part_name(enum corpus_part part);

#endif
