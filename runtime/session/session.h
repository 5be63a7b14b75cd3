/* session: everything that a process builds from a run file: settings, model, target, program, the
 * arenas and the communicator. Every command that computes or plans has one session. This module
 * also contains the operations on a session: steps and evaluations, generation, loading weights,
 * the check that all ranks agree, and the search for settings that fit. It does not depend on
 * swarms: a member passes it config text, resident extents and disk needs.
 *
 * public   batch.h compute_copies.h disk_budget.h generate.h random_weights.h rank_parts.h
 *          ranks_check.h remedies.h step.h what_if.h */
#ifndef SKEP_SESSION_SESSION_H
#define SKEP_SESSION_SESSION_H

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/data/data.h"
#include "runtime/program/program.h"
#include "runtime/settings/settings.h"
#include "runtime/settings/sharding_settings.h"
#include "runtime/shard/mesh.h"
#include "transport/site/site.h"

/* The purpose of a program. A program that supports fewer operations needs a smaller arena. */
enum purpose {
    PURPOSE_TRAIN,    /* all operations: steps, evaluation, sampling, snapshots */
    PURPOSE_EVALUATE, /* only the loss of a given text */
    PURPOSE_GENERATE, /* sampling */
    PURPOSE_LOGITS,   /* only the logits of all tokens of one batch */
    PURPOSE_COMPARE   /* all logits, gradients and optimizer steps of one batch */
};

/* The dimensions of a session's mesh. */
enum { MESH_REPLICATE, MESH_SHARD, MESH_DIMS /* number of dimensions */ };

/* Disk space in bytes that the caller needs in addition to the files of the run. */
struct planned_disk_use {
    uint64_t snapshot_bytes; /* additional bytes in every snapshot */
    /* size of the encoded results of all rounds since the newest snapshot */
    uint64_t results_bytes;
    uint64_t ledger_bytes; /* size of the ledger entries of all rounds of the run */
    uint64_t states_bytes; /* size of the states to which the swarm can return */
    /* the files of an earlier run remain beside those of this run (train --fresh), so that their
     * space is not available */
    bool keeps_earlier_files;
};

struct session {
    struct region region; /* memory that the session allocates before the seal */
    struct settings settings;
    struct blueprint blueprint;    /* architecture of the model */
    char model_folder[PATH_BYTES]; /* folder of the model; "" for a bare config.json */
    /* text of config.json; NULL: the model's file is read */
    const char *config_text;
    /* the manifest of a swarm sets the shared settings, so no remedy may change them */
    bool shared_settings_fixed;
    const struct target *target; /* machine that the program is planned for */
    /* a GPU that this machine has but cannot use is a fault, not a warning, unless a target is set;
     * set before session_read */
    bool rejects_faulty_gpu;
    /* a fault with a status other than OK if limits.device leaves no space for an arena */
    struct fault misfit;
    /* length of the longest document in tokens; set before session_read when a row contains several
     * documents */
    int64_t longest_document;
    /* number of ranks of the site, set before session_read; 0: one rank, without a launcher */
    int ranks;
    int local_ranks; /* number of ranks that share this machine; 0: all ranks */
    struct sharding_settings sharding_settings;
    const struct resident_extent *resident; /* resident extents of a program that trains */
    int resident_count;                     /* number of resident extents */
    struct planned_disk_use disk;           /* additional disk space that the caller needs */
    struct site *site; /* the site of the ranks, set before session_bind; NULL: one rank */
    struct mesh mesh;  /* the mesh of the ranks, set by session_bind */
    struct communicator communicator;
    struct program program;
    struct bound_program bound; /* the program with addresses and arenas on this machine */
};

/* session_read: reads a run file (*.yaml, *.yml) or a model given as `what`, then overrides and the
 * model's config, and calls session_build. *session must be zero-initialised; after any outcome,
 * session_finish frees its memory.
 * errors  STATUS_INPUT, STATUS_USAGE for an invalid file or override; faults of session_build */
MUST_CHECK enum status session_read(struct session *session, const char *what,
                                    const char *const *overrides, int override_count,
                                    struct fault *fault);

