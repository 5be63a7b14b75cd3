/* snapshot: the whole state of a run in a folder of its own, from which it continues to the bit.
 *
 *     FOLDER/step-000001000/weights.safetensors    NAME
 *                           optimizer.safetensors  exp_avg.NAME, exp_avg_sq.NAME
 *                           config.json
 *                           snapshot.json          step, seed, values, keys, hash of each file
 *
 * Every tensor is stored whole under its Hugging Face name: units, ranks and padding leave no
 * trace, so any mesh can save and any other can load. A snapshot is written as .tmp-step-000001000,
 * made durable file by file, snapshot.json last, and put in place by one rename. All ranks write
 * into the same files, each its own ranges (joint_write.h). */
#ifndef SKEP_CHECKPOINT_SNAPSHOT_H
#define SKEP_CHECKPOINT_SNAPSHOT_H

#include "base/hash.h"
#include "base/limits.h"
#include "base/region.h"
#include "runtime/checkpoint/checkpoint_site.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/checkpoint/tensor_file.h"

enum {
    SNAPSHOT_FILES_MAX = 8,            /* weights, optimizer, config, outer state, spare */
    SNAPSHOT_VALUES_MAX = 32,          /* random keys, cursors, counters */
    SNAPSHOT_KEYS_BYTES_MAX = 1 << 18, /* the text of a run's keys */
    SNAPSHOT_JSON_BYTES_MAX = 1 << 21, /* that text escaped, and the rest */
    SNAPSHOT_NAME_BYTES = 64,          /* of a file or a value */
    SNAPSHOTS_MAX = 4096,              /* in one folder */
};

/* A number that must survive: a random key, the data cursor, tokens seen. */
struct snapshot_value {
    char name[SNAPSHOT_NAME_BYTES];
    uint64_t value;
};

struct snapshot_file {
    char name[SNAPSHOT_NAME_BYTES];
    int64_t bytes;
    struct hash hash;
};

/* What snapshot.json says. Texts live in the reader's region. */
struct snapshot {
    const char *path;  /* of the folder */
    int64_t step;      /* completed steps */
    uint64_t sequence; /* grows with every save, also when a resumed run repeats a step */
    uint64_t seed;
    double saved_at; /* Unix seconds */
    struct hash plan_hash;
    const char *keys;         /* the run's effective keys */
    const char *model_folder; /* where tokenizer files are; "" for none */
    struct snapshot_value values[SNAPSHOT_VALUES_MAX];
    int value_count;
    struct snapshot_file files[SNAPSHOT_FILES_MAX];
    int file_count;
};

/* Tensors of one kind: `prefix` in front of each one's name, in `file`. */
struct snapshot_group {
    const char *file;      /* "weights.safetensors" */
    const char *prefix;    /* "", "exp_avg.", "exp_avg_sq." */
    struct tensor_set set; /* pieces in their tensor's type */
};

/* What is the same for every save of a run, and on all ranks but for `site` and the groups' pieces.
 * Kept by reference. */
struct snapshot_args {
    const char *folder; /* made when it is not there */
    int keep;           /* 1 to SNAPSHOTS_MAX - 1: older ones are removed in the order of saving */
    /* Those of one file side by side. The pieces are what this rank writes: those of all ranks
     * together are every element once, so of state that several ranks hold only one has a piece
     * here, and a rank may have none. What is loaded is told to snapshot_load. */
    const struct snapshot_group *groups;
    int group_count;
    struct checkpoint_ranks site;
    const char *config_text; /* config.json, so that an export needs nothing else */
    size_t config_length;
    const char *model_folder; /* recorded; "" for none */
    const char *keys;
    struct hash plan_hash;
};

/* What changes from save to save. */
struct snapshot_state {
    int64_t step;
    uint64_t seed;
    const struct snapshot_value *values;
    int value_count;
};

struct snapshot_retained {
    int64_t step;
    uint64_t sequence;
};

struct snapshot_writer {
    struct snapshot_args args;
    struct tensor_file *files;
    int file_count;
    char *json; /* [json_capacity] */
    size_t json_capacity;
    struct snapshot_retained *kept; /* [SNAPSHOTS_MAX], oldest first; none but on rank 0 */
    int kept_count;
    int64_t bytes;              /* of one snapshot on disk, at most */
    char *begun, *done, *aside; /* [PATH_BYTES], of the step being saved */
};

