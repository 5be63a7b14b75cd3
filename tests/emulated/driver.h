/* driver: a GPU that is emulated, behind the same table of functions as NVIDIA's driver.
 *
 * What is enqueued runs late, in an order drawn from a seed among all that streams, events and
 * graphs allow, inside the calls that wait or ask; so a wait that was forgotten gives wrong results
 * under some seed. Device memory is real memory that the host may not touch except while queued
 * work runs, begins as NaN, and addresses are never used twice. What a caller gets wrong comes back
 * as the driver's error, and emulated_driver_reason() says why. One at a time in a process; calls
 * may come from several threads.
 *
 * Stricter than NVIDIA's driver: waiting for or asking after an event that was never recorded, a
 * kernel that was not loaded before its launch, a handle that is mapped twice, memory that is
 * unmapped while work is queued, a capture that a stream joined without returning from it, a copy
 * from or to pageable memory within a capture, and whatever takes memory, streams, events or code
 * once the process is sealed, are errors. */
#ifndef SKEP_TESTS_EMULATED_DRIVER_H
#define SKEP_TESTS_EMULATED_DRIVER_H

#include "targets/ports/cuda_driver.h"

#include <stdbool.h>

/* A kernel that the device knows. */
struct emulated_code {
    size_t params_bytes;  /* of the one struct it takes */
    unsigned threads_max; /* of a block; 0: as many as a block may have */
    unsigned static_shared_bytes;
    void *kernel; /* whatever `run` needs */
    /* Carry out the whole grid. */
    void (*run)(const struct emulated_code *code, const unsigned grid[3], unsigned threads,
                unsigned shared_bytes, const void *params);
    /* It was given that much dynamic shared memory; may be NULL. */
    void (*allow_shared)(const struct emulated_code *code, unsigned shared_bytes);
};

/* How much of the queued work runs before a call must wait for it. */
enum emulated_pace {
    EMULATED_MIXED, /* drawn anew again and again */
    EMULATED_LATE,  /* nothing before it must */
    EMULATED_EARLY, /* all of it within the call that enqueues it */
};

struct emulated_options {
    uint64_t seed;
    enum emulated_pace pace;
    int devices;            /* 0: one */
    uint64_t memory_bytes;  /* of each; 0: 1 GiB */
    uint64_t context_bytes; /* taken by a primary context */
    uint64_t code_bytes;    /* taken by each library that is loaded */
    int multiprocessors;    /* 0: 4 */
    int compute_capability; /* 0: 90 */
    int cuda_version;       /* of the driver; 0: that of cuda.h */
    bool without_mapping;   /* no virtual memory management: cuMemAlloc only */
    bool has_display;       /* the devices limit the run time of kernels, as with a display */
    bool without_func_load; /* no cuFuncLoad: reading a function's attribute loads it */
    /* The kernel of that name, or false; NULL: there are none. emulated_device_find (device.h) has
     * those of kernels/cuda. A library's contents are not read. */
    bool (*find)(const char *name, struct emulated_code *code);
};

/* emulated_driver_open: fill the table; cuInit has been called. */
void emulated_driver_open(const struct emulated_options *options, struct cuda_driver *driver);

/* emulated_driver_table: the table of the open driver; false when none is open. */
bool emulated_driver_table(struct cuda_driver *driver);

/* emulated_driver_close: run what is queued and forget everything; what was not given back is no
 * error: see emulated_driver_live. */
void emulated_driver_close(void);

/* Why the last call that a caller got wrong was refused; "" before that. */
const char *emulated_driver_reason(void);

/* How many blocks, reservations, handles, streams, events, graphs, libraries and contexts are held
 * at present. */
int emulated_driver_live(void);

/* How many graphs were instantiated without USE_NODE_PRIORITY: all their nodes have the priority of
 * the stream that launches them. */
int emulated_driver_flat_graphs(void);

/* The flags of a device's primary context. */
unsigned emulated_driver_context_flags(int device);

/* What calls so far took of device memory, at most, contexts and libraries included. */
uint64_t emulated_driver_peak_bytes(int device);

/* How often `call` ("cuMemAlloc") was called; any call: NULL. */
uint64_t emulated_driver_calls(const char *call);

/* emulated_driver_fail: the nth call from now (1: the next) of that name, or of any with NULL,
 * fails with `code` and does nothing. Errors that break a context stay: CUDA_ERROR_ILLEGAL_ADDRESS,
 * CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ECC_UNCORRECTABLE and their like come back from every call
 * afterwards. One at a time. */
void emulated_driver_fail(const char *call, int nth, CUresult code);

/* emulated_driver_fail_always: every call of that name fails with `code` until the driver is
 * closed; at most 4 names. */
void emulated_driver_fail_always(const char *call, CUresult code);

/* emulated_driver_fail_work: the same for the nth piece of work that runs (a kernel, copy or fill):
 * the next calls after it report it. */
void emulated_driver_fail_work(int nth, CUresult code);

/* emulated_driver_enqueue: host code as a piece of a stream's work, which capture captures: what
 * stands for a library that enqueues work of its own (products, collectives). It may touch device
 * memory and must not call the driver. */
CUresult emulated_driver_enqueue(CUstream stream, void (*run)(void *context), void *context);

/* emulated_driver_enqueue_when: the same, once `ready` says so, which it is asked again and again
 * and may learn from another process. */
CUresult emulated_driver_enqueue_when(CUstream stream, bool (*ready)(void *context),
                                      void (*run)(void *context), void *context);

/* emulated_driver_take: what a library takes of the memory of this thread's device, beside blocks;
 * its pair gives it back. */
CUresult emulated_driver_take(uint64_t bytes);
void emulated_driver_give(uint64_t bytes);

/* emulated_driver_device: the one of this thread's context; -1: it has none. */
int emulated_driver_device(void);

/* emulated_driver_holds: whether a graph that can still be launched has work with that context. */
bool emulated_driver_holds(const void *context);

/* emulated_driver_runs: whether a launch of such a graph has not come to its end, though the graph
 * may be destroyed already. */
bool emulated_driver_runs(const void *context);

/* emulated_driver_read, _write: after everything queued has run, for tests' eyes. */
void emulated_driver_read(void *to, CUdeviceptr from, size_t bytes);
void emulated_driver_write(CUdeviceptr to, const void *from, size_t bytes);

#endif
