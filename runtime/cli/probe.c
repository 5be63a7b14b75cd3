/* probe: `skep probe [--target T] [--ranks N] [--write FILE] [--json]`: measure this machine, its
 * processor or its GPU, compare it with a profile, write a profile of it. Exit 3 when it has less
 * than the profile promises. What NCCL takes of GPUs is measured between ranks: as many as there
 * are GPUs, unless N says otherwise. */
#include "targets/probe/probe.h"
#include "base/file.h"
#include "base/limits.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/ranks.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/diagnose/probe_gpu.h"
#include "targets/probe/detect.h"
#include "targets/profile.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROFILE_TEXT_BYTES = 16384, VALUE_BYTES = 40 };

struct request {
    const char *target, *write, *ranks;
    bool json;
    int argc; /* as the command has them */
    char **argv;
};

static enum status read_request(int argc, char **argv, struct request *request,
                                struct fault *fault) {
    struct arguments arguments;
    const struct flag flags[] = {{"--target", &request->target, NULL},
                                 {"--ranks", &request->ranks, NULL},
                                 {"--write", &request->write, NULL},
                                 {"--json", NULL, &request->json}};
    TRY(arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 0, &arguments, fault));
    return arguments_only(&arguments, argv[0], fault);
}

/* "166 GFLOP/s": a count, its prefix moved to the unit. */
static void rate_text(double value, const char *unit, char buffer[static VALUE_BYTES]) {
    char number[24];
    text_count(value, number);
    size_t digits = strspn(number, "0123456789.");
    snprintf(buffer, VALUE_BYTES, "%.*s %s%s", (int)digits, number, number + digits, unit);
}

static const char *value_text(enum probe_unit unit, double value, char buffer[static VALUE_BYTES]) {
    char number[24];
    switch (unit) {
    case PROBE_BYTES:
        snprintf(buffer, VALUE_BYTES, "%s", text_bytes((uint64_t)value, number));
        break;
    case PROBE_FLOPS:
        rate_text(value, "FLOP/s", buffer);
        break;
    case PROBE_BANDWIDTH:
        rate_text(value, "B/s", buffer);
        break;
    case PROBE_COUNT:
        snprintf(buffer, VALUE_BYTES, "%.0f", value);
        break;
    }
    return buffer;
}

static const char *verdict_text(enum probe_verdict verdict) {
    static const char *const TEXTS[] = {
        [PROBE_OK] = "ok", [PROBE_LOWER] = "LOWER", [PROBE_ASSUMED] = "detected"};
    return TEXTS[verdict];
}

static void print_lines(const struct probed *probed) {
    char promised[VALUE_BYTES];
    char found[VALUE_BYTES];
    const struct target *target = probed->target;
    printf("machine  %s\n", probed->machine);
    if (probed->products[0] != '\0') {
        printf("products %s\nranks    %s\n", probed->products, probed->gpu.nccl.library);
    }
    printf("target   %s (%s): %s\n\n", target->name, target->place, target->description);
    printf("%-26s %14s %14s\n", "", "profile", "here");
    for (int i = 0; i < probed->count; i++) {
        const struct probe_line *line = &probed->lines[i];
        printf("%-26s %14s %14s %5.0f %%  %s\n", line->name,
               value_text(line->unit, line->promised, promised),
               value_text(line->unit, line->found, found), 100 * line->found / line->promised,
               verdict_text(line->verdict));
    }
}

static void print_report(const struct probed *probed, const struct probe_result *result) {
    print_lines(probed);
    printf("%-26s %14s %14s %7s  %s\n", "instruction set", probed->target->isa, result->machine.isa,
           "", probe_isa_lower(probed->target, result) ? "LOWER" : "ok");
}

