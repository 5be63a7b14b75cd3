/* join_order: what the ranks of a member do together. Rank 0 alone speaks for the member: it has
 * the identity, the sockets, the store, the outer state, metrics and log. The others do as it says.
 *
 *     rank 0       join_under, in it join_do(order) --+  the order, by the site's exchange,
 *     the others   join_under ------------------------+-> then all carry it out, by one function
 *
 * What can fail fails for all ranks alike; rank 0 makes of it what a member of one rank does, and
 * the others wait for its next order. A member that is alone carries its orders out at once. */
#ifndef SKEP_INNER_TRAINING_JOIN_ORDER_H
#define SKEP_INNER_TRAINING_JOIN_ORDER_H

#include "runtime/inner_training/join.h"

enum join_order_kind {
    ORDER_REST,     /* nothing: the others tell whether somebody asked them to stop */
    ORDER_MANIFEST, /* rank 0's text of it, `bytes` long, to all */
    ORDER_LOAD,     /* snapshot `step`: what of it lies here */
    ORDER_WEIGHTS,  /* the first weights, from a folder or at random */
    ORDER_GATHER,   /* the masters of all ranks into the replica's inner weights */
    ORDER_SCATTER,  /* and back, with what computes with them */
    ORDER_STEP,     /* an optimizer step on `windows` windows, at `pace`; joining->stepped */
    ORDER_FORGET,   /* the moments become zero */
    ORDER_EVALUATE, /* the loss on held-out text; joining->evaluated */
    ORDER_SAVE,     /* a snapshot of `at` */
    ORDER_EXPORT,   /* the model folder */
    ORDER_MEMORY,   /* what each holds; joining->memories */
    ORDER_DISMISS,  /* no more orders */
    ORDER_KINDS
};

struct join_order {
    enum join_order_kind kind;
    bool stop_asked; /* of the rank that this is from */
    uint64_t bytes;
    int64_t step, windows;
    struct step_pace pace;
    struct join_position at;
};

/* join_order_plan: room for what the ranks tell each other. First of all; memory in the session's
 * region. */
void join_order_plan(struct joining *joining);

/* join_do: rank 0 gives an order and carries it out with the others. That one of them was asked to
 * stop is its own wish from then on.
 * join_do_plain: an order that is all in its kind.
 * join_do_while: a step or an evaluation, which all ranks give up when keep_on says no, or one
 * of the others was asked to stop.
 * errors  those of what is ordered, the same on all ranks, STATUS_STOPPED when given up; of several
 *         ranks those of site_exchange */
MUST_CHECK enum status join_do(struct joining *joining, const struct join_order *order,
                               struct fault *fault);
MUST_CHECK enum status join_do_plain(struct joining *joining, enum join_order_kind kind,
                                     struct fault *fault);
MUST_CHECK enum status join_do_while(struct joining *joining, const struct join_order *order,
                                     step_keep_on *keep_on, void *context, struct fault *fault);

/* join_rest: ORDER_REST, unless an order was given just now; nothing when alone. */
MUST_CHECK enum status join_rest(struct joining *joining, struct fault *fault);

/* join_under: `lead` on rank 0, whose orders the others carry out until it comes back; then one
 * outcome for all.
 * errors  those of lead; of site_exchange */
MUST_CHECK enum status join_under(struct joining *joining,
                                  enum status (*lead)(struct joining *, struct fault *),
                                  struct fault *fault);

#endif
