/* yaml: libfyaml's events become nodes here; its document builder is not used, so that nothing of
 * the language beyond maps, lists and scalars is ever interpreted. */
#include "base/yaml.h"

#include "base/file.h"
#include "base/limits.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A map or list that is still open. */
struct open_node {
    struct yaml_node *node;
    struct yaml_node *last_child;
    struct yaml_node *waiting; /* a key whose value comes next; maps only */
};

struct yaml_reader {
    struct fy_parser *parser;
    struct fy_diag *diag;
    struct region *region;
    struct fault *fault;
    const char *source_name;
    struct yaml_node *root;
    struct yaml_node *newest;
    int node_count;
    struct open_node open[YAML_DEPTH_MAX];
    int depth;
    int document_count;
};

static enum status refuse_at(struct yaml_reader *reader, int line, int column, const char *remedy,
                             const char *reason) {
    char place[sizeof reader->fault->subject];
    snprintf(place, sizeof place, "%.280s:%d:%d", reader->source_name, line, column);
    return fault_set(reader->fault, STATUS_INPUT, place, remedy, "%s", reason);
}

static enum status refuse_event(struct yaml_reader *reader, struct fy_event *event,
                                const char *remedy, const char *reason) {
    const struct fy_mark *mark = fy_event_start_mark(event);
    int line = mark != NULL ? mark->line + 1 : 1;
    int column = mark != NULL ? mark->column + 1 : 1;
    return refuse_at(reader, line, column, remedy, reason);
}

/* The length of the UTF-8 sequence at `bytes`, or 0 when it is malformed, overlong, a surrogate or
 * a control character that text has no use for. */