/* The members of "machine" for a GPU. */
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
    json_add_text(json, "nccl", gpu->nccl.library);
    if (gpu->nccl.ranks > 0) {
        json_add_i64(json, "nccl_ranks", gpu->nccl.ranks);
        json_add_u64(json, "nccl_bytes", gpu->nccl.bytes);
        json_add_u64(json, "nccl_group_bytes", gpu->nccl.group_bytes);
    }
    if (gpu->has_health && gpu->health.temperature_c >= 0) {
        json_add_i64(json, "temperature_c", gpu->health.temperature_c);
    }
    if (gpu->has_health && gpu->health.slowed) {
        json_add_text(json, "slowed_by", gpu->health.slowed_by);
    }
    if (gpu->has_health && gpu->health.ecc_errors > 0) {
        json_add_i64(json, "ecc_errors", gpu->health.ecc_errors);
    }
}

/* The same for a CPU. */
static void add_cpu(struct json_writer *json, const struct probe_result *cpu) {
    json_add_text(json, "cpu", cpu->machine.cpu_name);
    json_add_i64(json, "cpus", cpu->machine.cpu_count);
    json_add_text(json, "isa", cpu->machine.isa);
    json_add_f64(json, "f32_flops_thread", cpu->f32_flops_thread, 6);
}

/* `cpu` is NULL when a GPU was measured. */
static void print_json(const struct probed *probed, const struct probe_result *cpu, bool fits) {
    static const char *const UNITS[] = {"bytes", "operations/s", "bytes/s", "count"};
    static const char *const VERDICTS[] = {"ok", "lower", "assumed"};
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
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
        json_add_bool(json, "isa_ok", !probe_isa_lower(probed->target, cpu));
    }
    json_begin_array(json, "lines");
    for (int i = 0; i < probed->count; i++) {
        const struct probe_line *line = &probed->lines[i];
        json_begin_object(json, NULL);
        json_add_text(json, "name", line->name);
        json_add_text(json, "unit", UNITS[line->unit]);
        json_add_f64(json, "promised", line->promised, 12);
        json_add_f64(json, "found", line->found, 12);
        json_add_text(json, "verdict", VERDICTS[line->verdict]);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

/* "dir/my-box.yaml" -> "my-box". */
static void name_of(const char *path, char *name, size_t capacity) {
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
    int fd;
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        return fault_set(fault, STATUS_USAGE, "--write", NULL, "the path is too long");
    }
    profile_write(target, &text);
    ASSERT(!text.truncated);
    TRY(file_open_write(part, &fd, fault));
    enum status status = file_write_at(fd, part, buffer, text.length, 0, fault);
    if (status != OK) {
        close(fd);
        return status;
    }
    status = file_close_synced(fd, part, fault);
    return status == OK ? file_publish(part, path, fault) : status;
}

static enum status refuse_lower(const struct probed *probed, const char *isa, struct fault *fault) {
    char reason[sizeof fault->reason];
    char subject[sizeof fault->subject];
    char found[VALUE_BYTES];
    char promised[VALUE_BYTES];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "this machine has less than promised:");
    const char *comma = "";
    for (int i = 0; i < probed->count; i++) {
        const struct probe_line *line = &probed->lines[i];
        if (line->verdict == PROBE_LOWER) {
            text_add(&text, "%s %s %s of %s", comma, line->name,
                     value_text(line->unit, line->found, found),
                     value_text(line->unit, line->promised, promised));
            comma = ",";
        }
    }
    if (isa != NULL) {
        text_add(&text, "%s instruction set %s of %s", comma, isa, probed->target->isa);
    }
    text_add(&text, "%s%s", probed->holders[0] != '\0' ? "; most memory is held by " : "",
             probed->holders);
    snprintf(subject, sizeof subject, "target %.200s", probed->target->name);
    return fault_set(fault, STATUS_FIT, subject, "use another profile, or make one with --write",
                     "%s", reason);
}

