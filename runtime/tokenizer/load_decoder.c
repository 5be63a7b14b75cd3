/* Template of special tokens and decoder of tokenizer.json. */
#include "runtime/tokenizer/load.h"

#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

/* Appends the ids of a special token of a template to a list. */
static enum status add_special(struct loader *loader, const struct json_node *specials,
                               const struct json_node *item, int32_t *ids, size_t *count) {
    struct json_node name_node;
    struct json_node special;
    struct json_node list;
    const char *name;
    TRY(json_require(item, "id", &name_node, loader->fault));
    TRY(json_as_text(&name_node, &name, loader->fault));
    TRY(json_require(specials, name, &special, loader->fault));
    TRY(json_as_object(&special, loader->fault));
    TRY(json_require(&special, "ids", &list, loader->fault));
    TRY(json_as_array(&list, loader->fault));
    for (size_t i = 0; i < json_child_count(&list); i++) {
        struct json_node element = json_element(&list, i);
        int64_t id;
        TRY(json_as_i64(&element, &id, loader->fault));
        if (*count == TEMPLATE_IDS_MAX || id < 0 || id >= loader->tokenizer->info.id_count ||
            tokenizer_token_text(loader->tokenizer, (int32_t)id).bytes == NULL) {
            return load_unsupported_fault(loader, &element,
                                          "an id without a token, or too many ids");
        }
        ids[(*count)++] = (int32_t)id;
    }
    return OK;
}

/* The ids of special tokens before and after a text. */
struct template {
    /* ids of the special tokens before the text and after the text */
    int32_t before[TEMPLATE_IDS_MAX], after[TEMPLATE_IDS_MAX];
    size_t before_count, after_count;
    bool has_text; /* the item that stands for the text has been read */
};

static enum status read_template_item(struct loader *loader, const struct json_node *specials,
                                      const struct json_node *item, struct template *template) {
    struct json_node value;
    TRY(json_as_object(item, loader->fault));
    if (json_find(item, "SpecialToken", &value)) {
        return template->has_text
                   ? add_special(loader, specials, &value, template->after, &template->after_count)
                   : add_special(loader, specials, &value, template->before,
                                 &template->before_count);
    }
    struct json_node id_node;
    const char *id;
    TRY(json_require(item, "Sequence", &value, loader->fault));
    TRY(json_require(&value, "id", &id_node, loader->fault));
    TRY(json_as_text(&id_node, &id, loader->fault));
    if (template->has_text || strcmp(id, "A") != 0) {
        return load_unsupported_fault(loader, item, "a text other than one Sequence A");
    }
    template->has_text = true;
    return OK;
}

/* Puts the tokens of a template around those of the earlier templates. */
static enum status enclose_templates(struct loader *loader, const struct json_node *node,
                                     const struct template *template) {
    struct tokenizer *tokenizer = loader->tokenizer;
    if (tokenizer->before_count + template->before_count > TEMPLATE_IDS_MAX ||
        tokenizer->after_count + template->after_count > TEMPLATE_IDS_MAX) {
        return load_unsupported_fault(loader, node, "too many special tokens");
    }
    memmove(tokenizer->before + template->before_count, tokenizer->before,
            tokenizer->before_count * sizeof *tokenizer->before);
    memcpy(tokenizer->before, template->before, template->before_count * sizeof *template->before);
    memcpy(tokenizer->after + tokenizer->after_count, template->after,
           template->after_count * sizeof *template->after);
    tokenizer->before_count += template->before_count;
    tokenizer->after_count += template->after_count;
    return OK;
}

static enum status read_template(struct loader *loader, const struct json_node *node) {
    const char *type;
    TRY(load_type(loader, node, &type));
    if (strcmp(type, "ByteLevel") == 0) {
        return OK; /* a ByteLevel post-processor changes offsets only */
    }
    if (strcmp(type, "TemplateProcessing") != 0) {
        return load_unsupported_type_fault(loader, node, type);
    }
    struct json_node items;
    struct json_node specials;
    struct template template = {0};
    TRY(json_require(node, "single", &items, loader->fault));
    TRY(json_as_array(&items, loader->fault));
    TRY(json_require(node, "special_tokens", &specials, loader->fault));
    TRY(json_as_object(&specials, loader->fault));
    for (size_t i = 0; i < json_child_count(&items); i++) {
        struct json_node item = json_element(&items, i);
        TRY(read_template_item(loader, &specials, &item, &template));
    }
    if (!template.has_text) {
        return load_unsupported_fault(loader, &items, "a template without the text");
    }
    return enclose_templates(loader, node, &template);
}