static size_t character_bytes(const unsigned char *bytes, size_t left) {
    static const uint32_t LOWEST[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = bytes[0];
    if (lead < 0x80) {
        return (lead >= 0x20 && lead != 0x7f) || lead == '\n' || lead == '\t' || lead == '\r';
    }
    size_t count = lead >= 0xf0 && lead <= 0xf4   ? 4
                   : lead >= 0xe0 && lead <= 0xef ? 3
                   : lead >= 0xc2 && lead <= 0xdf ? 2
                                                  : 0;
    if (count == 0 || count > left) {
        return 0;
    }
    uint32_t code = lead & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((bytes[i] & 0xc0u) != 0x80u) {
            return 0;
        }
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < LOWEST[count] || code > 0x10ffff || surrogate ? 0 : count;
}

static enum status check_characters(struct yaml_reader *reader, const char *text, size_t length) {
    int line = 1;
    int column = 1;
    size_t i = 0;
    while (i < length) {
        size_t count = character_bytes((const unsigned char *)text + i, length - i);
        if (count == 0) {
            return refuse_at(reader, line, column, "save the file as plain UTF-8 text",
                             "a control character or malformed UTF-8");
        }
        bool ends_line = text[i] == '\n';
        line += ends_line;
        column = ends_line ? 1 : column + 1;
        i += count;
    }
    return OK;
}

static enum status node_add(struct yaml_reader *reader, struct fy_event *event, const char *key,
                            struct yaml_node **added) {
    struct open_node *parent = &reader->open[reader->depth - 1];
    char path[YAML_PATH_BYTES];
    const char *above = parent->node->path;
    int length =
        parent->node->kind == YAML_LIST
            ? snprintf(path, sizeof path, "%s[%d]", above, parent->node->child_count)
            : snprintf(path, sizeof path, "%s%s%s", above, above[0] != '\0' ? "." : "", key);
    if (length < 0 || (size_t)length >= sizeof path) {
        return refuse_event(reader, event, NULL, "the key is too long");
    }
    if (reader->node_count == YAML_NODES_MAX) {
        return refuse_event(reader, event, NULL, "too many keys and items in one file");
    }
    const struct fy_mark *mark = fy_event_start_mark(event);
    struct yaml_node *node = region_alloc(reader->region, 1, sizeof *node);
    *node = (struct yaml_node){.path = region_copy_text(reader->region, path),
                               .key = key[0] != '\0' ? region_copy_text(reader->region, key) : "",
                               .text = "",
                               .line = mark != NULL ? mark->line + 1 : 1,
                               .column = mark != NULL ? mark->column + 1 : 1,
                               .parent = parent->node};
    if (parent->last_child == NULL) {
        parent->node->child = node;
    } else {
        parent->last_child->sibling = node;
    }
    parent->last_child = node;
    parent->node->child_count++;
    reader->newest->next = node;
    reader->newest = node;
    reader->node_count++;
    *added = node;
    return OK;
}

static enum status refuse_repeated(struct yaml_reader *reader, struct fy_event *event,
                                   const char *key) {
    char path[2 * YAML_PATH_BYTES];
    const char *above = reader->open[reader->depth - 1].node->path;
    snprintf(path, sizeof path, "%s%s%s", above, above[0] != '\0' ? "." : "", key);
    for (const struct yaml_node *node = reader->root->next; node != NULL; node = node->next) {
        if (strcmp(node->path, path) == 0) {
            char reason[3 * YAML_PATH_BYTES];
            snprintf(reason, sizeof reason, "%s is given twice, first in line %d", path,
                     node->line);
            return refuse_event(reader, event, "keep one of them", reason);
        }
    }
    return OK;
}

static enum status take_key(struct yaml_reader *reader, struct fy_event *event) {
    if (event->type != FYET_SCALAR) {
        return refuse_event(reader, event, NULL, "a key must be a plain name");
    }
    size_t length = 0;
    const char *text = fy_token_get_text(event->scalar.value, &length);
    if (text == NULL || length == 0 || length >= NAME_BYTES) {
        return refuse_event(reader, event, NULL, "the key is empty or too long");
    }
    char key[NAME_BYTES];
    memcpy(key, text, length);
    key[length] = '\0';
    if (strlen(key) != length || strpbrk(key, "\n\r\t") != NULL) {
        return refuse_event(reader, event, NULL, "a key must be a plain name");
    }
    if (strcmp(key, "<<") == 0) {
        return refuse_event(reader, event, "write the keys out", "merge keys are not read");
    }
    TRY(refuse_repeated(reader, event, key));
    return node_add(reader, event, key, &reader->open[reader->depth - 1].waiting);
}

static enum status take_scalar(struct yaml_reader *reader, struct fy_event *event,
                               struct yaml_node *node) {
    size_t length = 0;
    const char *text = fy_token_get_text(event->scalar.value, &length);
    node->kind = YAML_SCALAR;
    node->is_plain =
        event->scalar.value == NULL || fy_token_scalar_style(event->scalar.value) == FYSS_PLAIN;
    if (text == NULL || length == 0) {
        return OK;
    }
    if (memchr(text, '\0', length) != NULL) {
        return refuse_event(reader, event, NULL, "a NUL character in a value");
    }
    char *copy = region_alloc(reader->region, length + 1, 1);
    memcpy(copy, text, length);
    node->text = copy;
    return OK;
}

/* A value: of the root, of the key that waits, or the next item of a list. */
static enum status take_value(struct yaml_reader *reader, struct fy_event *event) {
    struct open_node *parent = reader->depth > 0 ? &reader->open[reader->depth - 1] : NULL;
    struct yaml_node *node = reader->root;
    if (parent == NULL && event->type != FYET_MAPPING_START) {
        return refuse_event(reader, event, "write it as key: value lines",
                            "the file must be a map of keys");
    }
    if (parent != NULL && parent->node->kind == YAML_LIST) {
        TRY(node_add(reader, event, "", &node));
    } else if (parent != NULL) {
        node = parent->waiting;
        parent->waiting = NULL;
    }
    if (event->type == FYET_SCALAR) {
        return take_scalar(reader, event, node);
    }
    if (reader->depth == YAML_DEPTH_MAX) {
        return refuse_event(reader, event, NULL, "nested too deeply");
    }
    node->kind = event->type == FYET_MAPPING_START ? YAML_MAP : YAML_LIST;
    reader->open[reader->depth] = (struct open_node){.node = node};
    reader->depth++;
    return OK;
}

static enum status take_document_start(struct yaml_reader *reader, struct fy_event *event) {
    reader->document_count++;
    if (reader->document_count > 1) {
        return refuse_event(reader, event, "split the file", "more than one document");
    }
    struct fy_document_state *state = event->document_start.document_state;
    if (state != NULL &&
        (fy_document_state_version_explicit(state) || fy_document_state_tags_explicit(state))) {
        return refuse_event(reader, event, "remove the % lines", "directives are not read");
    }
    return OK;
}

static bool has_anchor_or_tag(const struct fy_event *event) {
    switch (event->type) {
    case FYET_SCALAR:
        return event->scalar.anchor != NULL || event->scalar.tag != NULL;
    case FYET_MAPPING_START:
        return event->mapping_start.anchor != NULL || event->mapping_start.tag != NULL;
    case FYET_SEQUENCE_START:
        return event->sequence_start.anchor != NULL || event->sequence_start.tag != NULL;
    default:
        return event->type == FYET_ALIAS;
    }
}

static enum status take_event(struct yaml_reader *reader, struct fy_event *event) {
    if (has_anchor_or_tag(event)) {
        return refuse_event(reader, event, "write the value out",
                            "anchors, aliases and tags are not read");
    }
    struct open_node *parent = reader->depth > 0 ? &reader->open[reader->depth - 1] : NULL;
    switch (event->type) {
    case FYET_DOCUMENT_START:
        return take_document_start(reader, event);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        ASSERT(reader->depth > 0);
        reader->depth--;
        return OK;
    case FYET_SCALAR:
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        return parent != NULL && parent->node->kind == YAML_MAP && parent->waiting == NULL
                   ? take_key(reader, event)
                   : take_value(reader, event);
    default:
        return OK;
    }
}

static enum status refuse_syntax(struct yaml_reader *reader) {
    void *position = NULL;
    struct fy_diag_error *error = fy_diag_errors_iterate(reader->diag, &position);
    if (error == NULL || error->msg == NULL) {
        return refuse_at(reader, 1, 1, NULL, "is not YAML");
    }
    char reason[256];
    snprintf(reason, sizeof reason, "%.*s", (int)strcspn(error->msg, "\n"), error->msg);
    int line = error->line > 0 ? error->line : 1;
    int column = error->column > 0 ? error->column : 1;
    return refuse_at(reader, line, column, NULL, reason);
}

static enum status take_events(struct yaml_reader *reader) {
    enum status status = OK;
    bool ended = false;
    while (status == OK && !ended) {
        struct fy_event *event = fy_parser_parse(reader->parser);
        if (event == NULL) {
            return refuse_syntax(reader);
        }
        ended = event->type == FYET_STREAM_END;
        status = take_event(reader, event);
        fy_parser_event_free(reader->parser, event);
    }
    if (status == OK && reader->document_count == 0) {
        return refuse_at(reader, 1, 1, NULL, "the file is empty");
    }
    return status;
}

static enum status read_document(struct yaml_reader *reader, const char *text, size_t length) {
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    quiet.level = FYET_ERROR;
    quiet.colorize = false;
    reader->diag = fy_diag_create(&quiet);
    ASSERT(reader->diag != NULL);
    fy_diag_set_collect_errors(reader->diag, true);
    struct fy_parse_cfg settings = {.search_path = "",
                                    .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
                                             FYPCF_DISABLE_RECYCLING | FYPCF_JSON_NONE,
                                    .diag = reader->diag};
    reader->parser = fy_parser_create(&settings);
    ASSERT(reader->parser != NULL);
    enum status status = fy_parser_set_string(reader->parser, text, length) == 0
                             ? take_events(reader)
                             : refuse_syntax(reader);
    fy_parser_destroy(reader->parser);
    fy_diag_destroy(reader->diag);
    return status;
}

enum status yaml_open(const char *text, size_t length, const char *place, struct region *region,
                      struct yaml_document *document, struct fault *fault) {
    if (length > YAML_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, place, NULL, "%zu bytes, at most %d are read", length,
                         YAML_BYTES_MAX);
    }
    struct yaml_reader reader = {.region = region, .fault = fault, .source_name = place};
    reader.root = region_alloc(region, 1, sizeof *reader.root);
    *reader.root = (struct yaml_node){
        .path = "", .key = "", .text = "", .kind = YAML_MAP, .line = 1, .column = 1};
    reader.newest = reader.root;
    TRY(check_characters(&reader, text, length));
    TRY(read_document(&reader, text, length));
    *document = (struct yaml_document){.source_name = region_copy_text(region, place),
                                       .root = reader.root,
                                       .first = reader.root->next,
                                       .node_count = reader.node_count,
                                       .region = region};
    return OK;
}

enum status yaml_open_file(const char *path, struct region *region, struct yaml_document *document,
                           struct fault *fault) {
    char *text = region_alloc(region, YAML_BYTES_MAX + 1, 1);
    size_t length = 0;
    TRY(file_read_text(path, text, YAML_BYTES_MAX + 1, &length, fault));
    return yaml_open(text, length, path, region, document, fault);
}
