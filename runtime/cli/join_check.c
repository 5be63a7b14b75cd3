#include "runtime/cli/join_check.h"

#include "base/json.h"
#include "runtime/swarm/client/client.h"

#include <stdio.h>
#include <string.h>

/* how long to wait for an answer of the tracker, in milliseconds */
enum { ANSWER_TIMEOUT_MS = 5000 };

static const char OPEN_A_PORT[] =
    "open a port and pass it with --listen and --public, or train without one: --listen none";

/* ---- reachability ---- */

static void set_peers_untested(struct join_check *check, const char *reason) {
    check->peers_status = STATUS_STOPPED;
    (void)fault_set(&check->peers_fault, STATUS_STOPPED, "--listen", NULL, "%s", reason);
}

static void set_peers_result(struct join_check *check, const struct wire_probe *probe,
                             const char *public_address) {
    switch (probe->outcome) {
    case PROBE_CONNECTED:
        check->peers_status = OK;
        memcpy(check->address, probe->address, sizeof check->address);
        break;
    case PROBE_FAILED:
        check->peers_status =
            fault_set(&check->peers_fault, STATUS_INPUT, probe->address, OPEN_A_PORT,
                      "the tracker cannot connect to this address, so other members "
                      "probably cannot either");
        break;
    case PROBE_FOREIGN:
        check->peers_status = fault_set(
            &check->peers_fault, STATUS_INPUT, public_address == NULL ? "--listen" : public_address,
            "pass the address from which this machine connects to the tracker",
            "this machine connects to the tracker from another address, so no "
            "member will connect to this one");
        break;
    default:
        set_peers_untested(check, "the tracker is busy with other tests; try again");
    }
}

static bool has_true_field(const struct json_node *member, const char *key) {
    struct fault ignored;
    bool value = false;
    return json_get_bool(member, key, &value, NULL, &ignored) == OK && value;
}

/* Counts the members with seats in a tracker's status, or, between two rounds, the members that can
 * get a seat; 0 for a status that cannot be read. */
static uint32_t count_members(const struct tracker_answer *answer) {
    struct json_document document;
    struct json_node members;
    struct fault ignored;
    bool has_members = false;
    uint32_t seated = 0, ready = 0;
    if (json_parse((const char *)answer->bytes, answer->count, WIRE_STATUS_BYTES_MAX, "status",
                   &document, &ignored) != OK) {
        return 0;
    }
    if (json_get_array(&document.root, "members", &members, &has_members, &ignored) == OK &&
        has_members) {
        for (size_t i = 0; i < json_child_count(&members); i++) {
            const struct json_node member = json_element(&members, i);
            struct json_node seat;
            if (json_node_is_object(&member)) {
                seated += json_find(&member, "seat", &seat);
                ready += !has_true_field(&member, "silent") && !has_true_field(&member, "leaving");
            }
        }
    }
    json_finish(&document);
    const uint32_t count = seated > 0 ? seated : ready;
    return count < SWARM_MEMBERS_MAX ? count : SWARM_MEMBERS_MAX;
}

/* Queries the tracker's status, which it sends only to keys that may join, and then has the tracker
 * test the port of this process. */
static void query_tracker(struct member_run *member, struct tracker_client *client,
                          struct join_check *check, bool listens) {
    const struct tracker_query_args args = {.request = WIRE_STATUS_REQUEST,
                                            .timeout_ms = ANSWER_TIMEOUT_MS};
    const char *public_address = member->swarm.args.public_address;
    struct tracker_answer answer;
    struct wire_probe probe;
    struct fault no_outcome;
    check->access_status = tracker_query(client, &args, &answer, &check->access_fault);
    if (check->access_status != OK) {
        set_peers_untested(check, check->access_status == STATUS_INPUT
                                      ? "the tracker tests connections only for keys that may join"
                                      : "the tracker does not answer");
        return;
    }
    check->present_members = count_members(&answer);
    if (listens && tracker_test_address(client, public_address, &probe, &no_outcome) == OK) {
        set_peers_result(check, &probe, public_address);
    } else if (listens) {
        set_peers_untested(
            check,
            "the tracker reported no outcome in time; older trackers have no connection test");
    }
}