enum status load_template(struct loader *loader) {
    struct json_document document;
    struct json_node value;
    struct component_list list;
    bool found;
    TRY(load_value(loader, &loader->root[ROOT_POST_PROCESSOR], "post_processor", &document, &value,
                   &found));
    if (!found) {
        return OK;
    }
    enum status status = load_component_list(loader, &value, "processors", &list);
    for (size_t i = 0; status == OK && i < list.count; i++) {
        status = read_template(loader, &list.items[i]);
    }
    json_finish(&document);
    return status;
}

static enum status read_strip(struct loader *loader, const struct json_node *node,
                              struct decode_step *step) {
    int64_t start = 0;
    int64_t stop = 0;
    TRY(load_text(loader, node, "content", &step->content));
    TRY(json_get_i64(node, "start", &start, NULL, loader->fault));
    TRY(json_get_i64(node, "stop", &stop, NULL, loader->fault));
    if (step->content.count == 0 || step->content.count != utf8_length(step->content.bytes[0]) ||
        start < 0 || start > UINT16_MAX || stop != 0) {
        return load_unsupported_fault(loader, node, "a Strip at the end, or of several characters");
    }
    step->start = (uint32_t)start;
    return OK;
}

static enum status read_decode_step(struct loader *loader, const struct json_node *node,
                                    struct decode_step *step) {
    static const struct {
        const char *type;
        enum decode_kind kind;
    } KINDS[] = {
        {"ByteLevel", DECODE_BYTE_LEVEL},
        {"ByteFallback", DECODE_BYTE_FALLBACK},
        {"Fuse", DECODE_FUSE},
        {"Metaspace", DECODE_METASPACE},
        {"Replace", DECODE_REPLACE},
        {"Strip", DECODE_STRIP},
    };
    const char *type;
    size_t prefix;
    TRY(load_type(loader, node, &type));
    size_t i = 0;
    while (i < ARRAY_COUNT(KINDS) && strcmp(type, KINDS[i].type) != 0) {
        i++;
    }
    if (i == ARRAY_COUNT(KINDS)) {
        return load_unsupported_type_fault(loader, node, type);
    }
    step->kind = KINDS[i].kind;
    switch (step->kind) {
    case DECODE_METASPACE:
        TRY(load_metaspace(loader, node, &step->content, &prefix));
        step->has_prefix = prefix != PREFIX_NEVER;
        return OK;
    case DECODE_REPLACE:
        return load_replace(loader, node, &step->pattern, &step->content);
    case DECODE_STRIP:
        return read_strip(loader, node, step);
    default:
        return OK;
    }
}

/* Decoding is id by id, so after a step that joins the texts only a Strip may follow. */
static enum status check_order(struct loader *loader, const struct json_node *node) {
    const struct tokenizer *tokenizer = loader->tokenizer;
    bool has_bytes = false; /* a ByteFallback, which joins bytes, is among the earlier steps */
    bool is_whole = false;
    for (size_t i = 0; i < tokenizer->decode_count; i++) {
        enum decode_kind kind = tokenizer->decode[i].kind;
        bool is_free = kind == DECODE_STRIP || kind == DECODE_FUSE;
        if ((is_whole || has_bytes) && !is_free) {
            return load_unsupported_fault(loader, node, "these decoders in this order");
        }
        is_whole = is_whole || kind == DECODE_FUSE || kind == DECODE_BYTE_LEVEL;
        has_bytes = has_bytes || kind == DECODE_BYTE_FALLBACK;
    }
    return OK;
}

enum status load_decoder(struct loader *loader) {
    struct tokenizer *tokenizer = loader->tokenizer;
    struct json_document document;
    struct json_node value;
    struct component_list list;
    TRY(load_value(loader, &loader->root[ROOT_DECODER], "decoder", &document, &value,
                   &tokenizer->has_decoder));
    if (!tokenizer->has_decoder) {
        return OK;
    }
    enum status status = load_component_list(loader, &value, "decoders", &list);
    for (size_t i = 0; status == OK && i < list.count; i++) {
        status =
            read_decode_step(loader, &list.items[i], &tokenizer->decode[tokenizer->decode_count++]);
    }
    if (status == OK) {
        status = check_order(loader, &value);
    }
    json_finish(&document);
    return status;
}
