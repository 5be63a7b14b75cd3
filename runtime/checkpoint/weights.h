/* weights: loads parameters from a Hugging Face model folder and exports them to one. */
#ifndef SKEP_CHECKPOINT_WEIGHTS_H
#define SKEP_CHECKPOINT_WEIGHTS_H

#include "base/region.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/tensor_file.h"
#include "runtime/model/model.h"

enum {
    /* maximum number of weight files; published models have fewer than 300 */
    WEIGHT_FILES_MAX = 1024,
    /* maximum size of model.safetensors.index.json; one of 92,000 names has 8 MB */
    WEIGHT_INDEX_BYTES_MAX = 64 << 20,
};

/* The default maximum size of one weight file: that of save_pretrained in transformers 4. */
#define WEIGHT_SHARD_BYTES ((int64_t)5000000000)

struct weights_load_args {
    /* folder of model.safetensors, or of model.safetensors.index.json and its files */
    const char *folder;
    const struct blueprint *blueprint;
    /* The pieces to fill: any ranges of any parameters. Several pieces may belong to one parameter,
     * such as a master copy and a bf16 copy. */
    const struct tensor_piece *pieces; /* [piece_count] */
    int piece_count;
    struct staging staging;
};

/* weights_load: fill every piece from the folder's tensors. Every rank calls it for its own pieces.
 * Ranks do not communicate: the caller makes them agree on the status.
 * names    matched to parameters by runtime/model/model.h; buffers that are not parameters are
 *          skipped
 * dtypes   F32, BF16 or F16 in the file; each piece's own type in memory, rounded to nearest even
 * checked  before any tensor is read: every parameter is present once, with its shape, and there is
 *          no other tensor. While reading: every value is finite, and a tied head in the file
 *          equals the embedding in the ranges of this rank's pieces of the embedding
 * reads    headers and the pieces' ranges (a tied head's too), each by bounded preads, never mmap
 * memory   staging, and a temporary region for headers: below 1 KiB a tensor
 * errors   STATUS_INPUT naming file and tensor (and element); pieces may be partly filled */
MUST_CHECK enum status weights_load(const struct weights_load_args *args, struct fault *fault);

struct weights_save_args {
    const char *folder; /* folder to write; replaced as a whole if it contains an earlier export */
    const char *model_folder; /* folder from which tokenizer files are copied; "" for none */
    /* text of config.json, in which the export sets the dtype field to `dtype` */
    const char *config_text;
    size_t config_length;
    /* The tensors to write: tied tensors are listed once; `dtype` replaces the tensors' own types.
     * The pieces are the ranges that this rank writes; over all ranks they cover every element
     * once, and a rank may have none. All else except `ranks` is the same on every rank. */
    struct tensor_set set;
    enum dtype dtype;        /* element type in the files */
    int64_t shard_bytes_max; /* maximum size of a weight file; 0: WEIGHT_SHARD_BYTES */
    struct checkpoint_ranks ranks;
};

/* The layout of a model folder. It is 12 KiB large, so do not put it on the stack. */
struct weights_save {
    /* paths of the final, the new and the previous folder */
    char folder[PATH_BYTES], temporary[PATH_BYTES], aside[PATH_BYTES];
    const char *model_folder;
    struct tensor_file *files;
    int file_count;
    const char *index_text; /* text of the index; NULL if there is only one weight file */
    size_t index_length;
    const char *config_text;
    size_t config_length;
    int64_t bytes; /* total size of the files that are written */
    struct checkpoint_ranks ranks;
};

/* weights_save_plan: lay out the folder; nothing is written. Every rank calls it and receives the
 * same status.
 * memory  in `region`; names and the pieces' memory are kept by reference
 * errors  STATUS_INPUT when `folder` contains files that an export does not write, or is the model
 *         folder itself */
MUST_CHECK enum status weights_save_plan(const struct weights_save_args *args,
                                         struct region *region, struct weights_save *save,
                                         struct fault *fault);

/* weights_save_run: write a temporary folder next to `folder`, make it durable, then rename it.
 * After seal: allocates nothing. The function may be called again. Every rank calls it and receives
 * the same status.
 * errors  STATUS_FIT for a full disk; STATUS_FAILED, also for a weight that is not finite, naming
 *         it. `folder` is then unchanged and the temporary folder is removed */
MUST_CHECK enum status weights_save_run(const struct weights_save *save,
                                        const struct staging *staging, struct fault *fault);

#endif
