/* corpus_run: the state of one call of corpus_write, and the loop that encodes and writes. */
#ifndef SKEP_CORPUS_CORPUS_RUN_H
#define SKEP_CORPUS_CORPUS_RUN_H

#include "runtime/corpus/corpus.h"
#include "runtime/corpus/corpus_folder.h"
#include "runtime/corpus/corpus_progress.h"
#include "runtime/corpus/document_reader.h"
#include "runtime/corpus/shard_writer.h"
#include "targets/os/pool.h"

/* ids of a batch; the thread that writes encodes a batch with more ids */
enum { BATCH_IDS_MAX = BATCH_BYTES + 4 * BATCH_PIECES_MAX };

/* A batch and its ids. */
struct encoded_batch {
    struct batch batch;
    uint64_t number;    /* counted from 0 over the whole corpus */
    int32_t *ids;       /* [BATCH_IDS_MAX] */
    size_t *piece_ids;  /* [BATCH_PIECES_MAX] number of ids of each piece */
    bool is_encoded;    /* false: the ids need more memory, or are in the files already */
    struct hash hash;   /* hash of the text and of the bounds of its documents */
    enum status status; /* outcome of encoding it */
    struct fault fault;
};

/* Batches that the threads encode together. */
struct group {
    struct encoded_batch *batches; /* [group_size] */
    int count;                     /* 0: the corpus has ended */
};

/* The state of a call of corpus_write. */
struct corpus_run {
    const struct corpus_options *options;
    const struct input_list *inputs;
    struct corpus_folder *folder;
    struct region *region;
    struct pool pool;
    struct tokenizer_encoder **encoders; /* [threads] */
    struct region *encoder_regions;      /* [threads] */
    struct document_reader reader;
    struct group groups[2];  /* one is encoded while the other is read */
    int group_size;          /* batches of a full group */
    int current;             /* index of the group that is encoded */
    uint64_t next_batch;     /* number of the next batch to read */
    enum status read_status; /* outcome of reading the other group */
    struct fault read_fault;
    uint64_t shown_bytes; /* bytes of the files that the progress line has counted */
    struct shard_writer writers[CORPUS_PARTS];
    struct corpus_progress resumed;  /* of an interrupted call; batches 0: there was none */
    struct corpus_progress progress; /* of this call */
    int64_t progress_ns;             /* time at which the progress file was written last */
    bool has_changed;                /* the inputs differ from those of the interrupted call */
};

/* corpus_encode: read, encode and write everything, up to the end of the inputs or until
 * run->has_changed.
 * errors  those of document_reader_next, tokenizer_encode and shard_writer_add; STATUS_STOPPED
 *         after a signal, with the progress saved */
MUST_CHECK enum status corpus_encode(struct corpus_run *run, struct fault *fault);

#endif
