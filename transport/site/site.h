/* site: the ranks of one replica as processes: they find each other, compare what they are about to
 * do, agree on what happens, and notice within five seconds when one of them is gone.
 *
 * Rank 0 listens at the launcher's address; every other rank has two connections to it: one for
 * small exchanges that all ranks make in the same order, one for signs of life. What is exchanged
 * is host memory and small; tensors move by collective.h. */
#ifndef SKEP_TRANSPORT_SITE_SITE_H
#define SKEP_TRANSPORT_SITE_SITE_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SITE_BLOB_BYTES_MAX = 1 << 16, /* one rank's part of an exchange */
    SITE_HEARTBEAT_MS = 500,       /* between signs of life */
    SITE_SILENCE_MS = 3000,        /* without one: stopped or cut off */
    SITE_JOIN_S = 60,              /* for all ranks to arrive */
    SITE_LAST_MESSAGE_MS = 500,    /* for the last words of a rank to be read */
    SITE_END_MS = 5000,            /* from a rank's last sign of life to the end of the others */
};

/* Who this process is among its site's ranks. */
struct launch_info {
    int rank, world;
    int local_rank, local_world; /* among those on this machine */
    char address[256];           /* where rank 0 listens: a host name or an IP address */
    int port;
    const char *source; /* what said so: "--ranks", "torchrun", "Slurm", "OpenMPI", "alone" */
    uint64_t job;       /* equal on all ranks of one run, so that a stranger is known */
    int listener;       /* rank 0: a socket that listens already; 0: none */
    int meet_ms;        /* for all ranks to arrive; 0: SITE_JOIN_S */
};

struct site; /* opaque: lives in the caller's region */

/* site_open: find the other ranks, which may start in any order. A world of one needs no network.
 * A connection that is no rank of this run is dropped and logged, and the meeting goes on.
 * memory  in `region`, which must outlive the site; nothing later is allocated
 * errors  STATUS_INPUT when the address cannot be found or is not rank 0's, when another process
 *         claims this number or this one another world size, version or run, naming both;
 *         STATUS_FAILED when not all ranks came in time, naming those that are missing */
MUST_CHECK enum status site_open(const struct launch_info *place, struct region *region,
                                 struct site **site, struct fault *fault);

/* Called at most once in a process, from the watching thread, when a rank is lost or has failed:
 * the fault names it and its status is STATUS_LOST. It may end the process; it may not call site_*.
 * All other ranks have been told before. */
typedef void site_lost(void *context, const struct fault *fault);

/* site_watch: begin to send and expect signs of life; best called right after site_open. From here
 * on a rank that ends without site_leave, or is silent for SITE_SILENCE_MS, is reported to every
 * other rank, and each reports it through `lost`. A rank that was stopped, and taken for lost,
 * learns it when it wakes. Time in which this process itself did not run is nobody's silence.
 * Before seal: starts a thread, which takes no signals.
 * errors  STATUS_FAILED when a thread cannot be started */
MUST_CHECK enum status site_watch(struct site *site, site_lost *lost, void *context,
                                  struct fault *fault);

/* site_exchange: every rank gives `bytes` bytes and receives all ranks', in rank order: `all` has
 * room for world * bytes. Every rank makes the same exchanges in the same order, from one thread.
 * limits  bytes <= SITE_BLOB_BYTES_MAX, equal on all ranks
 * errors  STATUS_LOST when a rank was lost: what `lost` was given, after it has returned;
 *         STATUS_FAILED when a rank has left, or makes another exchange. `all` is then undefined,
 *         and so says every later exchange */
MUST_CHECK enum status site_exchange(struct site *site, const void *mine, size_t bytes, void *all,
                                     struct fault *fault);

/* site_agree: the same outcome on every rank: OK when all are OK, else the status of the lowest
 * rank that is not, whose fault every rank receives ("rank 2: place: reason"). A rank that found
 * the same by itself keeps its own words, without the rank.
 * mine    this rank's own outcome; *fault is its fault on entry when it is not OK
 * errors  as site_exchange */
MUST_CHECK enum status site_agree(struct site *site, enum status mine, struct fault *fault);

/* Whether *fault is the newest that site_agree gave every rank: then nobody need be told of it. */
bool site_has_agreed(const struct site *site, const struct fault *fault);

/* site_fail: tell the others why this rank ends; they report it through `lost` as "rank 1: failed:
 * place: reason". Returns when they know, at most SITE_LAST_MESSAGE_MS later; site_leave may
 * follow. Nothing is reported to this rank from then on. */
void site_fail(struct site *site, const struct fault *fault);

/* site_leave: end politely: the others do not take the silence for a loss. A rank may leave while
 * others work on: only exchanges fail, as they need all; but with rank 0 the watching ends.
 * NULL is allowed, and so is a second call. */
void site_leave(struct site *site);

const struct launch_info *site_launch_info(const struct site *site);

#endif
