/* site: the processes, called ranks, that train one model together. The module detects the rank of
 * a process, starts the ranks of a machine, connects them, exchanges small messages between them,
 * and detects within five seconds when one of them is lost. It also handles the signals that stop a
 * run. Every command that runs on several ranks opens one site; the collectives use it to open
 * their communicators.
 *
 * public   launch.h service.h stop.h
 *
 * Rank 0 listens at the address that the launcher gives. Every other rank opens two connections to
 * it: one for exchanges, which all ranks make in the same order, and one for heartbeats. Exchanged
 * data is small and in host memory; tensors are moved by transport/collectives. */
#ifndef SKEP_TRANSPORT_SITE_SITE_H
#define SKEP_TRANSPORT_SITE_SITE_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SITE_BLOB_BYTES_MAX = 1 << 16, /* maximum bytes that one rank sends in one exchange */
    SITE_HEARTBEAT_MS = 500,       /* interval between heartbeats */
    SITE_SILENCE_MS = 3000,        /* a rank that sends no heartbeat for this long is lost */
    SITE_JOIN_S = 60,              /* timeout for all ranks to connect */
    SITE_LAST_MESSAGE_MS = 500,    /* time for the other ranks to read the last message of a rank */
    SITE_END_MS =
        5000, /* maximum time from a lost rank's last heartbeat to the end of the others */
};

/* Which rank of its site a process is, and how it finds rank 0. */
struct launch_info {
    int rank, world;             /* rank of this process, and number of ranks */
    int local_rank, local_world; /* rank and number of ranks on this machine */
    char address[256];           /* where rank 0 listens: a host name or an IP address */
    int port;                    /* TCP port of rank 0 */
    const char *source;  /* the launcher: "--ranks", "torchrun", "Slurm", "OpenMPI" or "alone" */
    uint64_t job;        /* id of the run; processes with a different id are rejected */
    int listener;        /* rank 0: an inherited listening socket; 0: none */
    int join_timeout_ms; /* timeout for all ranks to connect; 0: SITE_JOIN_S */
};

struct site; /* allocated in the caller's region */

/* site_open: connect all ranks, which may start in any order. A world of one rank uses no network.
 * A connection from a process that is not a rank of this run is closed and logged.
 * memory  in `region`, which must outlive the site; nothing is allocated later
 * errors  STATUS_INPUT: the address cannot be resolved or is not local to rank 0, two processes
 *         claim the same rank, or this process has another world size, version or run than rank 0;
 *         the fault names both processes. STATUS_FAILED: not all ranks connected in time; the fault
 *         lists the missing ones */
MUST_CHECK enum status site_open(const struct launch_info *launch, struct region *region,
                                 struct site **site, struct fault *fault);

/* Called at most once per process, by the heartbeat thread, when a rank is lost or has failed. The
 * fault names the rank and has status STATUS_LOST. By then all other ranks have been notified. The
 * callback may end the process, but must not call site_* functions. */
typedef void site_lost(void *context, const struct fault *fault);

/* site_start_watch: start to send and expect heartbeats; call it soon after site_open. From then
 * on, a rank that ends without site_leave, or sends no heartbeat for SITE_SILENCE_MS, is lost:
 * every other rank is notified and calls `lost`. A rank that was stopped and declared lost is
 * notified when it resumes. Time during which this process itself did not run does not count as
 * silence of others. Call it before the arena is sealed: it starts a thread, which blocks all
 * signals.
 * errors  STATUS_FAILED: the thread cannot be started */
MUST_CHECK enum status site_start_watch(struct site *site, site_lost *lost, void *context,
                                        struct fault *fault);

/* site_exchange: send `bytes` bytes to all ranks and receive theirs, in rank order; `all` has room
 * for world * bytes. All ranks make the same exchanges in the same order, from one thread.
 * limits  bytes <= SITE_BLOB_BYTES_MAX, equal on all ranks
 * errors  STATUS_LOST: a rank was lost; the fault is the one that `lost` received, and `lost` has
 *         returned. STATUS_FAILED: a rank has left or makes a different exchange. `all` is then
 *         undefined, and every later exchange fails in the same way */
MUST_CHECK enum status site_exchange(struct site *site, const void *mine, size_t bytes, void *all,
                                     struct fault *fault);

/* site_agree: exchange the outcomes of all ranks. Returns OK if all are OK; else every rank gets
 * the status and fault of the lowest rank that failed ("rank 2: subject: reason"). A rank whose own
 * fault has the same reason keeps it, without the rank.
 * mine    this rank's outcome; if it is not OK, *fault is its fault on entry
 * errors  as site_exchange */
MUST_CHECK enum status site_agree(struct site *site, enum status mine, struct fault *fault);

/* site_has_agreed: whether *fault is the newest fault that site_agree returned on every rank, so
 * that the other ranks need not be notified of it. */
bool site_has_agreed(const struct site *site, const struct fault *fault);

/* site_report_failure: notify the other ranks that this rank ends because of *fault. Their `lost`
 * is called with "rank 1: failed: subject: reason". Returns when they have received it, or after
 * SITE_LAST_MESSAGE_MS. Afterwards this rank receives no notifications; site_leave may follow. */
void site_report_failure(struct site *site, const struct fault *fault);

/* site_leave: leave in order, so that the other ranks do not count this one as lost. The others may
 * continue, but later exchanges fail, because they need all ranks. When rank 0 leaves, loss
 * detection ends. NULL and a second call are allowed. */
void site_leave(struct site *site);

const struct launch_info *site_launch_info(const struct site *site);

#endif
