/* preflight_report: writes the report of a member's needs as text. */
#include "runtime/cli/reports/reports.h"

static const double GB = 1e9;

static void add_bytes(struct text *text, const char *before, uint64_t bytes, const char *after) {
    char amount[24];
    text_add(text, "%s%s%s", before, text_format_bytes(bytes, amount), after);
}

static void add_heading(const struct fit_report *report, struct text *text) {
    const struct session *session = report->session;
    const struct swarm_terms *terms = report->terms;
    const struct settings *settings = &session->settings;
    char hash[HASH_HEX_BYTES], count[24];
    text_add(text, "swarm    %s at %s, manifest %.16s\n", terms->manifest->name,
             terms->manifest->join.address, hash_hex(&terms->manifest->hash, hash));
    text_add(text, "model    %s, %s parameters\n", session->blueprint.model_type,
             text_format_count((double)terms->shape.slices.parameter_count, count));
    text_add(text, "target   %s: %s\n", session->target->name, session->target->description);
    text_add(text, "work     %u rounds of %lld steps of %lld tokens, contributions in %s\n",
             terms->commits_max, (long long)settings->swarm_inner_steps,
             (long long)settings->batch_tokens, slices_codec_name(&terms->shape.slices));
}

static void add_space(const struct fit_space *space, struct text *text) {
    uint64_t used_bytes = space->planned_bytes + space->declared_bytes;
    bool fits = used_bytes <= space->capacity_bytes;
    uint64_t difference =
        fits ? space->capacity_bytes - used_bytes : used_bytes - space->capacity_bytes;
    text_add(text, "%-7s", space_name(space->space));
    add_bytes(text, "  arena ", space->planned_bytes, " (");
    add_bytes(text, "", space->swarm_bytes, " for the swarm), other uses ");
    add_bytes(text, "", space->declared_bytes, ", capacity ");
    add_bytes(text, "", space->capacity_bytes, fits ? ", headroom " : ", short by ");
    add_bytes(text, "", difference, "\n");
}

/* Adds the memory of the other ranks. The lines of the report before these concern rank 0. */
static void add_ranks(const struct fit_report *report, struct text *text) {
    const struct fit_space *space = &report->spaces[0];
    int ranks = report->session->ranks;
    if (ranks > 1) {
        text_add(text, "ranks    %d on this machine: %s", ranks,
                 ranks == 2 ? "the arena of the other rank is" : "the arena of each other rank is");
        add_bytes(text, " ", space->planned_bytes - space->swarm_bytes, "\n");
    }
}

static void add_time(const struct fit_report *report, struct text *text) {
    text_add(text, "time     %.3g s a step, %.3g s for a round's steps", report->step_s,
             report->train_s);
    if (report->exchange_s > 0) {
        text_add(text, ", %.3g s for its exchange: %.3g s a round\n", report->exchange_s,
                 report->round_s);
    } else {
        text_add(text, "; the exchange is not included\n");
    }
}

static void add_link(const struct fit_report *report, struct text *text) {
    const struct fit_link *link = &report->link;
    const struct settings *settings = &report->session->settings;
    if (link->round_trip_s > 0) {
        text_add(text, "link     %.3g ms round trip to the tracker", 1e3 * link->round_trip_s);
        if (link->up_bytes_per_s > 0) {
            add_bytes(text, ", up ", (uint64_t)link->up_bytes_per_s, "/s");
        }
        if (link->down_bytes_per_s > 0) {
            add_bytes(text, ", down ", (uint64_t)link->down_bytes_per_s, "/s");
        }
        text_add(text, "\n");
    }
    if (settings->limit_up > 0) {
        add_bytes(text, "limit    up ", settings->limit_up, "/s\n");
    }
    if (settings->limit_down > 0) {
        add_bytes(text, "limit    down ", settings->limit_down, "/s\n");
    }
}

static void add_audits(const struct fit_exchange *exchange, struct text *text) {
    text_add(
        text,
        "audits   probability of detecting an owner that falsifies its own contribution: %.1f %% "
        "in a round, %.0f %% in 10\n",
        100 * exchange->found_in_round, 100 * exchange->found_in_10_rounds);
}

static void add_network(const struct fit_report *report, struct text *text) {
    const struct fit_exchange *exchange = &report->exchange;
    add_bytes(text, "network  a round ", exchange->up_bytes, " up, ");
    add_bytes(text, "", exchange->down_bytes, " down");
    text_add(text, " among %d member%s; joining ", exchange->members,
             exchange->members == 1 ? "" : "s");
    add_bytes(text, "", report->join_bytes, " down, once\n");
    add_bytes(text, "         at ", (uint64_t)report->tenth_of_round_bytes_per_s,
              "/s each way, the exchange takes a tenth of a round\n");
    text_add(text, "         %s%.3g GB up, %.3g GB down a day\n",
             report->exchange_s > 0 ? "" : "at most ", report->up_bytes_per_day / GB,
             report->down_bytes_per_day / GB);
    if (slices_are_sparse(&report->terms->shape.slices)) {
        text_add(text,
                 "audits   none: every member checks all contributions and computes all means\n");
    } else {
        add_audits(exchange, text);
    }
}

static void add_disk(const struct disk_budget *disk, struct text *text) {
    add_bytes(text, "disk     snapshots ", disk->snapshot_bytes * disk->snapshot_count,
              ", results ");
    add_bytes(text, "", disk->results_bytes, ", ledger ");
    add_bytes(text, "", disk->ledger_bytes, ", states ");
    add_bytes(text, "", disk->states_bytes, ", export ");
    add_bytes(text, "", disk->export_bytes, "");
    if (disk->capacity_known) {
        add_bytes(text, ": ", disk->peak_bytes, " of ");
        add_bytes(text, "", disk->capacity_bytes, " available");
    }
    text_add(text, "\n");
}

static bool memory_fits(const struct fit_report *report) {
    const struct session *session = report->session;
    struct fault ignored;
    return session->misfit.status == OK && program_check_fit(&session->program, &ignored) == OK;
}

void fit_report_append(const struct fit_report *report, struct text *text) {
    add_heading(report, text);
    for (int i = 0; i < report->space_count; i++) {
        add_space(&report->spaces[i], text);
    }
    add_ranks(report, text);
    add_disk(&report->disk, text);
    add_time(report, text);
    add_link(report, text);
    add_network(report, text);
    if (report->misfit.status == OK) {
        text_add(text, "fits\n");
        return;
    }
    text_add(text, "does not fit: %s; %s\n", report->misfit.reason, report->misfit.remedy);
    if (!memory_fits(report)) {
        remedies_write(report->remedies, report->remedy_count, text);
    }
}

enum status fit_report_write(struct session *session, const struct fit_report_request *request,
                             struct text *text, struct fault *fault) {
    struct fit_report *report = region_alloc(&session->region, 1, sizeof *report);
    TRY(fit_report_make(session, request->terms, &request->link, request->members, report, fault));
    fit_report_append(report, text);
    rates_report_append(&session->settings, request->present_members, text);
    if (report->misfit.status != OK) {
        *fault = report->misfit;
    }
    return report->misfit.status;
}
