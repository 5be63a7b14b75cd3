/* plan: the layout of everything a run will do, before anything runs. */
#include "arena/formats/formats.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/plan_json.h"
#include "runtime/cli/reports/plan_site_report.h"
#include "runtime/program/print.h"
#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"
#include "runtime/swarm_setup/member_session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TENANT_LINES = 16, REPORT_BYTES = 64 * 1024 };

struct request {
    struct session session;
    struct site_report site; /* of two ranks or more */
    struct fault fault;
    const char *target, *svg;
    bool json, program;
};

static void print_heading(const struct session *session) {
    const struct run *run = &session->run;
    char hash[HASH_HEX_BYTES];
    char count[24];
    printf("model    %s: %s, %s parameters\n", run->model, session->blueprint.model_type,
           text_count((double)blueprint_elements(&session->blueprint), count));
    printf("target   %s: %s\n", session->target->name, session->target->description);
    int64_t microbatches = session->program.schedule.options.accumulation;
    printf(
        "step     %lld tokens: %lld microbatch%s of %lld x %lld%s, %s, moments %s, recompute %s\n",
        (long long)run->batch_tokens, (long long)microbatches, microbatches == 1 ? "" : "es",
        (long long)run->microbatch, (long long)run->sequence,
        session->ranks > 1 ? " on each rank" : "", dtype_name((enum dtype)run->compute),
        dtype_name((enum dtype)run->moments), run->recompute);
    printf("program  %d instructions, %d buffers, plan %.16s\n\n",
           session->program.schedule.instruction_count, session->program.schedule.extent_count,
           hash_hex(&session->program.hash, hash));
}

/* Where all memory is one, the device has room for every space's arena. */
static uint64_t arenas_in(const struct session *session, enum space space) {
    const uint64_t *peak_bytes = session->program.plan.peak_bytes;
    bool all = session->target->unified && space == SPACE_DEVICE;
    return all ? peak_bytes[SPACE_DEVICE] + peak_bytes[SPACE_PINNED] + peak_bytes[SPACE_HOST]
               : peak_bytes[space];
}

static void print_space(const struct session *session, enum space space) {
    const struct target *target = session->target;
    uint64_t peak = arenas_in(session, space);
    uint64_t room = target_available_bytes(target, space);
    char a[24];
    char b[24];
    char c[24];
    if (peak == 0) {
        return;
    }
    if (target->unified && space != SPACE_DEVICE) {
        printf("%-7s  arena %s of these\n", space_name(space), text_bytes(peak, a));
        return;
    }
    printf("%-7s  capacity %s", space_name(space),
           text_bytes(target->spaces[space].capacity_bytes, a));
    for (int i = 0; i < target->spaces[space].declared_count; i++) {
        const struct target_declared *line = &target->spaces[space].declared[i];
        printf(", %s %s", line->name, text_bytes(line->bytes, a));
    }
    printf("\n         arena %s of %s, %s %s\n", text_bytes(peak, a), text_bytes(room, b),
           peak <= room ? "headroom" : "short of",
           text_bytes(peak <= room ? room - peak : peak - room, c));
}

static void print_estimate(const struct session *session) {
    struct segment_estimate step = estimate_step(&session->program.schedule, session->target);
    enum bound_by most = BOUND_COMPUTE;
    char flops[24];
    for (int bound = 0; bound < BOUND_COUNT; bound++) {
        most = step.seconds_bound[bound] > step.seconds_bound[most] ? (enum bound_by)bound : most;
    }
    printf("\nestimate %.3g s a step, %.4g tokens/s, %s FLOPs; bound by %s (%.0f %% of the time)\n",
           step.seconds, (double)session->run.batch_tokens / step.seconds,
           text_count(step.flops, flops), bound_name(most),
           100 * step.seconds_bound[most] / step.seconds);
}

static void print_disk(const struct disk_budget *disk) {
    char a[24];
    char b[24];
    printf("disk     snapshots %s", text_bytes(disk->snapshot_bytes * disk->snapshot_count, a));
    if (disk->results_bytes > 0) {
        printf(", results %s, ledger %s", text_bytes(disk->results_bytes, a),
               text_bytes(disk->ledger_bytes, b));
    }
    if (!disk->export_apart) {
        printf(", export %s, %s available\n", text_bytes(disk->export_bytes, a),
               text_bytes(disk->capacity_bytes, b));
        return;
    }
    printf(", %s available\n", text_bytes(disk->capacity_bytes, a));
    printf("         export %s on a disk of its own, %s available\n",
           text_bytes(disk->export_bytes, a), text_bytes(disk->export_capacity_bytes, b));
}

