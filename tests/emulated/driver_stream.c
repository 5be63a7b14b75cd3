/* driver_stream: streams, events, copies and fills of the emulated driver. */
#include "tests/emulated/driver_parts.h"

#include <stdlib.h>
#include <string.h>

static struct CUstream_st legacy = {.live = true, .blocking = true};

CUresult stream_of(CUstream handle, struct CUstream_st **stream) {
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        *stream = &legacy;
        return CUDA_SUCCESS;
    }
    for (struct CUstream_st *at = emulated.streams; at != NULL; at = at->next) {
        if (at == handle && at->live) {
            *stream = at;
            return CUDA_SUCCESS;
        }
    }
    return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no stream, or one that was destroyed");
}

static bool blocking_capture(void) {
    for (const struct CUstream_st *at = emulated.streams; at != NULL; at = at->next) {
        if (at->blocking && at->capture != NULL) {
            graph_invalidate(at->capture);
            return true;
        }
    }
    return false;
}

/* The legacy stream runs after all blocking streams and before anything else of theirs: what they
 * hold runs first, and its own work at once. */
static CUresult make_way(void) {
    if (blocking_capture()) {
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                             "the legacy stream would wait for a stream that is capturing");
    }
    for (struct CUstream_st *at = emulated.streams; at != NULL; at = at->next) {
        if (at->blocking) {
            work_run_queue(&at->queue);
        }
    }
    return CUDA_SUCCESS;
}

static void prepare_legacy(void) {
    if (legacy.queue.pieces == NULL) {
        legacy.queue = (struct work_queue){.capacity = STREAM_DEPTH};
        legacy.queue.pieces = calloc(STREAM_DEPTH, sizeof *legacy.queue.pieces);
        ASSERT(legacy.queue.pieces != NULL);
        work_add_queue(&legacy.queue);
    }
}

CUresult stream_piece(struct CUstream_st *stream, struct work **piece) {
    if (stream->capture != NULL) {
        return graph_capture_piece(stream, piece);
    }
    if (stream == &legacy) {
        prepare_legacy();
        CUresult result = make_way();
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    *piece = work_next(&stream->queue);
    return CUDA_SUCCESS;
}

void stream_issued(struct CUstream_st *stream) {
    if (stream->capture != NULL) {
        return;
    }
    stream->queue.issued++;
    if (stream == &legacy) {
        work_run_queue(&stream->queue);
    } else {
        work_run_some();
    }
}

/* ---- streams ---- */

static CUresult make_stream(CUstream *stream, unsigned flags) {
    if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "stream flags %u", flags);
    }
    struct CUstream_st *made = calloc(1, sizeof *made);
    ASSERT(made != NULL);
    made->live = true;
    made->blocking = flags == CU_STREAM_DEFAULT;
    made->queue.capacity = STREAM_DEPTH;
    made->queue.pieces = calloc(STREAM_DEPTH, sizeof *made->queue.pieces);
    ASSERT(made->queue.pieces != NULL);
    made->next = emulated.streams;
    emulated.streams = made;
    work_add_queue(&made->queue);
    emulated.live++;
    *stream = made;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags) {
    CUresult result = driver_enter("cuStreamCreate", ENTRY_CONTEXT);
    return driver_leave(result == CUDA_SUCCESS ? make_stream(stream, flags) : result);
}

static CUresult stream_create_with(CUstream *stream, unsigned flags, int priority) {
    (void)priority; /* any order is allowed already */
    CUresult result = driver_enter("cuStreamCreateWithPriority", ENTRY_CONTEXT);
    return driver_leave(result == CUDA_SUCCESS ? make_stream(stream, flags) : result);
}

static CUresult enter_stream(const char *call, CUstream handle, struct CUstream_st **stream) {
    CUresult result = driver_enter(call, ENTRY_CONTEXT);
    return result == CUDA_SUCCESS ? stream_of(handle, stream) : result;
}

