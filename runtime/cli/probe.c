/* probe: `skep probe [--target T] [--write FILE] [--json]`: measure this machine, compare it with a
 * profile, write a profile of it. Exit 3 when it has less than the profile promises. */
#include "targets/probe.h"
#include "base/file.h"
#include "base/limits.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "targets/profile.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PROFILE_TEXT_BYTES = 16384, VALUE_BYTES = 40, HOLDERS_NAMED = 3 };

struct request {
    const char *target, *write;
    bool json;
};

static enum status read_request(int argc, char **argv, struct request *request,
                                struct fault *fault) {
    struct arguments arguments;
    const struct flag flags[] = {{"--target", &request->target, NULL},
                                 {"--write", &request->write, NULL},
                                 {"--json", NULL, &request->json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 0, &arguments, fault);
    return status == OK ? arguments_only(&arguments, argv[0], fault) : status;
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

static void print_report(const struct target *target, const struct probe_result *result,
                         const struct probe_line *lines) {
    char promised[VALUE_BYTES];
    char found[VALUE_BYTES];
    printf("machine  %s, %d CPUs, %s\ntarget   %s (%s): %s\n\n", result->machine.cpu_name,
           result->machine.cpu_count, result->machine.isa, target->name, target->place,
           target->description);
    printf("%-26s %14s %14s\n", "", "profile", "here");
    for (int i = 0; i < PROBE_LINES; i++) {
        printf("%-26s %14s %14s %5.0f %%  %s\n", lines[i].name,
               value_text(lines[i].unit, lines[i].promised, promised),
               value_text(lines[i].unit, lines[i].found, found),
               100 * lines[i].found / lines[i].promised, verdict_text(lines[i].verdict));
    }
    printf("%-26s %14s %14s %7s  %s\n", "instruction set", target->isa, result->machine.isa, "",
           probe_isa_lower(target, result) ? "LOWER" : "ok");
}

static void print_json(const struct target *target, const struct probe_result *result,
                       const struct probe_line *lines, bool fits) {
    static const char *const UNITS[] = {"bytes", "operations/s", "bytes/s", "count"};
    static const char *const VERDICTS[] = {"ok", "lower", "assumed"};
    char buffer[8192];
    struct text text = text_over(buffer, sizeof buffer);
    text_add(&text, "{\"format\": 1, \"target\": ");
    text_add_json(&text, target->name);
    text_add(&text, ", \"fits\": %s, \"machine\": {\"cpu\": ", fits ? "true" : "false");
    text_add_json(&text, result->machine.cpu_name);
    text_add(&text, ", \"cpus\": %d, \"isa\": \"%s\", \"f32_flops_thread\": %.6g}, \"isa_ok\": %s",
             result->machine.cpu_count, result->machine.isa, result->f32_flops_thread,
             probe_isa_lower(target, result) ? "false" : "true");
    text_add(&text, ", \"lines\": [");
    for (int i = 0; i < PROBE_LINES; i++) {
        text_add(&text,
                 "%s{\"name\": \"%s\", \"unit\": \"%s\", \"promised\": %.12g, \"found\": %.12g, "
                 "\"verdict\": \"%s\"}",
                 i > 0 ? ", " : "", lines[i].name, UNITS[lines[i].unit], lines[i].promised,
                 lines[i].found, VERDICTS[lines[i].verdict]);
    }
    text_add(&text, "]}\n");
    ASSERT(!text.cut);
    fputs(buffer, stdout);
}

/* "dir/my-box.yaml" -> "my-box". */
static void name_of(const char *path, char *name, size_t capacity) {
    const char *slash = strrchr(path, '/');
    const char *begin = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(begin, '.');
    size_t length = dot != NULL && dot != begin ? (size_t)(dot - begin) : strlen(begin);
    snprintf(name, capacity, "%.*s", (int)length, begin);
}

static enum status write_profile(const char *path, const struct probe_result *result,
                                 struct region *region, struct fault *fault) {
    char name[NAME_BYTES];
    char part[PATH_BYTES];
    char *buffer = region_alloc(region, PROFILE_TEXT_BYTES, 1);
    struct text text = text_over(buffer, PROFILE_TEXT_BYTES);
    int fd;
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        return fault_set(fault, STATUS_USAGE, "--write", NULL, "the path is too long");
    }
    name_of(path, name, sizeof name);
    profile_write(probe_target(result, name, region), &text);
    ASSERT(!text.cut);
    enum status status = file_open_write(part, &fd, fault);
    if (status != OK) {
        return status;
    }
    status = file_write_at(fd, part, buffer, text.length, 0, fault);
    if (status != OK) {
        close(fd);
        return status;
    }
    status = file_close_synced(fd, part, fault);
    return status == OK ? file_publish(part, path, fault) : status;
}

static enum status refuse_lower(const struct target *target, const struct probe_result *result,
                                const struct probe_line *lines, struct fault *fault) {
    char reason[sizeof fault->reason];
    char place[sizeof fault->place];
    char found[VALUE_BYTES];
    char promised[VALUE_BYTES];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "this machine has less than promised:");
    const char *comma = "";
    for (int i = 0; i < PROBE_LINES; i++) {
        if (lines[i].verdict == PROBE_LOWER) {
            text_add(&text, "%s %s %s of %s", comma, lines[i].name,
                     value_text(lines[i].unit, lines[i].found, found),
                     value_text(lines[i].unit, lines[i].promised, promised));
            comma = ",";
        }
    }
    if (probe_isa_lower(target, result)) {
        text_add(&text, "%s instruction set %s of %s", comma, result->machine.isa, target->isa);
    }
    text_add(&text, "; most memory is held by ");
    machine_largest_processes("", HOLDERS_NAMED, &text);
    snprintf(place, sizeof place, "target %.200s", target->name);
    return fault_set(fault, STATUS_FIT, place, "use another profile, or make one with --write",
                     "%s", reason);
}

static enum status probe(const struct request *request, struct region *region,
                         struct fault *fault) {
    const struct target *target;
    struct probe_result result;
    struct probe_line lines[PROBE_LINES];
    enum status status = target_open(request->target, region, &target, fault);
    if (status == OK && target->kind != TARGET_CPU) {
        char place[sizeof fault->place];
        snprintf(place, sizeof place, "target %.200s", target->name);
        status = fault_set(fault, STATUS_INPUT, place, "probe a cpu target",
                           "is a CUDA device, which this build cannot measure");
    }
    if (status == OK) {
        status = probe_measure(target->threads, &result, fault);
    }
    if (status != OK) {
        return status;
    }
    bool fits = probe_compare(target, &result, lines) == 0 && !probe_isa_lower(target, &result);
    if (request->json) {
        print_json(target, &result, lines, fits);
    } else {
        print_report(target, &result, lines);
    }
    if (request->write != NULL) {
        status = write_profile(request->write, &result, region, fault);
    }
    return status == OK && !fits ? refuse_lower(target, &result, lines, fault) : status;
}

int command_probe(int argc, char **argv) {
    struct region region = {0};
    struct request request = {0};
    struct fault fault;
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        status = probe(&request, &region, &fault);
    }
    if (status != OK) {
        fflush(stdout);
        fault_print(&fault, STDERR_FILENO);
    }
    region_finish(&region);
    return fault_exit_code(status);
}
