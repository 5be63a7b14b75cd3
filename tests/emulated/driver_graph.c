/* driver_graph: capture of streams' work into graphs, and the running of them, on the emulated
 * driver. */
#include "tests/emulated/driver_parts.h"

#include <stdlib.h>
#include <string.h>

/* One queue for each stream that took part. */
struct CUgraph_st {
    struct CUgraph_st *next;
    int lanes;
    struct work_queue queues[CAPTURE_LANES];
};

struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    int lanes;
    bool live;
    uint64_t in_flight; /* launches that have not come to their end */
    struct work_queue queues[CAPTURE_LANES];
};

struct capture {
    struct capture *next;
    uint64_t number;
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool broken;
    struct CUgraph_st *graph;
    struct CUstream_st *streams[CAPTURE_LANES];
    /* seen[i][j]: how much of lane j's work lane i's next piece comes after. */
    uint64_t seen[CAPTURE_LANES][CAPTURE_LANES];
};

static struct CUgraph_st *graphs;
static struct CUgraphExec_st *executables;
static uint64_t captures_begun;

void graph_invalidate(struct capture *capture) {
    capture->broken = true;
}

CUresult graph_check_unsafe(void) {
    for (struct capture *at = emulated.captures; at != NULL; at = at->next) {
        bool own = pthread_equal(at->thread, pthread_self());
        if (at->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
            (at->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own)) {
            graph_invalidate(at);
            return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                 "a call that is unsafe while a stream is capturing");
        }
    }
    return CUDA_SUCCESS;
}

static CUresult check_capture(const struct capture *capture) {
    return capture->broken ? driver_refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                                           "this capture was broken before: %s", emulated.reason)
                           : CUDA_SUCCESS;
}

static struct work *add_piece(struct work_queue *queue) {
    if (queue->issued == queue->capacity) {
        queue->capacity = queue->capacity > 0 ? 2 * queue->capacity : 64;
        queue->pieces = realloc(queue->pieces, queue->capacity * sizeof *queue->pieces);
        ASSERT(queue->pieces != NULL);
    }
    struct work *piece = &queue->pieces[queue->issued++];
    piece->begun = false;
    piece->after = (struct moment){NULL, 0};
    return piece;
}

CUresult graph_capture_piece(struct CUstream_st *stream, struct work **piece) {
    CUresult result = check_capture(stream->capture);
    if (result == CUDA_SUCCESS) {
        struct capture *capture = stream->capture;
        *piece = add_piece(&capture->graph->queues[stream->lane]);
        capture->seen[stream->lane][stream->lane] = capture->graph->queues[stream->lane].issued;
    }
    return result;
}

CUresult graph_capture_mark(struct CUstream_st *stream, struct CUevent_st *event) {
    CUresult result = check_capture(stream->capture);
    if (result == CUDA_SUCCESS) {
        event->recorded = true;
        event->capture_number = stream->capture->number;
        event->lane = stream->lane;
        memcpy(event->seen, stream->capture->seen[stream->lane], sizeof event->seen);
    }
    return result;
}

static struct capture *capture_of(const struct CUevent_st *event) {
    struct capture *capture = emulated.captures;
    while (capture != NULL && capture->number != event->capture_number) {
        capture = capture->next;
    }
    return capture;
}

static void join(struct capture *capture, struct CUstream_st *stream) {
    ASSERT(capture->graph->lanes < CAPTURE_LANES);
    stream->capture = capture;
    stream->lane = capture->graph->lanes++;
    capture->streams[stream->lane] = stream;
}

static CUresult check_wait(const struct CUstream_st *stream, const struct CUevent_st *event,
                           struct capture *capture) {
    if (event->capture_number == 0) {
        graph_invalidate(stream->capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                             "a capture waits for an event that was recorded outside of it");
    }
    if (capture == NULL) {
        if (stream->capture != NULL) {
            graph_invalidate(stream->capture);
        }
        return driver_refuse(CUDA_ERROR_CAPTURED_EVENT,
                             "a stream waits for an event of a capture that has ended");
    }
    if (stream->capture != NULL && stream->capture != capture) {
        graph_invalidate(stream->capture);
        graph_invalidate(capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one");
    }
    if (stream->queue.pieces == NULL) {
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                             "the legacy stream cannot join a capture");
    }
    return check_capture(capture);
}

