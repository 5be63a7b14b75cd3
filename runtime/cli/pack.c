/* pack: `skep pack PROBLEM.csv [--capacity BYTES] [--seconds S] [-o OUT.csv]`: the planner on a
 * bare packing problem. Exit 3 when --capacity is not met, and nothing is then written. */
#include "arena/arena.h"
#include "arena/formats/formats.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"

#include <stdio.h>
#include <unistd.h>

static const double SECONDS_DEFAULT = 10, SECONDS_MAX = 1e6;

struct request {
    const char *problem_path;
    const char *out_path; /* NULL: not asked for */
    struct pack_request pack;
};

static enum status read_request(int argc, char **argv, struct request *request,
                                struct fault *fault) {
    struct arguments arguments;
    const char *capacity = NULL;
    const char *seconds = NULL;
    const struct flag flags[] = {{"--capacity", &capacity, NULL},
                                 {"--seconds", &seconds, NULL},
                                 {"-o", &request->out_path, NULL}};
    request->pack.seconds = SECONDS_DEFAULT;
    TRY(arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, fault));
    TRY(arguments_only(&arguments, argv[0], fault));
    TRY(argument_bytes("--capacity", capacity, &request->pack.capacity_bytes, fault));
    TRY(argument_f64("--seconds", seconds, 0, &request->pack.seconds, fault));
    if (request->pack.seconds > SECONDS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--seconds", NULL, "%s is more than %.0f", seconds,
                         SECONDS_MAX);
    }
    request->problem_path = arguments.positionals[0];
    return OK;
}

static void print_bytes(const char *name, uint64_t bytes) {
    char rounded[24];
    printf("%-12s %20llu  %s\n", name, (unsigned long long)bytes, text_bytes(bytes, rounded));
}

static void print_report(const struct plan *plan, const struct pack_outcome *outcome) {
    uint64_t peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    uint64_t gap_bytes = peak_bytes - outcome->lowest_bytes;
    printf("%-12s %20d\n", "buffers", plan->problem.extent_count);
    print_bytes("peak", peak_bytes);
    print_bytes("lower bound", outcome->lowest_bytes);
    printf("%-12s %18.3f %%  %s\n", "gap", 100 * (double)gap_bytes / (double)outcome->lowest_bytes,
           gap_bytes == 0 ? "no layout is lower" : "");
    printf("%-12s %20.3f  %s\n", "seconds", outcome->seconds, plan->heuristic[SPACE_DEVICE]);
}

static enum status check_capacity(const struct request *request, const struct plan *plan,
                                  const struct pack_outcome *outcome, struct fault *fault) {
    uint64_t capacity_bytes = request->pack.capacity_bytes;
    unsigned long long peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    if (capacity_bytes == 0 || peak_bytes <= capacity_bytes) {
        return OK;
    }
    if (outcome->lowest_bytes > capacity_bytes) {
        return fault_set(fault, STATUS_FIT, request->problem_path, "raise --capacity",
                         "no layout fits into %llu bytes: at least %llu are needed",
                         (unsigned long long)capacity_bytes,
                         (unsigned long long)outcome->lowest_bytes);
    }
    return fault_set(fault, STATUS_FIT, request->problem_path, "raise --capacity or --seconds",
                     "the best layout found needs %llu bytes, the capacity is %llu", peak_bytes,
                     (unsigned long long)capacity_bytes);
}

static enum status write_solution(const struct problem *problem, const struct plan *plan,
                                  const char *path, struct fault *fault) {
    int fd;
    TRY(file_open_write(path, &fd, fault));
    TRY(problem_write(problem, plan->offsets, fd, path, fault));
    if (close(fd) != 0) {
        return fault_set(fault, STATUS_FAILED, path, NULL, "cannot be written to the end");
    }
    return OK;
}

static enum status pack(const struct request *request, struct region *region, struct fault *fault) {
    struct problem problem;
    struct plan plan;
    struct pack_outcome outcome;
    TRY(problem_read(request->problem_path, region, &problem, fault));
    struct arena_problem extents = {problem.extents, problem.extent_count};
    arena_pack(&extents, &request->pack, region, &plan, &outcome);
    TRY(arena_verify(&extents, &plan, region, fault));
    print_report(&plan, &outcome);
    TRY(check_capacity(request, &plan, &outcome, fault));
    if (request->out_path != NULL) {
        TRY(write_solution(&problem, &plan, request->out_path, fault));
    }
    return OK;
}

int command_pack(int argc, char **argv) {
    struct request request = {0};
    struct fault fault;
    struct region region = {0};
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        status = pack(&request, &region, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    region_finish(&region);
    return fault_exit_code(status);
}