/* snapshot_writer_init: lay out the files; on rank 0 make the folder, see what it holds, and clear
 * what an interrupted save left. Before seal; call snapshot_find_newest before or after it, but
 * load before or after both. Every rank calls it; they agree once, at its end.
 * memory  in `region`
 * errors  STATUS_FAILED when the folder cannot be made or read; the same on every rank */
MUST_CHECK enum status snapshot_writer_init(const struct snapshot_args *args, struct region *region,
                                            struct snapshot_writer *writer, struct fault *fault);

/* snapshot_save: write, make durable, put in place, check that it is complete, then remove the
 * oldest beyond `keep` (one that cannot be removed is logged and tried again later). A snapshot of
 * the same step is replaced. After seal: allocates nothing. Every rank calls it with the same step.
 * memory  staging for reading back what was written, whose hash is recorded (rank 0)
 * errors  STATUS_FIT for a full disk, else STATUS_FAILED, the same on every rank; all earlier
 *         snapshots are then untouched and nothing is left beside them (when the fault came after
 *         the rename, the new one is in place as well). A rank that dies leaves .tmp-step-N, which
 *         the next snapshot_writer_init clears */
MUST_CHECK enum status snapshot_save(struct snapshot_writer *writer,
                                     const struct snapshot_state *state,
                                     const struct staging *staging, struct fault *fault);

/* snapshot_read: what `path`/snapshot.json says, its own hash checked, the files' sizes checked.
 * memory  texts in `region`
 * errors  STATUS_INPUT naming what is damaged; *snapshot untouched */
MUST_CHECK enum status snapshot_read(const char *path, struct region *region,
                                     struct snapshot *snapshot, struct fault *fault);

/* snapshot_verify: snapshot_read, and every file's hash. */
MUST_CHECK enum status snapshot_verify(const char *path, struct region *region,
                                       struct snapshot *snapshot, struct fault *fault);

/* One folder of a list: what it says, or why it cannot be read. */
struct snapshot_listed {
    struct snapshot snapshot; /* path is always set */
    bool readable;
    struct fault fault; /* when not readable */
};

/* snapshot_list: all snapshots of a folder, unreadable ones first, then in the order of saving.
 * Files are not hashed. An absent folder holds none.
 * errors  STATUS_FAILED when the folder cannot be read; STATUS_INPUT beyond SNAPSHOTS_MAX */
MUST_CHECK enum status snapshot_list(const char *folder, struct region *region,
                                     struct snapshot_listed **listed, int *count,
                                     struct fault *fault);

/* snapshot_find_newest: the one saved last whose every file has its hash. Each damaged one that is
 * newer is logged as an error with its reason. Reads every byte: among several ranks one calls it
 * and tells the others the path, which they give to snapshot_read.
 * *found  false: the folder has none at all
 * errors  STATUS_INPUT when there are some and none is good */
MUST_CHECK enum status snapshot_find_newest(const char *folder, struct region *region,
                                            struct snapshot *snapshot, bool *found,
                                            struct fault *fault);

/* snapshot_load: fill every piece of the groups, bit for bit; whoever saved them. The tensors are
 * all of the snapshot's, the pieces what this rank holds; nothing else is read. Ranks agree on the
 * outcome by themselves.
 * errors  STATUS_INPUT naming a tensor that is missing, unexpected, or of another shape or type */
MUST_CHECK enum status snapshot_load(const struct snapshot *snapshot,
                                     const struct snapshot_group *groups, int group_count,
                                     struct fault *fault);

/* snapshot_find_value: a named number of a snapshot; false when it has none of this name. */
bool snapshot_find_value(const struct snapshot *snapshot, const char *name, uint64_t *value);

/* snapshot_model_dtype: the element type that the snapshot's config.json gives the model; F32 when
 * it gives none.
 * errors  STATUS_INPUT when the file cannot be read or names no type that Skep writes */
MUST_CHECK enum status snapshot_model_dtype(const struct snapshot *snapshot, enum dtype *dtype,
                                            struct fault *fault);

/* snapshot_export: a snapshot's weights as a Hugging Face model folder.
 * dtype   of the files
 * memory  one tensor at a time, the largest
 * errors  as weights_save_run */
MUST_CHECK enum status snapshot_export(const struct snapshot *snapshot, const char *folder,
                                       enum dtype dtype, struct fault *fault);

#endif
