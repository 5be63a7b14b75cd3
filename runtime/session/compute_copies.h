/* compute_copies: the parameters in the compute type, which must be converted again when anything
 * other than the optimizer has changed their masters. */
#ifndef SKEP_SESSION_COMPUTE_COPIES_H
#define SKEP_SESSION_COMPUTE_COPIES_H

#include "runtime/session/session.h"

struct compute_copies {
    struct program_cast *rows;
    int count; /* 0 where masters compute */
};

/* compute_copies_of: the copies of a bound session of one rank; memory in its region. */
void compute_copies_of(struct session *session, struct compute_copies *copies);

/* compute_copies_refresh: rounds each master once into its copy, as the optimizer does. */
void compute_copies_refresh(const struct session *session, const struct compute_copies *copies);

#endif
