/* load: reading tokenizer.json. The large lists, vocabulary and merges, are scanned in place; each
 * other component is small, and jansson reads it. */
#ifndef SKEP_TOKENIZER_LOAD_H
#define SKEP_TOKENIZER_LOAD_H

#include "base/json.h"
#include "runtime/checkpoint/json_scan.h"
#include "runtime/tokenizer/parts.h"

/* The bytes of a value in the file; end 0: it is not there. */
struct value_span {
    size_t begin, end;
};

/* Members of the file, and of its `model`. */
enum root_member {
    ROOT_ADDED_TOKENS,
    ROOT_NORMALIZER,
    ROOT_PRE_TOKENIZER,
    ROOT_POST_PROCESSOR,
    ROOT_DECODER,
    ROOT_VERSION,
    ROOT_COUNT
};
enum model_member {
    MODEL_TYPE,
    MODEL_DROPOUT,
    MODEL_UNK_TOKEN,
    MODEL_PREFIX,
    MODEL_SUFFIX,
    MODEL_FUSE_UNK,
    MODEL_BYTE_FALLBACK,
    MODEL_IGNORE_MERGES,
    MODEL_VOCAB,
    MODEL_MERGES,
    MODEL_COUNT
};

struct loader {
    const char *path; /* of tokenizer.json */
    char *text;       /* its bytes, with a NUL; strings are decoded in place */
    size_t length;
    struct region *region;    /* of the tokenizer */
    struct region *temporary; /* until the end of tokenizer_load */
    struct tokenizer *tokenizer;
    struct fault *fault;
    struct value_span root[ROOT_COUNT], model[MODEL_COUNT];
    bool has_byte_level; /* the pre-tokenizer ends with ByteLevel */
};

/* A tokenizer.json in memory. */
struct tokenizer_source {
    const char *path;   /* for faults */
    const char *folder; /* where the roles of special tokens are read; NULL: nowhere */
    char *text;         /* [length + 1], with a NUL at the end; changed while it is read */
    size_t length;
    const struct unicode *unicode; /* lives as long as the tokenizer */
};

/* tokenizer_parse: tokenizer_load from memory. `temporary` may be freed afterwards. */
MUST_CHECK enum status tokenizer_parse(const struct tokenizer_source *source, struct region *region,
                                       struct region *temporary, const struct tokenizer **tokenizer,
                                       struct fault *fault);

/* load_fault: STATUS_INPUT for the file. */
enum status load_fault(struct loader *loader, const char *remedy, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* load_value: parse a value of the file as the member `name` of a document.
 * *found    false, without a document, when the value is missing or null */
MUST_CHECK enum status load_value(struct loader *loader, const struct value_span *span,
                                  const char *name, struct json_document *document,
                                  struct json_node *value, bool *found);

/* load_text: a string of a document, copied to the tokenizer's region. */
MUST_CHECK enum status load_text(struct loader *loader, const struct json_node *object,
                                 const char *key, struct counted_text *text);

/* load_type: the member `type` of a component. */
MUST_CHECK enum status load_type(struct loader *loader, const struct json_node *object,
                                 const char **type);
/* load_unsupported: the fault for a component or option. */
enum status load_unsupported(struct loader *loader, const struct json_node *node, const char *what);

enum status load_unsupported_type(struct loader *loader, const struct json_node *node,
                                  const char *type);

/* load_replace: the pattern and content of a Replace, which must not be a Regex.
 * load_metaspace: the character of a Metaspace, and an enum prefix_kind. */
MUST_CHECK enum status load_replace(struct loader *loader, const struct json_node *node,
                                    struct counted_text *pattern, struct counted_text *content);
MUST_CHECK enum status load_metaspace(struct loader *loader, const struct json_node *node,
                                      struct counted_text *meta, size_t *prefix);

/* The steps of a component: the items refer to `array`, so the list must not be copied. */
struct component_list {
    struct json_node array;
    struct json_node items[STEPS_MAX];
    size_t count;
};

/* load_components: the steps in `node`: the member `list` of a Sequence, or the one component
 * itself.
 * errors  more than STEPS_MAX steps */
MUST_CHECK enum status load_components(struct loader *loader, const struct json_node *node,
                                       const char *list, struct component_list *components);

/* Each reads its part of the file into the tokenizer. load_model needs `has_byte_level`, and
 * load_added needs the normalizer and the model. */
MUST_CHECK enum status load_normalizer(struct loader *loader);
MUST_CHECK enum status load_pre_tokenizer(struct loader *loader);
MUST_CHECK enum status load_model(struct loader *loader);
MUST_CHECK enum status load_added(struct loader *loader);
MUST_CHECK enum status load_template(struct loader *loader);
MUST_CHECK enum status load_decoder(struct loader *loader);
MUST_CHECK enum status load_names(struct loader *loader, const char *folder);

/* load_split_rule: find where documents may be divided. */
void load_split_rule(struct tokenizer *tokenizer);

#endif
