/* yaml: turns the events of libfyaml into nodes. It does not use libfyaml's document builder, so
 * that no YAML feature other than maps, lists and scalars is interpreted. */
#include "base/yaml.h"

#include "base/file.h"
#include "base/limits.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A map or list of which the parser has not reached the end. */
struct open_node {
    struct yaml_node *node;        /* the map or list */
    struct yaml_node *last_child;  /* NULL: no child yet */
    struct yaml_node *pending_key; /* the key of the next value; maps only */
};

struct yaml_reader {
    struct fy_parser *parser;
    struct fy_diag *libfyaml_messages;
    struct region *region;
    struct fault *fault;
    const char *source_name;
    const char *text; /* [length]: the whole text */
    size_t length;    /* size of `text` in bytes */
    struct yaml_node *root;
    struct yaml_node *last_node; /* node that was added last */
    int node_count;
    struct open_node open[YAML_DEPTH_MAX]; /* the maps and lists being read, outermost first */
    int depth;                             /* number of entries in `open` */
    int document_count;                    /* YAML documents started; more than one is an error */
};

static enum status set_fault_at(struct yaml_reader *reader, int line, int column,
                                const char *remedy, const char *reason) {
    char location[sizeof reader->fault->subject];
    snprintf(location, sizeof location, "%.280s:%d:%d", reader->source_name, line, column);
    return fault_set(reader->fault, STATUS_INPUT, location, remedy, "%s", reason);
}

static enum status set_event_fault(struct yaml_reader *reader, struct fy_event *event,
                                   const char *remedy, const char *reason) {
    const struct fy_mark *mark = fy_event_start_mark(event);
    int line = mark != NULL ? mark->line + 1 : 1;
    int column = mark != NULL ? mark->column + 1 : 1;
    return set_fault_at(reader, line, column, remedy, reason);
}

/* The length of the UTF-8 sequence at `bytes`, or 0 when it is malformed, overlong, a surrogate or
 * a control character other than a line break or tab. */
static size_t character_bytes(const unsigned char *bytes, size_t left) {
    static const uint32_t CODE_MIN[] = {0, 0, 0x80, 0x800, 0x10000};
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
    bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < CODE_MIN[count] || code > 0x10ffff || is_surrogate ? 0 : count;
}

static enum status check_characters(struct yaml_reader *reader, const char *text, size_t length) {
    int line = 1;
    int column = 1;
    size_t i = 0;
    while (i < length) {
        size_t count = character_bytes((const unsigned char *)text + i, length - i);
        if (count == 0) {
            return set_fault_at(reader, line, column, "save the file as plain UTF-8 text",
                                "contains a control character or malformed UTF-8");
        }
        bool ends_line = text[i] == '\n';
        line += ends_line;
        column = ends_line ? 1 : column + 1;
        i += count;
    }
    return OK;
}

static enum status add_node(struct yaml_reader *reader, struct fy_event *event, const char *key,
                            struct yaml_node **added) {
    struct open_node *parent = &reader->open[reader->depth - 1];
    char path[YAML_PATH_BYTES];
    const char *parent_path = parent->node->path;
    int length = parent->node->kind == YAML_LIST
                     ? snprintf(path, sizeof path, "%s[%d]", parent_path, parent->node->child_count)
                     : snprintf(path, sizeof path, "%s%s%s", parent_path,
                                parent_path[0] != '\0' ? "." : "", key);
    if (length < 0 || (size_t)length >= sizeof path) {
        return set_event_fault(reader, event, NULL, "the key is too long");
    }
    if (reader->node_count == YAML_NODES_MAX) {
        return set_event_fault(reader, event, NULL, "has too many keys and list items");
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
    reader->last_node->next = node;
    reader->last_node = node;
    reader->node_count++;
    *added = node;
    return OK;
}

static enum status check_repeated_key(struct yaml_reader *reader, struct fy_event *event,
                                      const char *key) {
    char path[2 * YAML_PATH_BYTES];
    const char *parent_path = reader->open[reader->depth - 1].node->path;
    snprintf(path, sizeof path, "%s%s%s", parent_path, parent_path[0] != '\0' ? "." : "", key);
    for (const struct yaml_node *node = reader->root->next; node != NULL; node = node->next) {
        if (strcmp(node->path, path) == 0) {
            char reason[3 * YAML_PATH_BYTES];
            snprintf(reason, sizeof reason, "the key %s appears twice, first on line %d", path,
                     node->line);
            return set_event_fault(reader, event, "keep one of them", reason);
        }
    }
    return OK;
}

static enum status read_key(struct yaml_reader *reader, struct fy_event *event) {
    if (event->type != FYET_SCALAR) {
        return set_event_fault(reader, event, NULL,
                               "a key must be a plain name, not a map or a list");
    }
    size_t length = 0;
    const char *text = fy_token_get_text(event->scalar.value, &length);
    if (text == NULL || length == 0 || length >= NAME_BYTES) {
        return set_event_fault(reader, event, NULL, "the key is empty or too long");
    }
    char key[NAME_BYTES];
    memcpy(key, text, length);
    key[length] = '\0';
    if (strlen(key) != length || strpbrk(key, "\n\r\t") != NULL) {
        return set_event_fault(reader, event, NULL,
                               "a key must be a plain name, without tabs and line breaks");
    }
    if (strcmp(key, "<<") == 0) {
        return set_event_fault(reader, event, "write out the merged keys",
                               "merge keys are not supported");
    }
    TRY(check_repeated_key(reader, event, key));
    return add_node(reader, event, key, &reader->open[reader->depth - 1].pending_key);
}

static enum status read_scalar(struct yaml_reader *reader, struct fy_event *event,
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
        return set_event_fault(reader, event, NULL, "a value contains a NUL character");
    }
    char *copy = region_alloc(reader->region, length + 1, 1);
    memcpy(copy, text, length);
    node->text = copy;
    return OK;
}

