/* doctor: `skep doctor` prints what this machine lacks for training or for a swarm. */
#include "runtime/diagnose/doctor.h"
#include "base/clock.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/swarm/client/client.h"

#include <stdio.h>

enum { SEARCH_MS = 5000 }; /* how long to wait for the tracker's delegation, in milliseconds */

struct request { /* options of `skep doctor` and its results */
    bool json;   /* --json */
    struct doctor_facts facts;
    struct doctor_report report;
};

static const char *const VERDICTS[] = {
    [DOCTOR_OK] = "ok", [DOCTOR_WARNING] = "warning", [DOCTOR_FAILED] = "failed"};

static void print_text(const struct doctor_report *report) {
    for (int i = 0; i < report->count; i++) {
        const struct doctor_check *check = &report->checks[i];
        printf("%-8s %-14s %s\n", VERDICTS[check->verdict], check->name, check->found);
        if (check->remedy[0] != '\0') {
            printf("%-8s %-14s remedy: %s\n", "", "", check->remedy);
        }
    }
}

static void print_json(const struct doctor_report *report) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_bool(json, "ok", report->failed == 0);
    json_begin_array(json, "checks");
    for (int i = 0; i < report->count; i++) {
        const struct doctor_check *check = &report->checks[i];
        json_begin_object(json, NULL);
        json_add_text(json, "name", check->name);
        json_add_text(json, "verdict", VERDICTS[check->verdict]);
        json_add_text(json, "found", check->found);
        json_add_text(json, "remedy", check->remedy);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

/* Asks the tracker for its delegation. An invalid argument is an error of the command; a tracker
 * that does not answer is a problem that the report lists. */
static enum status query_delegation(struct invocation *invocation, struct doctor_swarm *swarm) {
    const struct delegation_search_args args = {.timeout_ms = SEARCH_MS};
    struct join_string join;
    struct tracker_contact tracker;
    struct fault problem;
    TRY(swarm_reference_read(invocation->positionals[0], &invocation->region, &join,
                             &invocation->fault));
    swarm->is_checked = true;
    if (delegation_search(&join, &args, &tracker, &problem) != OK) {
        struct text text = text_over(swarm->problem, sizeof swarm->problem);
        text_add(&text, "%s: %s", problem.subject, problem.reason);
        text = text_over(swarm->remedy, sizeof swarm->remedy);
        text_add(&text, "%s", problem.remedy);
        return OK;
    }
    const struct delegation *delegation = &tracker.delegation.delegation;
    const uint64_t now_s = (uint64_t)clock_unix_s();
    uint64_t warn_s = 0;
    swarm->never_expires = delegation->expires_s == 0;
    swarm->is_expiring = delegation_poll_warning(delegation, now_s, &warn_s);
    delegation_time_left(delegation, now_s, swarm->left);
    return OK;
}

static enum status run_doctor(struct invocation *invocation) {
    struct request *request = invocation->request;
    doctor_read(&request->facts);
    if (invocation->positional_count > 0) {
        TRY(query_delegation(invocation, &request->facts.swarm));
    }
    doctor_judge(&request->facts, &request->report);
    (request->json ? print_json : print_text)(&request->report);
    return request->report.failed == 0
               ? OK
               : fault_set(&invocation->fault, STATUS_FAILED, "doctor",
                           "apply the remedies in the report", "%d of %d checks failed",
                           request->report.failed, request->report.count);
}

static const struct option OPTIONS[] = {
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "--json"},
};

const struct command COMMAND_DOCTOR = {
    .name = "doctor",
    .arguments = "[SWARM]",
    .summary = "check device, driver, limits, disk, port and clock, each with a remedy",
    .details =
        "A warning concerns some uses only, such as a tracker or several GPUs. With SWARM, a "
        "manifest NAME.skep or a join string, the check also covers how long the operator's "
        "delegation to the tracker is valid. If a check fails, the exit code is 1.",
    .example = "austen.skep",
    .optional_count = 1,
    REQUEST_OPTIONS,
    .run = run_doctor,
};