static CUresult stream_destroy(CUstream handle) {
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuStreamDestroy", handle, &stream);
    if (result == CUDA_SUCCESS && (stream == &legacy || stream->capture != NULL)) {
        result = driver_refuse(CUDA_ERROR_INVALID_HANDLE, "a stream that is legacy or capturing");
    }
    if (result == CUDA_SUCCESS) {
        stream->live = false; /* what it holds still runs */
        emulated.live--;
    }
    return driver_leave(result);
}

/* Asking a stream that captures breaks its capture. */
static CUresult check_asked(CUresult result, const struct CUstream_st *stream, const char *call) {
    if (result == CUDA_SUCCESS && stream->capture != NULL) {
        graph_invalidate(stream->capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s of a capturing stream",
                             call);
    }
    return result;
}

static CUresult stream_query(CUstream handle) {
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuStreamQuery", handle, &stream);
    result = check_asked(result, stream, "cuStreamQuery");
    if (result == CUDA_SUCCESS) {
        work_run_some();
        bool done = stream->queue.completed == stream->queue.issued;
        if (!done && emulated.options.pace == EMULATED_LATE) {
            /* one piece a question: whoever asks again and again gets there */
            work_try_until((struct moment){&stream->queue, stream->queue.completed});
        }
        result = emulated.broken != CUDA_SUCCESS ? emulated.broken
                 : done                          ? CUDA_SUCCESS
                                                 : CUDA_ERROR_NOT_READY;
    }
    return driver_leave(result);
}

static CUresult stream_synchronize(CUstream handle) {
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuStreamSynchronize", handle, &stream);
    result = check_asked(result, stream, "cuStreamSynchronize");
    if (result == CUDA_SUCCESS && stream == &legacy) {
        prepare_legacy();
        result = make_way();
    }
    if (result == CUDA_SUCCESS) {
        work_run_queue(&stream->queue);
        result = emulated.broken;
    }
    return driver_leave(result);
}

/* ---- events ---- */

static CUresult event_of(CUevent handle, struct CUevent_st **event) {
    for (struct CUevent_st *at = emulated.events; at != NULL; at = at->next) {
        if (at == handle && at->live) {
            *event = at;
            return CUDA_SUCCESS;
        }
    }
    return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "no event, or one that was destroyed");
}

static CUresult event_create(CUevent *event, unsigned flags) {
    CUresult result = driver_enter("cuEventCreate", ENTRY_CONTEXT);
    if (result == CUDA_SUCCESS) {
        struct CUevent_st *made = calloc(1, sizeof *made);
        ASSERT(made != NULL);
        made->live = true;
        made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
        made->next = emulated.events;
        emulated.events = made;
        emulated.live++;
        *event = made;
    }
    return driver_leave(result);
}

static CUresult event_destroy(CUevent handle) {
    struct CUevent_st *event = NULL;
    CUresult result = driver_enter("cuEventDestroy", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? event_of(handle, &event) : result;
    if (result == CUDA_SUCCESS) {
        event->live = false;
        emulated.live--;
    }
    return driver_leave(result);
}

static CUresult record(struct CUevent_st *event, struct CUstream_st *stream) {
    if (stream->capture != NULL) {
        return graph_capture_mark(stream, event);
    }
    struct work *piece;
    CUresult result = stream_piece(stream, &piece);
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_MARK;
        piece->as.mark = event;
        event->recorded = true;
        event->capture_number = 0;
        event->moment = (struct moment){&stream->queue, stream->queue.issued};
        stream_issued(stream);
    }
    return result;
}

static CUresult event_record(CUevent handle, CUstream on) {
    struct CUevent_st *event = NULL;
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuEventRecord", on, &stream);
    result = result == CUDA_SUCCESS ? event_of(handle, &event) : result;
    return driver_leave(result == CUDA_SUCCESS ? record(event, stream) : result);
}

static CUresult wait_event(struct CUstream_st *stream, struct CUevent_st *event) {
    if (!event->recorded) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE,
                             "a stream waits for an event that was never recorded");
    }
    if (stream->capture != NULL || event->capture_number != 0) {
        return graph_capture_wait(stream, event);
    }
    struct work *piece;
    CUresult result = stream_piece(stream, &piece);
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_WAIT;
        piece->after = event->moment;
        stream_issued(stream);
    }
    return result;
}