/* Reads the value of the root or of the pending key, or the next item of a list. */
static enum status read_value(struct yaml_reader *reader, struct fy_event *event) {
    struct open_node *parent = reader->depth > 0 ? &reader->open[reader->depth - 1] : NULL;
    struct yaml_node *node = reader->root;
    if (parent == NULL && event->type != FYET_MAPPING_START) {
        return set_event_fault(reader, event, "write lines of the form key: value",
                               "the file must be a map of keys");
    }
    if (parent != NULL && parent->node->kind == YAML_LIST) {
        TRY(add_node(reader, event, "", &node));
    } else if (parent != NULL) {
        node = parent->pending_key;
        parent->pending_key = NULL;
    }
    if (event->type == FYET_SCALAR) {
        return read_scalar(reader, event, node);
    }
    if (reader->depth == YAML_DEPTH_MAX) {
        return set_event_fault(reader, event, NULL, "maps and lists are nested too deeply");
    }
    node->kind = event->type == FYET_MAPPING_START ? YAML_MAP : YAML_LIST;
    reader->open[reader->depth] = (struct open_node){.node = node};
    reader->depth++;
    return OK;
}

static enum status read_document_start(struct yaml_reader *reader, struct fy_event *event) {
    reader->document_count++;
    if (reader->document_count > 1) {
        return set_event_fault(reader, event, "split the file into one file for each document",
                               "contains more than one document");
    }
    struct fy_document_state *state = event->document_start.document_state;
    if (state != NULL &&
        (fy_document_state_version_explicit(state) || fy_document_state_tags_explicit(state))) {
        return set_event_fault(reader, event, "remove the directive lines, which begin with %",
                               "YAML directives are not supported");
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

static enum status read_event(struct yaml_reader *reader, struct fy_event *event) {
    if (has_anchor_or_tag(event)) {
        return set_event_fault(reader, event, "write the value itself instead",
                               "anchors, aliases and tags are not supported");
    }
    struct open_node *parent = reader->depth > 0 ? &reader->open[reader->depth - 1] : NULL;
    switch (event->type) {
    case FYET_DOCUMENT_START:
        return read_document_start(reader, event);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        ASSERT(reader->depth > 0);
        reader->depth--;
        return OK;
    case FYET_SCALAR:
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        return parent != NULL && parent->node->kind == YAML_MAP && parent->pending_key == NULL
                   ? read_key(reader, event)
                   : read_value(reader, event);
    default:
        return OK;
    }
}

/* The position of a quote or bracket that opens a text, list or map. */
struct opener_position {
    char opener; /* '"', '\'', '[' or '{'; 0: there is none */
    int line, column;
};

/* Whether a YAML token can begin after the character `before`. A quote opens a text only at the
 * beginning of a token. */
static bool token_can_begin_after(char before) {
    return strchr(" \t\n,:[{-", before) != NULL;
}

/* Finds the innermost quote or bracket that is never closed. */
static struct opener_position find_unclosed(const char *text, size_t length) {
    struct opener_position open[YAML_DEPTH_MAX];
    int depth = 0;
    int line = 1;
    char before = '\n';
    bool is_comment = false;
    for (size_t i = 0, line_begin = 0; i < length && depth < YAML_DEPTH_MAX; before = text[i++]) {
        const char at = text[i];
        const char inner = depth > 0 ? open[depth - 1].opener : '\0';
        const bool is_quoted = inner == '"' || inner == '\'';
        if (at == '\n') {
            line++;
            line_begin = i + 1;
            is_comment = false;
        } else if (is_quoted) {
            depth -= at == inner && (inner == '\'' || before != '\\');
        } else if (is_comment || (at == '#' && strchr(" \t\n", before) != NULL)) {
            is_comment = true;
        } else if (at == '[' || at == '{' || at == '"' || at == '\'') {
            if (token_can_begin_after(before)) {
                open[depth++] = (struct opener_position){at, line, (int)(i - line_begin) + 1};
            }
        } else if ((at == ']' && inner == '[') || (at == '}' && inner == '{')) {
            depth--;
        }
    }
    return depth == 0 || depth == YAML_DEPTH_MAX ? (struct opener_position){0} : open[depth - 1];
}

static enum status set_unclosed_fault(struct yaml_reader *reader,
                                      const struct opener_position *place) {
    char reason[64];
    char remedy[64];
    const char closer = place->opener == '[' ? ']' : place->opener == '{' ? '}' : place->opener;
    snprintf(reason, sizeof reason, "the character %c opens a value here, and nothing closes it",
             place->opener);
    snprintf(remedy, sizeof remedy, "add the closing %c, or remove this one", closer);
    return set_fault_at(reader, place->line, place->column, remedy, reason);
}

static enum status set_syntax_fault(struct yaml_reader *reader) {
    const struct opener_position unclosed = find_unclosed(reader->text, reader->length);
    if (unclosed.opener != '\0') {
        return set_unclosed_fault(reader, &unclosed);
    }
    void *position = NULL;
    struct fy_diag_error *error = fy_diag_errors_iterate(reader->libfyaml_messages, &position);
    if (error == NULL || error->msg == NULL) {
        return set_fault_at(
            reader, 1, 1, NULL,
            "is not valid YAML: the parser gives no reason; check that it is UTF-8 text");
    }
    char reason[256];
    snprintf(reason, sizeof reason, "%.*s", (int)strcspn(error->msg, "\n"), error->msg);
    int line = error->line > 0 ? error->line : 1;
    int column = error->column > 0 ? error->column : 1;
    const bool is_tab = strstr(reason, "tab ") != NULL;
    return set_fault_at(reader, line, column, is_tab ? "indent with spaces" : NULL, reason);
}

static enum status read_events(struct yaml_reader *reader) {
    enum status status = OK;
    bool ended = false;
    while (status == OK && !ended) {
        struct fy_event *event = fy_parser_parse(reader->parser);
        if (event == NULL) {
            return set_syntax_fault(reader);
        }
        ended = event->type == FYET_STREAM_END;
        status = read_event(reader, event);
        fy_parser_event_free(reader->parser, event);
    }
    if (status == OK && reader->document_count == 0) {
        return set_fault_at(reader, 1, 1, NULL, "the file is empty");
    }
    return status;
}

static enum status read_document(struct yaml_reader *reader, const char *text, size_t length) {
    struct fy_diag_cfg diag_config;
    fy_diag_cfg_default(&diag_config);
    diag_config.fp = NULL;
    diag_config.level = FYET_ERROR;
    diag_config.colorize = false;
    reader->libfyaml_messages = fy_diag_create(&diag_config);
    ASSERT(reader->libfyaml_messages != NULL);
    fy_diag_set_collect_errors(reader->libfyaml_messages, true);
    struct fy_parse_cfg parse_config = {.search_path = "",
                                        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
                                                 FYPCF_DISABLE_RECYCLING | FYPCF_JSON_NONE,
                                        .diag = reader->libfyaml_messages};
    reader->parser = fy_parser_create(&parse_config);
    ASSERT(reader->parser != NULL);
    enum status status = fy_parser_set_string(reader->parser, text, length) == 0
                             ? read_events(reader)
                             : set_syntax_fault(reader);
    fy_parser_destroy(reader->parser);
    fy_diag_destroy(reader->libfyaml_messages);
    return status;
}

enum status yaml_open(const char *text, size_t length, const char *source_name,
                      struct region *region, struct yaml_document *document, struct fault *fault) {
    if (length > YAML_BYTES_MAX) {
        return fault_set(fault, STATUS_INPUT, source_name, NULL,
                         "is %zu bytes long; the limit is %d", length, YAML_BYTES_MAX);
    }
    struct yaml_reader reader = {.region = region,
                                 .fault = fault,
                                 .source_name = source_name,
                                 .text = text,
                                 .length = length};
    reader.root = region_alloc(region, 1, sizeof *reader.root);
    *reader.root = (struct yaml_node){
        .path = "", .key = "", .text = "", .kind = YAML_MAP, .line = 1, .column = 1};
    reader.last_node = reader.root;
    TRY(check_characters(&reader, text, length));
    TRY(read_document(&reader, text, length));
    *document = (struct yaml_document){.source_name = region_copy_text(region, source_name),
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
