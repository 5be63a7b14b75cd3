/* plan: `skep plan RUN-or-MODEL-or-SWARM` lays out every buffer of a run in memory, without running
 * it. */
#include "arena/formats/formats.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/program/print.h"
#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"

#include <stdio.h>

enum {
    TENANTS_SHOWN_MAX = 16,   /* maximum number of extents that the report lists for a space */
    REPORT_BYTES = 64 * 1024, /* maximum size of the report in bytes */
    DEFAULT_VALUE_BYTES = 64  /* size of the buffer for the text of a default value */
};

struct request {             /* options of `skep plan` and its report on the ranks */
    struct site_report site; /* report on the ranks; filled in only if there are several ranks */
    int64_t rank_count;      /* --ranks; 0: not set */
    const char *svg;         /* path of the drawing; NULL: not requested */
    bool json, program;      /* --json: print JSON; --program: print the instructions */
};

/* Prints the defaults that depend on the model, the data or the machine. All other defaults are
 * constant, and `skep help keys` lists them. */
static void print_defaults(const struct session *session) {
    static const char *const KEYS[] = {"steps",        "batch.sequence",   "batch.tokens",
                                       "optimizer.lr", "precision.params", "schedule.warmup_steps",
                                       "export.dtype"};
    const struct settings *settings = &session->settings;
    for (size_t i = 0; i < ARRAY_COUNT(KEYS); i++) {
        const struct setting_key *key = setting_key_find(KEYS[i]);
        const char *source = settings_default_source(settings, key);
        char value[DEFAULT_VALUE_BYTES];
        struct text text = text_over(value, sizeof value);
        if (source != NULL) {
            settings_describe_key(settings, key, &text);
            printf("default  %s %s: %s\n", key->name, value, source);
        }
    }
}

/* A model without a run file is planned in f32, whatever the type of its weights is. */
static void print_dtype_note(const struct session *session) {
    const struct settings *settings = &session->settings;
    if (settings->run_file[0] == '\0' && !session->shared_settings_fixed &&
        session->blueprint.checkpoint_dtype == DTYPE_BF16 &&
        !settings_is_given(settings, "precision.params")) {
        printf("note     planned in f32, because no run file is given; a run file that starts "
               "from this model's weights would use bf16\n");
    }
}

/* A plan can be made without the data files, but the run cannot begin without them, so their
 * absence is only reported. */
static void print_data_passes(struct session *session) {
    const struct settings *settings = &session->settings;
    struct fault problem;
    const double passes = session_count_data_passes(session, &problem);
    if (problem.status != OK) {
        printf("data     CANNOT TRAIN: %s: %s%s%s\n", problem.subject, problem.reason,
               problem.remedy[0] == '\0' ? "" : "; ", problem.remedy);
    }
    if (passes > 0) {
        printf("length   %lld steps: %.3g passes over data.train\n", (long long)settings->steps,
               passes);
    } else if (settings->epochs > 0) {
        printf(
            "length   %g passes over data.train; the number of steps depends on the data files\n",
            settings->epochs);
    }
}

static void print_rates_by_members(const struct settings *settings) {
    enum { RATES_BYTES = 2048 }; /* size of the buffer for the report of rates */
    char lines[RATES_BYTES];
    struct text text = text_over(lines, sizeof lines);
    rates_report_append(settings, 0, &text);
    fputs(lines, stdout);
}

static void print_heading(struct session *session) {
    const struct settings *settings = &session->settings;
    char hash[HASH_HEX_BYTES], count[24];
    printf("model    %s: %s, %s parameters\n", settings->model, session->blueprint.model_type,
           text_format_count((double)blueprint_elements(&session->blueprint), count));
    printf("target   %s: %s\n", session->target->name, session->target->description);
    int64_t microbatches = session->program.schedule.options.accumulation;
    printf(
        "step     %lld tokens: %lld microbatch%s of %lld x %lld%s, %s, moments %s, recompute %s\n",
        (long long)settings->batch_tokens, (long long)microbatches, microbatches == 1 ? "" : "es",
        (long long)settings->microbatch, (long long)settings->sequence_tokens,
        session->ranks > 1 ? " on each rank" : "", dtype_name((enum dtype)settings->compute_dtype),
        dtype_name((enum dtype)settings->moments_dtype), settings->recompute);
    print_data_passes(session);
    print_defaults(session);
    print_dtype_note(session);
    print_rates_by_members(settings);
    printf("program  %d instructions, %d buffers, plan %.16s\n\n",
           session->program.schedule.instruction_count, session->program.schedule.extent_count,
           hash_hex(&session->program.hash, hash));
}

