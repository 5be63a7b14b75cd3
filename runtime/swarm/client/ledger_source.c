#include "runtime/swarm/client/ledger_source.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"

#include <string.h>
#include <unistd.h>

/* The first bytes of every SQLite file. */
static const char SQLITE_SIGNATURE[] = "SQLite format 3";
enum { ANSWER_TIMEOUT_MS = 20000 }; /* time to wait for an answer of the tracker */

static enum status check_is_store(const char *path, bool *is_store, struct fault *fault) {
    char head[sizeof SQLITE_SIGNATURE] = {0};
    int fd;
    int64_t bytes;
    TRY(file_open_read(path, &fd, &bytes, fault));
    const size_t count = bytes < (int64_t)sizeof head ? (size_t)bytes : sizeof head;
    enum status status = file_read_at(fd, path, head, count, 0, fault);
    close(fd);
    *is_store = count == sizeof head && memcmp(head, SQLITE_SIGNATURE, sizeof head) == 0;
    return status;
}

static struct ledger_source *alloc_ledger_source(const char *path, struct region *region) {
    struct ledger_source *made = region_alloc(region, 1, sizeof *made);
    made->path = path;
    made->entry = region_alloc(region, 1, sizeof *made->entry);
    made->entry->slices = region_alloc(region, SWARM_SLICES_MAX, sizeof *made->entry->slices);
    return made;
}

enum status ledger_source_open(const char *path, struct region *region,
                               struct ledger_source **source, struct fault *fault) {
    bool is_store = false;
    TRY(check_is_store(path, &is_store, fault));
    struct ledger_source *opened = alloc_ledger_source(path, region);
    if (is_store) {
        opened->store = region_alloc(region, 1, sizeof *opened->store);
        TRY(ledger_store_open(path, region, opened->store, fault));
    } else {
        TRY(ledger_file_open(path, region, &opened->file, fault));
    }
    *source = opened;
    return OK;
}

enum status ledger_source_open_remote(const struct key_pairs *keys,
                                      const struct tracker_contact *tracker, struct region *region,
                                      struct ledger_source **source, struct fault *fault) {
    struct ledger_source *opened = alloc_ledger_source(tracker->address, region);
    TRY(tracker_client_open(keys, tracker, NULL, region, &opened->client, fault));
    *source = opened;
    return OK;
}

static enum status set_invalid_answer_fault(const struct ledger_source *source, const char *error,
                                            struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, source->location,
                     "use a member's copy of the ledger: the tracker's ledger is invalid",
                     "the entry %s", error);
}

/* Reads the next entry of the page received last into source->entry. */
static enum status read_entry(struct ledger_source *source, struct fault *fault) {
    const char *error = wire_next_ledger_entry(&source->page, source->entry->slices,
                                               SWARM_SLICES_MAX, source->entry);
    return error == NULL ? OK : set_invalid_answer_fault(source, error, fault);
}

static enum status query_page(struct ledger_source *source, struct fault *fault) {
    const struct tracker_query_args args = {.request = WIRE_LEDGER_REQUEST,
                                            .first_entry = source->index,
                                            .timeout_ms = ANSWER_TIMEOUT_MS};
    struct tracker_answer answer;
    TRY(tracker_query(source->client, &args, &answer, fault));
    const char *error = wire_read_ledger_page(answer.bytes, answer.count, &source->page);
    if (error == NULL && source->page.count == 0 && source->index < source->page.entry_count) {
        error = "cannot be read by the tracker from its store";
    }
    return error == NULL ? OK : set_invalid_answer_fault(source, error, fault);
}

static enum status query_next_entries(struct ledger_source *source, bool *more,
                                      struct fault *fault) {
    *more = false;
    if (source->page.count == 0) {
        TRY(query_page(source, fault));
    }
    *more = source->page.count > 0;
    return *more ? read_entry(source, fault) : OK;
}

static enum status read_next_stored_entry(struct ledger_source *source, bool *more,
                                          struct fault *fault) {
    *more = source->index < source->store->entry_count;
    return *more ? ledger_store_read(source->store, source->index, source->entry->slices,
                                     SWARM_SLICES_MAX, source->entry, fault)
                 : OK;
}

enum status ledger_source_next(struct ledger_source *source, bool *more, struct fault *fault) {
    struct text location = text_over(source->location, sizeof source->location);
    text_add(&location, "%.200s:%llu", source->path, (unsigned long long)source->index + 1);
    if (source->file != NULL) {
        TRY(ledger_file_next(source->file, more, fault));
        memcpy(source->location, source->file->location, sizeof source->location);
        source->entry = &source->file->entry;
        source->checkpoint = source->file->has_checkpoint ? source->file->checkpoint : NULL;
    } else if (source->store != NULL) {
        TRY(read_next_stored_entry(source, more, fault));
    } else {
        TRY(query_next_entries(source, more, fault));
    }
    source->index += *more;
    return OK;
}

void ledger_source_close(struct ledger_source *source) {
    if (source->file != NULL) {
        ledger_file_close(source->file);
    }
    if (source->store != NULL) {
        ledger_store_close(source->store);
    }
    if (source->client != NULL) {
        tracker_client_close(source->client);
    }
}
