/* probe: `skep probe` measures this machine's CPU or GPUs, compares the result with a profile, and
 * can write a profile. If the machine has less than the profile promises, the exit code is 3. The
 * memory that NCCL uses is measured with several ranks: one for each GPU unless --ranks is
 * given. */
#include "targets/probe/probe.h"
#include "base/file.h"
#include "base/limits.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/diagnose/probe_gpu.h"
#include "targets/probe/detect.h"
#include "targets/profile.h"

#include <stdio.h>
#include <string.h>

enum {
    PROFILE_TEXT_BYTES = 16384, /* size of the buffer for the text of a profile */
    VALUE_BYTES = 40,           /* size of the buffer for the text of a measured value */
};

struct request { /* options of `skep probe` */
    const char *target,
        *write_path;    /* name of the target to check; path of the profile to write, or NULL */
    int64_t rank_count; /* number of ranks from --ranks; 0: one rank per GPU */
    bool json;          /* --json */
};

/* Writes a rate such as "166 GFLOP/s". */
static void format_rate(double value, const char *unit, char buffer[static VALUE_BYTES]) {
    char number[24];
    text_format_count(value, number);
    int digits = (int)strspn(number, "0123456789.");
    snprintf(buffer, VALUE_BYTES, "%.*s %s%s", digits, number, number + digits, unit);
}

static const char *format_value(enum probe_unit unit, double value,
                                char buffer[static VALUE_BYTES]) {
    char number[24];
    switch (unit) {
    case PROBE_BYTES:
        snprintf(buffer, VALUE_BYTES, "%s", text_format_bytes((uint64_t)value, number));
        break;
    case PROBE_FLOPS:
        format_rate(value, "FLOP/s", buffer);
        break;
    case PROBE_BANDWIDTH:
        format_rate(value, "B/s", buffer);
        break;
    case PROBE_PLAIN_NUMBER:
        snprintf(buffer, VALUE_BYTES, "%.0f", value);
        break;
    }
    return buffer;
}

static void print_comparisons(const struct probed *probed) {
    static const char *const VERDICTS[] = {
        [PROBE_OK] = "ok", [PROBE_LOWER] = "LOWER", [PROBE_ASSUMED] = "detected"};
    char promised[VALUE_BYTES], found[VALUE_BYTES];
    const struct target *target = probed->target;
    printf("machine  %s\n", probed->machine);
    if (probed->products[0] != '\0') {
        printf("matmul   %s\nranks    %s\n", probed->products, probed->gpu.nccl.description);
    }
    printf("target   %s (%s): %s\n\n", target->name, target->origin, target->description);
    printf("%-26s %14s %14s\n", "", "profile", "measured");
    for (int i = 0; i < probed->count; i++) {
        const struct probe_comparison *line = &probed->lines[i];
        printf("%-26s %14s %14s %5.0f %%  %s\n", line->name,
               format_value(line->unit, line->profile_value, promised),
               format_value(line->unit, line->measured_value, found),
               100 * line->measured_value / line->profile_value, VERDICTS[line->verdict]);
    }
}

/* Adds the fields of the JSON object "machine" for a GPU. */
static void add_gpu(struct json_writer *json, const struct probe_gpu *gpu) {
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", gpu->compute_major, gpu->compute_minor);
    json_add_text(json, "gpu", gpu->name);
    json_add_text(json, "compute_capability", capability);
    json_add_text(json, "driver", gpu->driver);
    json_add_u64(json, "context_bytes", gpu->context_bytes);
    json_add_u64(json, "kernels_bytes", gpu->kernels_bytes);
    json_add_text(json, "products", gpu->products);
    json_add_u64(json, "products_bytes", gpu->products_bytes);
    json_add_f64(json, "own_f32_flops", gpu->own_f32_flops, 6);
    json_add_f64(json, "own_bf16_flops", gpu->own_bf16_flops, 6);
    json_add_text(json, "nccl", gpu->nccl.description);
    if (gpu->nccl.ranks > 0) {
        json_add_i64(json, "nccl_ranks", gpu->nccl.ranks);
        json_add_u64(json, "nccl_bytes", gpu->nccl.bytes);
        json_add_u64(json, "nccl_group_bytes", gpu->nccl.group_bytes);
    }
    if (gpu->has_health && gpu->health.temperature_c >= 0) {
        json_add_i64(json, "temperature_c", gpu->health.temperature_c);
    }
    if (gpu->has_health && gpu->health.is_throttled) {
        json_add_text(json, "slowed_by", gpu->health.throttle_reasons);
    }
    if (gpu->has_health && gpu->health.ecc_errors > 0) {
        json_add_i64(json, "ecc_errors", gpu->health.ecc_errors);
    }
}

