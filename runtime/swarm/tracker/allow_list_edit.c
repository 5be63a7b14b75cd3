/* allow_list_edit: edits only the lines of one row of the allow-list, so that comments and layout
 * are kept. If the YAML style of the file does not allow that, rewrites the whole file. */
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

enum { NO_ROW = -1 }; /* no row of the list */

struct allow_list_edit {           /* a change of the allow-list file */
    const char *path;              /* path of the allow-list file */
    int folder_fd;                 /* folder of the allow-list file, locked during the edit */
    char *old_text;                /* text of the file before the edit */
    size_t old_length;             /* length of old_text */
    struct yaml_document document; /* old_text, parsed */
    struct allow_list old_list, new_list; /* lists before and after the edit */
    struct allow_list parsed_list; /* list that new_text contains, to compare with new_list */
    struct text new_text;          /* text of the file after the edit */
};

static enum status lock_folder(struct allow_list_edit *edit, struct fault *fault) {
    char folder[PATH_BYTES];
    file_parent_folder(edit->path, folder, sizeof folder);
    edit->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (edit->folder_fd < 0 && errno == ENOENT) {
        return fault_set(fault, STATUS_INPUT, folder,
                         "start `skep track` first, which creates the folder, or create it",
                         "this folder of the allow-list does not exist");
    }
    if (edit->folder_fd < 0 || flock(edit->folder_fd, LOCK_EX) != 0) {
        return fault_set_errno(fault, STATUS_INPUT, folder, "cannot open the folder", errno);
    }
    return OK;
}

static enum status open_edit(const char *path, struct region *region,
                             struct allow_list_edit **opened, struct fault *fault) {
    struct allow_list_edit *edit = region_alloc(region, 1, sizeof *edit);
    edit->path = path;
    edit->old_text = region_alloc(region, YAML_BYTES_MAX, 1);
    edit->new_text = text_over(region_alloc(region, YAML_BYTES_MAX, 1), YAML_BYTES_MAX);
    *opened = edit;
    enum status status = lock_folder(edit, fault);
    if (status != OK) {
        return status;
    }
    if (file_exists(path)) {
        status = file_read_text(path, edit->old_text, YAML_BYTES_MAX, &edit->old_length, fault);
    } else {
        struct text text = text_over(edit->old_text, YAML_BYTES_MAX);
        text_add(&text, "%smembers:\n", HEADER);
        edit->old_length = text.length;
    }
    if (status == OK) {
        status = yaml_open(edit->old_text, edit->old_length, path, region, &edit->document, fault);
    }
    return status == OK ? allow_list_parse_rows(&edit->document, &edit->old_list, fault) : status;
}

static void close_edit(struct allow_list_edit *edit) {
    if (edit->folder_fd >= 0) {
        close(edit->folder_fd);
    }
}

/* Appends a row to the text of a list. */
static void add_row(struct text *text, const struct allow_list_row *row, int indent) {
    char key[KEYS_TEXT_BYTES];
    text_add(text, "%*s- key: %s\n", indent, "", public_keys_write(&row->keys, key));
    if (row->name[0] != '\0') {
        text_add(text, "%*s  name: \"%s\"\n", indent, "", row->name);
    }
}

/* Returns the offset in old_text at which line `line` ends; the first line is line 1. */
static size_t offset_after_line(const struct allow_list_edit *edit, int line) {
    const char *at = edit->old_text;
    const char *end = edit->old_text + edit->old_length;
    for (; line > 0 && at < end; line--) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        at = feed == NULL ? end : feed + 1;
    }
    return (size_t)(at - edit->old_text);
}

static int find_last_line_of_item(const struct yaml_node *item) {
    int line = item->line;
    for (const struct yaml_node *child = item->child; child != NULL; child = child->sibling) {
        line = child->line > line ? child->line : line;
    }
    return line;
}

static int indent_of_line(const struct allow_list_edit *edit, int line) {
    const char *at = edit->old_text + offset_after_line(edit, line - 1);
    return (int)strspn(at, " ");
}

/* Writes the new text: the old text with `row` added after the last row. */
static void insert_row(struct allow_list_edit *edit, const struct allow_list_row *row) {
    const struct yaml_node *members = yaml_find(&edit->document, "members");
    const struct yaml_node *item = members == NULL ? NULL : members->child;
    int indent = item == NULL ? 2 : indent_of_line(edit, item->line);
    size_t at = members == NULL ? edit->old_length : offset_after_line(edit, members->line);
    for (; item != NULL; item = item->sibling) {
        at = offset_after_line(edit, find_last_line_of_item(item));
    }
    text_add_bytes(&edit->new_text, edit->old_text, at);
    if (at > 0 && edit->old_text[at - 1] != '\n') {
        text_add(&edit->new_text, "\n");
    }
    text_add(&edit->new_text, "%s", members == NULL ? "members:\n" : "");
    add_row(&edit->new_text, row, indent);
    text_add_bytes(&edit->new_text, edit->old_text + at, edit->old_length - at);
}

/* Writes the new text: the old text without the lines of row `index`. */
static void remove_lines(struct allow_list_edit *edit, int index) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    size_t from = offset_after_line(edit, item->line - 1);
    size_t until = offset_after_line(edit, find_last_line_of_item(item));
    text_add_bytes(&edit->new_text, edit->old_text, from);
    text_add_bytes(&edit->new_text, edit->old_text + until, edit->old_length - until);
}

