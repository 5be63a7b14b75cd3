#include "runtime/swarm/tracker/tracker_durable.h"

#include "base/file.h"
#include "base/hash.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/packer/packer.h"

#include <string.h>
#include <sys/random.h>

/* Names of the values in the store, and the path of the file with this machine's id. */
static const char MEMBERS[] = TRACKER_MEMBERS, TABLE[] = "table", RESIGNATIONS[] = "resignations",
                  SPEEDS[] = "speeds", PLACE[] = "place", MACHINE_ID[] = "/etc/machine-id";
static const char DAMAGED_REMEDY[] =
    "restore a copy of the store, or move it away and import a member's ledger with --ledger FILE";

enum {
    PROMISES_MAX = 4, /* maximum promises in one write: members, table, resignations, speeds */
    PLACE_FORMAT = 1, /* version of the stored form of the store's place */
    /* maximum size of the stored form of the store's place */
    PLACE_BYTES_MAX = PACKER_MAP_BYTES_MAX + 3 * PACKER_FIELD_BYTES_MAX + HASH_BYTES,
    MACHINE_ID_BYTES = 64, /* size of the longest id of a machine, with its NUL */
};

static void alloc_part(struct durable_part *part, size_t capacity, struct region *region) {
    part->stored = region_alloc(region, capacity, 1);
    part->next = region_alloc(region, capacity, 1);
}

static enum status set_damaged_promise_fault(const struct tracker_durable *durable,
                                             const char *what, const char *error,
                                             struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, durable->store.path, DAMAGED_REMEDY,
                     "the stored value \"%s\" %s", what, error);
}

static enum status load_part(struct tracker_durable *durable, const char *name,
                             struct durable_part *part, size_t capacity, struct fault *fault) {
    return ledger_store_read_promise(&durable->store, name, part->stored, capacity,
                                     &part->stored_count, fault);
}

static enum status load_members(struct tracker_durable *durable, struct tracker_record *record,
                                struct fault *fault) {
    struct durable_part *part = &durable->members;
    enum status status = load_part(durable, MEMBERS, part, RECORD_MEMBERS_BYTES_MAX, fault);
    record->next_session = 1;
    if (status != OK || part->stored_count == 0) {
        return status;
    }
    const char *error = record_read_members(part->stored, part->stored_count, record);
    return error == NULL ? OK : set_damaged_promise_fault(durable, MEMBERS, error, fault);
}

static enum status load_table(struct tracker_durable *durable, struct tracker_record *record,
                              struct fault *fault) {
    struct durable_part *part = &durable->table;
    size_t capacity = record_table_bytes_max(durable->slice_count);
    enum status status = load_part(durable, TABLE, part, capacity, fault);
    if (status != OK || part->stored_count == 0) {
        return status;
    }
    const char *error =
        record_read_table(part->stored, part->stored_count, durable->slice_count, record);
    if (error != NULL) {
        return set_damaged_promise_fault(durable, TABLE, error, fault);
    }
    return OK;
}

static enum status load_resignations(struct tracker_durable *durable, struct tracker_record *record,
                                     struct fault *fault) {
    struct durable_part *part = &durable->resignations;
    enum status status =
        load_part(durable, RESIGNATIONS, part, RECORD_RESIGNATIONS_BYTES_MAX, fault);
    if (status != OK || part->stored_count == 0) {
        return status;
    }
    const char *error = record_read_resignations(part->stored, part->stored_count, record);
    return error == NULL ? OK : set_damaged_promise_fault(durable, RESIGNATIONS, error, fault);
}

static enum status load_speeds(struct tracker_durable *durable, struct tracker_record *record,
                               struct fault *fault) {
    struct durable_part *part = &durable->speeds;
    enum status status = load_part(durable, SPEEDS, part, RECORD_SPEEDS_BYTES_MAX, fault);
    if (status != OK || part->stored_count == 0) {
        return status;
    }
    const char *error = record_read_speeds(part->stored, part->stored_count, record);
    return error == NULL ? OK : set_damaged_promise_fault(durable, SPEEDS, error, fault);
}

/* Loads the newest entry, the newest entry that made a root current, and the root that was current
 * before. Entries of open or aborted rounds may lie between the two. */