CUresult graph_capture_wait(struct CUstream_st *stream, struct CUevent_st *event) {
    struct work *piece;
    struct capture *capture = capture_of(event);
    CUresult result = check_wait(stream, event, capture);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (stream->capture == NULL) {
        join(capture, stream);
    }
    result = graph_capture_piece(stream, &piece);
    ASSERT(result == CUDA_SUCCESS);
    piece->kind = WORK_WAIT;
    uint64_t place = event->seen[event->lane];
    if (place > 0) {
        piece->after = (struct moment){&capture->graph->queues[event->lane], place - 1};
    }
    uint64_t *seen = capture->seen[stream->lane];
    for (int i = 0; i < CAPTURE_LANES; i++) {
        seen[i] = event->seen[i] > seen[i] ? event->seen[i] : seen[i];
    }
    return CUDA_SUCCESS;
}

static CUresult begin_capture(struct CUstream_st *stream, CUstreamCaptureMode mode) {
    if (stream->queue.pieces == NULL || stream->next == stream) {
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                             "the legacy stream cannot capture");
    }
    if (stream->capture != NULL) {
        return driver_refuse(CUDA_ERROR_ILLEGAL_STATE, "this stream is capturing already");
    }
    struct capture *capture = calloc(1, sizeof *capture);
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    ASSERT(capture != NULL && graph != NULL);
    capture->number = ++captures_begun;
    capture->mode = mode;
    capture->thread = pthread_self();
    capture->graph = graph;
    capture->next = emulated.captures;
    emulated.captures = capture;
    join(capture, stream);
    return CUDA_SUCCESS;
}

static CUresult stream_begin_capture(CUstream handle, CUstreamCaptureMode mode) {
    struct CUstream_st *stream = NULL;
    CUresult result = driver_enter("cuStreamBeginCapture", ENTRY_CONTEXT);
    if (result == CUDA_SUCCESS && (handle == NULL || handle == CU_STREAM_LEGACY)) {
        result = driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                               "the legacy stream cannot capture");
    }
    result = result == CUDA_SUCCESS ? stream_of(handle, &stream) : result;
    return driver_leave(result == CUDA_SUCCESS ? begin_capture(stream, mode) : result);
}

static CUresult check_joined(const struct capture *capture) {
    for (int lane = 1; lane < capture->graph->lanes; lane++) {
        if (capture->seen[0][lane] < capture->graph->queues[lane].issued) {
            return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                                 "the capture ends with work of stream %d that nothing waits for",
                                 lane);
        }
    }
    return CUDA_SUCCESS;
}

static void free_graph(struct CUgraph_st *graph) {
    for (int lane = 0; lane < graph->lanes; lane++) {
        free(graph->queues[lane].pieces);
    }
    free(graph);
}

static void forget_capture(struct capture *capture) {
    for (int lane = 0; lane < capture->graph->lanes; lane++) {
        capture->streams[lane]->capture = NULL;
    }
    for (struct capture **at = &emulated.captures; *at != NULL; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    free(capture);
}

static CUresult end_capture(struct CUstream_st *stream, CUgraph *graph) {
    struct capture *capture = stream->capture;
    *graph = NULL;
    if (capture == NULL) {
        return driver_refuse(CUDA_ERROR_ILLEGAL_STATE, "this stream is not capturing");
    }
    if (capture->streams[0] != stream) {
        graph_invalidate(capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                             "a capture ends on the stream on which it began");
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self())) {
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                             "a capture ends on the thread on which it began");
    }
    CUresult result = check_capture(capture);
    result = result == CUDA_SUCCESS ? check_joined(capture) : result;
    struct CUgraph_st *captured = capture->graph;
    forget_capture(capture);
    if (result != CUDA_SUCCESS) {
        free_graph(captured);
        return result;
    }
    captured->next = graphs;
    graphs = captured;
    emulated.live++;
    *graph = captured;
    return CUDA_SUCCESS;
}

