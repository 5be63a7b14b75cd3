/* session: a run, its model, its target and its program, from the files to a sealed arena. What
 * every command that computes has in common. */
#ifndef SKEP_SESSION_SESSION_H
#define SKEP_SESSION_SESSION_H

#include "runtime/checkpoint/checkpoint_site.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/data/data.h"
#include "runtime/program/program.h"
#include "runtime/settings/run.h"
#include "runtime/settings/spread.h"
#include "runtime/swarm_setup/swarm_run.h"
#include "transport/site/site.h"

/* What the program must be able to do. Less asks for a smaller arena. */
enum purpose {
    PURPOSE_TRAIN,    /* everything: steps, evaluation, sampling, snapshots */
    PURPOSE_EVALUATE, /* loss of given text */
    PURPOSE_GENERATE, /* sampling */
    PURPOSE_LOGITS,   /* whole logits of one batch */
    PURPOSE_COMPARE   /* whole logits, gradients and steps of one batch */
};

struct session {
    struct region region;
    struct run run;
    struct blueprint blueprint;
    char model_folder[PATH_BYTES]; /* "" for a bare config.json */
    struct swarm_terms swarm;      /* of the swarm that it is a member of; manifest NULL: none */
    const struct target *target;
    struct fault misfit;      /* status not OK: limits.device leaves an arena no room at all */
    int64_t longest_document; /* set before session_read when rows hold several documents */
    int ranks;                /* of the site, set before session_read; 0: alone (run.h) */
    int local_ranks;          /* of them on this machine, which they share; 0: all */
    struct spread spread;
    const struct resident_extent
        *kept; /* beside a program that trains; kept_count 0: none. A swarm's
                                       are swarm_memory_extents */
    int kept_count;
    struct site *site; /* of the ranks, set before session_bind; NULL: alone */
    struct communicator communicator;
    struct program program;
    struct bound_program bound;
};

/* session_read: `what` is a run file (*.yaml, *.yml), a swarm's manifest (*.skep) or join string,
 * or a model; then overrides, the model's config, checks of one against the other, the target.
 * Zero-initialise *session first; after any outcome session_finish frees what was taken.
 * errors  STATUS_INPUT, STATUS_USAGE from whichever is at fault; a target without room for any
 *         arena is left to session_bind, so that plan can lay out what lacks it */
MUST_CHECK enum status session_read(struct session *session, const char *what,
                                    const char *const *overrides, int override_count,
                                    struct fault *fault);

/* session_read_swarm: the same as a member of the swarm whose manifest was read before, which is
 * kept by reference. What a member keeps of the swarm becomes lines of the plan. Its model's folder
 * is one that the member names, or "": weights then come at random or from other members.
 * errors  those of swarm_settings_read; a folder with another model */
MUST_CHECK enum status session_read_swarm(struct session *session,
                                          const struct swarm_member_source *source,
                                          struct fault *fault);

/* session_config: config.json's text, the manifest's or the model's.
 * memory  in the session's region
 * errors  those of model_config_read */
MUST_CHECK enum status session_config(struct session *session, const char **text, size_t *length,
                                      struct fault *fault);

/* session_options: what the settings ask of the schedule. */
struct schedule_options session_options(const struct session *session, enum purpose purpose);

/* session_compile: the program for `purpose`, proven; whether it fits is left to program_fits. */
MUST_CHECK enum status session_compile(struct session *session, enum purpose purpose,
                                       struct fault *fault);

/* session_bind: refuse what does not fit, reserve, resolve, fill the constants, unless the program
 * waits for session_connect. */
MUST_CHECK enum status session_bind(struct session *session, struct fault *fault);

/* session_connect: what the bound program's collectives run between: the arenas of all ranks, by
 * shared memory, or NCCL on GPUs, where the program is rehearsed then. Every rank calls it, once
 * all are bound; nothing to do when alone.
 * errors  as shm_open_communicator and shm_register, or cuda_ranks_open, on all ranks alike */
MUST_CHECK enum status session_connect(struct session *session, struct fault *fault);

/* session_load_constants: what every run of a segment finds; session_bind and session_connect do
 * it, whichever leaves a program that can run. */
void session_load_constants(struct session *session);

/* session_agree: site_agree among the session's ranks: what one of them must not do alone, all ask
 * in the same order. `mine` when alone; where that is OK, what program_failure has to tell. Never
 * allocates. */
MUST_CHECK enum status session_agree(const struct session *session, enum status mine,
                                     struct fault *fault);

/* session_is_rank0: whether this process speaks for the run, and makes and names its files: rank
 * 0. */
bool session_is_rank0(const struct session *session);

/* session_ranks: how many there are; 1 when alone. */
int session_ranks(const struct session *session);

/* session_checkpoint_site: these ranks, as those that save together know them. */
struct checkpoint_ranks session_checkpoint_site(struct session *session);

/* session_weights: what this rank holds of the parameters, from the model's folder or at random, as
 * run.init says; moments zero.
 * errors  those of weights_load */
MUST_CHECK enum status session_weights(struct session *session, struct fault *fault);

/* session_trained_weights: what the run has learned so far: parameters of its newest good snapshot,
 * which is named in the log; without one, or for a bare model, as session_weights.
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
