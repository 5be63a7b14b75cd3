#include "runtime/swarm/tracker/allow_list_watch.h"

#include "base/log.h"

enum { POLL_MS = 500 };

enum status allow_list_watch_open(const char *path, struct region *region,
                                  struct allow_list_watch **watch, struct fault *fault) {
    struct allow_list_watch *opened = region_alloc(region, 1, sizeof *opened);
    opened->path = path;
    TRY(allow_list_read(path, &opened->list, fault));
    *watch = opened;
    return OK;
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
        log_line(LOG_WARNING, "allow-list %s: the file is missing; keeping the keys read before",
                 watch->path);
    }
    if (watch->is_missing || !allow_list_is_stale(watch->path, &watch->list)) {
        return false;
    }
    if (allow_list_read(watch->path, &watch->list, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; keeping the allow-list as it was", fault.subject,
                 fault.reason);
        return false;
    }
    log_line(LOG_INFO, "allow-list %s: %u keys%s", watch->path, watch->list.count,
             watch->list.open ? ", open to all" : "");
    return true;
}
