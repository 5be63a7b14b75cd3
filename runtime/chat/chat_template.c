/* chat_template: the templates that this program knows, and the search for the template of a
 * model's folder. */
#include "runtime/chat/chat_template.h"

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text.h"

#include <string.h>

enum {
    TEMPLATE_BYTES_MAX = 1 << 20,    /* maximum size of chat_template.jinja */
    CONFIG_FILE_BYTES_MAX = 1 << 24, /* maximum size of tokenizer_config.json */
};

static const char *const CHATML[] = {"<|im_start|>", "<|im_end|>", NULL};
static const char *const LLAMA[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", NULL};
static const char *const MISTRAL[] = {"[INST]", "[/INST]", NULL};

static const struct chat_template TEMPLATES[] = {
    {.name = "ChatML",
     .hash = "827b1b44d7e035c3f79e595cfd2472e7f08a2764ccbb98d1d4e95d96f882ae0b",
     .render = render_chatml,
     .choice = "chatml",
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "ChatML of docs/DATA.md",
     .hash = "a4906e14ecda740b433ab7a0d4b780f4b2f341b539d9e8858867a10b66e507a2",
     .render = render_chatml,
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "Llama 3.2",
     .hash = "51e68c9f989467577fb67f8e1d45e58110c1ca737735c3662bd62c2d93112828",
     .render = render_llama31,
     .choice = "llama3",
     .has_tools = true,
     .control = LLAMA,
     .end = "<|eot_id|>"},
    {.name = "Mistral 7B Instruct v0.3",
     .hash = "f0ba0be2f352fcd913b00715009f03ebfb9e91168c65f6554035745ed1865308",
     .render = render_mistral,
     .choice = "mistral",
     .has_tools = true,
     .control = MISTRAL},
    {.name = "Qwen 3",
     .hash = "b9dfc3e866d8e1360059a0d3bb3094ef035279d0a5bdb60bab369537cf0b9ece",
     .render = render_qwen3,
     .choice = "qwen3",
     .has_tools = true,
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "Qwen 3 of April 2025",
     .hash = "9f5090d79b6197a19b77603444b9cf5282ab6ca2ca628f365f76bd94ce22418d",
     .render = render_qwen3,
     .has_tools = true,
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "Llama 3",
     .hash = "05facb19f527d33e1ba2066abb9656dc46ff7f61a33d5419bbd0f773d3519478",
     .render = render_llama3,
     .control = LLAMA,
     .end = "<|eot_id|>"},
    {.name = "Llama 3.1 and 3.3",
     .hash = "57a8c20780bfb41e320b31e7d20285cb33a0a23b65ddf18c92e65feadb207e71",
     .render = render_llama31,
     .has_tools = true,
     .control = LLAMA,
     .end = "<|eot_id|>"},
    {.name = "Qwen 2",
     .hash = "7cb398e81113b4aee262bd9621f9186062cf6d071f87ac2c0f735f064e2a3e50",
     .render = render_chatml,
     .default_system = "You are a helpful assistant.",
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "Qwen 2.5",
     .hash = "ef0829bf42c538a9bbd234c9664d95d9504fb8e6939b293dea2c595107b35170",
     .render = render_qwen2,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .has_tools = true,
     .control = CHATML,
     .end = "<|im_end|>"},
    {.name = "SmolLM 2",
     .hash = "786dc803909c78d9d03264ecb6d82c6bcbbe28070b7e342b474af75e0d1c93db",
     .render = render_chatml,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     .control = CHATML,
     .end = "<|im_end|>"},
};

static const char CHOICES[] =
    "choose one with --template or data.chat: chatml, llama3, mistral or qwen3";

const char *chat_template_name(const struct chat_template *chat) {
    return chat->name;
}

const struct chat_template *chat_template_by_name(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(TEMPLATES); i++) {
        if (strcmp(TEMPLATES[i].name, name) == 0) {
            return &TEMPLATES[i];
        }
    }
    return NULL;
}

/* Finds a template by the name that the user passes with --template. */
static const struct chat_template *find_choice(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(TEMPLATES); i++) {
        if (TEMPLATES[i].choice != NULL && strcmp(TEMPLATES[i].choice, name) == 0) {
            return &TEMPLATES[i];
        }
    }
    return NULL;
}

/* Finds the known template whose hash is that of `text`. */
static enum status find_by_text(const char *path, const char *text, size_t length,
                                const struct chat_template **found, struct fault *fault) {
    char hex[HASH_HEX_BYTES];
    length -= length > 0 && text[length - 1] == '\n';
    const struct hash hash = hash_of(text, length);
    hash_hex(&hash, hex);
    for (size_t i = 0; i < ARRAY_COUNT(TEMPLATES); i++) {
        if (strcmp(TEMPLATES[i].hash, hex) == 0) {
            *found = &TEMPLATES[i];
            return OK;
        }
    }
    return fault_set(fault, STATUS_INPUT, path, CHOICES,
                     "its chat template is not one that skep knows: hash %s", hex);
}