static void print_table(struct request *request) {
    static char buffer[REPORT_BYTES];
    struct session *session = &request->session;
    const struct plan *plan = &session->program.plan;
    struct disk_budget disk = disk_budget_of(session);
    struct text text = text_over(buffer, sizeof buffer);
    print_heading(session);
    for (int space = 0; space < SPACE_COUNT; space++) {
        print_space(session, (enum space)space);
    }
    print_disk(&disk);
    text_add(&text, "\n");
    report_spaces(plan, &text);
    text_add(&text, "\n");
    report_roles(plan, &session->region, &text);
    text_add(&text, "\nalive at the peak, step %u\n", plan->peak_step[SPACE_DEVICE]);
    report_tenants(plan, SPACE_DEVICE, TENANT_LINES, &session->region, &text);
    fputs(buffer, stdout);
    print_estimate(session);
    if (session->ranks > 1) {
        plan_site_print(&request->site);
    }
}

static void write_line(void *context, const char *line, size_t length) {
    fwrite(line, 1, length, context);
}

static enum status print_misfit(struct request *request, const struct fault *misfit) {
    struct remedy remedies[REMEDIES_MAX];
    static char buffer[REMEDIES_MAX * 1024];
    struct text text = text_over(buffer, sizeof buffer);
    int count;
    TRY(remedies_find(&request->session, PURPOSE_TRAIN, remedies, &count, &request->fault));
    remedies_write(remedies, count, &text);
    printf("\ndoes not fit: %s\n%s", misfit->reason, buffer);
    return OK;
}

static enum status report(struct request *request) {
    struct session *session = &request->session;
    struct fault misfit = session->misfit;
    enum status fits = misfit.status;
    fits = fits == OK ? disk_fits(session, &misfit) : fits;
    fits = fits == OK ? program_fits(&session->program, &misfit) : fits;
    enum status status = OK;
    if (request->svg != NULL) {
        status = plan_draw(session, request->svg, &request->fault);
    }
    if (status != OK) {
        return status;
    }
    if (request->json) {
        const struct site_report *site = session->ranks > 1 ? &request->site : NULL;
        status = plan_print_json(session, site, fits == OK, &request->fault);
    } else {
        print_table(request);
        if (request->program) {
            printf("\n");
            program_print_instructions(&session->program, write_line, stdout);
        }
        status = fits == OK ? OK : print_misfit(request, &misfit);
    }
    if (status == OK && fits != OK) {
        request->fault = misfit;
        return fits;
    }
    return status;
}

static enum status read_request(struct request *request, int argc, char **argv) {
    struct arguments arguments;
    struct fault *fault = &request->fault;
    const char *ranks = NULL;
    int64_t rank_count = 0;
    char target[PATH_BYTES];
    const struct flag flags[] = {{"--target", &request->target, NULL},
                                 {"--ranks", &ranks, NULL},
                                 {"--svg", &request->svg, NULL},
                                 {"--json", NULL, &request->json},
                                 {"--program", NULL, &request->program}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, fault);
    if (status == OK) {
        status = argument_i64("--ranks", ranks, 1, &rank_count, fault);
    }
    if (status == OK && rank_count > RANKS_MAX) {
        status = fault_set(fault, STATUS_USAGE, "--ranks", NULL, "%s ranks; at most %d", ranks,
                           RANKS_MAX);
    }
    request->session.ranks = (int)rank_count;
    if (status == OK && request->target != NULL) {
        snprintf(target, sizeof target, "target=%s", request->target);
        arguments.overrides[arguments.override_count++] = target;
    }
    return status == OK ? member_session_or_run_read(&request->session, arguments.positionals[0],
                                                     arguments.overrides, arguments.override_count,
                                                     NULL, fault)
                        : status;
}

int command_plan(int argc, char **argv) {
    static struct request request;
    enum status status = read_request(&request, argc, argv);
    if (status == OK) {
        status = session_compile(&request.session, PURPOSE_TRAIN, &request.fault);
    }
    if (status == OK && request.session.ranks > 1) {
        status = plan_site_read(&request.session, &request.session.region, &request.site,
                                &request.fault);
    }
    if (status == OK) {
        status = report(&request);
    }
    if (status != OK) {
        fflush(stdout);
        fault_print(&request.fault, STDERR_FILENO);
    }
    session_finish(&request.session);
    return fault_exit_code(status);
}
