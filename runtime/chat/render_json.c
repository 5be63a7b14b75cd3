/* render_json: values as json.dumps of Python writes them. */
#include "runtime/chat/render.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 40 }; /* size of the buffer for the text of a number */

/* An object or a list that is being written. */
struct level {
    struct json_node node; /* the object or list */
    struct json_walk walk; /* for an object: position of the next member */
    size_t next;           /* for a list: index of the next element */
    size_t count;          /* number of values in the object or list */
    bool is_object;        /* true: an object; false: a list */
};

/* The state of writing a value as JSON. */
struct json_dump {
    struct renderer *renderer;
    /* number of spaces for each level; 0: everything on one line */
    int indent;
    int depth; /* number of open objects and lists */
    /* [depth]: the open objects and lists, outermost first */
    struct level levels[JSON_DEPTH_MAX + 1];
};

static enum status add_quoted(struct renderer *renderer, const struct json_node *node,
                              const char *text) {
    static const char NAMES[] = "\"\\\n\r\t\b\f";
    static const char *const ESCAPES[] = {"\\\"", "\\\\", "\\n", "\\r", "\\t", "\\b", "\\f"};
    add_fixed(renderer, "\"");
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\') {
            plain++;
        }
        TRY(add_data(renderer, node, text, plain));
        text += plain;
        if (*text != '\0') {
            const char *name = strchr(NAMES, *text);
            char code[8];
            snprintf(code, sizeof code, "\\u%04x", (unsigned)(unsigned char)*text);
            add_fixed(renderer, name != NULL ? ESCAPES[name - NAMES] : code);
            text++;
        }
    }
    add_fixed(renderer, "\"");
    return OK;
}

/* Writes a number as repr(float) of Python: the fewest digits from which the same number is read,
 * with an exponent below 1e-4 and from 1e16 on. */
static void format_real(double value, char out[static NUMBER_BYTES]) {
    char digits[NUMBER_BYTES];
    double back = 0;
    int64_t exponent = 0;
    int precision = 0;
    do {
        snprintf(digits, sizeof digits, "%.*e", precision++, value);
    } while (precision < 17 && (!text_parse_f64(digits, &back) || back != value));
    const char *exponent_text = strchr(digits, 'e') + 1;
    const bool is_small = *exponent_text == '-';
    (void)text_parse_i64(exponent_text + 1, &exponent);
    exponent = is_small ? -exponent : exponent;
    if (exponent < -4 || exponent >= 16) {
        /* printf and Python write the exponent in the same form */
        memcpy(out, digits, sizeof digits);
        return;
    }
    const int64_t decimals = precision - 1 - exponent;
    snprintf(out, NUMBER_BYTES, "%.*f", (int)(decimals < 1 ? 1 : decimals), value);
}

static enum status add_scalar(struct renderer *renderer, const struct json_node *node) {
    struct fault ignored;
    const char *text;
    int64_t integer;
    double real;
    bool truth;
    char number[NUMBER_BYTES];
    if (json_as_text(node, &text, &ignored) == OK) {
        return add_quoted(renderer, node, text);
    }
    if (json_node_is_null(node)) {
        add_fixed(renderer, "null");
    } else if (json_as_bool(node, &truth, &ignored) == OK) {
        add_fixed(renderer, truth ? "true" : "false");
    } else if (json_as_i64(node, &integer, &ignored) == OK) {
        snprintf(number, sizeof number, "%lld", (long long)integer);
        add_fixed(renderer, number);
    } else {
        TRY(json_as_f64(node, &real, renderer->fault));
        format_real(real, number);
        add_fixed(renderer, number);
    }
    return OK;
}

static void add_line_break(struct json_dump *dump) {
    if (dump->indent > 0) {
        add_fixed(dump->renderer, "\n");
        for (int i = 0; i < dump->depth * dump->indent; i++) {
            add_fixed(dump->renderer, " ");
        }
    }
}

/* Begins to write an object or a list. */
static void open_level(struct json_dump *dump, const struct json_node *node, bool is_object) {
    struct level *level = &dump->levels[dump->depth++];
    *level = (struct level){.node = *node, .count = json_child_count(node), .is_object = is_object};
    if (is_object) {
        level->walk = json_walk_over(&level->node);
    }
    add_fixed(dump->renderer, is_object ? "{" : "[");
}

/* Writes a value: a scalar, or the beginning of an object or a list. */
static enum status add_value(struct json_dump *dump, const struct json_node *node) {
    const bool is_object = json_node_is_object(node);
    if (!is_object && !json_node_is_array(node)) {
        return add_scalar(dump->renderer, node);
    }
    ASSERT(dump->depth <= JSON_DEPTH_MAX); /* json_parse accepts no deeper nesting */
    open_level(dump, node, is_object);
    return OK;
}

/* Writes the next value of the innermost open object or list, or its end. */
static enum status add_next(struct json_dump *dump) {
    struct level *level = &dump->levels[dump->depth - 1];
    if (level->next == level->count) {
        dump->depth--;
        if (level->count > 0) {
            add_line_break(dump);
        }
        add_fixed(dump->renderer, level->is_object ? "}" : "]");
        return OK;
    }
    if (level->next > 0) {
        add_fixed(dump->renderer, dump->indent > 0 ? "," : ", ");
    }
    add_line_break(dump);
    level->next++;
    if (!level->is_object) {
        const struct json_node element = json_element(&level->node, level->next - 1);
        return add_value(dump, &element);
    }
    const bool has_member = json_walk_next(&level->walk);
    ASSERT(has_member);
    TRY(add_quoted(dump->renderer, &level->node, level->walk.member.key));
    add_fixed(dump->renderer, ": ");
    return add_value(dump, &level->walk.member);
}

enum status add_json(struct renderer *renderer, const struct json_node *node, int indent) {
    struct json_dump dump = {.renderer = renderer, .indent = indent};
    TRY(add_value(&dump, node));
    while (dump.depth > 0) { /* each iteration writes a value, or ends an object or list */
        TRY(add_next(&dump));
    }
    return OK;
}
