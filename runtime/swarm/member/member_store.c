#include "runtime/swarm/member/member_store.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/leases/lease_file.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char RESULTS_PREFIX[] = "results-";
/* number of characters of a results file's name before the round */
enum { RESULTS_PREFIX_LENGTH = sizeof RESULTS_PREFIX - 1 };

/* ---- the lock ---- */

static enum status acquire_lock(struct member_store *store, struct fault *fault) {
    path_join(store->folder, "lock", store->path, PATH_BYTES);
    char holder[FILE_HOLDER_BYTES];
    int fd;
    TRY(file_lock(store->path, &fd, holder, fault));
    if (fd < 0) {
        return fault_set(fault, STATUS_INPUT, store->folder, "wait until it ends, or stop it",
                         "another member, process %s, already uses this folder", holder);
    }
    store->lock_fd = fd;
    return OK;
}

/* ---- the swarm that the folder belongs to ---- */

static const char USE_OTHER_FOLDER[] =
    "set XDG_STATE_HOME to another folder, or move this one away";

static enum status write_swarm_hash(struct member_store *store, const char *recorded_hash,
                                    struct fault *fault) {
    path_join(store->folder, "swarm.new", store->temporary, PATH_BYTES);
    return file_replace(store->path, store->temporary, recorded_hash, strlen(recorded_hash), fault);
}

/* Reads the manifest hash from the folder's file `swarm` into `recorded_hash`, which is
 * unchanged if the folder is new. */
static enum status read_swarm_hash(const struct member_store *store,
                                   const struct hash *ledger_swarm,
                                   char recorded_hash[static HASH_HEX_BYTES], struct fault *fault) {
    size_t length = 0;
    if (file_exists(store->path)) {
        return file_read_text(store->path, recorded_hash, HASH_HEX_BYTES, &length, fault);
    }
    if (ledger_swarm != NULL) {
        hash_hex(ledger_swarm, recorded_hash);
    } else if (store->newest > 0 || !entry_journal_is_empty(&store->journal)) {
        return fault_set(fault, STATUS_INPUT, store->folder, USE_OTHER_FOLDER,
                         "contains rounds, but no record of the swarm that they belong to");
    }
    return OK;
}

enum status member_store_claim_folder(struct member_store *store, const struct hash *manifest,
                                      const struct hash *ledger_swarm, struct fault *fault) {
    char recorded_hash[HASH_HEX_BYTES], expected[HASH_HEX_BYTES];
    path_join(store->folder, "swarm", store->path, PATH_BYTES);
    hash_hex(manifest, expected);
    hash_hex(manifest, recorded_hash);
    TRY(read_swarm_hash(store, ledger_swarm, recorded_hash, fault));
    if (strcmp(recorded_hash, expected) != 0) {
        return fault_set(fault, STATUS_INPUT, store->folder, USE_OTHER_FOLDER,
                         "belongs to another swarm, with manifest %.16s; this swarm has %.16s",
                         recorded_hash, expected);
    }
    return file_exists(store->path) ? OK : write_swarm_hash(store, expected, fault);
}

/* ---- results ---- */

static void build_results_path(const struct member_store *store, uint32_t round, char *path) {
    char name[RESULTS_PREFIX_LENGTH + 16];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s%u", RESULTS_PREFIX, round);
    path_join(store->folder, name, path, PATH_BYTES);
}

static void set_results_path(const struct member_store *store, uint32_t round) {
    build_results_path(store, round, store->path);
}

static void set_temporary_path(const struct member_store *store) {
    path_join(store->folder, "results.new", store->temporary, PATH_BYTES);
}

/* Extends the range of rounds that may have stored results, so that it includes `round`. */
static void record_stored_round(struct member_store *store, uint32_t round) {
    if (store->newest == 0 || round < store->oldest) {
        store->oldest = round;
    }
    store->newest = round > store->newest ? round : store->newest;
    ASSERT(store->oldest > 0 && store->oldest <= store->newest);
}

static enum status find_stored_rounds(struct member_store *store, struct fault *fault) {
    DIR *listing = opendir(store->folder);
    if (listing == NULL) {
        return fault_set_errno(fault, STATUS_FAILED, store->folder, "cannot read the folder",
                               errno);
    }
    for (const struct dirent *file = readdir(listing); file != NULL; file = readdir(listing)) {
        int64_t round;
        if (strncmp(file->d_name, RESULTS_PREFIX, RESULTS_PREFIX_LENGTH) == 0 &&
            text_parse_i64(file->d_name + RESULTS_PREFIX_LENGTH, &round) && round > 0 &&
            round <= UINT32_MAX) {
            record_stored_round(store, (uint32_t)round);
        }
    }
    closedir(listing);
    set_temporary_path(store);
    (void)unlink(store->temporary);
    return OK;
}

