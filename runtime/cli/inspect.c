#include "runtime/cli/inspect.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/inspect_report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SEQUENCE_MAX = 4096 }; /* long contexts are trained last and least */

static const char USAGE[] = "skep inspect MODEL [--shards N] [--json]";

struct arguments {
    const char *model;
    int64_t shards;
    bool json;
};

static enum status parse_arguments(int argc, char **argv, struct arguments *arguments,
                                   struct fault *fault) {
    struct arguments parsed = {0};
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--json") == 0) {
            parsed.json = true;
        } else if (strcmp(argument, "--shards") == 0) {
            const char *value = i + 1 < argc ? argv[++i] : "";
            if (!text_parse_i64(value, &parsed.shards) || parsed.shards < 1 ||
                parsed.shards > INSPECT_SHARDS_MAX) {
                return fault_set(fault, STATUS_USAGE, "--shards", USAGE,
                                 "\"%s\" is not a number of ranks from 1 to %d", value,
                                 INSPECT_SHARDS_MAX);
            }
        } else if (argument[0] == '-') {
            return fault_set(fault, STATUS_USAGE, argument, USAGE, "no such option");
        } else if (parsed.model != NULL) {
            return fault_set(fault, STATUS_USAGE, argument, USAGE, "one model at a time");
        } else {
            parsed.model = argument;
        }
    }
    if (parsed.model == NULL) {
        return fault_set(fault, STATUS_USAGE, "inspect", USAGE, "no model is named");
    }
    *arguments = parsed;
    return OK;
}

static const char *find_weights(const char *folder) {
    static const char *const NAMES[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < ARRAY_COUNT(NAMES) && folder[0] != '\0'; i++) {
        char path[PATH_BYTES + 64];
        file_join(folder, NAMES[i], path, sizeof path);
        if (file_exists(path)) {
            return NAMES[i];
        }
    }
    return NULL;
}

static enum status inspect(const struct arguments *arguments, struct region *region,
                           struct fault *fault) {
    struct blueprint blueprint;
    char folder[PATH_BYTES];
    enum status status = blueprint_open(arguments->model, region, &blueprint, folder, fault);
    struct unit_table units;
    const struct unit_options options = {.world = arguments->shards > 0 ? arguments->shards : 1};
    if (status == OK) {
        status = unit_table_init(&blueprint, &options, region, &units, fault);
    }
    if (status != OK) {
        return status;
    }
    int64_t longest = blueprint.max_positions;
    const struct inspect_report report = {.model = arguments->model,
                                          .weights = find_weights(folder),
                                          .blueprint = &blueprint,
                                          .units = &units,
                                          .sequence =
                                              longest < SEQUENCE_MAX ? longest : SEQUENCE_MAX,
                                          .shards = arguments->shards};
    if (arguments->json) {
        inspect_print_json(&report);
    } else {
        inspect_print_text(&report);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return fault_set(fault, STATUS_FAILED, "standard output", NULL, "cannot be written");
    }
    return OK;
}

int command_inspect(int argc, char **argv) {
    struct arguments arguments = {0};
    struct region region = {0};
    struct fault fault;
    enum status status = parse_arguments(argc, argv, &arguments, &fault);
    if (status == OK) {
        status = inspect(&arguments, &region, &fault);
    }
    region_finish(&region);
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
