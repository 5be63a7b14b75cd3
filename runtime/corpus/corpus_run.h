/* corpus_run: the state of one call of corpus_write, and the loop that encodes and writes. */
#ifndef SKEP_CORPUS_CORPUS_RUN_H
#define SKEP_CORPUS_CORPUS_RUN_H

#include "runtime/corpus/corpus.h"
#include "runtime/corpus/corpus_folder.h"
#include "runtime/corpus/corpus_progress.h"
#include "runtime/corpus/document_reader.h"
#include "runtime/corpus/shard_writer.h"
#include "targets/os/pool.h"

/* maximum ids of a batch that the pool encodes; the thread that writes encodes a larger one */
enum { BATCH_IDS_MAX = BATCH_BYTES + 4 * BATCH_PIECES_MAX };

/* A batch and its ids. */
struct encoded_batch {
    struct batch batch;
    uint64_t number;   /* number of the batch, counted from 0 over the whole corpus */
    int32_t *ids;      /* [BATCH_IDS_MAX] */
    size_t *piece_ids; /* [BATCH_PIECES_MAX] number of ids of each piece */
    /* false: the batch has more than BATCH_IDS_MAX ids, or is in the files already */
    bool is_encoded;
    struct hash hash;   /* hash of the batch's text and of the bounds of its documents */
    enum status status; /* result of encoding the batch */
    struct fault fault;
};

/* Batches that the threads encode together. */
struct group {
    struct encoded_batch *batches; /* [group_size] */
    int count;                     /* number of batches; 0: the corpus has ended */
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
    struct group groups[2];  /* one group is encoded while the other is read */
    int group_size;          /* number of batches of a full group */
    int current;             /* index of the group that is encoded */
    uint64_t next_batch;     /* number of the next batch to read */
    enum status read_status; /* result of reading the group that is not encoded */
    struct fault read_fault;
    uint64_t shown_bytes; /* number of bytes of the files that the progress line has counted */
    struct shard_writer writers[CORPUS_PARTS];
    /* progress of an interrupted call; batches 0: there was none */
    struct corpus_progress resumed;
    struct corpus_progress progress; /* progress of this call */
    int64_t progress_ns;             /* time at which the progress file was written last */
    bool has_changed;                /* the inputs differ from those of the interrupted call */
};

/* corpus_encode: read, encode and write all batches, up to the end of the inputs or until
 * run->has_changed is true.
 * errors  those of document_reader_next, tokenizer_encode and shard_writer_add; STATUS_STOPPED
 *         after a signal, with the progress saved */
MUST_CHECK enum status corpus_encode(struct corpus_run *run, struct fault *fault);

#endif
