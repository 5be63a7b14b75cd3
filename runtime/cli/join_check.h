/* join_check: the part of `skep join --check` on what a member needs besides memory and disk: the
 * data of the swarm, a place on the allow-list, and a connection to the tracker. */
#ifndef SKEP_CLI_JOIN_CHECK_H
#define SKEP_CLI_JOIN_CHECK_H

#include "runtime/inner_training/inner_training.h"

/* join_check_report: print one line for each, unless `json`, after the report that ended with the
 * status `fits` and filled *fault. The member must have been read, and joins nothing.
 * errors  `fits` unless it is OK; else STATUS_INPUT for the first that is missing */
MUST_CHECK enum status join_check_report(struct member_run *member, bool json, enum status fits,
                                         struct fault *fault);

#endif
