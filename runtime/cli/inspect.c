/* inspect: `skep inspect MODEL [--shards N] [--json]`: what a model is made of, without its
 * data. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/inspect_report.h"
#include "runtime/model/families/families.h"

#include <unistd.h>

enum { SEQUENCE_MAX = 4096 }; /* long contexts are trained last and least */

struct request {
    const char *model;
    int64_t shards;
    bool json;
};

static enum status read_request(int argc, char **argv, struct request *request,
                                struct fault *fault) {
    struct arguments arguments;
    const char *shards = NULL;
    const struct flag flags[] = {{"--shards", &shards, NULL}, {"--json", NULL, &request->json}};
    TRY(arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, fault));
    TRY(arguments_only(&arguments, argv[0], fault));
    TRY(argument_i64("--shards", shards, 1, &request->shards, fault));
    if (request->shards > INSPECT_SHARDS_MAX) {
        return fault_set(fault, STATUS_USAGE, "--shards", NULL, "%s ranks; at most %d", shards,
                         INSPECT_SHARDS_MAX);
    }
    request->model = arguments.positionals[0];
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

static enum status inspect(const struct request *request, struct region *region,
                           struct fault *fault) {
    struct blueprint blueprint;
    char folder[PATH_BYTES];
    TRY(blueprint_open(request->model, region, &blueprint, folder, fault));
    struct unit_table units;
    const struct unit_options options = {.world = request->shards > 0 ? request->shards : 1};
    TRY(unit_table_init(&blueprint, &options, region, &units, fault));
    struct unit_part *parts = region_alloc(region, (size_t)units.param_count, sizeof *parts);
    int64_t longest = blueprint.max_positions;
    const struct inspect_report report = {.model = request->model,
                                          .weights = find_weights(folder),
                                          .blueprint = &blueprint,
                                          .units = &units,
                                          .sequence =
                                              longest < SEQUENCE_MAX ? longest : SEQUENCE_MAX,
                                          .shards = request->shards,
                                          .full = log_enabled(LOG_DEBUG) != 0,
                                          .parts = parts};
    if (request->json) {
        inspect_print_json(&report);
    } else {
        inspect_print_text(&report);
    }
    return OK;
}

int command_inspect(int argc, char **argv) {
    struct request request = {0};
    struct region region = {0};
    struct fault fault;
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        status = inspect(&request, &region, &fault);
    }
    region_finish(&region);
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