static CUresult stream_wait_event(CUstream handle, CUevent awaited, unsigned flags) {
    struct CUevent_st *event = NULL;
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuStreamWaitEvent", handle, &stream);
    result = result == CUDA_SUCCESS ? event_of(awaited, &event) : result;
    if (result == CUDA_SUCCESS && flags != 0) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "cuStreamWaitEvent: flags %u", flags);
    }
    return driver_leave(result == CUDA_SUCCESS ? wait_event(stream, event) : result);
}

static CUresult check_event(CUresult result, const struct CUevent_st *event) {
    if (result == CUDA_SUCCESS && !event->recorded) {
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "an event that was never recorded");
    }
    if (result == CUDA_SUCCESS && event->capture_number != 0) {
        return driver_refuse(CUDA_ERROR_CAPTURED_EVENT, "an event of a capture never happens");
    }
    return result;
}

static CUresult event_query(CUevent handle) {
    struct CUevent_st *event = NULL;
    CUresult result = driver_enter("cuEventQuery", ENTRY_CONTEXT | ENTRY_UNSAFE);
    result = result == CUDA_SUCCESS ? event_of(handle, &event) : result;
    result = check_event(result, event);
    if (result == CUDA_SUCCESS) {
        work_run_some();
        bool done = work_done(event->moment);
        if (!done && emulated.options.pace == EMULATED_LATE) {
            work_try_until((struct moment){event->moment.queue, event->moment.queue->completed});
        }
        result = emulated.broken != CUDA_SUCCESS ? emulated.broken
                 : done                          ? CUDA_SUCCESS
                                                 : CUDA_ERROR_NOT_READY;
    }
    return driver_leave(result);
}

static CUresult elapsed(const struct CUevent_st *begin, const struct CUevent_st *end, float *ms) {
    if (!begin->timed || !end->timed) {
        return driver_refuse(CUDA_ERROR_INVALID_HANDLE, "an event without timing");
    }
    if (!work_done(begin->moment) || !work_done(end->moment)) {
        return CUDA_ERROR_NOT_READY;
    }
    *ms = (float)((double)(end->time_ns - begin->time_ns) * 1e-6);
    return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end) {
    struct CUevent_st *first = NULL;
    struct CUevent_st *last = NULL;
    CUresult result = driver_enter("cuEventElapsedTime", ENTRY_CONTEXT);
    result = result == CUDA_SUCCESS ? event_of(begin, &first) : result;
    result = result == CUDA_SUCCESS ? event_of(end, &last) : result;
    result = check_event(result, first);
    result = check_event(result, last);
    return driver_leave(result == CUDA_SUCCESS ? elapsed(first, last, ms) : result);
}

/* ---- copies ---- */

/* As CUDA has it: bytes from pageable memory are taken when the call is made, a copy to pageable
 * memory comes back when it is done. */
static CUresult copy(char *to, const char *from, size_t bytes, struct CUstream_st *stream) {
    enum place_kind to_kind;
    enum place_kind from_kind;
    struct work *piece;
    CUresult result = memory_place(to, bytes, &to_kind);
    result = result == CUDA_SUCCESS ? memory_place(from, bytes, &from_kind) : result;
    if (result != CUDA_SUCCESS || bytes == 0) {
        return result;
    }
    bool pageable = to_kind == PLACE_PAGEABLE || from_kind == PLACE_PAGEABLE;
    if (pageable && stream->capture != NULL) {
        graph_invalidate(stream->capture);
        return driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                             "a copy from or to pageable memory within a capture");
    }
    result = stream_piece(stream, &piece);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    piece->kind = WORK_COPY;
    piece->as.move.to = to;
    piece->as.move.from = from;
    piece->as.move.bytes = bytes;
    piece->as.move.staged = NULL;
    if (from_kind == PLACE_PAGEABLE) {
        piece->as.move.staged = malloc(bytes);
        ASSERT(piece->as.move.staged != NULL);
        memcpy(piece->as.move.staged, from, bytes);
    }
    stream_issued(stream);
    if (to_kind == PLACE_PAGEABLE) {
        work_run_queue(&stream->queue);
    }
    return emulated.broken;
}

