/* weights: a Hugging Face model folder to parameters in memory, and back. */
#ifndef SKEP_CHECKPOINT_WEIGHTS_H
#define SKEP_CHECKPOINT_WEIGHTS_H

#include "base/region.h"
#include "runtime/checkpoint/checkpoint_site.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/tensor_file.h"
#include "runtime/model/model.h"

enum {
    WEIGHT_FILES_MAX = 1024,           /* the most sharded published model has below 300 */
    WEIGHT_INDEX_BYTES_MAX = 64 << 20, /* 92,000 names take 8 MB */
};

/* The most that save_pretrained of transformers 4 puts into one file. */
#define WEIGHT_SHARD_BYTES ((int64_t)5000000000)

struct weights_load_args {
    const char *folder; /* model.safetensors, or model.safetensors.index.json and its shards */
    const struct blueprint *blueprint;
    const struct tensor_piece *pieces; /* any ranges of any parameters; several may bear one name:
                                          ranges, master and copy */
    int piece_count;
    struct staging staging;
};

/* weights_load: fill every piece from the folder's tensors. Every rank calls it for the pieces it
 * holds; they agree on the outcome by themselves.
 * names    matched by runtime/model/model.h; buffers that are no parameters are passed over
 * dtypes   F32, BF16, F16 in the file, each piece's own type in memory, nearest even
 * checked  before anything is read: every parameter is there once, with its shape, nothing else is;
 *          while reading: every value is finite; a tied head in the file equals the embedding where
 *          a piece of the embedding lies
 * reads    headers and the pieces' ranges (a tied head's too), each by bounded preads, never mmap
 * memory   staging; headers in a region that is freed again: below 1 KiB a tensor
 * errors   STATUS_INPUT naming file and tensor (and element); pieces may be partly filled */
MUST_CHECK enum status weights_load(const struct weights_load_args *args, struct fault *fault);

struct weights_save_args {
    const char *folder;       /* replaced as a whole when it holds an earlier export */
    const char *model_folder; /* tokenizer files are copied from here; "" for none */
    const char *config_text;  /* config.json; its dtype field is made to agree with `dtype` */
    size_t config_length;
    /* Ties once; the tensors' own types are not looked at. The pieces are what this rank writes:
     * those of all ranks together are every element once, and a rank may have none. All else but
     * `site` is the same on every rank. */
    struct tensor_set set;
    enum dtype dtype;        /* in the files */
    int64_t shard_bytes_max; /* 0: WEIGHT_SHARD_BYTES */
    struct checkpoint_ranks site;
};

/* A model folder laid out before it is written. 12 KiB: not for the stack. */
struct weights_save {
    char folder[PATH_BYTES], temporary[PATH_BYTES], aside[PATH_BYTES];
    const char *model_folder;
    struct tensor_file *files;
    int file_count;
    const char *index_text; /* NULL for a single file */
    size_t index_length;
    const char *config_text;
    size_t config_length;
    int64_t bytes; /* of all files that are written */
    struct checkpoint_ranks site;
};

/* weights_save_plan: lay out the folder; nothing is written. Every rank calls it; they agree once,
 * at its end.
 * memory  in `region`; names and the pieces' memory by reference
 * errors  STATUS_INPUT when `folder` holds files that an export does not write, or is the model
 *         folder itself; the same on every rank */
MUST_CHECK enum status weights_save_plan(const struct weights_save_args *args,
                                         struct region *region, struct weights_save *save,
                                         struct fault *fault);

/* weights_save_run: write the folder beside its place, make it durable, put it there at once. After
 * seal too: allocates nothing; may be called again. Every rank calls it.
 * errors  STATUS_FIT for a full disk; STATUS_FAILED, also for a weight that is not finite, naming
 *         it; the same on every rank. `folder` is then what it was and nothing is left beside it */
MUST_CHECK enum status weights_save_run(const struct weights_save *save,
                                        const struct staging *staging, struct fault *fault);

#endif
