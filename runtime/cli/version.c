/* version: `skep version` prints the source version and the compiler that this program was built
 * from, and the libraries, drivers and instruction sets that it finds. */
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/diagnose/versions.h"

#include <stdio.h>

struct request { /* options of `skep version` */
    bool json;   /* --json */
};

static const char *text_or_none(const char *text) {
    return text[0] != '\0' ? text : "none";
}

static void print_text(const struct version_report *report) {
    printf("skep       %s, commit %s\n", report->version, report->commit);
    printf("compiler   %s\n", report->compiler);
    printf("CUDA       %s%s%s\n", text_or_none(report->toolkit),
           report->toolkit[0] != '\0' ? ", " : "", report->architectures);
    printf("driver     %s\nNCCL       %s%s\n", text_or_none(report->driver),
           text_or_none(report->nccl),
           report->nccl[0] != '\0' && report->toolkit[0] == '\0' ? ", not used without CUDA" : "");
    printf("CPU        uses %s; can use", report->used_instruction_set);
    for (int i = 0; i < report->instruction_set_count; i++) {
        printf("%s %s", i > 0 ? "," : "", report->instruction_sets[i]);
    }
    printf("\n");
    for (int i = 0; i < VERSION_LIBRARIES; i++) {
        const struct library_version *library = &report->libraries[i];
        printf("%-10s %s", library->name, library->built);
        if (library->used[0] != '\0') {
            printf(", using %s", library->used);
        }
        printf("\n");
    }
}

static void print_json(const struct version_report *report) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "version", report->version);
    json_add_text(json, "commit", report->commit);
    json_add_text(json, "compiler", report->compiler);
    json_add_text(json, "cuda", report->toolkit);
    json_add_text(json, "gpu_architectures", report->architectures);
    json_add_text(json, "driver", report->driver);
    json_add_text(json, "nccl", report->nccl);
    json_add_text(json, "instruction_set", report->used_instruction_set);
    json_begin_array(json, "instruction_sets");
    for (int i = 0; i < report->instruction_set_count; i++) {
        json_add_text(json, NULL, report->instruction_sets[i]);
    }
    json_end(json);
    json_begin_array(json, "libraries");
    for (int i = 0; i < VERSION_LIBRARIES; i++) {
        json_begin_object(json, NULL);
        json_add_text(json, "name", report->libraries[i].name);
        json_add_text(json, "built", report->libraries[i].built);
        json_add_text(json, "used", report->libraries[i].used);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

static enum status run_version(struct invocation *invocation) {
    const struct request *request = invocation->request;
    struct version_report report;
    versions_read(&report);
    (request->json ? print_json : print_text)(&report);
    return OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "--json"},
};

const struct command COMMAND_VERSION = {
    .name = "version",
    .arguments = "",
    .summary = "print the version, commit, CUDA, NCCL, libraries and instruction sets",
    .details = "Each library is listed with its version at the build and the version in use. The "
               "driver and NCCL are those that are installed on this machine.",
    .example = "--json",
    REQUEST_OPTIONS,
    .run = run_version,
};
