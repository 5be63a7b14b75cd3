#include "runtime/model/families/families.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/model/families/family.h"
#include "runtime/model/families/hf_fields.h"

#include <stdio.h>

static const char SUPPORTED[] = "llama, mistral, qwen2, qwen3, gpt2";
static const float INIT_STD_DEFAULT = 0.02f;

enum { SHOWN_TEXT_MAX = 60 }; /* maximum bytes of a text from the file that a message quotes */

static const struct family_rules *const FAMILIES[FAMILY_COUNT] = {
    [FAMILY_LLAMA] = &FAMILY_LLAMA_RULES,
    [FAMILY_MISTRAL] = &FAMILY_MISTRAL_RULES,
    [FAMILY_QWEN2] = &FAMILY_QWEN2_RULES,
    [FAMILY_QWEN3] = &FAMILY_QWEN3_RULES,
    [FAMILY_GPT2] = &FAMILY_GPT2_RULES};

static enum status find_family(const struct json_node *root, const struct family_rules **rules,
                               struct fault *fault) {
    const char *type = NULL;
    TRY(json_get_text(root, "model_type", &type, NULL, fault));
    if (type == NULL) {
        return json_fault_member(root, "model_type", fault,
                                 "is missing; the supported values are %s", SUPPORTED);
    }
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(type, FAMILIES[i]->model_type) == 0) {
            *rules = FAMILIES[i];
            return OK;
        }
    }
    return json_fault_member(root, "model_type", fault, "is \"%.*s\"; the supported values are %s",
                             SHOWN_TEXT_MAX, type, SUPPORTED);
}

static enum status build_blueprint(const struct json_node *root, struct region *region,
                                   struct blueprint *blueprint, struct fault *fault) {
    const struct family_rules *rules = NULL;
    struct hf_config config;
    struct blueprint built = {0};
    TRY(find_family(root, &rules, fault));
    TRY(hf_fields_check(root, rules->fields, rules->field_count, region, &built.notice, fault));
    TRY(hf_config_read(root, rules->fields, rules->field_count, &config, fault));
    built.family = rules->family;
    built.model_type = rules->model_type;
    built.layer_window =
        region_alloc(region, (size_t)config.num_hidden_layers, sizeof *built.layer_window);
    TRY(rules->fill_blueprint(&config, &built, fault));
    /* transformers treats an initializer_range of 0 as absent. */
    float std = config.initializer_range > 0 ? (float)config.initializer_range : INIT_STD_DEFAULT;
    struct param_list list = param_list_create(region, built.layers);
    rules->append_params(&built, std, &list);
    built.params = list.params;
    built.param_count = list.count;
    *blueprint = built;
    return OK;
}

enum status blueprint_read(const char *json, size_t length, const char *subject,
                           struct region *region, struct blueprint *blueprint,
                           struct fault *fault) {
    struct json_document document;
    TRY(json_parse(json, length, CONFIG_BYTES_MAX, subject, &document, fault));
    enum status status = build_blueprint(&document.root, region, blueprint, fault);
    json_finish(&document);
    return status;
}

/* Returns the full Hub name of a model that is known by a short name, or NULL. */
static const char *find_hub_name(const char *name) {
    static const char *const ROWS[][2] = {{"gpt2", "openai-community/gpt2"},
                                          {"gpt2-medium", "openai-community/gpt2-medium"},
                                          {"gpt2-large", "openai-community/gpt2-large"},
                                          {"gpt2-xl", "openai-community/gpt2-xl"},
                                          {"distilgpt2", "distilbert/distilgpt2"}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (strcmp(ROWS[i][0], name) == 0) {
            return ROWS[i][1];
        }
    }
    return NULL;
}

static enum status no_model_fault(const char *path, struct fault *fault) {
    char remedy[sizeof fault->remedy] =
        "give a model folder, a config.json file, or the org/name of a model in the Hub cache";
    const char *full = find_hub_name(path);
    if (full != NULL) {
        snprintf(remedy, sizeof remedy, "did you mean %s?", full);
    }
    return fault_set(fault, STATUS_INPUT, path, remedy, "no such file or folder");
}

/* Sets the fault for a folder without config.json, which may be the output folder of a run. */
static enum status no_config_fault(const char *folder, struct fault *fault) {
    char path[PATH_BYTES + NAME_BYTES];
    char remedy[sizeof fault->remedy] = "give a run file or the folder of a model";
    path_join(folder, "model/config.json", path, sizeof path);
    if (file_exists(path)) {
        snprintf(remedy, sizeof remedy, "did you mean %.200s/model?", folder);
    }
    return fault_set(fault, STATUS_INPUT, folder, remedy, "the folder has no config.json");
}

/* Find config.json at the user's `path`: set `file` to it, and `folder` to the model folder or
 * "". */
static enum status find_config_file(const char *path, char *file, char *folder,
                                    struct fault *fault) {
    if (strlen(path) >= PATH_BYTES - sizeof "/config.json") {
        return fault_set(fault, STATUS_INPUT, "model", "use a shorter path",
                         "the path is %zu bytes long, which is too long", strlen(path));
    }
    if (file_is_folder(path)) {
        snprintf(folder, PATH_BYTES, "%s", path);
    } else if (file_exists(path)) {
        folder[0] = '\0';
        snprintf(file, PATH_BYTES, "%s", path);
        return OK;
    } else if (hub_cache_is_model_name(path)) {
        TRY(hub_cache_find(path, folder, fault));
    } else {
        return no_model_fault(path, fault);
    }
    path_join(folder, "config.json", file, PATH_BYTES);
    return file_exists(file) ? OK : no_config_fault(folder, fault);
}

static bool folder_has_tokenizer(const char *folder) {
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer.model", "vocab.json"};
    char path[PATH_BYTES + NAME_BYTES];
    bool found = false;
    for (size_t i = 0; i < ARRAY_COUNT(NAMES) && folder[0] != '\0'; i++) {
        path_join(folder, NAMES[i], path, sizeof path);
        found = found || file_exists(path);
    }
    return found;
}

enum status blueprint_open(const char *path, struct region *region, struct blueprint *blueprint,
                           char *folder, struct fault *fault) {
    char file[PATH_BYTES];
    char found[PATH_BYTES];
    TRY(find_config_file(path, file, found, fault));
    struct region scratch = {0};
    char *text = region_alloc(&scratch, CONFIG_BYTES_MAX + 1, 1);
    size_t length;
    enum status status = file_read_text(file, text, CONFIG_BYTES_MAX + 1, &length, fault);
    if (status == OK) {
        status = blueprint_read(text, length, region_copy_text(&scratch, file), region, blueprint,
                                fault);
    }
    region_finish(&scratch);
    if (status == OK) {
        snprintf(folder, PATH_BYTES, "%s", found);
        blueprint->has_tokenizer = folder_has_tokenizer(folder);
    }
    return status;
}

void graph_build(const struct blueprint *blueprint, const struct graph_shape *shape,
                 struct region *region, struct graph *graph) {
    graph_begin(blueprint, shape, region, graph);
    bool is_gpt2 = blueprint->family == FAMILY_GPT2;
    graph_end(graph, is_gpt2 ? graph_build_gpt2(graph) : graph_build_decoder(graph));
}
