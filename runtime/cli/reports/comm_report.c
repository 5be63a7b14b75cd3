/* comm_report: the report of `skep comm`, as text and as JSON. */
#include "runtime/cli/reports/reports.h"

#include "base/text.h"

#include <stdio.h>

static bool transfers_data(const struct comm_check *row) {
    return row->kind != COLLECTIVE_BARRIER;
}

/* Returns the name of a checked collective, such as "reduce-scatter bf16". A barrier has no
 * type. */
static const char *format_check_name(const struct comm_check *row, char buffer[static 32]) {
    snprintf(buffer, 32, "%s%s%s", row->name, transfers_data(row) ? " " : "",
             transfers_data(row) ? dtype_name(row->wire) : "");
    return buffer;
}

static void print_group(const struct comm *comm, enum comm_group group) {
    const struct collective_group *members = &comm->communicator.groups[group];
    printf("  %-11s", comm_group_name(group));
    for (int i = 0; i < members->size && i < 8; i++) {
        printf("%s%d", i > 0 ? " " : "", members->ranks[i]);
    }
    printf("%s\n", members->size > 8 ? " ..." : "");
}

static void print_checks(const struct comm_report *report) {
    int64_t elements = 0;
    int64_t wrong = 0;
    char name[32];
    printf("the groups of rank 0\n");
    for (int group = 0; group < COMM_GROUP_COUNT; group++) {
        print_group(&report->comm, (enum comm_group)group);
    }
    printf("\n%-22s", "elements checked");
    for (int group = 0; group < COMM_GROUP_COUNT; group++) {
        printf("%14s", comm_group_name((enum comm_group)group));
    }
    printf("\n");
    for (int row = 0; row < COMM_CHECK_COUNT; row++) {
        printf("%-22s", format_check_name(&COMM_CHECK_ROWS[row], name));
        for (int group = 0; group < COMM_GROUP_COUNT; group++) {
            const struct comm_verdict *verdict = &report->verdicts[row][group];
            char count[32];
            elements += verdict->elements;
            wrong += verdict->wrong;
            printf("%14s", verdict->wrong > 0 ? "WRONG"
                           : transfers_data(&COMM_CHECK_ROWS[row])
                               ? text_format_grouped((uint64_t)verdict->elements, count)
                               : "passed");
        }
        printf("\n");
    }
    printf("%s: %lld elements on all ranks, %lld wrong; sums and the bytes around buffers were "
           "checked\n",
           wrong == 0 ? "passed" : "WRONG", (long long)elements, (long long)wrong);
}

static void print_rates(const struct comm_report *report) {
    printf("%-20s %10s %10s %10s %10s %9s %10s %9s\n", "", "buffer", "median us", "best us",
           "alg GB/s", "Gbit/s", "bus GB/s", "Gbit/s");
    for (int i = 0; i < report->rate_count; i++) {
        const struct comm_rate *rate = &report->rates[i];
        char name[32], size[24];
        printf("%-20s %10s %10.1f %10.1f", format_check_name(rate->row, name),
               rate->bytes > 0 ? text_format_bytes(rate->bytes, size) : "-", rate->median_s * 1e6,
               rate->best_s * 1e6);
        if (rate->bytes > 0) {
            printf(" %10.3f %9.2f %10.3f %9.2f", rate->algorithm_rate * 1e-9,
                   rate->algorithm_rate * 8e-9, rate->bus_rate * 1e-9, rate->bus_rate * 8e-9);
        }
        printf("\n");
    }
    printf("alg: bytes of the buffer / best time; bus: bytes that a rank receives / best time\n"
           "GB: 10^9 bytes; Gbit: 10^9 bits; the time of a small buffer is the latency\n");
}

static void print_text(const struct comm_report *report) {
    char arena[24];
    printf("%d ranks on this machine, transport %s, an arena of %s each\n\n", report->comm.world,
           report->comm.communicator.methods->name, text_format_bytes(report->comm.bytes, arena));
    if (report->is_tested) {
        print_checks(report);
    }
    if (report->rate_count > 0) {
        printf("%s", report->is_tested ? "\n" : "");
        print_rates(report);
    }
}

static void add_tests(struct json_writer *json, const struct comm_report *report) {
    json_begin_array(json_newline(json, 0), "tests");
    for (int row = 0; row < COMM_CHECK_COUNT; row++) {
        for (int group = 0; group < COMM_GROUP_COUNT; group++) {
            const struct comm_verdict *verdict = &report->verdicts[row][group];
            json_begin_object(json_newline(json, 0), NULL);
            json_add_text(json, "collective", COMM_CHECK_ROWS[row].name);
            json_add_text(json, "wire", dtype_name(COMM_CHECK_ROWS[row].wire));
            json_add_text(json, "group", comm_group_name((enum comm_group)group));
            json_add_i64(json, "group_ranks", report->comm.communicator.groups[group].size);
            json_add_i64(json, "calls", verdict->calls);
            json_add_i64(json, "elements", verdict->elements);
            json_add_i64(json, "wrong", verdict->wrong);
            json_end(json);
        }
    }
    json_end(json);
}

static void add_rates(struct json_writer *json, const struct comm_report *report) {
    json_begin_array(json_newline(json, 0), "bandwidth");
    for (int i = 0; i < report->rate_count; i++) {
        const struct comm_rate *rate = &report->rates[i];
        json_begin_object(json_newline(json, 0), NULL);
        json_add_text(json, "collective", rate->row->name);
        json_add_text(json, "wire", dtype_name(rate->row->wire));
        json_add_u64(json, "bytes", rate->bytes);
        json_add_f64(json, "median_s", rate->median_s, 9);
        json_add_f64(json, "best_s", rate->best_s, 9);
        json_add_f64(json, "algorithm_bytes_per_s", rate->algorithm_rate, 9);
        json_add_f64(json, "bus_bytes_per_s", rate->bus_rate, 9);
        json_add_f64(json, "algorithm_bits_per_s", 8 * rate->algorithm_rate, 9);
        json_add_f64(json, "bus_bits_per_s", 8 * rate->bus_rate, 9);
        json_end(json);
    }
    json_end(json);
}

static void print_json(const struct comm_report *report) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_i64(json, "ranks", report->comm.world);
    json_add_text(json, "transport", report->comm.communicator.methods->name);
    if (report->is_tested) {
        add_tests(json, report);
    }
    if (report->rate_count > 0) {
        add_rates(json, report);
    }
    json_stdout_end(&out);
}

void comm_report_print(const struct comm_report *report, bool json) {
    if (json) {
        print_json(report);
    } else {
        print_text(report);
    }
}
