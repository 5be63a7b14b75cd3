#include "runtime/swarm/tracker/allow_list.h"

#include "base/file.h"
#include "base/limits.h"
#include "runtime/swarm/tracker/allow_list_read.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

_Static_assert(3 * ALLOW_LIST_MAX + 2 <= YAML_NODES_MAX, "a full roster can be read");

const char *member_name_error(const char *name) {
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t length = strlen(name);
    if (length >= MEMBER_NAME_BYTES) {
        return "is longer than 63 characters";
    }
    return strspn(name, LETTERS) == length ? NULL
                                           : "has something else in it than A-Z a-z 0-9 - _ .";
}

bool public_keys_equal(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 && memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

const struct allow_list_row *allow_list_find(const struct allow_list *roster,
                                             const struct public_keys *keys) {
    for (uint32_t i = 0; i < roster->count; i++) {
        if (public_keys_equal(&roster->rows[i].keys, keys)) {
            return &roster->rows[i];
        }
    }
    return NULL;
}

bool allow_list_has_curve(const struct allow_list *roster, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < roster->count; i++) {
        if (memcmp(roster->rows[i].keys.curve, curve, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

bool allow_list_permits(const struct allow_list *roster, const struct public_keys *keys) {
    return roster->open || allow_list_find(roster, keys) != NULL;
}

static const struct yaml_node *child_of(const struct yaml_node *map, const char *key) {
    const struct yaml_node *child = map->child;
    while (child != NULL && strcmp(child->key, key) != 0) {
        child = child->sibling;
    }
    return child;
}

static enum status read_key(const struct yaml_document *document, const struct yaml_node *item,
                            struct allow_list *roster, struct fault *fault) {
    const struct yaml_node *node = child_of(item, "key");
    struct public_keys *keys = &roster->rows[roster->count].keys;
    const char *text = NULL;
    if (node == NULL) {
        return yaml_fault(document, item, fault, "`skep keys` prints a key", "has no key");
    }
    TRY(yaml_text(document, node, &text, fault));
    const char *wrong = public_keys_read(text, keys);
    if (wrong != NULL) {
        return yaml_fault(document, node, fault, "write it as `skep keys` prints it", "%s", wrong);
    }
    if (allow_list_find(roster, keys) != NULL) {
        return yaml_fault(document, node, fault, "remove one of the two",
                          "is the key of an earlier row too");
    }
    return OK;
}

static enum status read_name(const struct yaml_document *document, const struct yaml_node *item,
                             struct allow_list_row *row, struct fault *fault) {
    const struct yaml_node *node = child_of(item, "name");
    const char *text = "";
    enum status status = node == NULL ? OK : yaml_text(document, node, &text, fault);
    if (status != OK) {
        return status;
    }
    const char *wrong = member_name_error(text);
    if (wrong != NULL) {
        return yaml_fault(document, node, fault, NULL, "%s", wrong);
    }
    memcpy(row->name, text, strlen(text) + 1);
    return OK;
}

static enum status read_row(const struct yaml_document *document, const struct yaml_node *item,
                            struct allow_list *roster, struct fault *fault) {
    if (roster->count == ALLOW_LIST_MAX) {
        return yaml_fault(document, item, fault, NULL, "is beyond the %d keys of a roster",
                          ALLOW_LIST_MAX);
    }
    if (item->kind != YAML_MAP) {
        return yaml_fault(document, item, fault, "write it as `- key: ...`", "is no row");
    }
    enum status status = read_key(document, item, roster, fault);
    if (status == OK) {
        status = read_name(document, item, &roster->rows[roster->count], fault);
    }
    roster->count += status == OK;
    return status;
}

enum status allow_list_rows(const struct yaml_document *document, struct allow_list *roster,
                            struct fault *fault) {
    static const char *const NAMES[] = {"open", "members", "members[].key", "members[].name"};
    const struct yaml_node *open = yaml_find(document, "open");
    const struct yaml_node *members = yaml_find(document, "members");
    enum status status = yaml_expect_known(document, NAMES, ARRAY_COUNT(NAMES), fault);
    roster->open = false;
    roster->count = 0;
    if (status == OK && open != NULL) {
        status = yaml_bool(document, open, &roster->open, fault);
    }
    bool is_empty = members == NULL ||
                    (members->kind == YAML_SCALAR && members->plain && members->text[0] == '\0');
    if (status == OK && !is_empty && members->kind != YAML_LIST) {
        status = yaml_fault(document, members, fault, "write one `- key: ...` a line",
                            "is no list of members");
    }
    const struct yaml_node *item = is_empty ? NULL : members->child;
    for (; status == OK && item != NULL; item = item->sibling) {
        status = read_row(document, item, roster, fault);
    }
    return status;
}

static struct file_stamp stamp_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return (struct file_stamp){0};
    }
    return (struct file_stamp){.device = info.st_dev,
                               .inode = info.st_ino,
                               .bytes = (uint64_t)info.st_size,
                               .changed_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 +
                                             info.st_mtim.tv_nsec};
}

bool allow_list_is_stale(const char *path, const struct allow_list *roster) {
    const struct file_stamp now = stamp_of(path);
    return now.device != roster->stamp.device || now.inode != roster->stamp.inode ||
           now.bytes != roster->stamp.bytes || now.changed_ns != roster->stamp.changed_ns;
}

bool allow_list_is_missing(const char *path, const struct allow_list *roster) {
    return roster->stamp.inode != 0 && stamp_of(path).inode == 0;
}

/* The stamp is taken first, so that a file that changes meanwhile is read once more. */
enum status allow_list_read(const char *path, struct allow_list *roster, struct fault *fault) {
    struct region region = {0};
    struct yaml_document document;
    roster->stamp = stamp_of(path);
    if (roster->stamp.inode == 0) {
        roster->open = false;
        roster->count = 0;
        return OK;
    }
    struct allow_list *read = region_alloc(&region, 1, sizeof *read);
    enum status status = yaml_open_file(path, &region, &document, fault);
    if (status == OK) {
        status = allow_list_rows(&document, read, fault);
    }
    if (status == OK) {
        read->stamp = roster->stamp;
        memcpy(roster, read, sizeof *roster);
    }
    region_finish(&region);
    return status;
}
