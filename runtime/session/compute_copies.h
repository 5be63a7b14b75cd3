/* compute_copies: copies of the parameters in the compute dtype, which must be converted again
 * after any code other than the optimizer has changed the masters. */
#ifndef SKEP_SESSION_COMPUTE_COPIES_H
#define SKEP_SESSION_COMPUTE_COPIES_H

#include "runtime/session/session.h"

struct compute_copies {
    /* [count]: conversions, each of one parameter's master into its copy */
    struct program_cast *rows;
    int count; /* number of conversions; 0 if kernels read the masters */
};

/* compute_copies_plan: lists the copies of a bound session of one rank. Allocates in the region of
 * the session. */
void compute_copies_plan(struct session *session, struct compute_copies *copies);

/* compute_copies_refresh: rounds each master once into its copy, as the optimizer does. */
void compute_copies_refresh(const struct session *session, const struct compute_copies *copies);

#endif
