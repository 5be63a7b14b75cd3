/* load: reading tokenizer.json. The large lists, vocabulary and merges, are scanned in place; each
 * other component is small, and jansson reads it. */
#ifndef SKEP_TOKENIZER_LOAD_H
#define SKEP_TOKENIZER_LOAD_H

#include "base/json.h"
#include "runtime/checkpoint/json_scan.h"
#include "runtime/tokenizer/parts.h"

/* The range of bytes of a value in the file; `end` is 0 if the file does not have the value. */
struct value_span {
    size_t begin, end; /* offsets in the file */
};

/* Members of the file, and of its `model`. */
enum root_member {
    ROOT_ADDED_TOKENS,   /* `added_tokens` of the file */
    ROOT_NORMALIZER,     /* `normalizer` of the file */
    ROOT_PRE_TOKENIZER,  /* `pre_tokenizer` of the file */
    ROOT_POST_PROCESSOR, /* `post_processor` of the file */
    ROOT_DECODER,        /* `decoder` of the file */
    ROOT_VERSION,        /* `version` of the file */
    ROOT_COUNT           /* number of members of the file in this enum */
};
enum model_member {
    MODEL_TYPE,          /* `type` of `model` */
    MODEL_DROPOUT,       /* `dropout` of `model` */
    MODEL_UNK_TOKEN,     /* `unk_token` of `model` */
    MODEL_PREFIX,        /* `continuing_subword_prefix` of `model` */
    MODEL_SUFFIX,        /* `end_of_word_suffix` of `model` */
    MODEL_FUSE_UNK,      /* `fuse_unk` of `model` */
    MODEL_BYTE_FALLBACK, /* `byte_fallback` of `model` */
    MODEL_IGNORE_MERGES, /* `ignore_merges` of `model` */
    MODEL_VOCAB,         /* `vocab` of `model` */
    MODEL_MERGES,        /* `merges` of `model` */
    MODEL_COUNT          /* number of members of `model` in this enum */
};

struct loader {
    const char *path;      /* path of tokenizer.json */
    char *text;            /* bytes of tokenizer.json, with a NUL; strings are decoded in place */
    size_t length;         /* size of the file in bytes */
    struct region *region; /* memory of the tokenizer */
    struct region *temporary;    /* memory that is freed at the end of tokenizer_load */
    struct tokenizer *tokenizer; /* the tokenizer that is loaded */
    struct fault *fault;
    /* positions of the values of each enum root_member and enum model_member in the file */
    struct value_span root[ROOT_COUNT], model[MODEL_COUNT];
    bool has_byte_level; /* the pre-tokenizer ends with ByteLevel */
};

/* A tokenizer.json in memory. */
struct tokenizer_source {
    const char *path; /* path of the file, for faults */
    /* folder of tokenizer_config.json and special_tokens_map.json; NULL: they are not read */
    const char *folder;
    /* [length + 1]: the file's text, with a NUL at the end; changed while it is read */
    char *text;
    size_t length;
    /* tables of characters, which must live as long as the tokenizer */
    const struct unicode *unicode;
};

/* tokenizer_parse: load a tokenizer as tokenizer_load does, from the text of a tokenizer.json in
 * memory. `temporary` may be freed afterwards. */
MUST_CHECK enum status tokenizer_parse(const struct tokenizer_source *source, struct region *region,
                                       struct region *temporary, const struct tokenizer **tokenizer,
                                       struct fault *fault);

/* load_fault: set a fault about tokenizer.json, and return STATUS_INPUT. */
enum status load_fault(struct loader *loader, const char *remedy, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* load_value: parse the value at `span` in the file. *document is then an object whose only member,
 * `name`, is this value; *value is the member's node.
 * *found    false when the value is missing or null; *document is then not set */
MUST_CHECK enum status load_value(struct loader *loader, const struct value_span *span,
                                  const char *name, struct json_document *document,
                                  struct json_node *value, bool *found);

/* load_text: read the string member `key` of `object`, and copy it to the tokenizer's region. */
MUST_CHECK enum status load_text(struct loader *loader, const struct json_node *object,
                                 const char *key, struct counted_text *text);

/* load_type: set *type to the member `type` of the component `object`. */
MUST_CHECK enum status load_type(struct loader *loader, const struct json_node *object,
                                 const char **type);
/* load_unsupported_fault: set the fault of a component or option that is not supported, and return
 * its status. */
enum status load_unsupported_fault(struct loader *loader, const struct json_node *node,
                                   const char *what);

enum status load_unsupported_type_fault(struct loader *loader, const struct json_node *node,
                                        const char *type);

/* load_replace: read the pattern and content of a Replace, whose pattern must not be a Regex.
 * load_metaspace: read the character of a Metaspace into *meta, and set *prefix to an enum
 * prefix_kind. */
MUST_CHECK enum status load_replace(struct loader *loader, const struct json_node *node,
                                    struct counted_text *pattern, struct counted_text *content);
MUST_CHECK enum status load_metaspace(struct loader *loader, const struct json_node *node,
                                      struct counted_text *meta, size_t *prefix);

/* The steps of a component: the items refer to `array`, so the list must not be copied. */
struct component_list {
    struct json_node array;            /* list of the steps of a Sequence */
    struct json_node items[STEPS_MAX]; /* [count]: the steps */
    size_t count;
};

/* load_component_list: list the steps in `node`: the member `list` of a Sequence, or the one
 * component itself.
 * errors  more than STEPS_MAX steps */
MUST_CHECK enum status load_component_list(struct loader *loader, const struct json_node *node,
                                           const char *list, struct component_list *components);

/* Each function reads its part of the file into the tokenizer. load_model needs `has_byte_level`,
 * and load_added needs the normalizer and the model. */
MUST_CHECK enum status load_normalizer(struct loader *loader);
MUST_CHECK enum status load_pre_tokenizer(struct loader *loader);
MUST_CHECK enum status load_model(struct loader *loader);
MUST_CHECK enum status load_added(struct loader *loader);
MUST_CHECK enum status load_template(struct loader *loader);
MUST_CHECK enum status load_decoder(struct loader *loader);
MUST_CHECK enum status load_special_ids(struct loader *loader, const char *folder);

/* load_split_rule: set tokenizer->rule, which says where documents may be divided. */
void load_split_rule(struct tokenizer *tokenizer);

#endif