static enum status load_commit(struct tracker_durable *durable, struct tracker_record *record,
                               struct fault *fault) {
    struct ledger_store *store = &durable->store;
    struct entry *commit = &record->commit;
    uint64_t number = store->entry_count;
    enum status status = OK;
    do {
        status =
            ledger_store_read(store, --number, commit->slices, durable->slice_count, commit, fault);
        if (status == OK && number == store->entry_count - 1) {
            entry_copy(&record->head, commit);
        }
    } while (status == OK && number > 0 && !entry_sets_state(commit->kind));
    if (status == OK && number > 0) {
        status = ledger_store_read(store, number - 1, durable->entry.slices, durable->slice_count,
                                   &durable->entry, fault);
        record->base_root = durable->entry.root;
    }
    return status;
}

enum status tracker_durable_replay(struct tracker_durable *durable, struct tracker *tracker,
                                   struct fault *fault) {
    struct ledger_store *store = &durable->store;
    struct entry *entry = &durable->entry;
    uint64_t numbers[TRACKER_REPLAY_ENTRIES];
    uint32_t count = 0;
    for (uint64_t number = store->entry_count; number > 0 && count < TRACKER_REPLAY_ENTRIES;) {
        TRY(ledger_store_read(store, --number, entry->slices, durable->slice_count, entry, fault));
        if (entry_sets_state(entry->kind)) {
            numbers[count++] = number;
        }
    }
    while (count > 0) {
        TRY(ledger_store_read(store, numbers[--count], entry->slices, durable->slice_count, entry,
                              fault));
        tracker_replay_entry(tracker, entry);
    }
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        const uint64_t number = durable->suspended_at[row];
        if (number > 0) {
            TRY(ledger_store_read(store, number, entry->slices, durable->slice_count, entry,
                                  fault));
            tracker_replay_entry(tracker, entry);
        }
    }
    return OK;
}

static void advance_chain(struct tracker_durable *durable, const struct entry *entry) {
    ledger_checkpoint_update(&durable->checkpoint, &durable->chain, entry);
    ledger_advance(&durable->chain, entry);
}

/* Records the index of a SUSPEND entry, because the term of the next suspension of the same member
 * follows from its last one, however old that is. */
static void record_suspension(struct tracker_durable *durable,
                              const struct tracker_record *record) {
    const struct entry *entry = &durable->entry;
    for (uint32_t row = 0; entry->kind == ENTRY_SUSPEND && row < record->member_count; row++) {
        if (memcmp(&record->members[row].id, &entry->suspension.id, sizeof(struct identity)) == 0) {
            durable->suspended_at[row] = durable->chain.entry_count;
        }
    }
}

/* Reads the whole ledger, to know the state of its chain and the suspensions of members. */
static enum status load_chain(struct tracker_durable *durable, struct tracker_record *record,
                              struct fault *fault) {
    struct ledger_store *store = &durable->store;
    struct entry *entry = &durable->entry;
    while (durable->chain.entry_count < store->entry_count) {
        TRY(ledger_store_read(store, durable->chain.entry_count, entry->slices,
                              durable->slice_count, entry, fault));
        record_suspension(durable, record);
        advance_chain(durable, entry);
    }
    record->chain = ledger_chain_hash(&durable->chain);
    return OK;
}

static enum status check_ledger_of_swarm(struct tracker_durable *durable,
                                         const struct durable_options *options,
                                         struct fault *fault) {
    char found[HASH_HEX_BYTES], expected[HASH_HEX_BYTES];
    struct entry *first = &durable->entry;
    TRY(ledger_store_read(&durable->store, 0, first->slices, durable->slice_count, first, fault));
    bool same_manifest = hash_equal(&first->manifest, &options->manifest);
    if (first->kind == ENTRY_GENESIS && same_manifest && hash_equal(&first->root, &options->root)) {
        return OK;
    }
    const struct hash *stored = same_manifest ? &first->root : &first->manifest;
    const struct hash *given = same_manifest ? &options->root : &options->manifest;
    return fault_set(fault, STATUS_INPUT, durable->store.path,
                     "use a different --state folder for this swarm",
                     "contains the ledger of a different swarm: its %s is %.16s, not %.16s",
                     same_manifest ? "first root" : "manifest", hash_hex(stored, found),
                     hash_hex(given, expected));
}

static void sign_entry(struct tracker_durable *durable) {
    struct entry *entry = &durable->entry;
    entry->hash = entry_hash(entry);
    entry->signature_count = 1;
    entry->signatures[0].seat = 0;
    ledger_sign(durable->keys, &entry->hash, &entry->signatures[0].signature);
}