/* Adds the fields of the JSON object "machine" for a CPU. */
static void add_cpu(struct json_writer *json, const struct probe_result *cpu) {
    json_add_text(json, "cpu", cpu->machine.cpu_name);
    json_add_i64(json, "cpus", cpu->machine.cpu_count);
    json_add_text(json, "isa", cpu->machine.isa);
    json_add_f64(json, "f32_flops_thread", cpu->f32_flops_thread, 6);
}

/* Prints the result as JSON. `cpu` is NULL if a GPU was measured. */
static void print_json(const struct probed *probed, const struct probe_result *cpu, bool fits) {
    static const char *const UNITS[] = {"bytes", "operations/s", "bytes/s", "count"};
    static const char *const VERDICTS[] = {"ok", "lower", "assumed"};
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "target", probed->target->name);
    json_add_bool(json, "fits", fits);
    json_begin_object(json, "machine");
    if (cpu != NULL) {
        add_cpu(json, cpu);
    } else {
        add_gpu(json, &probed->gpu);
    }
    json_end(json);
    if (cpu != NULL) {
        json_add_bool(json, "isa_ok", !probe_isa_is_lower(probed->target, cpu));
    }
    json_begin_array(json, "lines");
    for (int i = 0; i < probed->count; i++) {
        const struct probe_comparison *line = &probed->lines[i];
        json_begin_object(json, NULL);
        json_add_text(json, "name", line->name);
        json_add_text(json, "unit", UNITS[line->unit]);
        json_add_f64(json, "promised", line->profile_value, 12);
        json_add_f64(json, "found", line->measured_value, 12);
        json_add_text(json, "verdict", VERDICTS[line->verdict]);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

/* Derives the name of a profile from its path: "dir/my-box.yaml" -> "my-box". */
static void format_profile_name(const char *path, char *name, size_t capacity) {
    const char *slash = strrchr(path, '/');
    const char *begin = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(begin, '.');
    size_t length = dot != NULL && dot != begin ? (size_t)(dot - begin) : strlen(begin);
    snprintf(name, capacity, "%.*s", (int)length, begin);
}

static enum status write_profile(const char *path, const struct target *target,
                                 struct region *region, struct fault *fault) {
    char part[PATH_BYTES];
    char *buffer = region_alloc(region, PROFILE_TEXT_BYTES, 1);
    struct text text = text_over(buffer, PROFILE_TEXT_BYTES);
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        return fault_set(fault, STATUS_USAGE, "--write", "use a shorter path",
                         "the path is too long");
    }
    profile_write(target, &text);
    ASSERT(!text.truncated);
    return file_replace(path, part, text.bytes, text.length, fault);
}

static enum status set_below_profile_fault(const struct probed *probed, const char *isa,
                                           struct fault *fault) {
    char reason[sizeof fault->reason], subject[sizeof fault->subject];
    char found[VALUE_BYTES], promised[VALUE_BYTES];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "this machine has less than the profile states:");
    const char *separator = "";
    for (int i = 0; i < probed->count; i++) {
        const struct probe_comparison *line = &probed->lines[i];
        if (line->verdict == PROBE_LOWER) {
            text_add(&text, "%s %s %s instead of %s", separator, line->name,
                     format_value(line->unit, line->measured_value, found),
                     format_value(line->unit, line->profile_value, promised));
            separator = ",";
        }
    }
    if (isa != NULL) {
        text_add(&text, "%s instruction set %s instead of %s", separator, isa, probed->target->isa);
    }
    text_add(&text, "%s%s", probed->memory_users[0] != '\0' ? "; largest users of memory: " : "",
             probed->memory_users);
    snprintf(subject, sizeof subject, "target %.200s", probed->target->name);
    return fault_set(fault, STATUS_FIT, subject, "use another profile, or write one with --write",
                     "%s", reason);
}

