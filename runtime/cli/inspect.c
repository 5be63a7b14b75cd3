/* inspect: `skep inspect MODEL` describes a model from its config.json, without reading weights. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/model/families/families.h"

enum { SEQUENCE_MAX = 4096 /* maximum sequence length for which FLOPs are reported */ };

struct request {    /* options of `skep inspect` */
    int64_t shards; /* number of shards to report; 0: not requested */
    bool json;
};

/* Returns the file in `folder` that contains or lists the weights, or NULL. */
static const char *find_weights(const char *folder) {
    static const char *const NAMES[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < ARRAY_COUNT(NAMES) && folder[0] != '\0'; i++) {
        char path[PATH_BYTES + 64];
        path_join(folder, NAMES[i], path, sizeof path);
        if (file_exists(path)) {
            return NAMES[i];
        }
    }
    return NULL;
}

static enum status run_inspect(struct invocation *invocation) {
    const struct request *request = invocation->request;
    const char *model = invocation->positionals[0];
    struct region *region = &invocation->region;
    struct fault *fault = &invocation->fault;
    struct blueprint blueprint;
    struct unit_table units;
    char folder[PATH_BYTES];
    const struct unit_options options = {.world = request->shards > 0 ? request->shards : 1};
    TRY(blueprint_open(model, region, &blueprint, folder, fault));
    TRY(unit_table_init(&blueprint, &options, region, &units, fault));
    const struct inspect_report report = {
        .model = model,
        .weights = find_weights(folder),
        .blueprint = &blueprint,
        .units = &units,
        .sequence = blueprint.max_positions < SEQUENCE_MAX ? blueprint.max_positions : SEQUENCE_MAX,
        .shards = request->shards,
        .is_full = log_is_enabled(LOG_DEBUG) != 0,
        .parts = region_alloc(region, (size_t)units.param_count, sizeof *report.parts)};
    (request->json ? inspect_print_json : inspect_print_text)(&report);
    return OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--shards", INTEGER, shards), .minimum = 1, .maximum = INSPECT_SHARDS_MAX,
     .value_name = "N", .help = "also print the shards of N ranks", .example = "model --shards 8"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "model --json"},
};

const struct command COMMAND_INSPECT = {
    .name = "inspect",
    .arguments = "MODEL",
    .summary = "print the parameters, units, FLOPs and bytes per token, and tensors of a model",
    .details = "MODEL is a model folder, a config.json, or org/name from the Hub cache. The "
               "weights are not read.",
    .example = "model",
    .positional_count = 1,
    REQUEST_OPTIONS,
    .run = run_inspect,
};
