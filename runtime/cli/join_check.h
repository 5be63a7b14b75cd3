/* join_check: the part of `skep join --check` on what a member needs besides memory and disk: the
 * data of the swarm, its key on the allow-list, a connection to the tracker, and a port to which
 * other members can connect. */
#ifndef SKEP_CLI_JOIN_CHECK_H
#define SKEP_CLI_JOIN_CHECK_H

#include "runtime/cli/reports/reports.h"
#include "runtime/inner_training/inner_training.h"

enum { JOIN_CHECKS_MAX = 4 }; /* maximum number of results that a join check lists */

struct join_check {
    /* results of the look for the data and of the query to the tracker; access STATUS_INPUT: the
     * tracker rejects this member's key */
    enum status data_status, access_status;
    enum status peers_status; /* result of the test of the port; STATUS_STOPPED: not tested */
    /* each fault is set if the status of the same name is not OK */
    struct fault data_fault, access_fault, peers_fault;
    /* number of members in the current round; 0: none, or not known */
    uint32_t present_members;
    /* address at which the tracker has connected to this process */
    char address[MESSAGE_ADDRESS_BYTES];
};

/* join_check_perform: look for the data, query the tracker, and let it connect to the port on which
 * the member would listen. `member` must have been read from its manifest or join string. The check
 * does not join the swarm. join_check_list_results: fill `list` with the results of "data",
 * "tracker", "access" (only if the tracker answers) and "peers", and return their number.
 * join_check_print: print one line for each result. join_check_status: return the status of the
 * command: `fits`, with its *fault, unless it is OK; else STATUS_INPUT for the first result that is
 * not OK. An untested port is not an error. */
void join_check_perform(struct member_run *member, struct join_check *check);
int join_check_list_results(const struct join_check *check,
                            struct fit_check list[static JOIN_CHECKS_MAX]);
void join_check_print(const struct member_run *member, const struct join_check *check);
MUST_CHECK enum status join_check_status(const struct join_check *check, enum status fits,
                                         struct fault *fault);

#endif