static enum status probe_cpu(const struct request *request, const struct target *target,
                             struct region *region, struct fault *fault) {
    struct probe_result result;
    struct probe_comparison lines[PROBE_COMPARISONS_MAX];
    struct probed probed = {.target = target, .lines = lines, .count = PROBE_COMPARISONS_MAX};
    const struct machine *machine = &result.machine;
    struct text holders = text_over(probed.memory_users, sizeof probed.memory_users);
    TRY(probe_measure(target->threads, &result, fault));
    bool is_isa_lower = probe_isa_is_lower(target, &result);
    bool fits = probe_compare(target, &result, lines) == 0 && !is_isa_lower;
    machine_list_largest_processes("", PROBE_MEMORY_USERS, &holders);
    snprintf(probed.machine, sizeof probed.machine, "%s, %d CPUs, %s", machine->cpu_name,
             machine->cpu_count, machine->isa);
    if (request->json) {
        print_json(&probed, &result, fits);
    } else {
        print_comparisons(&probed);
        printf("%-26s %14s %14s %7s  %s\n", "instruction set", target->isa, machine->isa, "",
               is_isa_lower ? "LOWER" : "ok");
    }
    if (request->write_path != NULL) {
        char name[NAME_BYTES];
        format_profile_name(request->write_path, name, sizeof name);
        TRY(write_profile(request->write_path, probe_target(&result, name, region), region, fault));
    }
    return fits ? OK : set_below_profile_fault(&probed, is_isa_lower ? machine->isa : NULL, fault);
}

static enum status report_gpu(const struct request *request, const struct probed *probed,
                              struct region *region, struct fault *fault) {
    if (request->json) {
        print_json(probed, NULL, probed->lower == 0);
    } else {
        print_comparisons(probed);
    }
    fflush(stdout);
    if (request->write_path != NULL) {
        TRY(write_profile(request->write_path, probed->measured, region, fault));
    }
    return probed->lower > 0 ? set_below_profile_fault(probed, NULL, fault) : OK;
}

static enum status probe_gpus(const struct target *target, struct invocation *invocation) {
    char name[NAME_BYTES] = "";
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct fault *fault = &invocation->fault;
    struct probed probed = {.target = target};
    int gpus = probe_gpu_count(); /* the number of GPUs, which is the same on each rank */
    const struct ranks_request ranks = {.count = request->rank_count > 0 ? request->rank_count
                                                 : gpus > 0              ? gpus
                                                                         : 1};
    TRY(ranks_begin(&ranks, session, invocation));
    if (invocation->ranks.is_parent) {
        return OK;
    }
    if (request->write_path != NULL) {
        format_profile_name(request->write_path, name, sizeof name);
    }
    TRY(probe_gpu_run(name, session->site, &session->region, &probed, fault));
    enum status status = invocation->ranks.launch.rank <= 0
                             ? report_gpu(request, &probed, &session->region, fault)
                             : OK;
    return session_agree(session, status, fault);
}

static enum status run_probe(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct region *region = &invocation->region;
    const struct target *target;
    target_warn_of_unused_gpu(request->target);
    TRY(target_open(request->target, region, &target, &invocation->fault));
    if (target->kind != TARGET_CPU) {
        return probe_gpus(target, invocation);
    }
    if (request->rank_count > 0) {
        return fault_set(&invocation->fault, STATUS_USAGE, "--ranks",
                         "`skep comm` measures ranks on CPUs",
                         "measurements between ranks need a GPU target, but %.200s is a CPU target",
                         target->name);
    }
    return probe_cpu(request, target, region, &invocation->fault);
}

static const struct option OPTIONS[] = {
    {OPTION("--target", TEXT, target), .value_name = "TARGET",
     .help = "profile to compare with: a name or a path; default: detected",
     .example = "--target cpu"},
    {OPTION("--ranks", INTEGER, rank_count), .minimum = 1, .maximum = RANKS_MAX, .value_name = "N",
     .help = "number of ranks for NCCL; default: one for each GPU",
     .example = "--target h100-80g --ranks 2"},
    {OPTION("--write", TEXT, write_path), .value_name = "FILE.yaml",
     .help = "write the measured profile", .example = "--write my-box.yaml"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "--json"},
};

const struct command COMMAND_PROBE = {
    .name = "probe",
    .arguments = "",
    .summary = "measure this machine and compare it with a profile",
    .details =
        "Measures the memory, the matrix multiplications and the links of the CPU or the GPUs. If "
        "the machine has less than the profile states, the exit code is 3.",
    .example = "--write my-box.yaml",
    REQUEST_OPTIONS,
    .run = run_probe,
};
