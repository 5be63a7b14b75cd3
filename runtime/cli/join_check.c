#include "runtime/cli/join_check.h"

#include "runtime/swarm/client/client.h"

#include <stdio.h>

enum { ANSWER_TIMEOUT_MS = 5000 }; /* time to wait for an answer of the tracker */

static void print_result(const char *name, enum status status, const char *good,
                         const struct fault *fault) {
    if (status == OK) {
        printf("%-8s %s\n", name, good);
    } else {
        printf("%-8s MISSING: %s: %s\n", name, fault->subject, fault->reason);
    }
}

/* A status query is answered only for keys that may join. */
static enum status query_status(struct member_run *member, struct fault *fault) {
    const struct tracker_query_args args = {.request = WIRE_STATUS_REQUEST,
                                            .timeout_ms = ANSWER_TIMEOUT_MS};
    struct tracker_answer answer;
    return tracker_query_once(&member->swarm.keys, &member->swarm.tracker, &args,
                              &member->trainer.session.region, &answer, fault);
}

static void print_access(const struct member_run *member, enum status status,
                         const struct fault *fault) {
    const bool has_answered = status == OK || status == STATUS_INPUT;
    char good[MESSAGE_ADDRESS_BYTES + 16];
    snprintf(good, sizeof good, "%s answers", member->swarm.tracker.address);
    print_result("tracker", has_answered ? OK : status, good, fault);
    if (has_answered) {
        print_result("access", status, "this key may join", fault);
    }
    puts("peers    other members connect to this one; behind a firewall or NAT, open a port and "
         "name it\n         with --listen and --public");
}

enum status join_check_report(struct member_run *member, bool json, enum status fits,
                              struct fault *fault) {
    struct fault no_data, no_access;
    const enum status data = member_run_find_data(member, &no_data);
    const enum status access = query_status(member, &no_access);
    if (!json) {
        print_result("data", data, "files of the right number, sizes and formats", &no_data);
        print_access(member, access, &no_access);
    }
    if (fits != OK || (data == OK && access == OK)) {
        return fits;
    }
    *fault = data != OK ? no_data : no_access;
    fault->status = STATUS_INPUT; /* also if the tracker does not answer */
    return STATUS_INPUT;
}
