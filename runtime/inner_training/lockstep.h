/* lockstep: what the ranks of a member do together. Rank 0 alone acts for the member: it has the
 * identity, the sockets, the store, the outer state, metrics and log. The other ranks execute its
 * commands.
 *
 *     rank 0         lockstep_run, in it lockstep_do(command) --+  the command, by the site's
 *     other ranks    lockstep_run --------------------------+--->  exchange; then all execute it
 *
 * A command fails on all ranks alike. Rank 0 then does what a member of one rank does, and the
 * others wait for its next command. A member of one rank executes its commands at once. */
#ifndef SKEP_INNER_TRAINING_LOCKSTEP_H
#define SKEP_INNER_TRAINING_LOCKSTEP_H

#include "runtime/inner_training/inner_training.h"

enum lockstep_command_kind {
    COMMAND_IDLE,          /* nothing: the other ranks report whether they were asked to stop */
    COMMAND_MANIFEST,      /* rank 0's text of the manifest, `bytes` long, to all ranks */
    COMMAND_LOAD,          /* the part of snapshot `step` that each rank holds */
    COMMAND_WEIGHTS,       /* the first weights, from a folder or random */
    COMMAND_GATHER,        /* the masters of all ranks into the replica's inner weights */
    COMMAND_SCATTER,       /* the reverse, and the compute copies */
    COMMAND_STEP,          /* an optimizer step on `windows` windows at `schedule` */
    COMMAND_RESET_MOMENTS, /* the moments become zero */
    COMMAND_EVALUATE,      /* the loss on held-out text */
    COMMAND_SAVE,          /* a snapshot of `position` */
    COMMAND_EXPORT,        /* the model folder */
    COMMAND_MEMORY,        /* the memory use of all ranks */
    COMMAND_QUIT,          /* the last command */
    COMMAND_KINDS
};

struct lockstep_command {
    enum lockstep_command_kind kind;
    bool stop_requested; /* of the rank that sends this */
    uint64_t bytes;
    int64_t step, windows;
    struct step_schedule schedule;
    struct training_position position;
};

/* lockstep_plan: memory for what the ranks exchange, in the session's region. Called first. */
void lockstep_plan(struct member_run *member);

/* lockstep_do: rank 0 sends a command and executes it with the other ranks. When one of them was
 * asked to stop, so is rank 0 from then on. lockstep_do_plain: a command without arguments.
 * lockstep_do_within: a step or an evaluation, which all ranks abandon when the limits end it.
 * errors  those of the command, the same on all ranks; STATUS_STOPPED when abandoned; of several
 *         ranks those of site_exchange */
MUST_CHECK enum status lockstep_do(struct member_run *member,
                                   const struct lockstep_command *command, struct fault *fault);
MUST_CHECK enum status lockstep_do_plain(struct member_run *member, enum lockstep_command_kind kind,
                                         struct fault *fault);
MUST_CHECK enum status lockstep_do_within(struct member_run *member,
                                          const struct lockstep_command *command,
                                          struct step_limits *limits, struct fault *fault);

/* lockstep_idle: COMMAND_IDLE, unless a command was sent just before; nothing with one rank. */
MUST_CHECK enum status lockstep_idle(struct member_run *member, struct fault *fault);

/* lockstep_run: `lead` on rank 0, whose commands the other ranks execute until it returns; then one
 * outcome for all ranks.
 * errors  those of lead and of site_exchange */
MUST_CHECK enum status lockstep_run(struct member_run *member,
                                    enum status (*lead)(struct member_run *, struct fault *),
                                    struct fault *fault);

#endif
