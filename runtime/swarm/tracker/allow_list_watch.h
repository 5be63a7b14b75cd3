/* allow_list_watch: the allow-list as its file says now. A file that disappears or that cannot be
 * read changes nothing. */
#ifndef SKEP_SWARM_TRACKER_ALLOW_LIST_WATCH_H
#define SKEP_SWARM_TRACKER_ALLOW_LIST_WATCH_H

#include "base/region.h"
#include "runtime/swarm/tracker/allow_list.h"

struct allow_list_watch {
    const char *path;
    struct allow_list list;
    bool is_missing; /* the file was read before, and does not exist now */
    int64_t poll_ms; /* when the next look at the file is due */
};

/* allow_list_watch_open: read the file for the first time. `path` is kept.
 * errors  those of allow_list_read */
MUST_CHECK enum status allow_list_watch_open(const char *path, struct region *region,
                                             struct allow_list_watch **watch, struct fault *fault);

/* allow_list_watch_poll: read the file if it has changed. True when the list is a new one. */
MUST_CHECK bool allow_list_watch_poll(struct allow_list_watch *watch, int64_t now_ms);

#endif
