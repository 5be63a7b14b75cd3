/* snapshot: the whole state of a run in one folder. A run that resumes from it computes
 * the same bits as one that never stopped.
 *
 *     FOLDER/step-000001000/weights.safetensors    NAME
 *                           optimizer.safetensors  exp_avg.NAME, exp_avg_sq.NAME
 *                           config.json
 *                           snapshot.json          step, seed, values, keys, hash of each file
 *
 * Every tensor is stored whole under its Hugging Face name, without units, ranks or padding, so a
 * snapshot of any mesh loads into any other. A snapshot is written as .tmp-step-000001000, file by
 * file, each durable, snapshot.json last; then the folder is renamed. All ranks write into the same
 * files, each its own ranges (joint_write.h). */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_H
#define SKEP_CHECKPOINT_SNAPSHOT_H

#include "base/hash.h"
#include "base/limits.h"
#include "base/region.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/tensor_file.h"

enum {
    /* maximum number of files: weights, optimizer, config, outer state, some spare */
    SNAPSHOT_FILES_MAX = 8,
    SNAPSHOT_VALUES_MAX = 32, /* maximum number of values: random keys, cursors, counters */
    SNAPSHOT_KEYS_BYTES_MAX = 1 << 18, /* maximum size of the text of a run's settings */
    /* maximum size of snapshot.json: the settings with JSON escapes, and all other fields */
    SNAPSHOT_JSON_BYTES_MAX = 1 << 21,
    /* maximum size of the name of a file or a value, including NUL */
    SNAPSHOT_NAME_BYTES = 64,
    SNAPSHOTS_MAX = 4096, /* maximum number of snapshots in one folder */
};

/* The stages of a snapshot's folder; each has its own name. */
enum snapshot_path_kind {
    SNAPSHOT_COMPLETE,   /* step-000001000: complete */
    SNAPSHOT_INCOMPLETE, /* .tmp-step-000001000: being written or removed */
    SNAPSHOT_REPLACED,   /* .old-step-000001000: being replaced by a snapshot of the same step */
};

/* snapshot_path: the path of the snapshot of `step` in `folder`. */
void snapshot_path(const char *folder, enum snapshot_path_kind kind, int64_t step,
                   char out[static PATH_BYTES]);

/* A number that a resumed run needs: a random key, the data cursor, tokens trained. */
struct snapshot_value {
    char name[SNAPSHOT_NAME_BYTES];
    uint64_t value;
};

struct snapshot_file {
    char name[SNAPSHOT_NAME_BYTES];
    int64_t bytes;    /* size of the file in bytes */
    struct hash hash; /* hash of the file's content */
};

/* The contents of snapshot.json. Texts are in the reader's region. */
struct snapshot {
    const char *path;  /* path of the snapshot's folder */
    int64_t step;      /* completed steps */
    uint64_t sequence; /* number of the save; it increases also when a resumed run repeats a step */
    uint64_t seed;     /* random seed of the run */
    double saved_at;   /* time of the save in Unix seconds */
    struct hash plan_hash;
    const char *keys;         /* text of the run's settings */
    const char *model_folder; /* folder that contains the tokenizer's files; "" for none */
    struct snapshot_value values[SNAPSHOT_VALUES_MAX];
    int value_count;
    struct snapshot_file files[SNAPSHOT_FILES_MAX];
    int file_count;
};

/* Tensors of one kind, which are stored in `file` under their names with `prefix` before them. */
struct snapshot_group {
    const char *file;      /* "weights.safetensors" */
    const char *prefix;    /* prefix of the stored names: "", "exp_avg." or "exp_avg_sq." */
    struct tensor_set set; /* tensors, and their pieces in this process, in the tensors' types */
};

/* The arguments that are the same for every save of a run. All ranks pass the same arguments,
 * except for `ranks` and the groups' pieces. The pointers are kept, so their targets must
 * remain. */
struct snapshot_args {
    const char *folder; /* folder of the snapshots, created if it is missing */
    /* number of snapshots to keep, 1 to SNAPSHOTS_MAX - 1; older ones are removed */
    int keep;
    /* Groups of one file are adjacent. The pieces are the ranges that this rank writes. Over all
     * ranks they cover every element once, so only one rank has a piece of state that several ranks
     * store; a rank may have no piece. snapshot_load takes its own groups. */
    const struct snapshot_group *groups;
    int group_count;
    struct checkpoint_ranks ranks;
    const char *config_text; /* text of config.json; with it, an export needs only the snapshot */
    size_t config_length;
    const char *model_folder; /* recorded; "" for none */
    const char *keys;         /* text of the run's settings */
    struct hash plan_hash;
};

/* The arguments of one save. */
struct snapshot_state {
    int64_t step;  /* completed steps */
    uint64_t seed; /* random seed of the run */
    const struct snapshot_value *values;
    int value_count;
};

/* A complete snapshot that the folder contains. */
struct snapshot_retained {
    int64_t step;      /* completed steps */
    uint64_t sequence; /* number of the save; every save of the run increases it */
};

