/* comm_report: what `skep comm` has found out, and its two forms of print. */
#ifndef SKEP_CLI_REPORTS_COMM_REPORT_H
#define SKEP_CLI_REPORTS_COMM_REPORT_H

#include "runtime/diagnose/comm.h"

struct comm_report {
    struct comm comm;
    bool tested;
    struct comm_verdict verdicts[COMM_CHECKS][COMM_GROUPS];
    struct comm_rate rates[COMM_RATES * COMM_SIZES_MAX];
    int rate_count; /* 0: not measured */
};

void comm_report_print(const struct comm_report *report, bool json);

#endif
