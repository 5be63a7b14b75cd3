/* The tracker room: the process that coordinates a swarm. It listens for members and clients, and
 * feeds their messages to the tracker's state machine (runtime/swarm/protocol). What that promises
 * is durable in `tracker.db` before a message about it is sent. The room owns the tracker's store,
 * the operator's allow-list, the address book of the members, and the answers to queries for
 * manifest, swarm status and ledger. `skep track` runs it; `skep roster` edits the allow-list.
 *
 *     sockets ──► frames ──► state machine ──► promises ──► store ──► messages ──► sockets
 *                   │
 *                   └──► introductions and queries are answered without the state machine
 *
 * One thread does everything. All frames that have arrived are handled before a deadline is
 * checked, so that members are not blamed for a tracker that did not run. All memory of the tracker
 * is in the region before the first frame; later only ZeroMQ, SQLite and a changed allow-list
 * allocate.
 *
 * public   allow_list.h tracker_import.h */
#ifndef SKEP_SWARM_TRACKER_TRACKER_H
#define SKEP_SWARM_TRACKER_TRACKER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/tracker.h"
#include "transport/identity/keys.h"

#include <stddef.h>
#include <stdint.h>

struct tracker_loop; /* in the region */

struct tracker_loop_options {
    const struct key_pairs *keys;
    const char *name;            /* of the swarm */
    const char *listen;          /* "tcp://ADDRESS:PORT", port * for any */
    const char *store_path;      /* an SQLite file: ledger and promises */
    const char *allow_list_path; /* read again when it changes; it may be missing */
    const uint8_t *manifest;     /* sent as it is */
    size_t manifest_bytes;       /* at most MANIFEST_BYTES_MAX */
    struct hash manifest_hash;
    struct hash genesis_root;
    struct tracker_settings settings;
    uint32_t members_max;   /* 1 .. SWARM_MEMBERS_MAX; a full swarm admits no more */
    uint32_t queued_frames; /* as in messenger_options */
    uint32_t strangers_max; /* connections from keys that are not on the allow-list; 0: default */
    uint32_t idle_ms;       /* until an idle guest is disconnected; 0: default */
    int stop_fd;            /* tracker_loop_run returns when it is readable; -1: never */
    /* Called at each of tracker_crash_points, by tests that kill the process there; else NULL. */
    void (*on_crash_point)(void *context, const char *name);
    void *crash_point_context;
};

/* tracker_loop_bytes: memory of the tracker in the region, without the store's. */
uint64_t tracker_loop_bytes(const struct tracker_loop_options *options);

/* tracker_crash_points: the names of all crash points, ended by NULL: "before write open", "after
 * write open", "before send table" and so on. */
const char *const *tracker_crash_points(void);

/* tracker_loop_open: open the store, the allow-list and the sockets. A restarted tracker resumes
 * from its store. Everything that `options` points to must outlive the loop.
 * errors  those of tracker_durable_open, allow_list_read and messenger_open */
MUST_CHECK enum status tracker_loop_open(const struct tracker_loop_options *options,
                                         struct region *region, struct tracker_loop **loop,
                                         struct fault *fault);

/* tracker_loop_port: the TCP port on which it listens. */
uint16_t tracker_loop_port(const struct tracker_loop *loop);

/* tracker_loop_run: coordinate the swarm until stop_fd is readable.
 * errors  STATUS_FAILED when another tracker has started with the same store */
MUST_CHECK enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault);

void tracker_loop_close(struct tracker_loop *loop);

#endif
