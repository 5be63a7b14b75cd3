/* preflight_report: the report of what a member will need, for people and as JSON. */
#ifndef SKEP_CLI_REPORTS_PREFLIGHT_REPORT_H
#define SKEP_CLI_REPORTS_PREFLIGHT_REPORT_H

#include "base/text.h"
#include "runtime/swarm_setup/preflight.h"

enum { FIT_REPORT_BYTES = 32 * 1024 }; /* text and JSON stay below */

/* fit_report_text, fit_report_json: the report for people, and as one line of JSON. */
void fit_report_text(const struct fit_report *report, struct text *text);
void fit_report_json(const struct fit_report *report, struct text *text);

struct fit_report_request {
    const struct swarm_terms *terms;
    struct fit_link link;
    int members; /* as fit_report_make takes them */
    bool json;
};

/* fit_report_write: makes the report for a command, and its text, whether the member fits or not.
 * text    a builder of FIT_REPORT_BYTES
 * errors  those of fit_report_make, nothing written; STATUS_FIT, which is exit 3, when it does not
 *         fit */
MUST_CHECK enum status fit_report_write(struct session *session,
                                        const struct fit_report_request *request, struct text *text,
                                        struct fault *fault);

#endif
