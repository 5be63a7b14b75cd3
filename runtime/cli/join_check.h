/* join_check: the part of `skep join --check` on what a member needs besides memory and disk: the
 * data of the swarm, a place on the allow-list, a connection to the tracker, and a port to which
 * other members can connect. */
#ifndef SKEP_CLI_JOIN_CHECK_H
#define SKEP_CLI_JOIN_CHECK_H

#include "runtime/cli/reports/reports.h"
#include "runtime/inner_training/inner_training.h"

enum { JOIN_CHECKS_MAX = 4 };

struct join_check {
    enum status data, access; /* STATUS_INPUT of `access`: the tracker answers, and rejects */
    enum status peers;        /* STATUS_STOPPED: not tested */
    /* set where the status is not OK */
    struct fault no_data, no_access, no_peers;
    char address[MESSAGE_ADDRESS_BYTES]; /* where the tracker has connected to this process */
};

/* join_check_make: look for the data, query the tracker, and let it connect to the port on which
 * the member would listen. The member must have been read, and joins nothing.
 * join_check_list: list the outcomes: "data", "tracker", if it answers "access", and "peers".
 * Returns their number.
 * join_check_print: print one line for each.
 * join_check_end: return the outcome of the command: `fits`, with its *fault, unless it is OK; else
 * STATUS_INPUT for the first that is missing. That the port was not tested is no failure. */
void join_check_make(struct member_run *member, struct join_check *check);
int join_check_list(const struct join_check *check, struct fit_check list[static JOIN_CHECKS_MAX]);
void join_check_print(const struct member_run *member, const struct join_check *check);
MUST_CHECK enum status join_check_end(const struct join_check *check, enum status fits,
                                      struct fault *fault);

#endif