static CUresult stream_end_capture(CUstream handle, CUgraph *graph) {
    struct CUstream_st *stream = NULL;
    CUresult result = driver_enter("cuStreamEndCapture", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? stream_of(handle, &stream) : result;
    return driver_leave(result == CUDA_SUCCESS ? end_capture(stream, graph) : result);
}

/* ---- graphs that run ---- */

static struct CUgraph_st **graph_of(CUgraph handle) {
    for (struct CUgraph_st **at = &graphs; *at != NULL; at = &(*at)->next) {
        if (*at == handle) {
            return at;
        }
    }
    driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no graph, or one that was destroyed");
    return NULL;
}

static CUresult executable_of(CUgraphExec handle, struct CUgraphExec_st **executable) {
    for (struct CUgraphExec_st *at = executables; at != NULL; at = at->next) {
        if (at == handle && at->live) {
            *executable = at;
            return CUDA_SUCCESS;
        }
    }
    return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no executable graph, or one destroyed");
}

static void copy_lane(const struct CUgraph_st *graph, int lane, struct CUgraphExec_st *made) {
    const struct work_queue *from = &graph->queues[lane];
    struct work_queue *to = &made->queues[lane];
    to->capacity = from->issued > 0 ? from->issued : 1;
    to->pieces = calloc(to->capacity, sizeof *to->pieces);
    ASSERT(to->pieces != NULL);
    for (uint64_t i = 0; i < from->issued; i++) {
        to->pieces[i] = from->pieces[i];
        if (to->pieces[i].after.queue != NULL) {
            to->pieces[i].after.queue = &made->queues[from->pieces[i].after.queue - graph->queues];
        }
    }
    to->issued = from->issued;
    to->completed = from->issued; /* at rest */
    work_add_queue(to);
}

static CUresult instantiate(CUgraphExec *executable, CUgraph handle, unsigned long long flags) {
    CUresult result = driver_enter("cuGraphInstantiateWithFlags", ENTRY_CONTEXT);
    struct CUgraph_st **graph = result == CUDA_SUCCESS ? graph_of(handle) : NULL;
    if (result == CUDA_SUCCESS && graph == NULL) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS &&
        (flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD &
         ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "instantiation flags %llu", flags);
    }
    if (result == CUDA_SUCCESS) {
        struct CUgraphExec_st *made = calloc(1, sizeof *made);
        ASSERT(made != NULL);
        made->lanes = (*graph)->lanes;
        made->live = true;
        for (int lane = 0; lane < made->lanes; lane++) {
            copy_lane(*graph, lane, made);
        }
        made->next = executables;
        executables = made;
        emulated.live++;
        emulated.flat_graphs += !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
        *executable = made;
    }
    return driver_leave(result);
}

static CUresult graph_destroy(CUgraph handle) {
    CUresult result = driver_enter("cuGraphDestroy", ENTRY_PLAIN);
    struct CUgraph_st **at = result == CUDA_SUCCESS ? graph_of(handle) : NULL;
    if (result == CUDA_SUCCESS && at == NULL) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        struct CUgraph_st *graph = *at;
        *at = graph->next;
        free_graph(graph);
        emulated.live--;
    }
    return driver_leave(result);
}

static void drop_when_idle(struct CUgraphExec_st *executable) {
    for (int lane = 0; !executable->live && executable->in_flight == 0 && lane < executable->lanes;
         lane++) {
        work_remove_queue(&executable->queues[lane]);
    }
}

/* What is in flight is not ended, and not waited for. */
static CUresult exec_destroy(CUgraphExec handle) {
    struct CUgraphExec_st *executable = NULL;
    CUresult result = driver_enter("cuGraphExecDestroy", ENTRY_PLAIN);
    result = result == CUDA_SUCCESS ? executable_of(handle, &executable) : result;
    if (result == CUDA_SUCCESS) {
        executable->live = false;
        drop_when_idle(executable);
        emulated.live--;
    }
    return driver_leave(result);
}

