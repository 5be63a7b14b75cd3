/* comm: `skep comm` starts ranks on this machine, checks the results of their collectives and
 * measures their speed. */
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"

#include <string.h>

static const char SIZES_DEFAULT[] = "4KiB,64KiB,1MiB,16MiB,64MiB";
static const uint64_t SIZE_MAX_BYTES = 1ull << 30;

struct request {           /* options of `skep comm` and its results */
    int64_t rank_count;    /* number of ranks from --ranks; 0: not given */
    const char *size_list; /* value of --sizes */
    /* --test: check the results; without --test and --bandwidth, do both */
    bool test;
    bool bandwidth;                 /* measure the speeds */
    bool json;                      /* print JSON */
    uint64_t sizes[COMM_SIZES_MAX]; /* [size_count]: buffers to measure, in bytes */
    int size_count;
    struct comm_report report;
};

static enum status read_sizes(const char *list, struct request *request, struct fault *fault) {
    for (const char *word = list; *word != '\0';) {
        char size[32];
        size_t length = strcspn(word, ",");
        struct text text = text_over(size, sizeof size);
        text_add_bytes(&text, word, length);
        if (request->size_count == COMM_SIZES_MAX) {
            return fault_set(fault, STATUS_USAGE, "--bytes", "measure fewer sizes",
                             "the list has more than %d sizes", COMM_SIZES_MAX);
        }
        uint64_t *bytes = &request->sizes[request->size_count++];
        if (!text_parse_bytes(size, bytes) || *bytes == 0 || text.truncated ||
            *bytes > SIZE_MAX_BYTES) {
            return fault_set(fault, STATUS_USAGE, "--bytes", "write a list like 64KiB,512MiB",
                             "\"%s\" is not a size above 0 and up to 1 GiB", size);
        }
        word += length + (word[length] == ',');
    }
    return request->size_count > 0
               ? OK
               : fault_set(fault, STATUS_USAGE, "--bytes", "write a list like 64KiB,512MiB",
                           "the list is empty");
}

static uint64_t arena_bytes(const struct request *request, int world) {
    uint64_t bytes = request->test ? comm_test_arena_bytes(world) : 0;
    for (int i = 0; request->bandwidth && i < request->size_count; i++) {
        uint64_t needed = comm_bandwidth_arena_bytes(request->sizes[i], world);
        bytes = needed > bytes ? needed : bytes;
    }
    return bytes;
}

static enum status measure_collectives(struct request *request, struct session *session,
                                       struct fault *fault) {
    struct site *site = session->site;
    struct comm_report *report = &request->report;
    uint64_t bytes = arena_bytes(request, site_launch_info(site)->world);
    TRY(comm_open(site, &session->region, bytes, &report->comm, fault));
    if (request->test) {
        report->is_tested = true;
        TRY(comm_test(&report->comm, report->verdicts, fault));
    }
    if (request->bandwidth) {
        TRY(comm_measure_bandwidth(&report->comm, request->sizes, request->size_count,
                                   report->rates, &report->rate_count, fault));
    }
    return OK;
}

/* Returns a fault if a collective gave wrong results. All ranks have the same verdicts and return
 * the same status. */
static enum status check_verdicts(const struct comm_report *report, struct fault *fault) {
    for (int row = 0; report->is_tested && row < COMM_CHECK_COUNT; row++) {
        for (int group = 0; group < COMM_GROUP_COUNT; group++) {
            const struct comm_verdict *verdict = &report->verdicts[row][group];
            if (verdict->wrong > 0) {
                return fault_set(fault, STATUS_FAILED, COMM_CHECK_ROWS[row].name,
                                 "do not train on this machine; report this output",
                                 "%lld incorrect values in group %s; %s", (long long)verdict->wrong,
                                 comm_group_name((enum comm_group)group), verdict->first);
            }
        }
    }
    return OK;
}

static enum status run_comm(struct invocation *invocation) {
    struct request *request = invocation->request;
    struct session *session = invocation->session;
    struct fault *fault = &invocation->fault;
    const bool is_both = !request->test && !request->bandwidth;
    request->test = request->test || is_both;
    request->bandwidth = request->bandwidth || is_both;
    TRY(read_sizes(request->size_list != NULL ? request->size_list : SIZES_DEFAULT, request,
                   fault));
    TRY(ranks_begin(&(struct ranks_request){.count = request->rank_count}, session, invocation));
    if (invocation->ranks.is_parent) {
        return OK;
    }
    TRY(measure_collectives(request, session, fault));
    if (invocation->ranks.launch.rank == 0) {
        comm_report_print(&request->report, request->json);
    }
    return session_agree(session, check_verdicts(&request->report, fault), fault);
}

static void finish_comm(void *context) {
    struct request *request = context;
    comm_close(&request->report.comm);
}

static const struct option OPTIONS[] = {
    {OPTION("--ranks", INTEGER, rank_count), .default_value = 2, .minimum = 2, .maximum = RANKS_MAX,
     .value_name = "N", .help = "number of ranks to start on this machine; default: 2",
     .example = "--ranks 4"},
    {OPTION("--bytes", TEXT, size_list), .value_name = "SIZE,...",
     .help = "sizes to measure; default: 4KiB,64KiB,1MiB,16MiB,64MiB",
     .example = "--bandwidth --bytes 64KiB,512MiB"},
    {OPTION("--test", FLAG, test), .help = "only check the results of the collectives",
     .example = "--test --ranks 4"},
    {OPTION("--bandwidth", FLAG, bandwidth), .help = "only measure the speed of the collectives",
     .example = "--bandwidth"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "--ranks 4 --json"},
};

const struct command COMMAND_COMM = {
    .name = "comm",
    .arguments = "",
    .summary = "test the collectives between ranks and measure their speed",
    .details = "Starts ranks on this machine, checks that every collective gives the right result, "
               "and then measures its speed. On a machine with GPUs the ranks communicate through "
               "NCCL, and through shared memory otherwise.",
    .example = "--ranks 4",
    REQUEST_OPTIONS,
    .run = run_comm,
    .finish = finish_comm,
};
