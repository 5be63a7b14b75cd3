#include "runtime/swarm/member/state_store.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "state-", TEMPORARY[] = "state.new";
enum {
    PREFIX_LENGTH = sizeof PREFIX - 1, /* number of characters of a file name before the digits */
    NAME_DIGITS = 16,                  /* number of hexadecimal digits of the root in a file name */
};

static void build_path(const struct state_store *store, const struct hash *root, char *path) {
    char hex[HASH_HEX_BYTES];
    char name[PREFIX_LENGTH + NAME_DIGITS + 1];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s%.*s", PREFIX, NAME_DIGITS, hash_hex(root, hex));
    path_join(store->folder, name, path, PATH_BYTES);
}

static void remove_file(const char *path) {
    if (unlink(path) != 0 && errno != ENOENT) {
        log_line(LOG_WARNING, "%s: cannot remove: %s", path, strerror(errno));
    }
}

static void remove_state(struct state_store *store, uint32_t index) {
    char path[PATH_BYTES];
    ASSERT(index < store->count);
    build_path(store, &store->states[index].root, path);
    remove_file(path);
    store->states[index] = store->states[--store->count];
}

/* ---- open ---- */

static uint32_t find_oldest_state(const struct state_store *store) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < store->count; i++) {
        oldest = store->states[i].commits < store->states[oldest].commits ? i : oldest;
    }
    return oldest;
}

/* Adds a state that was found in the folder. If the table is full, the oldest state is removed. */
static void add_found_state(struct state_store *store, const struct state_file_header *found) {
    if (store->count == STORED_STATES_MAX) {
        const uint32_t oldest = find_oldest_state(store);
        if (store->states[oldest].commits > found->commits) {
            char path[PATH_BYTES];
            build_path(store, &found->root, path);
            remove_file(path);
            return;
        }
        remove_state(store, oldest);
    }
    store->states[store->count++] = *found;
}

static void add_or_remove_file(struct state_store *store, const char *name) {
    struct state_file_header header;
    struct fault fault;
    char path[PATH_BYTES];
    char expected[PATH_BYTES];
    path_join(store->folder, name, path, sizeof path);
    if (state_file_read_header(path, &store->slices, &header, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; removing it", fault.subject, fault.reason);
        remove_file(path);
        return;
    }
    build_path(store, &header.root, expected);
    if (strcmp(path, expected) != 0) {
        log_line(LOG_WARNING, "%s: its name does not match its root; removing it", path);
        remove_file(path);
        return;
    }
    add_found_state(store, &header);
}

enum status state_store_open(const char *folder, const struct slices *slices,
                             struct state_store *store, struct fault *fault) {
    char path[PATH_BYTES];
    *store = (struct state_store){.folder = folder, .slices = *slices};
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return fault_set_errno(fault, STATUS_FAILED, folder, "cannot read the folder", errno);
    }
    for (const struct dirent *file = readdir(listing); file != NULL; file = readdir(listing)) {
        if (strncmp(file->d_name, PREFIX, PREFIX_LENGTH) == 0) {
            add_or_remove_file(store, file->d_name);
        }
    }
    closedir(listing);
    path_join(folder, TEMPORARY, path, sizeof path);
    (void)unlink(path);
    return OK;
}

/* ---- add and remove ---- */

static bool has_state_with_root(const struct state_store *store, const struct hash *root) {
    for (uint32_t i = 0; i < store->count; i++) {
        if (hash_equal(&store->states[i].root, root)) {
            return true;
        }
    }
    return false;
}

void state_store_remove_expired(struct state_store *store, uint32_t commits) {
    for (uint32_t i = store->count; i > 0; i--) {
        const uint32_t stored = store->states[i - 1].commits;
        if (stored > commits || !is_stored_state_retained(stored, commits)) {
            remove_state(store, i - 1);
        }
    }
}

enum status state_store_add(struct state_store *store, uint32_t round, uint32_t commits,
                            const struct replica *replica, struct fault *fault) {
    const struct state_file_header header = state_file_header_of(replica, round, commits);
    char path[PATH_BYTES];
    char temporary[PATH_BYTES];
    ASSERT(is_state_stored_after(commits));
    if (has_state_with_root(store, &header.root)) {
        return OK;
    }
    ASSERT(store->count < STORED_STATES_MAX);
    build_path(store, &header.root, path);
    path_join(store->folder, TEMPORARY, temporary, sizeof temporary);
    TRY(state_file_write(replica, &header, path, temporary, fault));
    store->states[store->count++] = header;
    return OK;
}

void state_store_list_roots(const struct state_store *store, struct hash *roots) {
    memset(roots, 0, STORED_STATES_MAX * sizeof *roots);
    for (uint32_t i = 0; i < store->count; i++) {
        roots[i] = store->states[i].root;
    }
}

/* ---- read ---- */

bool state_store_has_root(const struct state_store *store, const struct hash *root) {
    struct hash none;
    return state_store_read_hashes(store, root, 0, 0, &none);
}

bool state_store_read_hashes(const struct state_store *store, const struct hash *root,
                             uint64_t first, uint64_t count, struct hash *hashes) {
    char path[PATH_BYTES];
    build_path(store, root, path);
    return state_file_read_hashes(path, root, first, count, hashes);
}

size_t state_store_read_leaf(const struct state_store *store, const struct hash *root,
                             uint64_t index, uint8_t *bytes) {
    char path[PATH_BYTES];
    build_path(store, root, path);
    return state_file_read_leaf(path, &store->slices, root, index, bytes);
}
