/* ranks_check: checks that all ranks of a site agree before they compute together. */
#ifndef SKEP_SESSION_RANKS_CHECK_H
#define SKEP_SESSION_RANKS_CHECK_H

#include "runtime/session/session.h"

/* ranks_check_equal: checks that all ranks run on one machine, with the same program version, run
 * keys, data and plan. Every rank calls it after compiling. With one rank it does nothing. Only the
 * keys `target`, `metrics` and `limits` may differ, because each rank may have its own.
 * data    hash of the data that this rank reads
 * memory  allocates scratch memory and frees it
 * errors  STATUS_INPUT with the first difference and both values, the same on all ranks; faults of
 *         site_exchange */
MUST_CHECK enum status ranks_check_equal(struct session *session, const struct hash *data,
                                         struct fault *fault);

#endif
