/* lockstep: synchronizes the ranks of a member. Rank 0 alone acts for the member: it has the
 * identity, the sockets, the store, the outer state, metrics and log. The other ranks execute its
 * commands.
 *
 *     rank 0         lockstep_run, in it lockstep_execute(command) --+  the command, by the site's
 *     other ranks    lockstep_run --------------------------+--->  exchange; then all execute it
 *
 * If a command fails on one rank, it fails with the same fault on all ranks. Rank 0 handles the
 * fault, and the others wait for its next command. A member of one rank executes its commands
 * immediately. */
#ifndef SKEP_INNER_TRAINING_LOCKSTEP_H
#define SKEP_INNER_TRAINING_LOCKSTEP_H

#include "runtime/inner_training/inner_training.h"

enum lockstep_command_kind {
    COMMAND_IDLE,     /* no action; the other ranks report whether they were asked to stop */
    COMMAND_MANIFEST, /* send the manifest text of rank 0, `bytes` long, to all ranks */
    COMMAND_LOAD,     /* each rank loads its part of snapshot `step` */
    COMMAND_WEIGHTS,  /* load the initial weights from a folder, or initialize them at random */
    COMMAND_GATHER,   /* copy the masters of all ranks to the inner weights of the replica */
    COMMAND_SCATTER,  /* copy the inner weights to all masters and compute copies */
    COMMAND_STEP,     /* execute an optimizer step on `windows` windows at `schedule` */
    COMMAND_RESET_MOMENTS, /* set the moments to zero */
    COMMAND_EVALUATE,      /* compute the loss on held-out text */
    COMMAND_SAVE,          /* write a snapshot of `position` */
    COMMAND_EXPORT,        /* export the model folder */
    COMMAND_MEMORY,        /* collect the memory use of all ranks */
    COMMAND_QUIT,          /* end the lockstep; this is the last command */
    COMMAND_KIND_COUNT     /* number of kinds of commands */
};

struct lockstep_command {
    enum lockstep_command_kind kind;
    bool stop_requested; /* the sending rank was asked to stop */
    uint64_t bytes;      /* COMMAND_MANIFEST: length of the manifest text */
    /* number of the step to execute or of the snapshot to load; number of windows of the step */
    int64_t step, windows;
    struct step_schedule schedule;
    struct training_position position;
};

/* lockstep_plan: allocates the memory of the exchanges in the session's region. Must be called
 * before the other functions. */
void lockstep_plan(struct member_run *member);

/* lockstep_execute: rank 0 sends a command and executes it with the other ranks. When any rank was
 * asked to stop, rank 0 is also asked to stop. lockstep_execute_kind: executes a command without
 * arguments. lockstep_execute_within: executes a step or an evaluation, which all ranks abandon
 * when the limits end it.
 * errors  faults of the command, the same on all ranks; STATUS_STOPPED when abandoned; with several
 *         ranks also faults of site_exchange */
MUST_CHECK enum status lockstep_execute(struct member_run *member,
                                        const struct lockstep_command *command,
                                        struct fault *fault);
MUST_CHECK enum status lockstep_execute_kind(struct member_run *member,
                                             enum lockstep_command_kind kind, struct fault *fault);
MUST_CHECK enum status lockstep_execute_within(struct member_run *member,
                                               const struct lockstep_command *command,
                                               struct step_limits *limits, struct fault *fault);

/* lockstep_send_idle: sends COMMAND_IDLE, unless rank 0 has just sent another command. With one
 * rank it does nothing. */
MUST_CHECK enum status lockstep_send_idle(struct member_run *member, struct fault *fault);

/* lockstep_run: calls `lead` on rank 0, whose commands the other ranks execute until it returns.
 * Then all ranks return the same status.
 * errors  faults of `lead` and of site_exchange */
MUST_CHECK enum status lockstep_run(struct member_run *member,
                                    enum status (*lead)(struct member_run *, struct fault *),
                                    struct fault *fault);

#endif