static CUresult copy_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on) {
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuMemcpyAsync", on, &stream);
    return driver_leave(result == CUDA_SUCCESS ? copy((char *)(uintptr_t)to,
                                                      (const char *)(uintptr_t)from, bytes, stream)
                                               : result);
}

static CUresult fill(char *to, unsigned char value, size_t bytes, struct CUstream_st *stream) {
    enum place_kind kind;
    struct work *piece;
    CUresult result = memory_place(to, bytes, &kind);
    if (result == CUDA_SUCCESS && kind == PLACE_PAGEABLE) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "a fill of pageable memory");
    }
    if (result != CUDA_SUCCESS || bytes == 0) {
        return result;
    }
    result = stream_piece(stream, &piece);
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_FILL;
        piece->as.move.to = to;
        piece->as.move.staged = NULL;
        piece->as.move.value = value;
        piece->as.move.bytes = bytes;
        stream_issued(stream);
    }
    return result;
}

static CUresult fill_async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream on) {
    struct CUstream_st *stream = NULL;
    CUresult result = enter_stream("cuMemsetD8Async", on, &stream);
    return driver_leave(result == CUDA_SUCCESS ? fill((char *)(uintptr_t)to, value, bytes, stream)
                                               : result);
}

static CUresult enqueue_host(const char *call, CUstream handle, struct host_piece host) {
    struct CUstream_st *stream = NULL;
    struct work *piece;
    CUresult result = enter_stream(call, handle, &stream);
    result = result == CUDA_SUCCESS ? stream_piece(stream, &piece) : result;
    if (result == CUDA_SUCCESS) {
        piece->kind = WORK_HOST;
        piece->as.host = host;
        stream_issued(stream);
    }
    return driver_leave(result);
}

static CUresult launch_host(CUstream on, CUhostFn run, void *context) {
    return enqueue_host("cuLaunchHostFunc", on,
                        (struct host_piece){.run = run, .context = context, .closed = true});
}

CUresult emulated_driver_enqueue(CUstream handle, void (*run)(void *context), void *context) {
    return emulated_driver_enqueue_when(handle, NULL, run, context);
}

CUresult emulated_driver_enqueue_when(CUstream handle, bool (*ready)(void *context),
                                      void (*run)(void *context), void *context) {
    return enqueue_host("emulated_driver_enqueue", handle,
                        (struct host_piece){.run = run, .context = context, .ready = ready});
}

void stream_fill_table(struct cuda_driver *driver) {
    driver->cuStreamCreate = stream_create;
    driver->cuStreamCreateWithPriority = stream_create_with;
    driver->cuStreamDestroy = stream_destroy;
    driver->cuStreamQuery = stream_query;
    driver->cuStreamSynchronize = stream_synchronize;
    driver->cuStreamWaitEvent = stream_wait_event;
    driver->cuEventCreate = event_create;
    driver->cuEventDestroy = event_destroy;
    driver->cuEventRecord = event_record;
    driver->cuEventQuery = event_query;
    driver->cuEventElapsedTime = event_elapsed;
    driver->cuMemcpyAsync = copy_async;
    driver->cuMemsetD8Async = fill_async;
    driver->cuLaunchHostFunc = launch_host;
}

void stream_forget(void) {
    while (emulated.streams != NULL) {
        struct CUstream_st *next = emulated.streams->next;
        free(emulated.streams->queue.pieces);
        free(emulated.streams);
        emulated.streams = next;
    }
    while (emulated.events != NULL) {
        struct CUevent_st *next = emulated.events->next;
        free(emulated.events);
        emulated.events = next;
    }
    free(legacy.queue.pieces);
    legacy.queue = (struct work_queue){.pieces = NULL};
    emulated.queues = NULL;
}