static enum status probe_cpu(const struct request *request, const struct target *target,
                             struct region *region, struct fault *fault) {
    struct probe_result result;
    struct probe_line lines[PROBE_LINES];
    struct probed probed = {.target = target, .lines = lines, .count = PROBE_LINES};
    char name[NAME_BYTES];
    struct text holders = text_over(probed.holders, sizeof probed.holders);
    enum status status = probe_measure(target->threads, &result, fault);
    if (status != OK) {
        return status;
    }
    const struct machine *machine = &result.machine;
    bool lower = probe_isa_lower(target, &result);
    bool fits = probe_compare(target, &result, lines) == 0 && !lower;
    machine_largest_processes("", PROBE_HOLDERS, &holders);
    snprintf(probed.machine, sizeof probed.machine, "%s, %d CPUs, %s", machine->cpu_name,
             machine->cpu_count, machine->isa);
    if (request->json) {
        print_json(&probed, &result, fits);
    } else {
        print_report(&probed, &result);
    }
    if (request->write != NULL) {
        name_of(request->write, name, sizeof name);
        status = write_profile(request->write, probe_target(&result, name, region), region, fault);
    }
    return status == OK && !fits ? refuse_lower(&probed, lower ? machine->isa : NULL, fault)
                                 : status;
}

/* What rank 0 has measured. */
static enum status report_gpu(const struct request *request, const struct probed *probed,
                              struct region *region, struct fault *fault) {
    enum status status = OK;
    if (request->json) {
        print_json(probed, NULL, probed->lower == 0);
    } else {
        print_lines(probed);
    }
    fflush(stdout);
    if (request->write != NULL) {
        status = write_profile(request->write, probed->measured, region, fault);
    }
    return status == OK && probed->lower > 0 ? refuse_lower(probed, NULL, fault) : status;
}

/* One rank for each GPU: each of them, started, counts the same GPUs. */
static enum status begin_ranks(const struct request *request, struct ranks *ranks,
                               struct fault *fault) {
    char count[16];
    snprintf(count, sizeof count, "%d", probe_gpu_count());
    const char *flag = request->ranks != NULL ? request->ranks : count;
    const struct ranks_request wanted = {
        .flag = strcmp(flag, "0") == 0 ? "1" : flag, .argc = request->argc, .argv = request->argv};
    return ranks_begin(&wanted, ranks->session, ranks, fault);
}

static enum status probe_gpu(const struct request *request, const struct target *target,
                             struct ranks *ranks, struct fault *fault) {
    char name[NAME_BYTES] = "";
    struct session *session = ranks->session;
    struct probed probed = {.target = target};
    enum status status = begin_ranks(request, ranks, fault);
    if (status != OK || ranks->parent) {
        return status;
    }
    if (request->write != NULL) {
        name_of(request->write, name, sizeof name);
    }
    status = probe_gpu_run(name, session->site, &session->region, &probed, fault);
    if (status != OK) {
        return status; /* which the others know, or are told as this rank ends */
    }
    if (ranks->place.rank <= 0) {
        status = report_gpu(request, &probed, &session->region, fault);
    }
    return session_agree(session, status, fault);
}

static enum status probe(const struct request *request, struct ranks *ranks, struct fault *fault) {
    struct region *region = &ranks->session->region;
    const struct target *target;
    TRY(target_open(request->target, region, &target, fault));
    if (target->kind == TARGET_CPU && request->ranks != NULL) {
        return fault_set(fault, STATUS_USAGE, "--ranks", "skep comm tries ranks on processors",
                         "ranks are measured on GPUs, and target %.200s is none", target->name);
    }
    return target->kind == TARGET_CPU ? probe_cpu(request, target, region, fault)
                                      : probe_gpu(request, target, ranks, fault);
}

int command_probe(int argc, char **argv) {
    static struct session session;
    static struct ranks ranks;
    struct request request = {.argc = argc, .argv = argv};
    struct fault fault;
    ranks = (struct ranks){.session = &session};
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        status = probe(&request, &ranks, &fault);
    }
    fflush(stdout);
    int code = ranks_end(&ranks, status, &fault);
    session_finish(&session);
    memset(&session, 0, sizeof session);
    return code;
}
