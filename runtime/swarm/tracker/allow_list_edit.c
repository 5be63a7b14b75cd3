/* allow_list_edit: changes the allow-list line by line, so that comments and layout are kept. If
 * the YAML style of the file does not allow that, the whole file is written again. */
#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "runtime/swarm/tracker/allow_list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char HEADER[] =
    "# Keys that may join. Edit this file by hand, or with `skep roster add` "
    "and `skep roster remove`.\n";

enum { NO_ROW = -1 };

struct allow_list_edit {
    const char *path;
    int folder; /* locked by this editor */
    char *text; /* of the file as it is */
    size_t length;
    struct yaml_document document;
    struct allow_list before, target, after;
    struct text changed;
};

static enum status lock_folder(struct allow_list_edit *edit, struct fault *fault) {
    char folder[PATH_BYTES];
    file_folder_of(edit->path, folder, sizeof folder);
    edit->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (edit->folder < 0 || flock(edit->folder, LOCK_EX) != 0) {
        return fault_set_errno(fault, STATUS_INPUT, folder, "cannot open the folder", errno);
    }
    return OK;
}

static enum status begin(const char *path, struct region *region, struct allow_list_edit **begun,
                         struct fault *fault) {
    struct allow_list_edit *edit = region_alloc(region, 1, sizeof *edit);
    edit->path = path;
    edit->text = region_alloc(region, YAML_BYTES_MAX, 1);
    edit->changed = text_over(region_alloc(region, YAML_BYTES_MAX, 1), YAML_BYTES_MAX);
    *begun = edit;
    enum status status = lock_folder(edit, fault);
    if (status != OK) {
        return status;
    }
    if (file_exists(path)) {
        status = file_read_text(path, edit->text, YAML_BYTES_MAX, &edit->length, fault);
    } else {
        struct text text = text_over(edit->text, YAML_BYTES_MAX);
        text_add(&text, "%smembers:\n", HEADER);
        edit->length = text.length;
    }
    if (status == OK) {
        status = yaml_open(edit->text, edit->length, path, region, &edit->document, fault);
    }
    return status == OK ? allow_list_rows(&edit->document, &edit->before, fault) : status;
}

static void finish(struct allow_list_edit *edit) {
    if (edit->folder >= 0) {
        close(edit->folder);
    }
}

static void add_row(struct text *text, const struct allow_list_row *row, int indent) {
    char key[KEYS_TEXT_BYTES];
    text_add(text, "%*s- key: %s\n", indent, "", public_keys_write(&row->keys, key));
    if (row->name[0] != '\0') {
        text_add(text, "%*s  name: \"%s\"\n", indent, "", row->name);
    }
}

/* The offset after line `line`; the first line is 1. */
static size_t offset_after(const struct allow_list_edit *edit, int line) {
    const char *at = edit->text;
    const char *end = edit->text + edit->length;
    for (; line > 0 && at < end; line--) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        at = feed == NULL ? end : feed + 1;
    }
    return (size_t)(at - edit->text);
}

static int last_line(const struct yaml_node *item) {
    int line = item->line;
    for (const struct yaml_node *child = item->child; child != NULL; child = child->sibling) {
        line = child->line > line ? child->line : line;
    }
    return line;
}

static int indent_of(const struct allow_list_edit *edit, int line) {
    const char *at = edit->text + offset_after(edit, line - 1);
    return (int)strspn(at, " ");
}

/* Writes the file with `row` added after the last row. */
static void insert_row(struct allow_list_edit *edit, const struct allow_list_row *row) {
    const struct yaml_node *members = yaml_find(&edit->document, "members");
    const struct yaml_node *item = members == NULL ? NULL : members->child;
    int indent = item == NULL ? 2 : indent_of(edit, item->line);
    size_t at = members == NULL ? edit->length : offset_after(edit, members->line);
    for (; item != NULL; item = item->sibling) {
        at = offset_after(edit, last_line(item));
    }
    text_add_bytes(&edit->changed, edit->text, at);
    if (at > 0 && edit->text[at - 1] != '\n') {
        text_add(&edit->changed, "\n");
    }
    text_add(&edit->changed, "%s", members == NULL ? "members:\n" : "");
    add_row(&edit->changed, row, indent);
    text_add_bytes(&edit->changed, edit->text + at, edit->length - at);
}

/* Writes the file without the lines of row `index`. */
static void remove_lines(struct allow_list_edit *edit, int index) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    size_t from = offset_after(edit, item->line - 1);
    size_t until = offset_after(edit, last_line(item));
    text_add_bytes(&edit->changed, edit->text, from);
    text_add_bytes(&edit->changed, edit->text + until, edit->length - until);
}

