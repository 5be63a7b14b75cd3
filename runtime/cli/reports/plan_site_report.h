/* plan_site_report: what a plan says about ranks (diagnose/plan_site.h), printed. */
#ifndef SKEP_CLI_REPORTS_PLAN_SITE_REPORT_H
#define SKEP_CLI_REPORTS_PLAN_SITE_REPORT_H

#include "base/json_write.h"
#include "runtime/diagnose/plan_site.h"

/* plan_site_print: for people. plan_site_print_json: the members `mesh` to `notes` of the plan's
 * document, each with a comma before it. */
void plan_site_print(const struct site_report *report);
void plan_site_add_json(struct json_writer *json, const struct site_report *report);

#endif
