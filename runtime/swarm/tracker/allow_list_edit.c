/* roster_edit: changes a roster file by lines, so that what people wrote into it stays; where its
 * style does not let that be, it is written anew. */
#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "runtime/swarm/tracker/allow_list_read.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char HEADER[] = "# Who is let in: `skep roster add` and `skep roster remove` change "
                             "this file, and so may you.\n";

enum { NOBODY = -1 };

struct roster_edit {
    const char *path;
    int folder; /* locked by this editor */
    char *text; /* of the file as it is */
    size_t length;
    struct yaml_document document;
    struct allow_list before, wanted, after;
    struct text changed;
};

static enum status lock_folder(struct roster_edit *edit, struct fault *fault) {
    char folder[PATH_BYTES];
    file_folder_of(edit->path, folder, sizeof folder);
    edit->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (edit->folder < 0 || flock(edit->folder, LOCK_EX) != 0) {
        return fault_set_errno(fault, STATUS_INPUT, folder, "cannot open the folder", errno);
    }
    return OK;
}

static enum status begin(const char *path, struct region *region, struct roster_edit **begun,
                         struct fault *fault) {
    struct roster_edit *edit = region_alloc(region, 1, sizeof *edit);
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

static void finish(struct roster_edit *edit) {
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

/* The offset behind line `line`, the first being 1. */
static size_t behind_line(const struct roster_edit *edit, int line) {
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

static int indent_of(const struct roster_edit *edit, int line) {
    const char *at = edit->text + behind_line(edit, line - 1);
    return (int)strspn(at, " ");
}

/* The file with `row` put behind its last one. */
static void insert_row(struct roster_edit *edit, const struct allow_list_row *row) {
    const struct yaml_node *members = yaml_find(&edit->document, "members");
    const struct yaml_node *item = members == NULL ? NULL : members->child;
    int indent = item == NULL ? 2 : indent_of(edit, item->line);
    size_t at = members == NULL ? edit->length : behind_line(edit, members->line);
    for (; item != NULL; item = item->sibling) {
        at = behind_line(edit, last_line(item));
    }
    text_add_bytes(&edit->changed, edit->text, at);
    if (at > 0 && edit->text[at - 1] != '\n') {
        text_add(&edit->changed, "\n");
    }
    text_add(&edit->changed, "%s", members == NULL ? "members:\n" : "");
    add_row(&edit->changed, row, indent);
    text_add_bytes(&edit->changed, edit->text + at, edit->length - at);
}

/* The file without the lines of row `index`. */
static void cut_row(struct roster_edit *edit, int index) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    size_t from = behind_line(edit, item->line - 1);
    size_t until = behind_line(edit, last_line(item));
    text_add_bytes(&edit->changed, edit->text, from);
    text_add_bytes(&edit->changed, edit->text + until, edit->length - until);
}

static void write_anew(struct roster_edit *edit) {
    edit->changed = text_over(edit->changed.bytes, edit->changed.capacity);
    text_add(&edit->changed, "%s", HEADER);
    text_add(&edit->changed, "%smembers:\n", edit->wanted.open ? "open: true\n" : "");
    for (uint32_t i = 0; i < edit->wanted.count; i++) {
        add_row(&edit->changed, &edit->wanted.rows[i], 2);
    }
}

/* Whether the changed text reads as the rows that were wanted, whatever the style of the file. */
static bool reads_as_wanted(struct roster_edit *edit, struct region *region) {
    struct yaml_document document;
    struct fault fault;
    if (edit->changed.cut || yaml_open(edit->changed.bytes, edit->changed.length, edit->path,
                                       region, &document, &fault) != OK) {
        return false;
    }
    return allow_list_rows(&document, &edit->after, &fault) == OK &&
           edit->after.open == edit->wanted.open && edit->after.count == edit->wanted.count &&
           memcmp(edit->after.rows, edit->wanted.rows,
                  edit->wanted.count * sizeof edit->wanted.rows[0]) == 0;
}

static enum status publish(struct roster_edit *edit, struct region *region, struct fault *fault) {
    char path[PATH_BYTES];
    struct text beside = text_over(path, sizeof path);
    text_add(&beside, "%s.new", edit->path);
    if (!reads_as_wanted(edit, region)) {
        write_anew(edit);
    }
    if (beside.cut || edit->changed.cut) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "the file or its name is too long");
    }
    int fd;
    TRY(file_open_write(path, &fd, fault));
    enum status status =
        file_write_at(fd, path, edit->changed.bytes, edit->changed.length, 0, fault);
    if (status == OK) {
        status = file_close_synced(fd, path, fault);
    } else {
        close(fd);
    }
    if (status == OK) {
        status = file_publish(path, edit->path, fault);
    }
    if (status != OK) {
        unlink(path);
    }
    return status;
}

