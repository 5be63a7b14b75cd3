/* inspect: `skep inspect MODEL` describes a model from its config.json, without reading weights. */
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/model/families/families.h"
#include "runtime/tokenizer/tokenizer.h"

enum {
    SEQUENCE_MAX = 4096,                 /* maximum sequence length for which FLOPs are reported */
    TOKENIZER_CONFIG_BYTES_MAX = 1 << 24 /* maximum size of a tokenizer_config.json that is read */
};

struct request {    /* options of `skep inspect` */
    int64_t shards; /* number of shards of each unit to report; 0: not requested */
    bool json;      /* --json */
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

/* Whether the model has a template for conversations: a file of its own, or a field of
 * tokenizer_config.json. */
static bool has_chat_template(const char *folder, struct region *region) {
    char path[PATH_BYTES + 64];
    char *text;
    size_t length;
    struct fault ignored;
    struct json_document document;
    struct json_node node;
    path_join(folder, "chat_template.jinja", path, sizeof path);
    if (file_exists(path)) {
        return true;
    }
    path_join(folder, "tokenizer_config.json", path, sizeof path);
    if (!file_exists(path) ||
        file_read_into_region(path, TOKENIZER_CONFIG_BYTES_MAX, region, &text, &length, &ignored) !=
            OK ||
        json_parse(text, length, TOKENIZER_CONFIG_BYTES_MAX, path, &document, &ignored) != OK) {
        return false;
    }
    const bool found = json_find(&document.root, "chat_template", &node);
    json_finish(&document);
    return found;
}

static void describe_tokenizer(const char *folder, struct region *region,
                               struct inspect_report *report) {
    const struct tokenizer *tokenizer;
    struct fault fault;
    if (folder[0] == '\0' || !tokenizer_exists(folder)) {
        return;
    }
    report->has_chat_template = has_chat_template(folder, region);
    if (tokenizer_load(folder, region, &tokenizer, &fault) == OK) {
        report->tokenizer_ids = tokenizer_info(tokenizer)->id_count;
    } else {
        report->tokenizer_problem = region_format(region, "%s: %s", fault.subject, fault.reason);
    }
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
    struct inspect_report report = {
        .model = model,
        .weights = find_weights(folder),
        .blueprint = &blueprint,
        .units = &units,
        .sequence = blueprint.max_positions < SEQUENCE_MAX ? blueprint.max_positions : SEQUENCE_MAX,
        .shards = request->shards,
        .is_full = log_is_enabled(LOG_DEBUG) != 0,
        .parts = region_alloc(region, (size_t)units.param_count, sizeof *report.parts)};
    describe_tokenizer(folder, region, &report);
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