static enum status write_genesis(struct tracker_durable *durable,
                                 const struct durable_options *options, struct fault *fault) {
    durable->entry.kind = ENTRY_GENESIS;
    durable->entry.incarnation = durable->incarnation;
    durable->entry.manifest = options->manifest;
    durable->entry.root = options->root;
    durable->entry.leases.are_needed = options->needs_leases;
    if (options->delegation != NULL) {
        durable->entry.documents.delegation = *options->delegation;
    }
    sign_entry(durable);
    return ledger_store_append(&durable->store, &durable->entry, fault);
}

/* The place of a store, as it is stored: a MessagePack map {format, place, file}. */
struct stored_place {
    uint32_t place;   /* place of the store (struct tracker_start) */
    struct hash file; /* identity of the file in which the place was stored */
};

static void pack_place(struct packer *packer, void *object) {
    struct stored_place *stored = object;
    uint32_t version = PLACE_FORMAT;
    pack_u32(packer, "format", &version);
    if (version != PLACE_FORMAT) {
        packer_fail(packer, "has an unknown version");
    }
    pack_u32(packer, "place", &stored->place);
    if (stored->place == 0 || stored->place > INT32_MAX) {
        packer_fail(packer, "has a place outside its range");
    }
    pack_bytes(packer, "file", stored->file.bytes, HASH_BYTES);
}

/* Returns a hash of the file's inode, its creation time and the id of this machine. Some machines,
 * such as containers, have no id. */
static struct hash identify_file(const char *path) {
    const struct file_instance instance = file_instance_of(path);
    char machine[MACHINE_ID_BYTES] = "";
    size_t length = 0;
    struct fault ignored;
    struct hash_state hashing;
    if (file_read_text(MACHINE_ID, machine, sizeof machine, &length, &ignored) != OK) {
        length = 0;
    }
    hash_begin(&hashing);
    hash_add(&hashing, &instance.inode, sizeof instance.inode);
    hash_add(&hashing, &instance.created_ns, sizeof instance.created_ns);
    hash_add(&hashing, machine, length);
    return hash_end(&hashing);
}

static uint32_t draw_place(void) {
    uint32_t drawn = 0;
    ssize_t count = getrandom(&drawn, sizeof drawn, 0);
    ASSERT(count == (ssize_t)sizeof drawn);
    return 1 + drawn % INT32_MAX;
}

/* Sets the place of the store. Draws and stores a new place if the file is a copy of the one in
 * which the place was stored, or if the file's creation time is unknown, because a copy on another
 * file system may have the same inode. A clone of a whole file system or machine is not
 * detected. */
static enum status set_place(struct tracker_durable *durable, struct fault *fault) {
    struct ledger_store *store = &durable->store;
    struct stored_place stored = {0};
    uint8_t bytes[PLACE_BYTES_MAX];
    size_t count = 0;
    const struct hash file = identify_file(store->path);
    TRY(ledger_store_read_promise(store, PLACE, bytes, sizeof bytes, &count, fault));
    if (count > 0) {
        const char *error = packer_read((struct packed_object){pack_place, &stored}, bytes, count);
        if (error != NULL) {
            return set_damaged_promise_fault(durable, PLACE, error, fault);
        }
    }
    const bool has_identity = file_instance_of(store->path).created_ns != 0;
    if (count == 0 || !has_identity || !hash_equal(&stored.file, &file)) {
        stored = (struct stored_place){.place = draw_place(), .file = file};
        count = packer_write((struct packed_object){pack_place, &stored}, bytes, sizeof bytes);
        TRY(ledger_store_write_promise(store, PLACE, bytes, count, fault));
    }
    durable->place = stored.place;
    return OK;
}

static enum status load_state(struct tracker_durable *durable,
                              const struct durable_options *options, struct tracker_record *record,
                              struct fault *fault) {
    if (durable->store.entry_count > 0) { /* checked before the first write to the store */
        TRY(check_ledger_of_swarm(durable, options, fault));
    }
    TRY(ledger_store_count_start(&durable->store, &durable->incarnation, fault));
    TRY(set_place(durable, fault));
    if (durable->store.entry_count == 0) {
        TRY(write_genesis(durable, options, fault));
    }
    TRY(load_commit(durable, record, fault));
    TRY(load_members(durable, record, fault));
    TRY(load_speeds(durable, record, fault));
    TRY(load_resignations(durable, record, fault));
    TRY(load_chain(durable, record, fault));
    TRY(load_table(durable, record, fault));
    record->incarnation = durable->incarnation;
    return OK;
}