static CUresult upload(CUgraphExec handle, CUstream on) {
    struct CUgraphExec_st *executable = NULL;
    struct CUstream_st *stream = NULL;
    CUresult result = driver_enter("cuGraphUpload", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? executable_of(handle, &executable) : result;
    result = result == CUDA_SUCCESS ? stream_of(on, &stream) : result;
    return driver_leave(result);
}

static CUresult launch(struct CUgraphExec_st *executable, struct CUstream_st *stream) {
    if (stream->capture != NULL) {
        graph_invalidate(stream->capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                             "a graph within a graph is not emulated");
    }
    struct work *piece;
    CUresult result = stream_piece(stream, &piece);
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_GRAPH;
        piece->as.graph = executable;
        executable->in_flight++;
        stream_issued(stream);
    }
    return result;
}

static CUresult graph_launch(CUgraphExec handle, CUstream on) {
    struct CUgraphExec_st *executable = NULL;
    struct CUstream_st *stream = NULL;
    CUresult result = driver_enter("cuGraphLaunch", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? executable_of(handle, &executable) : result;
    result = result == CUDA_SUCCESS ? stream_of(on, &stream) : result;
    return driver_leave(result == CUDA_SUCCESS ? launch(executable, stream) : result);
}

void graph_launch_begin(struct CUgraphExec_st *graph) {
    for (int lane = 0; lane < graph->lanes; lane++) {
        graph->queues[lane].completed = 0;
    }
}

void graph_launch_end(struct CUgraphExec_st *graph) {
    graph->in_flight--;
    drop_when_idle(graph);
}

bool graph_running(const struct CUgraphExec_st *graph) {
    for (int lane = 0; lane < graph->lanes; lane++) {
        if (graph->queues[lane].completed < graph->queues[lane].issued) {
            return true;
        }
    }
    return false;
}

static bool queue_holds(const struct work_queue *queue, const void *context) {
    bool holds = false;
    for (uint64_t i = 0; i < queue->issued && !holds; i++) {
        const struct work *work = &queue->pieces[i];
        holds = work->kind == WORK_HOST && work->as.host.context == context;
    }
    return holds;
}

static bool graph_holds(const struct CUgraphExec_st *graph, const void *context) {
    bool holds = false;
    for (int lane = 0; lane < graph->lanes && !holds; lane++) {
        holds = queue_holds(&graph->queues[lane], context);
    }
    return holds;
}

bool emulated_driver_holds(const void *context) {
    bool holds = false;
    for (const struct CUgraphExec_st *at = executables; at != NULL; at = at->next) {
        holds = holds || (at->live && graph_holds(at, context));
    }
    return holds;
}

bool emulated_driver_runs(const void *context) {
    bool runs = false;
    for (const struct CUgraphExec_st *at = executables; at != NULL; at = at->next) {
        runs = runs || (at->in_flight > 0 && graph_holds(at, context));
    }
    return runs;
}

void graph_fill_table(struct cuda_driver *driver) {
    driver->cuStreamBeginCapture = stream_begin_capture;
    driver->cuStreamEndCapture = stream_end_capture;
    driver->cuGraphInstantiateWithFlags = instantiate;
    driver->cuGraphUpload = upload;
    driver->cuGraphLaunch = graph_launch;
    driver->cuGraphDestroy = graph_destroy;
    driver->cuGraphExecDestroy = exec_destroy;
}

void graph_forget(void) {
    while (emulated.captures != NULL) {
        free_graph(emulated.captures->graph);
        struct capture *next = emulated.captures->next;
        free(emulated.captures);
        emulated.captures = next;
    }
    while (graphs != NULL) {
        struct CUgraph_st *next = graphs->next;
        free_graph(graphs);
        graphs = next;
    }
    while (executables != NULL) {
        struct CUgraphExec_st *next = executables->next;
        for (int lane = 0; lane < executables->lanes; lane++) {
            free(executables->queues[lane].pieces);
        }
        free(executables);
        executables = next;
    }
}