static void check_tracker(struct member_run *member, struct join_check *check) {
    const char *listen = member_listen_address(&member->swarm.args);
    struct region *region = &member->trainer.session.region;
    struct tracker_client *client = NULL;
    enum status status = STATUS_FAILED;
    set_peers_untested(check,
                       "with --listen none, no other member can connect to this one; it uses the "
                       "connections that it opens itself");
    if (listen != NULL) {
        status = tracker_client_open(&member->swarm.keys, &member->swarm.tracker, listen, region,
                                     &client, &check->peers_fault);
        /* A port that cannot be opened counts as not tested, because this member may be running and
         * use it. */
        check->peers_status = status == STATUS_FAILED ? STATUS_STOPPED : status;
    }
    const bool listens = status == OK;
    if (!listens) {
        status = tracker_client_open(&member->swarm.keys, &member->swarm.tracker, NULL, region,
                                     &client, &check->access_fault);
    }
    check->access_status = status;
    if (status == OK) {
        query_tracker(member, client, check, listens);
        tracker_client_close(client);
    }
}

/* ---- all checks ---- */

void join_check_perform(struct member_run *member, struct join_check *check) {
    check->data_status = member_run_find_data(member, &check->data_fault);
    check_tracker(member, check);
}

static bool has_tracker_answered(const struct join_check *check) {
    return check->access_status == OK || check->access_status == STATUS_INPUT;
}

int join_check_list_results(const struct join_check *check,
                            struct fit_check list[static JOIN_CHECKS_MAX]) {
    const struct fault *access_fault = check->access_status == OK ? NULL : &check->access_fault;
    const bool answered = has_tracker_answered(check);
    int count = 0;
    list[count++] =
        (struct fit_check){"data", check->data_status == OK ? NULL : &check->data_fault, false};
    list[count++] = (struct fit_check){"tracker", answered ? NULL : access_fault, false};
    if (answered) {
        list[count++] = (struct fit_check){"access", access_fault, false};
    }
    list[count++] =
        (struct fit_check){"peers", check->peers_status == OK ? NULL : &check->peers_fault,
                           check->peers_status == STATUS_STOPPED};
    return count;
}

static void print_result(const struct fit_check *check, const char *good) {
    if (check->fault == NULL) {
        printf("%-8s %s\n", check->name, good);
    } else if (check->is_unknown) {
        printf("%-8s not tested: %s\n", check->name, check->fault->reason);
    } else {
        printf("%-8s MISSING: %s: %s\n", check->name, check->fault->subject, check->fault->reason);
    }
}

void join_check_print(const struct member_run *member, const struct join_check *check) {
    enum { LINE_BYTES = MESSAGE_ADDRESS_BYTES + 64 }; /* maximum size of a line of the report */
    struct fit_check list[JOIN_CHECKS_MAX];
    const int count = join_check_list_results(check, list);
    char answers[LINE_BYTES], reached[LINE_BYTES];
    snprintf(answers, sizeof answers, "%s answers", member->swarm.tracker.address);
    snprintf(reached, sizeof reached, "the tracker has connected to this machine at %s",
             check->address);
    const char *const good[JOIN_CHECKS_MAX] = {
        "files of the right number, sizes and formats; join compares their content", answers,
        has_tracker_answered(check) ? "this key may join" : reached, reached};
    for (int i = 0; i < count; i++) {
        print_result(&list[i], good[i]);
    }
}

enum status join_check_status(const struct join_check *check, enum status fits,
                              struct fault *fault) {
    const bool no_peers = check->peers_status != OK && check->peers_status != STATUS_STOPPED;
    if (fits != OK || (check->data_status == OK && check->access_status == OK && !no_peers)) {
        return fits;
    }
    *fault = check->data_status != OK     ? check->data_fault
             : check->access_status != OK ? check->access_fault
                                          : check->peers_fault;
    /* the exit code is that of a failed check, also if the tracker does not answer */
    fault->status = STATUS_INPUT;
    return STATUS_INPUT;
}