enum status tracker_durable_open(const struct durable_options *options, struct region *region,
                                 struct tracker_durable *durable, struct tracker_record *record,
                                 struct fault *fault) {
    memset(durable, 0, sizeof *durable);
    durable->keys = options->keys;
    durable->slice_count = options->slice_count;
    TRY(ledger_store_open(options->path, region, &durable->store, fault));
    durable->entry.slices =
        region_alloc(region, options->slice_count, sizeof *durable->entry.slices);
    alloc_part(&durable->members, RECORD_MEMBERS_BYTES_MAX, region);
    alloc_part(&durable->resignations, RECORD_RESIGNATIONS_BYTES_MAX, region);
    alloc_part(&durable->speeds, RECORD_SPEEDS_BYTES_MAX, region);
    alloc_part(&durable->table, record_table_bytes_max(options->slice_count), region);
    enum status status = load_state(durable, options, record, fault);
    if (status != OK) {
        ledger_store_close(&durable->store);
    }
    return status;
}

void tracker_durable_close(struct tracker_durable *durable) {
    ledger_store_close(&durable->store);
}

/* Adds hash and signature to an entry. Returns an error for an invalid entry, and for a COMMIT
 * whose hash is not the one that its voters signed. Such an entry must not be written, because the
 * chain could then not be verified. */
static const char *complete_entry(struct tracker_durable *durable, const struct entry *entry) {
    entry_copy(&durable->entry, entry);
    if (entry->kind != ENTRY_COMMIT) {
        sign_entry(durable);
        return entry_error(&durable->entry);
    }
    const struct hash hash = entry_hash(&durable->entry);
    return hash_equal(&hash, &entry->hash) ? entry_error(&durable->entry)
                                           : "has a hash that the votes of its quorum do not sign";
}

static bool is_part_changed(const struct durable_part *part) {
    return part->stored_count != part->next_count ||
           memcmp(part->stored, part->next, part->next_count) != 0;
}

static void mark_part_stored(struct durable_part *part) {
    uint8_t *old = part->stored;
    part->stored = part->next;
    part->stored_count = part->next_count;
    part->next = old;
}

/* Encodes the parts of the record, and lists those that differ from the store. Returns their
 * number. */
static uint32_t list_changed_parts(struct tracker_durable *durable,
                                   const struct tracker_record *record,
                                   struct store_promise promises[static PROMISES_MAX]) {
    uint32_t count = 0;
    durable->members.next_count = record_write_members(record, durable->members.next);
    durable->table.next_count =
        record_write_table(record, durable->slice_count, durable->table.next);
    durable->resignations.next_count =
        record_write_resignations(record, durable->resignations.next);
    durable->speeds.next_count = record_write_speeds(record, durable->speeds.next);
    const struct {
        const char *name;
        const struct durable_part *part;
    } parts[PROMISES_MAX] = {{MEMBERS, &durable->members},
                             {TABLE, &durable->table},
                             {RESIGNATIONS, &durable->resignations},
                             {SPEEDS, &durable->speeds}};
    for (uint32_t i = 0; i < PROMISES_MAX; i++) {
        if (is_part_changed(parts[i].part)) {
            promises[count++] = (struct store_promise){parts[i].name, parts[i].part->next,
                                                       parts[i].part->next_count};
        }
    }
    return count;
}

void tracker_durable_write(struct tracker_durable *durable, const struct action *action,
                           struct event *event, struct fault *fault) {
    struct store_promise promises[PROMISES_MAX];
    *event = (struct event){.kind = EVENT_WRITTEN, .write_outcome = WRITE_FAILED};
    const char *error = action->entry == NULL ? NULL : complete_entry(durable, action->entry);
    if (error != NULL) {
        fault_set(fault, STATUS_FAILED, durable->store.path, NULL, "the entry of round %u %s",
                  action->entry->round, error);
        return;
    }
    const struct store_transaction write = {
        .incarnation = durable->incarnation,
        .entry = action->entry == NULL ? NULL : &durable->entry,
        .promises = promises,
        .promise_count = list_changed_parts(durable, action->record, promises)};
    event->write_outcome = ledger_store_write(&durable->store, &write, fault);
    if (event->write_outcome != WRITE_OK) {
        return;
    }
    mark_part_stored(&durable->members);
    mark_part_stored(&durable->table);
    mark_part_stored(&durable->resignations);
    mark_part_stored(&durable->speeds);
    if (action->entry != NULL) {
        advance_chain(durable, &durable->entry);
        event->hash = durable->entry.hash;
        event->chain = ledger_chain_hash(&durable->chain);
        event->signature = durable->entry.signatures[0].signature;
    }
}
