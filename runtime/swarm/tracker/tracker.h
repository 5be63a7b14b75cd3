/* tracker: the process that coordinates a swarm. It listens for members and clients, and passes
 * their messages to the tracker's state machine (runtime/swarm/tracker_machine). Its promises are
 * durable in `tracker.db` before messages about them are sent. The module owns the tracker's store,
 * the operator's allow-list, the address book of the members, and the answers to queries for
 * manifest, swarm status and ledger. `skep track` runs it; `skep roster` edits the allow-list.
 *
 *     sockets ──► frames ──► state machine ──► promises ──► store ──► messages ──► sockets
 *                   │
 *                   └──► introductions and queries are answered without the state machine
 *     port after it ──► delegation_server sends the operator's delegation to everyone
 *
 * The tracker has one thread. It handles all frames that have arrived before it checks a deadline,
 * so that members do not time out because the tracker's process did not run. All memory of the
 * tracker is allocated from the region before the first frame. Afterwards, only ZeroMQ, SQLite and
 * the reading of a changed allow-list or order allocate memory.
 *
 * public   allow_list.h rollback_file.h tracker_import.h */
#ifndef SKEP_SWARM_TRACKER_TRACKER_H
#define SKEP_SWARM_TRACKER_TRACKER_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/delegation/delegation.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"
#include "transport/identity/keys.h"

#include <stddef.h>
#include <stdint.h>

struct allow_list_authority;
struct tracker_loop; /* in the region */

/* What a tracker is started with. */
struct tracker_loop_options {
    const struct key_pairs *keys; /* keys of the tracker */
    const char *name;             /* name of the swarm */
    const char *listen;           /* "tcp://ADDRESS:PORT"; port *: any free port */
    /* operator, who signs the allow-list; NULL: no signature */
    const struct allow_list_authority *authority;
    const char *store_path;      /* SQLite file with ledger and promises */
    const char *allow_list_path; /* allow-list file, read again when it changes; may be missing */
    const uint8_t *manifest;     /* text of the manifest, sent unchanged */
    size_t manifest_bytes;       /* size of the manifest, at most MANIFEST_BYTES_MAX */
    struct hash manifest_hash;   /* hash of the manifest's text */
    struct hash genesis_root;    /* root of the initial state */
    bool needs_leases;      /* the manifest requires leases, which prevent forks (decision 23) */
    const char *order_path; /* file with the operator's order to roll back; NULL: no orders */
    /* Files of what the operator can order while a fork is possible, and of the order to continue
     * (continue_file.h); NULL: no orders. */
    const char *waiting_path, *continue_path;
    struct public_keys operator_keys; /* keys that the operator signs orders with */
    /* delegation that names `keys`; NULL: none, and no port sends one */
    const struct known_delegation *delegation;
    /* file of the delegation, which the operator may replace; NULL: none */
    const char *delegation_path;
    struct tracker_settings settings; /* settings of the state machine */
    uint32_t members_max;             /* maximum number of members: 1 .. SWARM_MEMBERS_MAX */
    uint32_t queued_frames;           /* maximum number of frames in each queue of a connection */
    uint32_t strangers_max;           /* maximum number of connections of strangers; 0: default */
    uint32_t idle_ms; /* an idle guest is disconnected after this time; 0: default */
    int stop_fd;      /* tracker_loop_run returns when this descriptor is readable; -1: none */
    /* Function that is called with the name of each crash point that is reached. Tests set it, to
     * end the process there; else NULL. */
    void (*on_crash_point)(void *context, const char *name);
    void *crash_point_context; /* first argument of on_crash_point */
};

/* tracker_loop_bytes: size of the tracker's memory in the region, without that of the store. */
uint64_t tracker_loop_bytes(const struct tracker_loop_options *options);

/* tracker_crash_points: returns the names of all crash points, terminated by NULL: "before write
 * open", "after write open", "before send table" and so on. */
const char *const *tracker_crash_points(void);

/* tracker_loop_open: opens the store, the allow-list and the sockets. A restarted tracker resumes
 * from its store. Everything that `options` points to must outlive the loop.
 * errors  those of tracker_durable_open, allow_list_read and messenger_open */
MUST_CHECK enum status tracker_loop_open(const struct tracker_loop_options *options,
                                         struct region *region, struct tracker_loop **loop,
                                         struct fault *fault);

/* tracker_loop_port: returns the TCP port number on which the tracker listens. */
uint16_t tracker_loop_port(const struct tracker_loop *loop);

/* tracker_loop_run: coordinates the swarm until stop_fd is readable.
 * errors  STATUS_FAILED when another tracker has started with the same store; STATUS_INPUT when the
 *         operator has delegated to another key, or the delegation has expired */
MUST_CHECK enum status tracker_loop_run(struct tracker_loop *loop, struct fault *fault);

void tracker_loop_close(struct tracker_loop *loop);

#endif
