#include "runtime/cli/join_check.h"

#include "runtime/swarm/client/client.h"

#include <stdio.h>

enum { ANSWER_TIMEOUT_MS = 5000 }; /* time to wait for an answer of the tracker */

static void print_result(const struct fit_check *check, const char *good) {
    if (check->fault == NULL) {
        printf("%-8s %s\n", check->name, good);
    } else {
        printf("%-8s MISSING: %s: %s\n", check->name, check->fault->subject, check->fault->reason);
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

void join_check_make(struct member_run *member, struct join_check *check) {
    check->data = member_run_find_data(member, &check->no_data);
    check->access = query_status(member, &check->no_access);
}

static bool has_answered(const struct join_check *check) {
    return check->access == OK || check->access == STATUS_INPUT;
}

int join_check_list(const struct join_check *check, struct fit_check list[static JOIN_CHECKS_MAX]) {
    const struct fault *no_access = check->access == OK ? NULL : &check->no_access;
    const bool answered = has_answered(check);
    list[0] = (struct fit_check){"data", check->data == OK ? NULL : &check->no_data};
    list[1] = (struct fit_check){"tracker", answered ? NULL : no_access};
    list[2] = (struct fit_check){"access", no_access};
    return answered ? JOIN_CHECKS_MAX : JOIN_CHECKS_MAX - 1;
}

void join_check_print(const struct member_run *member, const struct join_check *check) {
    struct fit_check list[JOIN_CHECKS_MAX];
    const int count = join_check_list(check, list);
    char answers[MESSAGE_ADDRESS_BYTES + 16];
    snprintf(answers, sizeof answers, "%s answers", member->swarm.tracker.address);
    const char *const good[JOIN_CHECKS_MAX] = {"files of the right number, sizes and formats; join "
                                               "compares their content",
                                               answers, "this key may join"};
    for (int i = 0; i < count; i++) {
        print_result(&list[i], good[i]);
    }
    puts("peers    other members connect to this one; behind a firewall or NAT, open a port and "
         "name it\n         with --listen and --public");
}

enum status join_check_end(const struct join_check *check, enum status fits, struct fault *fault) {
    if (fits != OK || (check->data == OK && check->access == OK)) {
        return fits;
    }
    *fault = check->data != OK ? check->no_data : check->no_access;
    fault->status = STATUS_INPUT; /* also if the tracker does not answer */
    return STATUS_INPUT;
}
