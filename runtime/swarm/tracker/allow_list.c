#include "runtime/swarm/tracker/allow_list.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

_Static_assert(3 * ALLOW_LIST_MAX + 2 <= YAML_NODES_MAX, "base/yaml.h can parse a full list");

const char *member_name_error(const char *name) {
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t length = strlen(name);
    if (length >= MEMBER_NAME_BYTES) {
        return "is longer than 63 characters";
    }
    return strspn(name, LETTERS) == length ? NULL : "has a character other than A-Z a-z 0-9 - _ .";
}

const struct allow_list_row *allow_list_find(const struct allow_list *list,
                                             const struct public_keys *keys) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (public_keys_equal(&list->rows[i].keys, keys)) {
            return &list->rows[i];
        }
    }
    return NULL;
}

bool allow_list_has_channel_key(const struct allow_list *list,
                                const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (memcmp(list->rows[i].keys.curve, curve, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

bool allow_list_permits(const struct allow_list *list, const struct public_keys *keys) {
    return list->is_open || allow_list_find(list, keys) != NULL;
}

static const struct yaml_node *find_child(const struct yaml_node *map, const char *key) {
    const struct yaml_node *child = map->child;
    while (child != NULL && strcmp(child->key, key) != 0) {
        child = child->sibling;
    }
    return child;
}

static enum status read_key(const struct yaml_document *document, const struct yaml_node *item,
                            struct allow_list *list, struct fault *fault) {
    const struct yaml_node *node = find_child(item, "key");
    struct public_keys *keys = &list->rows[list->count].keys;
    const char *text = NULL;
    if (node == NULL) {
        return yaml_fault(document, item, fault, "`skep keys` prints a key", "has no key");
    }
    TRY(yaml_read_text(document, node, &text, fault));
    const char *error = public_keys_read(text, keys);
    if (error != NULL) {
        return yaml_fault(document, node, fault, "copy the key as `skep keys` prints it", "%s",
                          error);
    }
    if (allow_list_find(list, keys) != NULL) {
        return yaml_fault(document, node, fault, "remove one of the two rows",
                          "is also the key of an earlier row");
    }
    return OK;
}

static enum status read_name(const struct yaml_document *document, const struct yaml_node *item,
                             struct allow_list_row *row, struct fault *fault) {
    const struct yaml_node *node = find_child(item, "name");
    const char *text = "";
    if (node != NULL) {
        TRY(yaml_read_text(document, node, &text, fault));
    }
    const char *error = member_name_error(text);
    if (error != NULL) {
        return yaml_fault(document, node, fault, NULL, "%s", error);
    }
    memcpy(row->name, text, strlen(text) + 1);
    return OK;
}

static enum status read_row(const struct yaml_document *document, const struct yaml_node *item,
                            struct allow_list *list, struct fault *fault) {
    if (list->count == ALLOW_LIST_MAX) {
        return yaml_fault(document, item, fault, NULL, "exceeds the limit of %d keys",
                          ALLOW_LIST_MAX);
    }
    if (item->kind != YAML_MAP) {
        return yaml_fault(document, item, fault, "write it as `- key: ...`",
                          "is not a map of the form `- key: ...`");
    }
    TRY(read_key(document, item, list, fault));
    TRY(read_name(document, item, &list->rows[list->count], fault));
    list->count++;
    return OK;
}

enum status allow_list_parse_rows(const struct yaml_document *document, struct allow_list *list,
                                  struct fault *fault) {
    static const char *const NAMES[] = {"open", "members", "members[].key", "members[].name"};
    const struct yaml_node *open = yaml_find(document, "open");
    const struct yaml_node *members = yaml_find(document, "members");
    list->is_open = false;
    list->count = 0;
    TRY(yaml_reject_unknown_keys(document, NAMES, ARRAY_COUNT(NAMES), fault));
    if (open != NULL) {
        TRY(yaml_read_bool(document, open, &list->is_open, fault));
    }
    bool is_empty = members == NULL ||
                    (members->kind == YAML_SCALAR && members->is_plain && members->text[0] == '\0');
    if (!is_empty && members->kind != YAML_LIST) {
        return yaml_fault(document, members, fault,
                          "write each member on a separate line as `- key: ...`",
                          "is not a list of members");
    }
    const struct yaml_node *item = is_empty ? NULL : members->child;
    for (; item != NULL; item = item->sibling) {
        TRY(read_row(document, item, list, fault));
    }
    return OK;
}

void allow_list_append(struct allow_list *list, const struct allow_list_row *row) {
    ASSERT(list->count < ALLOW_LIST_MAX);
    list->rows[list->count++] = *row;
}

void allow_list_erase(struct allow_list *list, uint32_t index) {
    ASSERT(index < list->count);
    list->count--;
    memmove(&list->rows[index], &list->rows[index + 1],
            (list->count - index) * sizeof list->rows[0]);
}

bool allow_list_is_stale(const char *path, const struct allow_list *list) {
    const struct file_stamp stamp = file_stamp_of(path);
    return !file_stamp_equal(&stamp, &list->stamp);
}

bool allow_list_is_missing(const char *path, const struct allow_list *list) {
    return list->stamp.inode != 0 && file_stamp_of(path).inode == 0;
}

/* Rejects an open list with fewer than ROSTER_VOTERS_MIN members. Guests never vote, so an open
 * list must name the members that do. */
static enum status check_voters(const struct yaml_document *document, const struct allow_list *list,
                                struct fault *fault) {
    if (!list->is_open || list->count >= ROSTER_VOTERS_MIN) {
        return OK;
    }
    return yaml_fault(
        document, yaml_find(document, "open"), fault,
        "add members with `skep roster add KEY`, or remove `open: true`",
        "is true, but the list has only %u members: an open swarm needs at least %d that vote",
        list->count, ROSTER_VOTERS_MIN);
}

/* Reads the stamp before the file, so that a file that changes during the reading will be read
 * again. */
static enum status read_list(const char *path, bool is_complete, struct allow_list *list,
                             struct fault *fault) {
    struct region region = {0};
    struct yaml_document document;
    list->stamp = file_stamp_of(path);
    if (list->stamp.inode == 0) {
        list->is_open = false;
        list->count = 0;
        return OK;
    }
    struct allow_list *read = region_alloc(&region, 1, sizeof *read);
    enum status status = yaml_open_file(path, &region, &document, fault);
    if (status == OK) {
        status = allow_list_parse_rows(&document, read, fault);
    }
    if (status == OK && is_complete) {
        status = check_voters(&document, read, fault);
    }
    if (status == OK) {
        read->stamp = list->stamp;
        memcpy(list, read, sizeof *list);
    }
    region_finish(&region);
    return status;
}

enum status allow_list_read(const char *path, struct allow_list *list, struct fault *fault) {
    return read_list(path, false, list, fault);
}

enum status allow_list_read_complete(const char *path, struct allow_list *list,
                                     struct fault *fault) {
    return read_list(path, true, list, fault);
}

enum { POLL_MS = 500 }; /* time between two checks of the file for changes */

enum status allow_list_watch_open(const char *path, const struct allow_list_authority *authority,
                                  struct region *region, struct allow_list_watch **watch,
                                  struct fault *fault) {
    struct allow_list_watch *opened = region_alloc(region, 1, sizeof *opened);
    opened->path = path;
    opened->authority = authority;
    TRY(allow_list_read_complete(path, &opened->list, fault));
    allow_list_watch_update_epoch(opened);
    *watch = opened;
    return OK;
}

/* Whether the file with the signed list exists and has changed since it was read. */
static bool is_signed_file_changed(const struct allow_list_watch *watch) {
    char path[ROSTER_PATH_BYTES];
    const struct file_stamp stamp = file_stamp_of(roster_file_path(watch->path, path));
    return watch->authority != NULL && stamp.inode != 0 &&
           !file_stamp_equal(&stamp, &watch->signed_stamp);
}

bool allow_list_watch_poll(struct allow_list_watch *watch, int64_t now_ms) {
    struct fault fault;
    const bool was_missing = watch->is_missing;
    if (now_ms < watch->poll_ms) {
        return false;
    }
    watch->poll_ms = now_ms + POLL_MS;
    watch->is_missing = allow_list_is_missing(watch->path, &watch->list);
    if (watch->is_missing && !was_missing) {
        log_line(LOG_WARNING,
                 "allow-list %s: the file is missing; keeping the keys that were read earlier",
                 watch->path);
    }
    if (is_signed_file_changed(watch)) {
        allow_list_watch_update_epoch(watch);
        return true;
    }
    if (watch->is_missing || !allow_list_is_stale(watch->path, &watch->list)) {
        return false;
    }
    if (allow_list_read_complete(watch->path, &watch->list, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; keeping the previous allow-list%s%s", fault.subject,
                 fault.reason, fault.remedy[0] == '\0' ? "" : "; ", fault.remedy);
        return false;
    }
    log_line(LOG_INFO, "allow-list %s: %u keys%s", watch->path, watch->list.count,
             watch->list.is_open ? ", open: other keys may join as guests" : "");
    allow_list_watch_update_epoch(watch);
    return true;
}