/* Returns the size of the arenas in a space. With unified memory, the arenas of all spaces are in
 * device memory. */
static uint64_t arena_bytes_in(const struct session *session, enum space space) {
    const uint64_t *peak_bytes = session->program.plan.peak_bytes;
    bool has_all = session->target->unified && space == SPACE_DEVICE;
    return has_all ? peak_bytes[SPACE_DEVICE] + peak_bytes[SPACE_PINNED] + peak_bytes[SPACE_HOST]
                   : peak_bytes[space];
}

static void print_space(const struct session *session, enum space space) {
    const struct target *target = session->target;
    uint64_t peak = arena_bytes_in(session, space);
    uint64_t available = target_available_bytes(target, space);
    char arena[24], capacity[24], difference[24];
    if (peak == 0) {
        return;
    }
    if (target->unified && space != SPACE_DEVICE) {
        printf("%-7s  arena %s, part of device memory\n", space_name(space),
               text_format_bytes(peak, arena));
        return;
    }
    printf("%-7s  %-46s %10s  %s\n", space_name(space), "capacity",
           text_format_bytes(target->spaces[space].capacity_bytes, capacity),
           target->spaces[space].capacity_source);
    for (int i = 0; i < target->spaces[space].declared_use_count; i++) {
        const struct target_declared_use *use = &target->spaces[space].declared[i];
        printf("         %-46s %10s  %s\n", use->name, text_format_bytes(use->bytes, capacity),
               use->source);
    }
    printf("         arena %s of %s, %s %s\n", text_format_bytes(peak, arena),
           text_format_bytes(available, capacity), peak <= available ? "headroom" : "short by",
           text_format_bytes(peak <= available ? available - peak : peak - available, difference));
}

static void print_estimate(const struct session *session) {
    struct segment_estimate step = estimate_step(&session->program.schedule, session->target);
    enum bound_by largest = BOUND_COMPUTE;
    char flops[24];
    for (int bound = 0; bound < BOUND_COUNT; bound++) {
        if (step.seconds_bound[bound] > step.seconds_bound[largest]) {
            largest = (enum bound_by)bound;
        }
    }
    printf("\nestimate %.3g s a step, %.4g tokens/s, %s FLOPs; bound by %s (%.0f %% of the time)\n",
           step.seconds, (double)session->settings.batch_tokens / step.seconds,
           text_format_count(step.flops, flops), bound_by_name(largest),
           100 * step.seconds_bound[largest] / step.seconds);
}

static void print_disk(const struct disk_budget *disk) {
    char first[24], second[24];
    printf("disk     snapshots %s",
           text_format_bytes(disk->snapshot_bytes * disk->snapshot_count, first));
    if (disk->results_bytes > 0) {
        printf(", results %s, ledger %s", text_format_bytes(disk->results_bytes, first),
               text_format_bytes(disk->ledger_bytes, second));
        printf(", states %s", text_format_bytes(disk->states_bytes, first));
    }
    if (!disk->has_separate_export_disk) {
        printf(", export %s, %s available\n", text_format_bytes(disk->export_bytes, first),
               text_format_bytes(disk->capacity_bytes, second));
        return;
    }
    printf(", %s available\n", text_format_bytes(disk->capacity_bytes, first));
    printf("         export %s on another file system, %s available\n",
           text_format_bytes(disk->export_bytes, first),
           text_format_bytes(disk->export_capacity_bytes, second));
}

/* Prints whether the run fits. `misfit` is the reason why it does not, or NULL. */
static void print_verdict(const struct session *session, const struct fault *misfit) {
    char need[24], have[24];
    if (misfit != NULL) {
        printf("does not fit: %s: %s\n\n", misfit->subject, misfit->reason);
        return;
    }
    printf("fits: the arena needs %s of the %s available on the device\n\n",
           text_format_bytes(arena_bytes_in(session, SPACE_DEVICE), need),
           text_format_bytes(target_available_bytes(session->target, SPACE_DEVICE), have));
}

/* Prints the table of memory, and the ranks in `site`, which is NULL for one rank. */
static void print_table(struct session *session, const struct site_report *site) {
    static char buffer[REPORT_BYTES];
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
    report_tenants(plan, SPACE_DEVICE, TENANTS_SHOWN_MAX, &session->region, &text);
    fputs(buffer, stdout);
    print_estimate(session);
    if (site != NULL) {
        plan_site_print(site);
    }
}