static int row_of_keys(const struct allow_list *roster, const struct public_keys *keys) {
    const struct allow_list_row *row = allow_list_find(roster, keys);
    return row == NULL ? NOBODY : (int)(row - roster->rows);
}

static int row_of_name(const struct allow_list *roster, const char *name) {
    for (uint32_t i = 0; i < roster->count; i++) {
        if (strcmp(roster->rows[i].name, name) == 0) {
            return (int)i;
        }
    }
    return NOBODY;
}

static enum status refuse_known(struct roster_edit *edit, int index, struct fault *fault) {
    const struct yaml_node *item = yaml_find(&edit->document, "members")->child;
    for (int i = 0; i < index; i++) {
        item = item->sibling;
    }
    return yaml_fault(&edit->document, item, fault, NULL, "has this key already");
}

static enum status add(struct roster_edit *edit, const struct allow_list_row *row,
                       struct region *region, struct fault *fault) {
    int known = row_of_keys(&edit->before, &row->keys);
    if (known != NOBODY) {
        return refuse_known(edit, known, fault);
    }
    if (row->name[0] != '\0' && row_of_name(&edit->before, row->name) != NOBODY) {
        return fault_set(fault, STATUS_INPUT, edit->path, "choose another name",
                         "has somebody of the name %s already", row->name);
    }
    if (edit->before.count == ALLOW_LIST_MAX) {
        return fault_set(fault, STATUS_INPUT, edit->path, NULL, "is full: it has %d keys",
                         ALLOW_LIST_MAX);
    }
    edit->wanted = edit->before;
    edit->wanted.rows[edit->wanted.count++] = *row;
    insert_row(edit, row);
    return publish(edit, region, fault);
}

enum status allow_list_add(const char *path, const char *key, const char *name,
                           struct fault *fault) {
    struct allow_list_row row = {0};
    struct region region = {0};
    struct roster_edit *edit = NULL;
    const char *wrong = public_keys_read(key, &row.keys);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_INPUT, "the key", "write it as `skep keys` prints it", "%s",
                         wrong);
    }
    wrong = name == NULL ? NULL : member_name_error(name);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_INPUT, "the name", NULL, "%s", wrong);
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

static enum status remove_row(struct roster_edit *edit, const char *key_or_name,
                              struct region *region, struct fault *fault) {
    struct public_keys keys;
    bool is_key = public_keys_read(key_or_name, &keys) == NULL;
    int index =
        is_key ? row_of_keys(&edit->before, &keys) : row_of_name(&edit->before, key_or_name);
    if (index == NOBODY || key_or_name[0] == '\0') {
        return fault_set(fault, STATUS_INPUT, edit->path, "`skep roster list` shows who is in it",
                         "has nobody of this %s", is_key ? "key" : "name");
    }
    edit->wanted = edit->before;
    edit->wanted.count--;
    memmove(&edit->wanted.rows[index], &edit->wanted.rows[index + 1],
            (edit->wanted.count - (uint32_t)index) * sizeof edit->wanted.rows[0]);
    cut_row(edit, index);
    return publish(edit, region, fault);
}

enum status allow_list_remove(const char *path, const char *key_or_name, struct fault *fault) {
    struct region region = {0};
    struct roster_edit *edit = NULL;
    enum status status = begin(path, &region, &edit, fault);
    if (status == OK) {
        status = remove_row(edit, key_or_name, &region, fault);
    }
    finish(edit);
    region_finish(&region);
    return status;
}
