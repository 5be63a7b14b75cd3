/* session: everything that a process builds from a run file: settings, model, target, program, and
 * the arenas and communicator that it runs in. Every command that computes or plans has one
 * session. The room also has what is done with it: steps and evaluations, generation, loading
 * weights, the check that all ranks agree, and the search for settings that fit. It knows nothing
 * of swarms: a member hands it config text, resident extents and disk needs.
 *
 * public   batch.h compute_copies.h disk_budget.h generate.h rank_parts.h ranks_check.h remedies.h
 *          step.h what_if.h */
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

/* What the program must be able to do. Less of it needs a smaller arena. */
enum purpose {
    PURPOSE_TRAIN,    /* everything: steps, evaluation, sampling, snapshots */
    PURPOSE_EVALUATE, /* loss of given text */
    PURPOSE_GENERATE, /* sampling */
    PURPOSE_LOGITS,   /* whole logits of one batch */
    PURPOSE_COMPARE   /* whole logits, gradients and steps of one batch */
};

/* The dimensions of a session's mesh. */
enum { MESH_REPLICATE, MESH_SHARD, MESH_DIMS };

/* Disk space that the caller needs beside the run's own files, in bytes. */
struct disk_addition {
    uint64_t snapshot_bytes; /* in every snapshot */
    uint64_t results_bytes;
    uint64_t ledger_bytes;
};

struct session {
    struct region region;
    struct settings settings;
    struct blueprint blueprint;
    char model_folder[PATH_BYTES]; /* "" for a bare config.json */
    const char *config_text;       /* replaces the model's config.json; NULL: read that file */
    bool shared_settings_fixed;    /* a swarm's manifest sets them: no remedy may change one */
    const struct target *target;
    struct fault misfit;      /* status not OK: limits.device leaves an arena no space at all */
    int64_t longest_document; /* set before session_read when rows hold several documents */
    int ranks;                /* of the site, set before session_read; 0: one, without a launcher */
    int local_ranks;          /* those on this machine, which they share; 0: all */
    struct sharding_settings sharding_settings;
    const struct resident_extent *resident; /* planned beside a program that trains */
    int resident_count;
    struct disk_addition disk;
    struct site *site; /* of the ranks, set before session_bind; NULL: one rank */
    struct mesh mesh;  /* of the ranks, made by session_bind */
    struct communicator communicator;
    struct program program;
    struct bound_program bound;
};

/* session_read: `what` is a run file (*.yaml, *.yml) or a model; then overrides, the model's config
 * and session_build. Zero-initialise *session first; after any outcome session_finish frees what
 * was taken.
 * errors  STATUS_INPUT, STATUS_USAGE from the file or override at fault; those of session_build */
MUST_CHECK enum status session_read(struct session *session, const char *what,
                                    const char *const *overrides, int override_count,
                                    struct fault *fault);

/* session_build: checks session->run and session->blueprint, which the caller has filled in,
 * against each other, and opens the target. A target without space for any arena is no error here:
 * session_bind reports it, so that `skep plan` can show what is missing.
 * errors  STATUS_INPUT from the setting or profile at fault */
MUST_CHECK enum status session_build(struct session *session, struct fault *fault);

/* session_config: the text of config.json: session->config_text or the model's file.
 * memory  in the session's region
 * errors  those of model_config_read */
MUST_CHECK enum status session_config(struct session *session, const char **text, size_t *length,
                                      struct fault *fault);

/* session_options: the options of the schedule that follow from the settings. */
struct schedule_options session_options(const struct session *session, enum purpose purpose);

/* session_compile: the program for `purpose`, with its proofs. program_fits tests whether it
 * fits. */
MUST_CHECK enum status session_compile(struct session *session, enum purpose purpose,
                                       struct fault *fault);

/* session_bind: rejects a program that does not fit, reserves the arenas, and turns operands into
 * addresses. Fills the constants too, unless the program waits for session_connect. */
MUST_CHECK enum status session_bind(struct session *session, struct fault *fault);

/* session_connect: connects the collectives of the bound program: the arenas of all ranks in shared
 * memory, or NCCL on GPUs, where the program is then rehearsed. Every rank calls it when all are
 * bound; nothing to do with one rank.
 * errors  as shm_open_communicator and shm_register, or cuda_ranks_open, on all ranks alike */
MUST_CHECK enum status session_connect(struct session *session, struct fault *fault);

/* session_load_constants: fills the constants that segments read. session_bind or session_connect
 * calls it, whichever makes the program ready to execute. */
void session_load_constants(struct session *session);

/* session_agree: site_agree among the session's ranks, which all call it in the same order before
 * an act that no rank may do alone. With one rank the outcome is `mine`; if the device has failed,
 * it is that failure. Never allocates. */
MUST_CHECK enum status session_agree(const struct session *session, enum status mine,
                                     struct fault *fault);

/* session_is_rank0: whether this process is rank 0, which logs for the run and creates its
 * files. */
bool session_is_rank0(const struct session *session);

/* session_rank_count: the number of ranks of the site; 1 without a launcher.
 * session_local_rank_count: of these, the ranks on this machine. */
int session_rank_count(const struct session *session);
int session_local_rank_count(const struct session *session);

/* session_checkpoint_site: the ranks, as runtime/checkpoint needs them to save together. */
struct checkpoint_ranks session_checkpoint_site(struct session *session);

/* session_weights: this rank's part of the first parameters, from the model's folder or random, as
 * the key `init` states; moments zero.
 * errors  those of weights_load */
MUST_CHECK enum status session_weights(struct session *session, struct fault *fault);

/* session_trained_weights: the parameters of the run's newest valid snapshot, which the log names;
 * without one, or for a model without a run file, as session_weights.
 * limits  a program without training
 * errors  STATUS_INPUT also when there is no snapshot and the run begins from random weights */
MUST_CHECK enum status session_trained_weights(struct session *session, struct fault *fault);

/* session_compute_copies: the compute copies of parameters whose masters were loaded from the same
 * snapshot: the same values, rounded once. */
struct snapshot;
MUST_CHECK enum status session_compute_copies(struct session *session,
                                              const struct snapshot *snapshot, struct fault *fault);

/* session_staging: the buffer through which files pass. */
struct staging session_staging(const struct session *session);

void session_finish(struct session *session);

#endif