static void write_canonical_text(struct allow_list_edit *edit) {
    edit->new_text = text_over(edit->new_text.bytes, edit->new_text.capacity);
    text_add(&edit->new_text, "%s", HEADER);
    text_add(&edit->new_text, "%smembers:\n", edit->new_list.is_open ? "open: true\n" : "");
    for (uint32_t i = 0; i < edit->new_list.count; i++) {
        add_row(&edit->new_text, &edit->new_list.rows[i], 2);
    }
}

/* Parses the new text, and returns whether it contains the new list. It does not if the old text
 * has an unusual YAML style. */
static bool is_parsed_as_new_list(struct allow_list_edit *edit, struct region *region) {
    struct yaml_document document;
    struct fault fault;
    if (edit->new_text.truncated || yaml_open(edit->new_text.bytes, edit->new_text.length,
                                              edit->path, region, &document, &fault) != OK) {
        return false;
    }
    return allow_list_parse_rows(&document, &edit->parsed_list, &fault) == OK &&
           edit->parsed_list.is_open == edit->new_list.is_open &&
           edit->parsed_list.count == edit->new_list.count &&
           memcmp(edit->parsed_list.rows, edit->new_list.rows,
                  edit->new_list.count * sizeof edit->new_list.rows[0]) == 0;
}

static enum status replace_file(struct allow_list_edit *edit, struct region *region,
                                struct fault *fault) {
    char path[PATH_BYTES];
    struct text new_name = text_over(path, sizeof path);
    text_add(&new_name, "%s.new", edit->path);
    if (!is_parsed_as_new_list(edit, region)) {
        write_canonical_text(edit);
    }
    if (new_name.truncated || edit->new_text.truncated) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "the file or its name is too long");
    }
    return file_replace(edit->path, path, edit->new_text.bytes, edit->new_text.length, fault);
}

static int find_row_by_keys(const struct allow_list *list, const struct public_keys *keys) {
    const struct allow_list_row *row = allow_list_find(list, keys);
    return row == NULL ? NO_ROW : (int)(row - list->rows);
}

static int find_row_by_name(const struct allow_list *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].name, name) == 0) {
            return (int)i;
        }
    }
    return NO_ROW;
}

static enum status set_duplicate_key_fault(struct allow_list_edit *edit, int index,
                                           struct fault *fault) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    const char *name = edit->old_list.rows[index].name;
    return yaml_fault(&edit->document, item, fault, NULL, "%s already has this key",
                      name[0] == '\0' ? "a member without a name" : name);
}

static enum status add_checked_row(struct allow_list_edit *edit, const struct allow_list_row *row,
                                   struct region *region, struct fault *fault) {
    int known = find_row_by_keys(&edit->old_list, &row->keys);
    if (known != NO_ROW) {
        return set_duplicate_key_fault(edit, known, fault);
    }
    if (row->name[0] != '\0' && find_row_by_name(&edit->old_list, row->name) != NO_ROW) {
        return fault_set(fault, STATUS_INPUT, edit->path, "choose a different name",
                         "already has a member named %s", row->name);
    }
    if (edit->old_list.count == ALLOW_LIST_MAX) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "is full: it has %d keys",
                         ALLOW_LIST_MAX);
    }
    edit->new_list = edit->old_list;
    allow_list_append(&edit->new_list, row);
    insert_row(edit, row);
    return replace_file(edit, region, fault);
}

enum status allow_list_add(const char *path, const char *key, const char *name,
                           struct fault *fault) {
    struct allow_list_row row = {0};
    struct region region = {0};
    struct allow_list_edit *edit = NULL;
    const char *error = public_keys_read(key, &row.keys);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, "the key", "copy the key as `skep keys` prints it",
                         "%s", error);
    }
    error = name == NULL ? NULL : member_name_error(name);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, "the name", NULL, "%s", error);
    }
    memcpy(row.name, name == NULL ? "" : name, name == NULL ? 1 : strlen(name) + 1);
    enum status status = open_edit(path, &region, &edit, fault);
    if (status == OK) {
        status = add_checked_row(edit, &row, &region, fault);
    }
    close_edit(edit);
    region_finish(&region);
    return status;
}

static enum status remove_row(struct allow_list_edit *edit, const char *key_or_name,
                              struct region *region, struct fault *fault) {
    struct public_keys keys;
    bool is_key = public_keys_read(key_or_name, &keys) == NULL;
    int index = is_key ? find_row_by_keys(&edit->old_list, &keys)
                       : find_row_by_name(&edit->old_list, key_or_name);
    if (index == NO_ROW || key_or_name[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, edit->path,
                         "list its members with `skep roster list`", "has no member with this %s",
                         is_key ? "key" : "name");
    }
    if (edit->old_list.is_open && edit->old_list.count == ROSTER_VOTERS_MIN) {
        return fault_set(fault, STATUS_INPUT, edit->path,
                         "add another member first, or remove `open: true` from the list",
                         "has only three members, the fewest that may vote in an open swarm");
    }
    edit->new_list = edit->old_list;
    allow_list_erase(&edit->new_list, (uint32_t)index);
    remove_lines(edit, index);
    return replace_file(edit, region, fault);
}

enum status allow_list_remove(const char *path, const char *key_or_name, struct fault *fault) {
    struct region region = {0};
    struct allow_list_edit *edit = NULL;
    enum status status = open_edit(path, &region, &edit, fault);
    if (status == OK) {
        status = remove_row(edit, key_or_name, &region, fault);
    }
    close_edit(edit);
    region_finish(&region);
    return status;
}
