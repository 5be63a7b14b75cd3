/* driver_parts: what the files of the emulated driver share. All under one lock, which driver_enter
 * takes and driver_leave gives back. */
#ifndef SKEP_TESTS_EMULATED_DRIVER_PARTS_H
#define SKEP_TESTS_EMULATED_DRIVER_PARTS_H

#include "tests/emulated/driver.h"

#include <pthread.h>

enum {
    DEVICES_MAX = 8,
    PARAM_BYTES_MAX = 4096, /* as CUDA has it */
    STREAM_DEPTH = 1024,    /* work beyond that waits for room, as in NVIDIA's driver */
    CAPTURE_LANES = 16,
    SHARED_DEFAULT_BYTES = 48 << 10, /* of a block, unless its kernel was given more */
    SHARED_MAX_BYTES = 99 << 10,     /* the least of any architecture */
    MAPPING_BYTES = 2 << 20,         /* granularity of virtual memory management */
};

/* What driver_enter has to look at. */
enum entry {
    ENTRY_PLAIN = 0,
    ENTRY_CONTEXT = 1, /* a context must be current */
    ENTRY_UNSAFE = 2,  /* not while a capture is under way that forbids it */
};

struct work_queue;

/* A piece of work has run when `queue` has completed more than `place` pieces. */
struct moment {
    struct work_queue *queue; /* NULL: nothing to wait for */
    uint64_t place;
};

enum work_kind { WORK_MARK, WORK_WAIT, WORK_COPY, WORK_FILL, WORK_KERNEL, WORK_GRAPH, WORK_HOST };

struct host_piece {
    void (*run)(void *context);
    void *context;
    bool closed;                  /* it sees no device memory */
    bool (*ready)(void *context); /* it waits for others; NULL: for nobody */
};

struct work {
    enum work_kind kind;
    bool begun;          /* a graph's pieces are under way */
    struct moment after; /* besides the piece before it */
    union {
        struct CUevent_st *mark;
        struct {
            char *to;
            const char *from;
            char *staged; /* pageable bytes, taken when the call was made */
            size_t bytes;
            unsigned char value;
        } move;
        struct {
            const struct emulated_code *code;
            unsigned grid[3];
            unsigned threads, shared_bytes;
            _Alignas(16) unsigned char params[PARAM_BYTES_MAX];
        } launch;
        struct CUgraphExec_st *graph;
        struct host_piece host;
    } as;
};

/* First in, first out. */
struct work_queue {
    struct work_queue *next; /* of all */
    struct work *pieces;     /* a ring of `capacity` */
    uint64_t capacity, issued, completed;
};

struct capture;

struct CUctx_st {
    int device;
    int retained;
    unsigned flags;
};

struct CUstream_st {
    struct CUstream_st *next;
    bool live;
    bool blocking; /* runs in turn with the legacy stream */
    struct work_queue queue;
    struct capture *capture;
    int lane; /* of the capture */
};

struct CUevent_st {
    struct CUevent_st *next;
    bool live, timed, recorded;
    struct moment moment;
    int64_t time_ns;
    struct capture *capture; /* recorded within it; compared, never looked into once it ended */
    uint64_t capture_number;
    int lane;
    uint64_t seen[CAPTURE_LANES];
};

struct driver_state {
    bool open;
    struct emulated_options options;
    pthread_mutex_t lock;
    struct CUctx_st contexts[DEVICES_MAX];
    uint64_t used_bytes[DEVICES_MAX], peak_bytes[DEVICES_MAX];
    struct work_queue *queues;
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct capture *captures; /* under way */
    int live;
    int flat_graphs;     /* instantiated without the priorities of their nodes */
    int open_depth;      /* work may use device memory while this is not 0 */
    bool is_unprotected; /* the pages of device memory are accessible now */
    uint64_t draws;
    uint32_t mood;
    const struct work_queue *favourite; /* runs as long as it can: one gets far ahead of others */
    CUresult broken;                    /* what every call gives from now on */
    char reason[256];
    CUresult reason_code;
};
extern struct driver_state emulated;

/* driver.c */
CUresult driver_enter(const char *call, unsigned entry);
CUresult driver_leave(CUresult result);
CUresult driver_refuse(CUresult code, const char *format, ...) PRINTF_LIKE(2, 3);
CUcontext driver_context(void);
uint32_t driver_draw(uint32_t bound);
CUresult driver_take(int device, uint64_t bytes); /* of the device's memory */
void driver_give(int device, uint64_t bytes);
CUresult driver_work_failure(void); /* injected into the piece of work that is about to run */

/* driver_errors.c */
void error_fill_table(struct cuda_driver *driver);

/* driver_memory.c */
enum place_kind { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };
CUresult memory_place(const void *address, size_t bytes, enum place_kind *kind);
/* memory_open, memory_close: between them, work may use device memory, after memory_use. */
void memory_open(void);
void memory_use(void);
void memory_close(void);
void memory_fill_table(struct cuda_driver *driver);
void memory_forget(void);

/* driver_work.c */
void work_add_queue(struct work_queue *queue);
void work_remove_queue(struct work_queue *queue);
bool work_done(struct moment moment);
void work_run_until(struct moment moment);
void work_run_queue(struct work_queue *queue);
void work_run_all(void);
void work_run_some(void);
/* As far as it goes without waiting for another process. */
void work_try_until(struct moment moment);
bool work_queued(void);
/* The next piece of that queue, to be filled in; NULL: none, everything is blocked. */
struct work *work_next(struct work_queue *queue);

/* driver_stream.c */
CUresult stream_of(CUstream handle, struct CUstream_st **stream);
/* Where the next piece of the stream's work goes, into its queue or its capture. */
CUresult stream_piece(struct CUstream_st *stream, struct work **piece);
void stream_issued(struct CUstream_st *stream);
void stream_fill_table(struct cuda_driver *driver);
void stream_forget(void);

/* driver_graph.c */
CUresult graph_check_unsafe(void);
CUresult graph_capture_piece(struct CUstream_st *stream, struct work **piece);
CUresult graph_capture_mark(struct CUstream_st *stream, struct CUevent_st *event);
CUresult graph_capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
void graph_invalidate(struct capture *capture);
void graph_launch_begin(struct CUgraphExec_st *graph);
void graph_launch_end(struct CUgraphExec_st *graph);
bool graph_running(const struct CUgraphExec_st *graph);
void graph_fill_table(struct cuda_driver *driver);
void graph_forget(void);

/* driver_kernel.c */
void kernel_fill_table(struct cuda_driver *driver);
void kernel_unload_all(int device); /* its context goes */
void kernel_forget(void);

#endif
