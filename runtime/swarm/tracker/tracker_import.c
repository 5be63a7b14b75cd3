#include "runtime/swarm/tracker/tracker_import.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/client/ledger_source.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/tracker/tracker_durable.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Number of sessions, and of incarnations, that are left out after the highest known one. The
     * lost store cannot have used so many numbers after the last entry in the copy. */
    NUMBERS_SKIPPED = 1 << 10
};

static const char OTHER_COPY[] = "use a different member's copy";

/* The highest incarnation (in `chain`) and the highest member session in the copied ledger. Numbers
 * up to these must not be used again. */
struct highest_numbers {
    struct ledger_chain chain; /* the copied entries */
    uint32_t session;          /* highest member session */
};

static uint32_t skip_numbers(uint32_t number) {
    return number < UINT32_MAX - NUMBERS_SKIPPED ? number + NUMBERS_SKIPPED : UINT32_MAX - 1;
}

static enum status check_entry(const struct tracker_import *import,
                               const struct ledger_source *source, struct highest_numbers *imported,
                               struct fault *fault) {
    const struct entry *entry = source->entry;
    bool is_other =
        entry->kind == ENTRY_GENESIS && !hash_equal(&entry->manifest, &import->manifest);
    const char *error =
        is_other ? "is the genesis of a different swarm" : ledger_append(&imported->chain, entry);
    for (uint32_t seat = 0; error == NULL && seat < entry->seat_count; seat++) {
        uint32_t session = entry->seats[seat].session;
        imported->session = session > imported->session ? session : imported->session;
    }
    return error == NULL ? OK
                         : fault_set(fault, STATUS_INPUT, source->location, OTHER_COPY,
                                     "the entry %s", error);
}

static enum status copy_entries(const struct tracker_import *import, struct region *region,
                                struct ledger_store *store, struct highest_numbers *imported,
                                struct fault *fault) {
    struct ledger_source *source = NULL;
    bool more = true;
    enum status status = ledger_source_open(import->source_path, region, &source, fault);
    if (status != OK) {
        return status;
    }
    while (status == OK && more) {
        status = ledger_source_next(source, &more, fault);
        if (status == STATUS_INPUT && fault->remedy[0] == '\0') {
            snprintf(fault->remedy, sizeof fault->remedy, "%s", OTHER_COPY);
        }
        if (status == OK && source->checkpoint != NULL) {
            status =
                fault_set(fault, STATUS_INPUT, import->source_path,
                          "use the copy of a member that has read the whole ledger",
                          "begins with a checkpoint, at entry %llu: a tracker needs all entries",
                          (unsigned long long)source->checkpoint->entry_count);
        }
        if (status == OK && more) {
            status = check_entry(import, source, imported, fault);
        }
        if (status == OK && more) {
            status = ledger_store_append(store, source->entry, fault);
        }
    }
    ledger_source_close(source);
    return status == OK && store->entry_count == 0
               ? fault_set(fault, STATUS_INPUT, import->source_path, OTHER_COPY, "has no entries")
               : status;
}

static enum status set_next_numbers(const struct highest_numbers *imported, struct region *region,
                                    struct ledger_store *store, struct fault *fault) {
    struct tracker_record *record = region_alloc(region, 1, sizeof *record);
    uint8_t *bytes = region_alloc(region, RECORD_MEMBERS_BYTES_MAX, 1);
    record->next_session = skip_numbers(imported->session);
    size_t count = record_write_members(record, bytes);
    TRY(ledger_store_write_promise(store, TRACKER_MEMBERS, bytes, count, fault));
    return ledger_store_set_start_count(store, skip_numbers(imported->chain.incarnation), fault);
}

static enum status fill_store(const struct tracker_import *import, const char *path,
                              struct region *region, uint64_t *entry_count, struct fault *fault) {
    struct ledger_store store;
    struct highest_numbers *imported = region_alloc(region, 1, sizeof *imported);
    ledger_set_operator_key(&imported->chain, import->operator_key);
    TRY(ledger_store_open(path, region, &store, fault));
    enum status status = copy_entries(import, region, &store, imported, fault);
    if (status == OK) {
        status = set_next_numbers(imported, region, &store, fault);
    }
    *entry_count = store.entry_count;
    ledger_store_close(&store);
    return status;
}

/* Fails if the store contains entries. When the store is opened, SQLite also removes the log files
 * that a lost store has left. */
static enum status check_store_is_empty(const char *path, struct fault *fault) {
    struct region region = {0};
    struct ledger_store store;
    enum status status = ledger_store_open(path, &region, &store, fault);
    if (status == OK) {
        status = store.entry_count == 0
                     ? OK
                     : fault_set(fault, STATUS_INPUT, path, "start without --ledger",
                                 "already contains a ledger of %llu entries",
                                 (unsigned long long)store.entry_count);
        ledger_store_close(&store);
    }
    region_finish(&region);
    return status;
}

enum status tracker_import(const struct tracker_import *import, uint64_t *entry_count,
                           struct fault *fault) {
    struct region region = {0};
    char new_path[PATH_BYTES + 8];
    uint64_t count = 0;
    struct text name = text_over(new_path, sizeof new_path);
    text_add(&name, "%s.new", import->store_path);
    (void)unlink(new_path);
    enum status status = check_store_is_empty(import->store_path, fault);
    if (status == OK) {
        status = fill_store(import, new_path, &region, &count, fault);
    }
    region_finish(&region);
    if (status == OK) {
        status = file_publish(new_path, import->store_path, fault);
    }
    if (status != OK) {
        (void)unlink(new_path);
        return status;
    }
    *entry_count = count;
    return OK;
}

enum status tracker_store_has_entries(const char *path, bool *has, struct fault *fault) {
    struct region region = {0};
    struct ledger_store store;
    *has = false;
    if (!file_exists(path)) {
        return OK;
    }
    enum status status = ledger_store_open(path, &region, &store, fault);
    if (status == OK) {
        *has = store.entry_count > 0;
        ledger_store_close(&store);
    }
    region_finish(&region);
    return status;
}
