/* target: a device profile: how much memory there is, what others take of it, how fast it is. */
#ifndef SKEP_TARGETS_TARGET_H
#define SKEP_TARGETS_TARGET_H

#include "base/fault.h"
#include "base/region.h"
#include "base/space.h"

#include <stdbool.h>
#include <stdint.h>

enum target_kind { TARGET_CPU, TARGET_CUDA };

/* A number of the time estimate, and where it comes from. */
struct target_figure {
    double value;
    const char *source;
};

/* How often a process takes what a line declares. */
enum target_per {
    PER_PROCESS, /* once */
    PER_SITE,    /* once where several ranks talk, for the first group of them that a rank is in */
    PER_GROUP,   /* for each group of ranks but that one */
};

/* Memory of a space that others take (drivers, libraries, the desktop): a line of every plan. */
struct target_declared {
    const char *name;
    uint64_t bytes;
    const char *source; /* a measurement, or "estimate until ... measures it" */
    enum target_per per;
};

/*  capacity_bytes
 *  |<------------------------------------------------------------>|
 *  [ declared[0] | declared[1] | ...  |      room for the arena    ] */
struct target_space {
    uint64_t capacity_bytes;     /* what the driver offers of an idle device; 0: no such space */
    const char *capacity_source; /* "" where there is no such space */
    const struct target_declared *declared;
    int declared_count;
};

/* Immutable once opened; lives as long as the region it was opened in. */
struct target {
    const char *name;        /* "rtx3060-12g"; "this machine" when detected */
    const char *description; /* one line for people */
    const char *place;       /* the file it was read from, "built in" or "detected" */
    enum target_kind kind;
    bool unified;         /* pinned and host memory are the device's: all count as SPACE_DEVICE */
    uint32_t align_bytes; /* of every buffer; a power of two, at least ARENA_ALIGN_BYTES */
    int threads;          /* of the compute pool, on the host; plans depend on it */
    struct target_space spaces[SPACE_COUNT];

    struct target_figure f32_flops;        /* per second, all threads or SMs; FMA counts as 2 */
    struct target_figure bf16_flops;       /* products of bf16 with sums in f32, dense */
    struct target_figure memory_bandwidth; /* device memory, bytes per second */
    struct target_figure
        host_link_bandwidth; /* device <-> pinned, one direction, bytes per second */
    struct target_figure peer_link_bandwidth; /* between ranks of one site, one direction */
    struct target_figure matmul_efficiency;   /* share of flops that large products reach, (0, 1] */
    struct target_figure memory_efficiency; /* share of bandwidth that elementwise kernels reach */
    struct target_figure link_efficiency;   /* share of a link that collectives and copies reach */

    const char *isa;   /* cpu: level its figures hold for (cpu_level_name); else "" */
    int compute_major; /* cuda: 8.6 is major 8, minor 6; else 0 */
    int compute_minor;
    int multiprocessor_count; /* cuda; else 0 */
};

/* target_with_declared: the target with one more declared line in a space (the device's where
 * memory is unified).
 * memory  the copy in `region`; `line` is copied, its texts are kept by reference */
const struct target *target_with_declared(const struct target *target, enum space space,
                                          const struct target_declared *line,
                                          struct region *region);

/* target_with_groups: the target as a rank has it that talks in `groups` groups of ranks, each by a
 * communicator of its own; 0: it is alone. Lines per site and group are gone, or there as often as
 * that, and then per process.
 * memory  the copy in `region` */
const struct target *target_with_groups(const struct target *target, int groups,
                                        struct region *region);

/* target_declared_bytes: sum of the declared lines of a space. */
uint64_t target_declared_bytes(const struct target *target, enum space space);

/* target_available_bytes: what is left of a space for the arena; 0 for pinned and host when
 * unified. */
uint64_t target_available_bytes(const struct target *target, enum space space);

/* target_shortage: by how many bytes arenas of these peaks exceed the room; *space is the first
 * that is short. 0 when all fit (*space is then untouched). On a unified target the sum of all
 * peaks must fit the device. */
uint64_t target_shortage(const struct target *target, const uint64_t peak_bytes[static SPACE_COUNT],
                         enum space *space);

/* target_lower_capacity: the same target with at most `bytes` of SPACE_DEVICE for the arena and the
 * declared lines (the run key limits.device).
 * errors  STATUS_FIT when the declared lines alone take more */
MUST_CHECK enum status target_lower_capacity(const struct target *target, uint64_t bytes,
                                             struct region *region, const struct target **lowered,
                                             struct fault *fault);

#endif