/* Sets *text to the template in the member `chat_template`: a string, or the template with the name
 * "default" in a list. NULL: no template. */
static enum status find_text(const struct json_node *config, const char **text,
                             struct fault *fault) {
    struct json_node node;
    *text = NULL;
    if (!json_find(config, "chat_template", &node)) {
        return OK;
    }
    if (!json_node_is_array(&node)) {
        return json_as_text(&node, text, fault);
    }
    for (size_t i = 0; i < json_child_count(&node); i++) {
        const struct json_node element = json_element(&node, i);
        const char *name = "";
        TRY(json_as_object(&element, fault));
        TRY(json_get_text(&element, "name", &name, NULL, fault));
        if (strcmp(name, "default") == 0) {
            return json_get_text(&element, "template", text, NULL, fault);
        }
    }
    return OK;
}

static enum status find_in_config(const char *path, struct region *scratch,
                                  const struct chat_template **found, bool *has_one,
                                  struct fault *fault) {
    struct json_document document;
    const char *template_text;
    char *bytes;
    size_t length;
    TRY(file_read_into_region(path, CONFIG_FILE_BYTES_MAX, scratch, &bytes, &length, fault));
    TRY(json_parse(bytes, length, length, path, &document, fault));
    enum status status = find_text(&document.root, &template_text, fault);
    *has_one = status == OK && template_text != NULL;
    if (*has_one) {
        status = find_by_text(path, template_text, strlen(template_text), found, fault);
    }
    json_finish(&document);
    return status;
}

static enum status find_in_folder(const char *folder, struct region *scratch,
                                  const struct chat_template **found, struct fault *fault) {
    char path[PATH_BYTES];
    char *text;
    size_t length;
    bool has_one = false;
    path_join(folder, "chat_template.jinja", path, sizeof path);
    if (file_exists(path)) {
        TRY(file_read_into_region(path, TEMPLATE_BYTES_MAX, scratch, &text, &length, fault));
        return find_by_text(path, text, length, found, fault);
    }
    path_join(folder, "tokenizer_config.json", path, sizeof path);
    if (file_exists(path)) {
        TRY(find_in_config(path, scratch, found, &has_one, fault));
    }
    return has_one ? OK : fault_set(fault, STATUS_INPUT, folder, CHOICES, "has no chat template");
}

enum status chat_template_find(const char *folder, const char *name,
                               const struct chat_template **found, struct fault *fault) {
    struct region scratch = {0};
    if (name != NULL) {
        const struct chat_template *chosen = find_choice(name);
        if (chosen == NULL) {
            return fault_set(fault, STATUS_USAGE, "--template",
                             "write chatml, llama3, mistral or qwen3",
                             "\"%.40s\" is not the name of a template", name);
        }
        *found = chosen;
        return OK;
    }
    const enum status status = find_in_folder(folder, &scratch, found, fault);
    region_finish(&scratch);
    return status;
}

enum status chat_template_check(const struct chat_template *chat, const struct tokenizer *tokenizer,
                                struct fault *fault) {
    for (int i = 0; chat->control[i] != NULL; i++) {
        if (tokenizer_token_id(tokenizer, chat->control[i], strlen(chat->control[i])) ==
            TOKENIZER_NO_ID) {
            return fault_set(fault, STATUS_INPUT, "tokenizer",
                             "choose the model's template, or add the token to its tokenizer.json",
                             "has no token %s, which the template %s needs", chat->control[i],
                             chat->name);
        }
    }
    return OK;
}

/* Returns the text of token `id`, or "" for TOKENIZER_NO_ID. */
static const char *copy_token(const struct tokenizer *tokenizer, int32_t id,
                              struct region *region) {
    const struct token_text text = tokenizer_token_text(tokenizer, id);
    return id == TOKENIZER_NO_ID ? "" : region_format(region, "%.*s", (int)text.count, text.bytes);
}

enum status chat_options_find(const char *folder, const char *name,
                              const struct tokenizer *tokenizer, struct region *region,
                              struct chat_options *options, struct fault *fault) {
    const struct tokenizer_info *info = tokenizer_info(tokenizer);
    struct chat_options found = {.date = CHAT_DATE,
                                 .bos = copy_token(tokenizer, info->bos_id, region),
                                 .eos = copy_token(tokenizer, info->eos_id, region),
                                 .is_thinking = true,
                                 .guard = tokenizer};
    TRY(chat_template_find(folder, name, &found.chat, fault));
    TRY(chat_template_check(found.chat, tokenizer, fault));
    *options = found;
    return OK;
}

int32_t chat_end_token(const struct chat_options *options, const struct tokenizer *tokenizer) {
    const char *end = options->chat->end;
    return end == NULL ? tokenizer_info(tokenizer)->eos_id
                       : tokenizer_token_id(tokenizer, end, strlen(end));
}
