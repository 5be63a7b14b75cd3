/* pack: `skep pack PROBLEM.csv` runs the planner on a packing problem. If the layout exceeds
 * --capacity, the exit code is 3 and no file is written. */
#include "arena/arena.h"
#include "arena/formats/formats.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"

#include <stdio.h>
#include <unistd.h>

struct request {          /* options of `skep pack` */
    const char *out_path; /* path of the solution; NULL: not requested */
    bool json;            /* --json */
    struct pack_request pack;
};

static void print_bytes(const char *name, uint64_t bytes) {
    char rounded[24];
    printf("%-12s %20llu  %s\n", name, (unsigned long long)bytes,
           text_format_bytes(bytes, rounded));
}

static void print_report(const struct plan *plan, const struct pack_outcome *outcome) {
    uint64_t peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    uint64_t gap_bytes = peak_bytes - outcome->lowest_bytes;
    printf("%-12s %20d\n", "buffers", plan->problem.extent_count);
    print_bytes("peak", peak_bytes);
    print_bytes("lower bound", outcome->lowest_bytes);
    printf("%-12s %18.3f %%  %s\n", "gap", 100 * (double)gap_bytes / (double)outcome->lowest_bytes,
           gap_bytes == 0 ? "no layout has a lower peak" : "");
    printf("%-12s %20.3f  %s\n", "seconds", outcome->seconds, plan->heuristic[SPACE_DEVICE]);
}

static void print_json(const struct plan *plan, const struct pack_outcome *outcome) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_i64(json, "buffers", plan->problem.extent_count);
    json_add_u64(json, "peak_bytes", plan->peak_bytes[SPACE_DEVICE]);
    json_add_u64(json, "bound_bytes", outcome->lowest_bytes);
    json_add_f64(json, "seconds", outcome->seconds, 6);
    json_add_text(json, "heuristic", plan->heuristic[SPACE_DEVICE]);
    json_stdout_end(&out);
}

static enum status check_capacity(const char *path, const struct plan *plan,
                                  const struct pack_outcome *outcome, uint64_t capacity_bytes,
                                  struct fault *fault) {
    unsigned long long peak_bytes = plan->peak_bytes[SPACE_DEVICE];
    if (capacity_bytes == 0 || peak_bytes <= capacity_bytes) {
        return OK;
    }
    if (outcome->lowest_bytes > capacity_bytes) {
        return fault_set(fault, STATUS_FIT, path, "raise --capacity",
                         "no layout fits into %llu bytes: at least %llu are needed",
                         (unsigned long long)capacity_bytes,
                         (unsigned long long)outcome->lowest_bytes);
    }
    return fault_set(fault, STATUS_FIT, path, "raise --capacity or --seconds",
                     "the best layout found needs %llu bytes, the capacity is %llu", peak_bytes,
                     (unsigned long long)capacity_bytes);
}

static enum status write_solution(const struct problem *problem, const struct plan *plan,
                                  const char *path, struct fault *fault) {
    int fd;
    TRY(file_open_write(path, &fd, fault));
    enum status status = problem_write(problem, plan->offsets, fd, path, fault);
    if (close(fd) != 0 && status == OK) {
        return fault_set(fault, STATUS_FAILED, path, NULL, "cannot be written completely");
    }
    return status;
}

static enum status run_pack(struct invocation *invocation) {
    const struct request *request = invocation->request;
    const char *path = invocation->positionals[0];
    struct region *region = &invocation->region;
    struct fault *fault = &invocation->fault;
    struct problem problem;
    struct plan plan;
    struct pack_outcome outcome;
    TRY(problem_read(path, region, &problem, fault));
    struct arena_problem extents = {problem.extents, problem.extent_count};
    arena_pack(&extents, &request->pack, region, &plan, &outcome);
    TRY(arena_verify(&extents, &plan, region, fault));
    (request->json ? print_json : print_report)(&plan, &outcome);
    TRY(check_capacity(path, &plan, &outcome, request->pack.capacity_bytes, fault));
    return request->out_path != NULL ? write_solution(&problem, &plan, request->out_path, fault)
                                     : OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--capacity", BYTES, pack.capacity_bytes), .value_name = "BYTES",
     .help = "stop at a layout of this size; exit code 3 if none is found",
     .example = "problem.csv --capacity 512MiB"},
    {OPTION("--seconds", NUMBER, pack.time_limit_s), .default_value = 10, .maximum = 1e6,
     .value_name = "S", .help = "limit on the time of the search; default: 10",
     .example = "problem.csv --seconds 60"},
    {OPTION("-o", TEXT, out_path), .value_name = "OUT.csv",
     .help = "file for the problem with its offsets", .example = "problem.csv -o solved.csv"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "problem.csv --json"},
};

const struct command COMMAND_PACK = {
    .name = "pack",
    .arguments = "PROBLEM.csv",
    .summary = "run the planner on a packing problem given as CSV",
    .details = "PROBLEM.csv has the columns id, lower, upper, size: a buffer of `size` bytes that "
               "lives from step `lower` up to but not including `upper`.",
    .example = "problem.csv -o solved.csv",
    .positional_count = 1,
    REQUEST_OPTIONS,
    .run = run_pack,
};
