/* hello: what ranks compare before they compute together. */
#ifndef SKEP_SESSION_HELLO_H
#define SKEP_SESSION_HELLO_H

#include "runtime/session/session.h"

/* ranks_check_equal: machine, program version, run keys, data and plan are the same on every rank.
 * Every rank calls it, with the program compiled; nothing to do when alone. Of the keys only
 * `target`, `metrics` and `limits` may differ: they are about one rank's machine.
 * data    stands for the data that this rank reads
 * memory  scratch of its own, given back
 * errors  STATUS_INPUT naming the first difference with both ranks' values, the same on all ranks;
 *         those of site_exchange */
MUST_CHECK enum status ranks_check_equal(struct session *session, const struct hash *data,
                                         struct fault *fault);

#endif
