/* comm: `skep comm [--ranks N] [--test] [--bandwidth] [--bytes LIST] [--json]`: start ranks on this
 * machine and try out what their collectives would run on: are the results right, and how fast. */
#include "runtime/diagnose/comm.h"

#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/ranks.h"
#include "runtime/cli/reports/comm_report.h"

#include <string.h>

static const char USUAL_RANKS[] = "2";
static const char USUAL_SIZES[] = "4KiB,64KiB,1MiB,16MiB,64MiB";
static const uint64_t SIZE_MOST = 1ull << 30;

struct request {
    const char *ranks, *bytes;
    bool test, bandwidth, json; /* neither of the first two: both */
    uint64_t sizes[COMM_SIZES_MAX];
    int size_count;
};

static enum status read_sizes(const char *list, struct request *request, struct fault *fault) {
    for (const char *word = list; *word != '\0';) {
        char one[32];
        size_t length = strcspn(word, ",");
        struct text text = text_over(one, sizeof one);
        text_add_bytes(&text, word, length);
        if (request->size_count == COMM_SIZES_MAX) {
            return fault_set(fault, STATUS_USAGE, "--bytes", NULL, "more than %d sizes",
                             COMM_SIZES_MAX);
        }
        uint64_t *size = &request->sizes[request->size_count];
        TRY(argument_bytes("--bytes", one, size, fault));
        if (text.truncated || *size > SIZE_MOST) {
            return fault_set(fault, STATUS_USAGE, "--bytes", NULL, "%s; at most 1 GiB at a time",
                             one);
        }
        request->size_count++;
        word += length + (word[length] == ',');
    }
    return request->size_count > 0
               ? OK
               : fault_set(fault, STATUS_USAGE, "--bytes", "write 64KiB,1MiB", "no size is named");
}

static enum status read_request(int argc, char **argv, struct request *request,
                                struct fault *fault) {
    struct arguments arguments;
    int64_t ranks = 0;
    const struct flag flags[] = {{"--ranks", &request->ranks, NULL},
                                 {"--bytes", &request->bytes, NULL},
                                 {"--test", NULL, &request->test},
                                 {"--bandwidth", NULL, &request->bandwidth},
                                 {"--json", NULL, &request->json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 0, &arguments, fault);
    if (status == OK) {
        status = arguments_only(&arguments, argv[0], fault);
    }
    if (status == OK) {
        request->ranks = request->ranks != NULL ? request->ranks : USUAL_RANKS;
        status = argument_i64("--ranks", request->ranks, 2, &ranks, fault);
    }
    if (status == OK) {
        status = read_sizes(request->bytes != NULL ? request->bytes : USUAL_SIZES, request, fault);
    }
    bool either = request->test || request->bandwidth;
    request->test = request->test || !either;
    request->bandwidth = request->bandwidth || !either;
    return status;
}

static uint64_t arena_bytes(const struct request *request, int world) {
    uint64_t bytes = request->test ? comm_test_bytes(world) : 0;
    for (int i = 0; request->bandwidth && i < request->size_count; i++) {
        uint64_t more = comm_bandwidth_bytes(request->sizes[i], world);
        bytes = more > bytes ? more : bytes;
    }
    return bytes;
}

static enum status try_out(const struct request *request, struct session *session,
                           struct comm_report *report, struct fault *fault) {
    int world = site_launch_info(session->site)->world;
    uint64_t bytes = arena_bytes(request, world);
    TRY(comm_open(session->site, &session->region, bytes, &report->comm, fault));
    if (request->test) {
        report->tested = true;
        TRY(comm_test(&report->comm, report->verdicts, fault));
    }
    if (request->bandwidth) {
        TRY(comm_bandwidth(&report->comm, request->sizes, request->size_count, report->rates,
                           &report->rate_count, fault));
    }
    return OK;
}

/* What is wrong is so on all ranks: the verdicts are everybody's. */
static enum status judge(const struct comm_report *report, struct fault *fault) {
    for (int row = 0; report->tested && row < COMM_CHECKS; row++) {
        for (int group = 0; group < COMM_GROUPS; group++) {
            const struct comm_verdict *verdict = &report->verdicts[row][group];
            if (verdict->wrong > 0) {
                return fault_set(fault, STATUS_FAILED, COMM_CHECK_ROWS[row].name,
                                 "do not train on this machine; report what is printed here",
                                 "%lld wrong values in group %s; %s", (long long)verdict->wrong,
                                 comm_group_name((enum comm_group)group), verdict->first);
            }
        }
    }
    return OK;
}

int command_comm(int argc, char **argv) {
    static struct session session;
    static struct comm_report report;
    static struct ranks ranks;
    struct request request = {.ranks = NULL};
    struct fault fault;
    ranks.session = &session;
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        const struct ranks_request wanted = {.flag = request.ranks, .argc = argc, .argv = argv};
        status = ranks_begin(&wanted, &session, &ranks, &fault);
    }
    if (status == OK && !ranks.parent) {
        status = try_out(&request, &session, &report, &fault);
    }
    if (status == OK && !ranks.parent && ranks.place.rank == 0) {
        comm_report_print(&report, request.json);
    }
    if (status == OK && !ranks.parent) {
        status = session_agree(&session, judge(&report, &fault), &fault);
    }
    int code = ranks_end(&ranks, status, &fault);
    comm_close(&report.comm);
    session_finish(&session);
    return code;
}
