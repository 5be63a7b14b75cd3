/* join_order: what the ranks of a member do together. Rank 0 alone speaks for the member: it has
 * the identity, the sockets, the store, the outer state, metrics and log. The others do as it says.
 *
 *     rank 0       lockstep_run, in it lockstep_do(order) --+  the order, by the site's exchange,
 *     the others   lockstep_run ------------------------+-> then all carry it out, by one function
 *
 * What can fail fails for all ranks alike; rank 0 makes of it what a member of one rank does, and
 * the others wait for its next order. A member that is alone carries its orders out at once. */
#ifndef SKEP_INNER_TRAINING_JOIN_ORDER_H
#define SKEP_INNER_TRAINING_JOIN_ORDER_H

#include "runtime/inner_training/join.h"

enum lockstep_command_kind {
    COMMAND_IDLE,          /* nothing: the others tell whether somebody asked them to stop */
    COMMAND_MANIFEST,      /* rank 0's text of it, `bytes` long, to all */
    COMMAND_LOAD,          /* snapshot `step`: what of it lies here */
    COMMAND_WEIGHTS,       /* the first weights, from a folder or at random */
    COMMAND_GATHER,        /* the masters of all ranks into the replica's inner weights */
    COMMAND_SCATTER,       /* and back, with what computes with them */
    COMMAND_STEP,          /* an optimizer step on `windows` windows, at `pace`; joining->stepped */
    COMMAND_RESET_MOMENTS, /* the moments become zero */
    COMMAND_EVALUATE,      /* the loss on held-out text; joining->evaluated */
    COMMAND_SAVE,          /* a snapshot of `at` */
    COMMAND_EXPORT,        /* the model folder */
    COMMAND_MEMORY,        /* what each holds; joining->memories */
    COMMAND_QUIT,          /* no more orders */
    COMMAND_KINDS
};

struct lockstep_command {
    enum lockstep_command_kind kind;
    bool stop_requested; /* of the rank that this is from */
    uint64_t bytes;
    int64_t step, windows;
    struct step_schedule pace;
    struct training_position at;
};

/* lockstep_plan: room for what the ranks tell each other. First of all; memory in the session's
 * region. */
void lockstep_plan(struct member_run *joining);

/* lockstep_do: rank 0 gives an order and carries it out with the others. That one of them was asked
 * to stop is its own wish from then on. lockstep_do_plain: an order that is all in its kind.
 * lockstep_do_while: a step or an evaluation, which all ranks give up when keep_on says no, or one
 * of the others was asked to stop.
 * errors  those of what is ordered, the same on all ranks, STATUS_STOPPED when given up; of several
 *         ranks those of site_exchange */
MUST_CHECK enum status lockstep_do(struct member_run *joining, const struct lockstep_command *order,
                                   struct fault *fault);
MUST_CHECK enum status lockstep_do_plain(struct member_run *joining,
                                         enum lockstep_command_kind kind, struct fault *fault);
MUST_CHECK enum status lockstep_do_while(struct member_run *joining,
                                         const struct lockstep_command *order,
                                         step_keep_on *keep_on, void *context, struct fault *fault);

/* lockstep_idle: COMMAND_IDLE, unless an order was given just now; nothing when alone. */
MUST_CHECK enum status lockstep_idle(struct member_run *joining, struct fault *fault);

/* lockstep_run: `lead` on rank 0, whose orders the others carry out until it comes back; then one
 * outcome for all.
 * errors  those of lead; of site_exchange */
MUST_CHECK enum status lockstep_run(struct member_run *joining,
                                    enum status (*lead)(struct member_run *, struct fault *),
                                    struct fault *fault);

#endif