static void write_line(void *context, const char *line, size_t length) {
    fwrite(line, 1, length, context);
}

static bool memory_is_short(const struct session *session) {
    struct fault unused;
    return program_check_fit(&session->program, &unused) != OK;
}

/* Prints why the run does not fit, and the changes of settings with which its memory would fit. */
static enum status print_misfit(const struct session *session, const struct fault *misfit,
                                int *remedy_count, struct fault *fault) {
    struct remedy remedies[REMEDIES_MAX];
    static char buffer[REMEDIES_MAX * 1024];
    struct text text = text_over(buffer, sizeof buffer);
    if (memory_is_short(session)) {
        TRY(remedies_find(session, PURPOSE_TRAIN, remedies, remedy_count, fault));
        remedies_write(remedies, *remedy_count, &text);
    }
    printf("\ndoes not fit: %s\n%s", misfit->reason, buffer);
    return OK;
}

/* Prints the whole report. `misfit` is the reason why the run does not fit, or NULL. */
static enum status print_plan(const struct request *request, struct session *session,
                              const struct fault *misfit, int *remedy_count, struct fault *fault) {
    const struct site_report *site = session->ranks > 1 ? &request->site : NULL;
    if (request->json) {
        return plan_print_json(session, site, misfit == NULL, remedy_count, fault);
    }
    print_verdict(session, misfit);
    print_table(session, site);
    if (request->program) {
        printf("\n");
        program_print_instructions(&session->program, write_line, stdout);
    }
    return misfit != NULL ? print_misfit(session, misfit, remedy_count, fault) : OK;
}

/* Replaces the remedy of the fault that train and join would print, because that remedy is to run
 * `skep plan`. */
static void set_memory_remedy(const struct session *session, int remedy_count,
                              struct fault *fault) {
    enum space space;
    char need[24];
    const struct target *target = session->target;
    uint64_t needed = target_shortage(target, session->program.plan.peak_bytes, &space);
    if (remedy_count > 0) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "make one of the changes that the report lists");
        return;
    }
    needed += target->spaces[space].capacity_bytes;
    /* adds 0.5 %, so that rounding to three digits never gives less than is needed */
    needed += needed / 199;
    snprintf(fault->remedy, sizeof fault->remedy,
             "no setting makes it fit: it needs a target with %s of %s memory",
             text_format_bytes(needed, need), space_name(space));
}

static enum status run_plan(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct fault *fault = &invocation->fault;
    struct fault misfit;
    session->ranks = (int)request->rank_count;
    TRY(invocation_read_session(invocation, session));
    TRY(session_compile(session, PURPOSE_TRAIN, fault));
    if (session->ranks > 1) {
        TRY(plan_site_read(session, &session->region, &request->site, fault));
    }
    enum status fits = session_check_fit(session, &misfit);
    int remedy_count = 0;
    if (request->svg != NULL) {
        TRY(plan_draw(session, request->svg, fault));
    }
    TRY(print_plan(request, session, fits == OK ? NULL : &misfit, &remedy_count, fault));
    *fault = misfit;
    if (session->misfit.status == OK && memory_is_short(session)) {
        set_memory_remedy(session, remedy_count, fault);
    }
    return fits;
}

static const struct option OPTIONS[] = {
    {.name = "--target",
     .kind = OPTION_RUN_KEY,
     .value_name = "TARGET",
     .help = "profile to plan for: a name or a path; default: this machine",
     .example = "run.yaml --target rtx3060-12g"},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX, .value_name = "N",
     .help = "plan for one of N ranks; default: 1", .example = "run.yaml --ranks 4"},
    {OPTION("--svg", TEXT, svg), .value_name = "FILE",
     .help = "draw the memory over time as an SVG file", .example = "run.yaml --svg plan.svg"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "run.yaml --json"},
    {OPTION("--program", FLAG, program), .help = "also print the instructions of the program",
     .example = "run.yaml --program"},
};

const struct command COMMAND_PLAN = {
    .name = "plan",
    .arguments = "RUN-or-MODEL-or-SWARM",
    .summary = "place every buffer of a run in memory; exit code 0 if it fits, 3 if not",
    .details =
        "The argument is a run file, a model (folder, config.json or org/name) or the manifest "
        "NAME.skep of a swarm. Nothing is run, so a plan for another machine works everywhere.",
    .example = "run.yaml --target rtx3060-12g",
    .positional_count = 1,
    .takes_overrides = true,
    REQUEST_OPTIONS,
    .run = run_plan,
};