struct snapshot_writer {
    struct snapshot_args args;
    struct tensor_file *files; /* [file_count] layouts of the tensor files */
    int file_count;
    char *json; /* [json_capacity]: buffer for snapshot.json */
    size_t json_capacity;
    struct snapshot_retained *retained; /* [SNAPSHOTS_MAX], oldest first; empty except on rank 0 */
    int retained_count;
    int64_t bytes; /* maximum size in bytes of one snapshot on disk */
    /* [PATH_BYTES]: paths of the folder of the step that is saved, by stage */
    char *incomplete_path, *complete_path, *replaced_path;
};

/* snapshot_writer_init: lay out the files of a run's snapshots. Rank 0 also makes the folder, lists
 * its snapshots, and removes the leftovers of an interrupted save. Call it before seal. A run may
 * find and load the snapshot from which it resumes before or after this call. Every rank calls it
 * and receives the same status.
 * memory  in `region`
 * errors  STATUS_FAILED when the folder cannot be made or read */
MUST_CHECK enum status snapshot_writer_init(const struct snapshot_args *args, struct region *region,
                                            struct snapshot_writer *writer, struct fault *fault);

/* snapshot_save: write a snapshot, make it durable, rename it, check that it is complete, then
 * remove the oldest ones beyond `keep`. A failed removal is logged and
 * retried at the next save. A snapshot of the same step is replaced. After seal: allocates nothing.
 * Every rank calls it with the same step.
 * memory  rank 0 reads the written files back through `staging` to record their hashes
 * errors  STATUS_FIT for a full disk, else STATUS_FAILED, the same on every rank. All earlier
 *         snapshots are then unchanged, and no other folder remains, except that the new snapshot
 *         remains when the error came after the rename. A rank that crashes leaves .tmp-step-N,
 *         which the next snapshot_writer_init removes */
MUST_CHECK enum status snapshot_save(struct snapshot_writer *writer,
                                     const struct snapshot_state *state,
                                     const struct staging *staging, struct fault *fault);

/* snapshot_read: read `path`/snapshot.json; check its hash and the sizes of the files.
 * memory  texts in `region`
 * errors  STATUS_INPUT naming the damaged file; *snapshot is then unchanged */
MUST_CHECK enum status snapshot_read(const char *path, struct region *region,
                                     struct snapshot *snapshot, struct fault *fault);

/* snapshot_verify: snapshot_read, then check the hash of every file. */
MUST_CHECK enum status snapshot_verify(const char *path, struct region *region,
                                       struct snapshot *snapshot, struct fault *fault);

/* One folder of a list: its contents, or the fault that prevents reading it. */
struct snapshot_list_item {
    struct snapshot snapshot; /* contents of the folder; only `path` is set if !is_readable */
    bool is_readable;         /* `snapshot` is set */
    struct fault fault;       /* why the snapshot cannot be read, if !is_readable */
};

/* snapshot_list: list all snapshots of a folder, unreadable ones first, then in the order of
 * saving. The hashes of the files are not checked. A missing folder contains none.
 * errors  STATUS_FAILED when the folder cannot be read; STATUS_INPUT beyond SNAPSHOTS_MAX */
MUST_CHECK enum status snapshot_list(const char *folder, struct region *region,
                                     struct snapshot_list_item **listed, int *count,
                                     struct fault *fault);

/* snapshot_find_newest: the newest snapshot whose files all match their hashes. Each newer, damaged
 * one is logged as an error. It reads every byte, so only one rank calls it and sends the path to
 * the others, which call snapshot_read.
 * *found  false: the folder has no snapshot
 * errors  STATUS_INPUT when the folder has snapshots and all are damaged */
MUST_CHECK enum status snapshot_find_newest(const char *folder, struct region *region,
                                            struct snapshot *snapshot, bool *found,
                                            struct fault *fault);

/* snapshot_load: fill every piece of the groups, bit for bit, whichever ranks saved them. The
 * groups list all tensors of the snapshot; only the ranges of this rank's pieces are read. Ranks do
 * not communicate: the caller makes them agree on the status.
 * errors  STATUS_INPUT naming a tensor that is missing, unexpected, or of another shape or type */
MUST_CHECK enum status snapshot_load(const struct snapshot *snapshot,
                                     const struct snapshot_group *groups, int group_count,
                                     struct fault *fault);

/* snapshot_find_value: find the value `name`; returns false when the snapshot does not have it. */
bool snapshot_find_value(const struct snapshot *snapshot, const char *name, uint64_t *value);

/* snapshot_model_dtype: the element type of the model in the snapshot's config.json; F32 when it
 * has none.
 * errors  STATUS_INPUT when the file cannot be read or has a type that Skep does not write */
MUST_CHECK enum status snapshot_model_dtype(const struct snapshot *snapshot, enum dtype *dtype,
                                            struct fault *fault);

/* snapshot_export: write a snapshot's weights as a Hugging Face model folder.
 * dtype   type of the weights in the written files
 * memory  the headers and a staging buffer
 * errors  those of weights_save_run */
MUST_CHECK enum status snapshot_export(const struct snapshot *snapshot, const char *folder,
                                       enum dtype dtype, struct fault *fault);

#endif
