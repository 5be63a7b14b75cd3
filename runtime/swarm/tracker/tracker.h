/* tracker_loop: the tracker's process: one thread between the sockets, the machine and the store.
 *
 *     sockets ──► frames ──► machine ──► what it promises ──► store ──► what it says ──► sockets
 *                   │  introductions, asks for manifest, status and ledger are answered here
 *                   └─ roster file: who is let in; known members: who was, and where they are
 *
 * Frames that have come in are all heard before a tick lets any deadline pass, so a process that
 * was stopped blames nobody for it. Everything of ours is in the region before the first frame;
 * after that only ZeroMQ, SQLite and a changed roster file allocate. */
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
    const char *name;        /* of the swarm */
    const char *listen;      /* "tcp://ADDRESS:PORT", port * for any */
    const char *store_path;  /* ledger and record: an SQLite file */
    const char *roster_path; /* looked at again when it changes; need not exist, or no more */
    const uint8_t *manifest; /* served as it is */
    size_t manifest_bytes;   /* at most MANIFEST_BYTES_MAX */
    struct hash manifest_hash;
    struct hash genesis_root;
    struct tracker_settings settings;
    uint32_t members_max;   /* 1 .. SWARM_MEMBERS_MAX; beyond it nobody is admitted */
    uint32_t queued_frames; /* as messenger_options has it */
    uint32_t strangers_max; /* connected at once whose keys are on no roster; 0: as by default */
    uint32_t idle_ms;       /* until one of those goes that says nothing; 0: as by default */
    int stop_fd;            /* readable: end; -1: never */
    /* Called at each place of tracker_crash_points, by tests that kill the process there. */
    void (*reached)(void *context, const char *place);
    void *reached_context;
};

/* tracker_loop_bytes: memory of its tables in the region. tracker_loop_declared: ZeroMQ's. */
uint64_t tracker_loop_bytes(const struct tracker_loop_options *options);
uint64_t tracker_loop_declared(const struct tracker_loop_options *options);

/* tracker_crash_points: the names of all places at which `reached` is called, ended by NULL:
 * "before write open", "after write open", "before send table" and so on. */
const char *const *tracker_crash_points(void);

/* tracker_loop_open: the store, the roster, the sockets; a restarted tracker goes on where its
 * record stands. Everything that `options` points to is kept.
 * errors  those of tracker_durable_open, allow_list_read and messenger_open */
MUST_CHECK enum status tracker_loop_open(const struct tracker_loop_options *options,
                                         struct region *region, struct tracker_loop **loop,
                                         struct fault *fault);

/* tracker_loop_port: the TCP port it listens on. */
uint16_t tracker_loop_port(const struct tracker_loop *loop);

/* tracker_loop_run: until stop_fd is readable.
 * errors  STATUS_FAILED when another tracker has taken over */
MUST_CHECK enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault);

void tracker_loop_close(struct tracker_loop *loop);

#endif