/* session_build: checks session->settings and session->blueprint, both set by the caller, for
 * consistency, and opens the target. A target without space for an arena is not an error here:
 * session_bind reports it, so that `skep plan` can still show the need.
 * errors  STATUS_INPUT for an invalid setting or profile, or an unusable GPU */
MUST_CHECK enum status session_build(struct session *session, struct fault *fault);

/* session_count_data_passes: open the data of a run that session_read has read, set its steps if
 * the run file has epochs, and return the passes over the data; 0 if the data cannot be opened,
 * because a plan can be made without them: *problem then has the reason. Its status is OK if the
 * training and validation data can be read, or no data are set. */
double session_count_data_passes(struct session *session, struct fault *problem);

/* session_read_config: returns the text of config.json: session->config_text, or the file of the
 * model.
 * memory  in the session's region
 * errors  those of model_config_read */
MUST_CHECK enum status session_read_config(struct session *session, const char **text,
                                           size_t *length, struct fault *fault);

/* session_schedule_options: returns the schedule options that follow from the settings. */
struct schedule_options session_schedule_options(const struct session *session,
                                                 enum purpose purpose);

/* session_compile: compiles the program for `purpose` and proves it. program_check_fit tests
 * whether it fits. */
MUST_CHECK enum status session_compile(struct session *session, enum purpose purpose,
                                       struct fault *fault);

/* session_bind: rejects a program that does not fit, reserves the arenas, and turns operands into
 * addresses. Also fills the constants, unless the program must wait for session_connect. */
MUST_CHECK enum status session_bind(struct session *session, struct fault *fault);

/* session_connect: connects the collectives of the bound program: the arenas of all ranks in shared
 * memory, or NCCL on GPUs, where the program is then rehearsed. Every rank calls it after all ranks
 * are bound. With one rank it does nothing.
 * errors  as shm_open_communicator and shm_register, or cuda_ranks_open, on all ranks alike */
MUST_CHECK enum status session_connect(struct session *session, struct fault *fault);

/* session_load_constants: fills the constants that segments read. It is called by session_bind or
 * session_connect, whichever makes the program ready to execute. */
void session_load_constants(struct session *session);

/* session_agree: agrees on one outcome with all ranks of the session (site_agree). All ranks call
 * it in the same order, before each action that all ranks must do together. With one rank the
 * outcome is `mine`. If the device has failed, the outcome is its failure. Never allocates. */
MUST_CHECK enum status session_agree(const struct session *session, enum status mine,
                                     struct fault *fault);

/* session_is_rank0: whether this process is rank 0, which logs for the run and creates its
 * files. */
bool session_is_rank0(const struct session *session);

/* session_rank_count: returns the number of ranks of the site; 1 without a launcher.
 * session_local_rank_count: returns the number of those ranks on this machine. */
int session_rank_count(const struct session *session);
int session_local_rank_count(const struct session *session);

/* session_checkpoint_ranks: returns the description of the ranks that runtime/checkpoint needs to
 * save a common snapshot. */
struct checkpoint_ranks session_checkpoint_ranks(struct session *session);

/* session_init_weights: loads this rank's part of the initial parameters from the model folder, or
 * draws them at random, as the key `init` states. Moments become zero.
 * errors  those of weights_load */
MUST_CHECK enum status session_init_weights(struct session *session, struct fault *fault);

/* session_load_trained_weights: loads the parameters of the newest valid snapshot of the run, and
 * logs its name. Without a snapshot, or for a model without a run file, it calls
 * session_init_weights.
 * limits  the program must not train
 * errors  STATUS_INPUT also when there is no snapshot and the run starts from random weights */
MUST_CHECK enum status session_load_trained_weights(struct session *session, struct fault *fault);

/* session_load_compute_copies: loads the compute copies of parameters whose masters were loaded
 * from the same snapshot: the same values, rounded once. */
struct snapshot;
MUST_CHECK enum status session_load_compute_copies(struct session *session,
                                                   const struct snapshot *snapshot,
                                                   struct fault *fault);

/* session_staging: returns the buffer through which files are read and written. */
struct staging session_staging(const struct session *session);

void session_finish(struct session *session);

#endif