static void write_all(struct allow_list_edit *edit) {
    edit->changed = text_over(edit->changed.bytes, edit->changed.capacity);
    text_add(&edit->changed, "%s", HEADER);
    text_add(&edit->changed, "%smembers:\n", edit->target.open ? "open: true\n" : "");
    for (uint32_t i = 0; i < edit->target.count; i++) {
        add_row(&edit->changed, &edit->target.rows[i], 2);
    }
}

/* Whether the changed text reads as the target rows: a check against unusual YAML styles. */
static bool reads_as_target(struct allow_list_edit *edit, struct region *region) {
    struct yaml_document document;
    struct fault fault;
    if (edit->changed.truncated || yaml_open(edit->changed.bytes, edit->changed.length, edit->path,
                                             region, &document, &fault) != OK) {
        return false;
    }
    return allow_list_rows(&document, &edit->after, &fault) == OK &&
           edit->after.open == edit->target.open && edit->after.count == edit->target.count &&
           memcmp(edit->after.rows, edit->target.rows,
                  edit->target.count * sizeof edit->target.rows[0]) == 0;
}

static enum status publish(struct allow_list_edit *edit, struct region *region,
                           struct fault *fault) {
    char path[PATH_BYTES];
    struct text new_name = text_over(path, sizeof path);
    text_add(&new_name, "%s.new", edit->path);
    if (!reads_as_target(edit, region)) {
        write_all(edit);
    }
    if (new_name.truncated || edit->changed.truncated) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "the file or its name is too long");
    }
    return file_replace(edit->path, path, edit->changed.bytes, edit->changed.length, fault);
}

static int row_of_keys(const struct allow_list *list, const struct public_keys *keys) {
    const struct allow_list_row *row = allow_list_find(list, keys);
    return row == NULL ? NO_ROW : (int)(row - list->rows);
}

static int row_of_name(const struct allow_list *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].name, name) == 0) {
            return (int)i;
        }
    }
    return NO_ROW;
}

static enum status reject_known(struct allow_list_edit *edit, int index, struct fault *fault) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    return yaml_fault(&edit->document, item, fault, NULL, "has this key already");
}

static enum status add(struct allow_list_edit *edit, const struct allow_list_row *row,
                       struct region *region, struct fault *fault) {
    int known = row_of_keys(&edit->before, &row->keys);
    if (known != NO_ROW) {
        return reject_known(edit, known, fault);
    }
    if (row->name[0] != '\0' && row_of_name(&edit->before, row->name) != NO_ROW) {
        return fault_set(fault, STATUS_INPUT, edit->path, "choose another name",
                         "already has a member named %s", row->name);
    }
    if (edit->before.count == ALLOW_LIST_MAX) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "is full: it has %d keys",
                         ALLOW_LIST_MAX);
    }
    edit->target = edit->before;
    allow_list_append(&edit->target, row);
    insert_row(edit, row);
    return publish(edit, region, fault);
}

enum status allow_list_add(const char *path, const char *key, const char *name,
                           struct fault *fault) {
    struct allow_list_row row = {0};
    struct region region = {0};
    struct allow_list_edit *edit = NULL;
    const char *error = public_keys_read(key, &row.keys);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, "the key", "write it as `skep keys` prints it", "%s",
                         error);
    }
    error = name == NULL ? NULL : member_name_error(name);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, "the name", NULL, "%s", error);
    }
    memcpy(row.name, name == NULL ? "" : name, name == NULL ? 1 : strlen(name) + 1);
    enum status status = begin(path, &region, &edit, fault);
    if (status == OK) {
        status = add(edit, &row, &region, fault);
    }
    finish(edit);
    region_finish(&region);
    return status;
}

static enum status remove_row(struct allow_list_edit *edit, const char *key_or_name,
                              struct region *region, struct fault *fault) {
    struct public_keys keys;
    bool is_key = public_keys_read(key_or_name, &keys) == NULL;
    int index =
        is_key ? row_of_keys(&edit->before, &keys) : row_of_name(&edit->before, key_or_name);
    if (index == NO_ROW || key_or_name[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, edit->path, "`skep roster list` prints its members",
                         "has no member with this %s", is_key ? "key" : "name");
    }
    edit->target = edit->before;
    allow_list_erase(&edit->target, (uint32_t)index);
    remove_lines(edit, index);
    return publish(edit, region, fault);
}

enum status allow_list_remove(const char *path, const char *key_or_name, struct fault *fault) {
    struct region region = {0};
    struct allow_list_edit *edit = NULL;
    enum status status = begin(path, &region, &edit, fault);
    if (status == OK) {
        status = remove_row(edit, key_or_name, &region, fault);
    }
    finish(edit);
    region_finish(&region);
    return status;
}
