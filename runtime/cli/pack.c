#include "runtime/cli/pack.h"

#include "arena/pack.h"
#include "arena/problem.h"
#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double SECONDS_DEFAULT = 10, SECONDS_MAX = 1e6;
static const char USAGE[] = "skep pack PROBLEM.csv [--capacity BYTES] [--seconds S] [-o OUT.csv]";

struct arguments {
    const char *problem_path;
    const char *out_path; /* NULL: not asked for */
    struct pack_request request;
};

static enum status parse_option(const char *name, const char *value, struct arguments *arguments,
                                struct fault *fault) {
    if (value == NULL) {
        return fault_set(fault, STATUS_USAGE, name, USAGE, "a value is missing");
    }
    if (strcmp(name, "-o") == 0) {
        arguments->out_path = value;
        return OK;
    }
    if (strcmp(name, "--capacity") == 0) {
        bool is_good = text_parse_bytes(value, &arguments->request.capacity_bytes) &&
                       arguments->request.capacity_bytes > 0;
        return is_good ? OK
                       : fault_set(fault, STATUS_USAGE, name, "4096, 512MiB or 1.5GB",
                                   "\"%s\" is not a number of bytes above 0", value);
    }
    double *seconds = &arguments->request.seconds;
    bool is_good = text_parse_f64(value, seconds) && *seconds >= 0 && *seconds <= SECONDS_MAX;
    return is_good ? OK
                   : fault_set(fault, STATUS_USAGE, name, "from 0 to 1000000",
                               "\"%s\" is not a number of seconds", value);
}

static bool is_option(const char *argument) {
    static const char *const OPTIONS[] = {"--capacity", "--seconds", "-o"};
    for (size_t i = 0; i < ARRAY_COUNT(OPTIONS); i++) {
        if (strcmp(argument, OPTIONS[i]) == 0) {
            return true;
        }
    }
    return false;
}

static enum status parse_arguments(int argc, char **argv, struct arguments *arguments,
                                   struct fault *fault) {
    struct arguments parsed = {.request = {.seconds = SECONDS_DEFAULT}};
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (is_option(argument)) {
            const char *value = i + 1 < argc ? argv[++i] : NULL;
            enum status status = parse_option(argument, value, &parsed, fault);
            if (status != OK) {
                return status;
            }
        } else if (argument[0] == '-' && argument[1] != '\0') {
            return fault_set(fault, STATUS_USAGE, argument, USAGE, "no such option");
        } else if (parsed.problem_path != NULL) {
            return fault_set(fault, STATUS_USAGE, argument, USAGE, "one problem at a time");
        } else {
            parsed.problem_path = argument;
        }
    }
    if (parsed.problem_path == NULL) {
        return fault_set(fault, STATUS_USAGE, "pack", USAGE, "no problem is named");
    }
    *arguments = parsed;
    return OK;
}

static void print_bytes(const char *name, uint64_t bytes) {
    char rounded[24];
    printf("%-12s %20llu  %s\n", name, (unsigned long long)bytes, text_bytes(bytes, rounded));
}

static enum status print_report(const struct plan *plan, const struct pack_outcome *outcome,
                                struct fault *fault) {
    uint64_t peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    uint64_t gap_bytes = peak_bytes - outcome->lowest_bytes;
    printf("%-12s %20d\n", "buffers", plan->extent_count);
    print_bytes("peak", peak_bytes);
    print_bytes("lower bound", outcome->lowest_bytes);
    printf("%-12s %18.3f %%  %s\n", "gap", 100 * (double)gap_bytes / (double)outcome->lowest_bytes,
           gap_bytes == 0 ? "no layout is lower" : "");
    printf("%-12s %20.3f  %s\n", "seconds", outcome->seconds, plan->heuristic[SPACE_DEVICE]);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fault_set(fault, STATUS_FAILED, "standard output", NULL, "cannot be written");
    }
    return OK;
}

static enum status check_capacity(const struct arguments *arguments, const struct plan *plan,
                                  const struct pack_outcome *outcome, struct fault *fault) {
    uint64_t capacity_bytes = arguments->request.capacity_bytes;
    unsigned long long peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    if (capacity_bytes == 0 || peak_bytes <= capacity_bytes) {
        return OK;
    }
    if (outcome->lowest_bytes > capacity_bytes) {
        return fault_set(fault, STATUS_FIT, arguments->problem_path, "raise --capacity",
                         "no layout fits into %llu bytes: at least %llu are needed",
                         (unsigned long long)capacity_bytes,
                         (unsigned long long)outcome->lowest_bytes);
    }
    return fault_set(fault, STATUS_FIT, arguments->problem_path, "raise --capacity or --seconds",
                     "the best layout found needs %llu bytes, the capacity is %llu", peak_bytes,
                     (unsigned long long)capacity_bytes);
}

static enum status write_solution(const struct problem *problem, const char *path,
                                  struct fault *fault) {
    int fd;
    enum status status = file_open_write(path, &fd, fault);
    if (status != OK) {
        return status;
    }
    status = problem_write(problem, fd, path, fault);
    if (close(fd) != 0 && status == OK) {
        status = fault_set(fault, STATUS_FAILED, path, NULL, "cannot be written to the end");
    }
    return status;
}

static enum status pack(const struct arguments *arguments, struct region *region,
                        struct fault *fault) {
    struct problem problem;
    struct plan plan;
    struct pack_outcome outcome;
    enum status status = problem_read(arguments->problem_path, region, &problem, fault);
    if (status != OK) {
        return status;
    }
    arena_pack(problem.extents, problem.extent_count, &arguments->request, region, &plan, &outcome);
    status = arena_verify(&plan, region, fault);
    if (status == OK) {
        status = print_report(&plan, &outcome, fault);
    }
    if (status == OK) {
        status = check_capacity(arguments, &plan, &outcome, fault);
    }
    if (status == OK && arguments->out_path != NULL) {
        status = write_solution(&problem, arguments->out_path, fault);
    }
    return status;
}

int command_pack(int argc, char **argv) {
    struct arguments arguments;
    struct fault fault;
    struct region region = {0};
    enum status status = parse_arguments(argc, argv, &arguments, &fault);
    if (status == OK) {
        status = pack(&arguments, &region, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    region_finish(&region);
    return fault_exit_code(status);
}