enum status member_store_add_results(struct member_store *store, const struct entry *entry,
                                     const struct replica *replica, struct fault *fault) {
    set_results_path(store, entry->round);
    set_temporary_path(store);
    TRY(result_file_write(&store->files, entry, replica_result(replica, entry->round, 0),
                          store->path, store->temporary, fault));
    record_stored_round(store, entry->round);
    return OK;
}

enum status member_store_read_results(struct member_store *store, uint32_t round,
                                      const struct replica *replica, struct slice_report *reports,
                                      struct fault *fault) {
    set_results_path(store, round);
    return result_file_read(&store->files, store->path, round, replica_result(replica, round, 0),
                            reports, fault);
}

/* ---- the lease ---- */

enum status member_store_write_lease(const struct member_store *store, const struct hash *manifest,
                                     const struct lease *lease, struct fault *fault) {
    if (hash_is_zero(&lease->state)) {
        return OK;
    }
    path_join(store->folder, "lease", store->path, PATH_BYTES);
    return lease_file_write(store->path, manifest, lease, fault);
}

enum status member_store_read_lease(const struct member_store *store, const struct hash *manifest,
                                    struct lease *lease, struct fault *fault) {
    path_join(store->folder, "lease", store->path, PATH_BYTES);
    return lease_file_read(store->path, manifest, lease, fault);
}

/* Returns the number of rounds whose results are kept: together they are smaller than the state,
 * because otherwise a state fetch transfers fewer bytes than a replay. */
static uint32_t rounds_to_keep(const struct slices *slices) {
    uint64_t count = replica_state_bytes(slices) / slices_results_bytes(slices);
    return count < REPLAY_ROUNDS_MAX ? (uint32_t)count : REPLAY_ROUNDS_MAX;
}

static void remove_results(struct member_store *store, uint32_t round) {
    for (; store->newest > 0 && store->oldest <= round; store->oldest++) {
        set_results_path(store, store->oldest);
        if (unlink(store->path) != 0 && errno != ENOENT) {
            log_line(LOG_WARNING, "%s: cannot remove: %s", store->path, strerror(errno));
        }
        if (store->oldest == store->newest) {
            store->newest = 0;
        }
    }
}

/* ---- the store ---- */

enum status member_store_open(const char *folder, const struct slices *slices,
                              struct region *region, struct member_store *store,
                              struct fault *fault) {
    struct member_store opened = {.folder = folder,
                                  .path = region_alloc(region, PATH_BYTES, 1),
                                  .temporary = region_alloc(region, PATH_BYTES, 1)};
    result_files_init(slices, region, &opened.files);
    TRY(file_make_folders(folder, fault));
    TRY(acquire_lock(&opened, fault));
    enum status status = find_stored_rounds(&opened, fault);
    if (status == OK) {
        path_join(folder, "journal", opened.path, PATH_BYTES);
        status = entry_journal_open(region_copy_text(region, opened.path), slices->count, region,
                                    &opened.journal, fault);
    }
    if (status != OK) {
        close(opened.lock_fd);
        return status;
    }
    *store = opened;
    return OK;
}

void member_store_close(struct member_store *store) {
    entry_journal_close(&store->journal);
    close(store->lock_fd);
}

enum status member_store_add_commit(struct member_store *store, const struct entry *entry,
                                    struct fault *fault) {
    return entry_journal_append(&store->journal, entry, fault);
}

enum status member_store_discard_before(struct member_store *store, uint32_t round,
                                        struct fault *fault) {
    uint32_t kept = rounds_to_keep(&store->files.slices);
    TRY(entry_journal_clear(&store->journal, fault));
    if (round > kept) {
        remove_results(store, round - kept);
    }
    return OK;
}

bool member_store_read_result(const struct member_store *store, uint32_t round, uint32_t slice,
                              const struct hash *hash, uint8_t *bytes) {
    char path[PATH_BYTES];
    build_results_path(store, round, path);
    return result_file_read_slice(&store->files.slices, path, round, slice, hash, bytes);
}
