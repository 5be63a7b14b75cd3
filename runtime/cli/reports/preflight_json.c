/* preflight_json: writes the report of a member's needs as JSON. */
#include "runtime/cli/reports/reports.h"

#include <math.h>

static void add_spaces(const struct fit_report *report, struct json_writer *json) {
    json_begin_array(json, "spaces");
    for (int i = 0; i < report->space_count; i++) {
        const struct fit_space *space = &report->spaces[i];
        json_begin_object(json, NULL);
        json_add_text(json, "name", space_name(space->space));
        json_add_u64(json, "planned_bytes", space->planned_bytes);
        json_add_u64(json, "swarm_bytes", space->swarm_bytes);
        json_add_u64(json, "declared_bytes", space->declared_bytes);
        json_add_u64(json, "capacity_bytes", space->capacity_bytes);
        json_end(json);
    }
    json_end(json);
}

static void add_disk(const struct disk_budget *disk, struct json_writer *json) {
    json_begin_object(json, "disk");
    json_add_u64(json, "snapshot_bytes", disk->snapshot_bytes * disk->snapshot_count);
    json_add_u64(json, "results_bytes", disk->results_bytes);
    json_add_u64(json, "ledger_bytes", disk->ledger_bytes);
    json_add_u64(json, "states_bytes", disk->states_bytes);
    json_add_u64(json, "export_bytes", disk->export_bytes);
    if (disk->capacity_known) {
        json_add_u64(json, "capacity_bytes", disk->capacity_bytes);
    }
    json_end(json);
}

/* Returns the value to print for a time: NaN, which is printed as null, for 0, an unknown time. */
static double seconds_or_null(double seconds) {
    return seconds > 0 ? seconds : (double)NAN;
}

static void add_times(const struct fit_report *report, struct json_writer *json) {
    json_add_f64(json, "step_s", report->step_s, 6);
    json_add_f64(json, "train_s", report->train_s, 6);
    json_add_f64(json, "exchange_s", seconds_or_null(report->exchange_s), 6);
    json_add_f64(json, "round_s", seconds_or_null(report->exchange_s > 0 ? report->round_s : 0), 6);
    json_add_f64(json, "round_trip_s", seconds_or_null(report->link.round_trip_s), 6);
}

static void add_traffic(const struct fit_report *report, struct json_writer *json) {
    json_add_i64(json, "members", report->exchange.members);
    json_add_u64(json, "round_up_bytes", report->exchange.up_bytes);
    json_add_u64(json, "round_down_bytes", report->exchange.down_bytes);
    json_add_f64(json, "found_in_round", report->exchange.found_in_round, 6);
    json_add_f64(json, "found_in_10_rounds", report->exchange.found_in_10_rounds, 6);
    json_add_u64(json, "join_bytes", report->join_bytes);
    json_add_f64(json, "day_up_bytes", report->up_bytes_per_day, 12);
    json_add_f64(json, "day_down_bytes", report->down_bytes_per_day, 12);
}

static void add_checks(const struct fit_report_request *request, struct json_writer *json) {
    for (int i = 0; i < request->check_count; i++) {
        const struct fault *missing = request->checks[i].fault;
        json_begin_object(json, request->checks[i].name);
        if (request->checks[i].is_unknown) {
            json_add_null(json, "ok");
        } else {
            json_add_bool(json, "ok", missing == NULL);
        }
        if (missing != NULL) {
            json_add_text(json, "subject", missing->subject);
            json_add_text(json, "reason", missing->reason);
            json_add_text(json, "remedy", missing->remedy);
        }
        json_end(json);
    }
}

static void print_report(const struct fit_report *report,
                         const struct fit_report_request *request) {
    const struct session *session = report->session;
    const struct manifest *manifest = report->terms->manifest;
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_bool(json, "fits", report->misfit.status == OK);
    json_add_text(json, "swarm", manifest->name);
    json_add_text(json, "tracker", manifest->join.address);
    json_add_hex(json, "manifest", manifest->hash.bytes, HASH_BYTES);
    json_add_text(json, "model", session->blueprint.model_type);
    json_add_text(json, "target", session->target->name);
    json_add_i64(json, "ranks", session->ranks);
    json_add_u64(json, "rounds", report->terms->commits_max);
    add_spaces(report, json);
    add_disk(&report->disk, json);
    add_times(report, json);
    add_traffic(report, json);
    rates_report_add_json(&session->settings, request->present_members, json);
    json_begin_object(json_newline(json, 0), "checks");
    add_checks(request, json);
    json_end(json);
    if (report->misfit.status != OK) {
        json_add_text(json, "reason", report->misfit.reason);
        remedies_add_json(report->remedies, report->remedy_count, json);
    }
    json_stdout_end(&out);
}

enum status fit_report_print_json(struct session *session, const struct fit_report_request *request,
                                  struct fault *fault) {
    struct fit_report *report = region_alloc(&session->region, 1, sizeof *report);
    TRY(fit_report_make(session, request->terms, &request->link, request->members, report, fault));
    print_report(report, request);
    if (report->misfit.status != OK) {
        *fault = report->misfit;
    }
    return report->misfit.status;
}
