/* site: the ranks of one replica as processes: they find each other, compare what they are about to
 * do, agree on what happens, and notice within five seconds when one of them is gone.
 *
 * Rank 0 listens at the launcher's address; every other rank has two connections to it: one for
 * small exchanges that all ranks make in the same order, one for signs of life. What is exchanged
 * is host memory and small; tensors move by collective.h. */
#ifndef SKEP_TRANSPORT_SITE_H
#define SKEP_TRANSPORT_SITE_H

#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SITE_BLOB_BYTES_MAX = 1 << 16, /* one rank's part of an exchange */
    SITE_BEAT_MS = 500,            /* between signs of life */
    SITE_SILENT_MS = 3000,         /* without one: stopped or cut off */
    SITE_MEET_S = 60,              /* for all ranks to arrive */
};

/* Who this process is among its site's ranks. */
struct site_place {
    int rank, world;
    int local_rank, local_world; /* among those on this machine */
    char address[256];           /* where rank 0 listens: a host name or an IP address */
    int port;
    const char *source; /* what said so: "--ranks", "torchrun", "Slurm", "OpenMPI", "alone" */
};

struct site; /* opaque: lives in the caller's region */

/* site_open: find the other ranks. A world of one needs no network.
 * memory  in `region`, which must outlive the site; nothing later is allocated
 * errors  STATUS_INPUT when the address cannot be found, another rank claims this number or another
 *         world size, naming both; STATUS_FAILED when not all ranks came within SITE_MEET_S, naming
 *         those that are missing */
MUST_CHECK enum status site_open(const struct site_place *place, struct region *region,
                                 struct site **site, struct fault *fault);

/* Called once, from the watching thread, when a rank is lost or has failed: the fault names it. */
typedef void site_lost(void *context, const struct fault *fault);

/* site_watch: begin to send and expect signs of life. From here on a rank that ends without
 * site_leave, or is silent for SITE_SILENT_MS, is reported to every other rank, and each reports it
 * through `lost`. Before seal: starts a thread.
 * errors  STATUS_FAILED when a thread cannot be started */
MUST_CHECK enum status site_watch(struct site *site, site_lost *lost, void *context,
                                  struct fault *fault);

/* site_exchange: every rank gives `bytes` bytes and receives all ranks', in rank order: all has
 * room for world * bytes. Every rank makes the same exchanges in the same order.
 * limits  bytes <= SITE_BLOB_BYTES_MAX, equal on all ranks
 * errors  STATUS_FAILED when a connection broke; who was lost is then reported through `lost` */
MUST_CHECK enum status site_exchange(struct site *site, const void *mine, size_t bytes, void *all,
                                     struct fault *fault);

/* site_agree: the same outcome on every rank: OK when all are OK, else the status of the lowest
 * rank
 * that is not, whose fault every rank receives ("rank 2: place: reason").
 * mine   this rank's own outcome; *fault is its fault on entry when it is not OK */
MUST_CHECK enum status site_agree(struct site *site, enum status mine, struct fault *fault);

/* site_fail: tell the others why this rank ends; they report it through `lost`. */
void site_fail(struct site *site, const struct fault *fault);

/* site_leave: end politely: the others do not take the silence for a loss. NULL is allowed. */
void site_leave(struct site *site);

const struct site_place *site_where(const struct site *site);

#endif
