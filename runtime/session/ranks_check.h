/* ranks_check: what the ranks compare before they compute together. */
#ifndef SKEP_SESSION_RANKS_CHECK_H
#define SKEP_SESSION_RANKS_CHECK_H

#include "runtime/session/session.h"

/* ranks_check_equal: checks that machine, program version, run keys, data and plan are equal on all
 * ranks. Every rank calls it after compiling; nothing to do with one rank. Of the keys only
 * `target`, `metrics` and `limits` may differ: they concern one rank's machine.
 * data    identifies the data that this rank reads
 * memory  scratch of its own, freed again
 * errors  STATUS_INPUT naming the first difference with both ranks' values, the same on all ranks;
 *         those of site_exchange */
MUST_CHECK enum status ranks_check_equal(struct session *session, const struct hash *data,
                                         struct fault *fault);

#endif
