#include "runtime/swarm/client/ledger_source.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry_bytes.h"
#include "runtime/swarm/ledger/packer.h"

#include <string.h>
#include <unistd.h>

/* How every SQLite file begins. */
static const char STORE_MARK[] = "SQLite format 3";
enum { ANSWER_MS = 20000 };

static enum status is_store(const char *path, bool *store, struct fault *fault) {
    char head[sizeof STORE_MARK];
    int fd;
    int64_t bytes;
    enum status status = file_open_read(path, &fd, &bytes, fault);
    if (status != OK) {
        return status;
    }
    bool long_enough = bytes >= (int64_t)sizeof head;
    status = long_enough ? file_read_at(fd, path, head, sizeof head, 0, fault) : OK;
    close(fd);
    if (status == OK) {
        *store = long_enough && memcmp(head, STORE_MARK, sizeof head) == 0;
    }
    return status;
}

static struct ledger_source *make(const char *path, struct region *region) {
    struct ledger_source *made = region_alloc(region, 1, sizeof *made);
    made->path = path;
    made->entry = region_alloc(region, 1, sizeof *made->entry);
    made->entry->slices = region_alloc(region, SWARM_SLICES_MAX, sizeof *made->entry->slices);
    return made;
}

enum status ledger_source_open(const char *path, struct region *region,
                               struct ledger_source **source, struct fault *fault) {
    bool store = false;
    enum status status = is_store(path, &store, fault);
    if (status != OK) {
        return status;
    }
    struct ledger_source *opened = make(path, region);
    if (store) {
        opened->store = region_alloc(region, 1, sizeof *opened->store);
        status = ledger_store_open(path, region, opened->store, fault);
    } else {
        status = ledger_file_open(path, region, &opened->file, fault);
    }
    if (status == OK) {
        *source = opened;
    }
    return status;
}

enum status ledger_source_open_remote(const struct key_pairs *keys,
                                      const struct join_string *tracker, struct region *region,
                                      struct ledger_source **source, struct fault *fault) {
    struct ledger_source *opened = make(tracker->address, region);
    enum status status = tracker_client_open(keys, tracker, region, &opened->asker, fault);
    if (status == OK) {
        *source = opened;
    }
    return status;
}

/* One record of those that came with the last answer. */
static enum status take_record(struct ledger_source *source, struct fault *fault) {
    struct entry_slice *slices = source->entry->slices;
    struct packer pack = packer_reading(source->answer.bytes, source->answer.count);
    memset(source->entry, 0, sizeof *source->entry);
    source->entry->slices = slices;
    entry_pack(&pack, source->entry, SWARM_SLICES_MAX);
    entry_pack_proof(&pack, source->entry);
    const char *wrong = pack.wrong != NULL ? pack.wrong : entry_error(source->entry);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_INPUT, source->place,
                         "ask a member for its ledger: this tracker's cannot be trusted", "%s",
                         wrong);
    }
    source->answer.bytes += pack.at;
    source->answer.count -= pack.at;
    return OK;
}

static enum status ask_next(struct ledger_source *source, bool *more, struct fault *fault) {
    const struct tracker_query_args question = {
        .ask = WIRE_LEDGER_REQUEST, .offset = source->number, .timeout_ms = ANSWER_MS};
    enum status status = OK;
    if (source->answer.count == 0) {
        status = tracker_query(source->asker, &question, &source->answer, fault);
    }
    *more = status == OK && source->answer.count > 0;
    return *more ? take_record(source, fault) : status;
}

static enum status read_next(struct ledger_source *source, bool *more, struct fault *fault) {
    *more = source->number < source->store->count;
    return *more ? ledger_store_read(source->store, source->number, source->entry->slices,
                                     SWARM_SLICES_MAX, source->entry, fault)
                 : OK;
}

enum status ledger_source_next(struct ledger_source *source, bool *more, struct fault *fault) {
    enum status status;
    struct text place = text_over(source->place, sizeof source->place);
    text_add(&place, "%.200s:%llu", source->path, (unsigned long long)source->number + 1);
    if (source->file != NULL) {
        status = ledger_file_next(source->file, more, fault);
        source->entry = &source->file->entry;
    } else {
        status = (source->store != NULL ? read_next : ask_next)(source, more, fault);
    }
    source->number += status == OK && *more;
    return status;
}

void ledger_source_close(struct ledger_source *source) {
    if (source->file != NULL) {
        ledger_file_close(source->file);
    }
    if (source->store != NULL) {
        ledger_store_close(source->store);
    }
    if (source->asker != NULL) {
        tracker_client_close(source->asker);
    }
}
