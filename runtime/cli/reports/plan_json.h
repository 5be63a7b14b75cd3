/* plan_json: the plan as one JSON document (cli.md, plan --json). */
#ifndef SKEP_CLI_REPORTS_PLAN_JSON_H
#define SKEP_CLI_REPORTS_PLAN_JSON_H

#include "runtime/cli/reports/plan_site_report.h"

/* plan_print_json: one document on standard output; with `fits` false also blame and remedies.
 * site    what is to be said about ranks, or NULL
 * errors  STATUS_FAILED when a remedy's plan fails its proof; part may be printed then */
MUST_CHECK enum status plan_print_json(struct session *session, const struct site_report *site,
                                       bool fits, struct fault *fault);

/* plan_draw: the device arena over the whole program as SVG, into `path`.
 * errors  STATUS_FAILED when it cannot be written */
MUST_CHECK enum status plan_draw(struct session *session, const char *path, struct fault *fault);

#endif
