#include "runtime/program/trace_file.h"

#include "base/file.h"
#include "base/text.h"

#include <unistd.h>

enum { BUFFER_BYTES = 8192, EVENT_BYTES = 1024, UNFINISHED_BYTES = PATH_BYTES + 8 };

static const char *const LANE_TITLES[LANE_COUNT] = {"compute", "collective", "copy"};

/* A buffered writer that appends text to the unfinished file. */
struct sink {
    char path[UNFINISHED_BYTES];
    int fd;
    int64_t offset; /* position in the file of the next write */
    char buffer[BUFFER_BYTES];
    struct text text;   /* writer into `buffer` */
    enum status status; /* result of the writes so far */
    struct fault *fault;
};

static void flush_buffer(struct sink *sink) {
    ASSERT(!sink->text.truncated);
    if (sink->status == OK) {
        sink->status = file_write_at(sink->fd, sink->path, sink->buffer, sink->text.length,
                                     sink->offset, sink->fault);
    }
    sink->offset += (int64_t)sink->text.length;
    sink->text = text_over(sink->buffer, sizeof sink->buffer);
}

static void flush_if_nearly_full(struct sink *sink) {
    if (sink->text.length + EVENT_BYTES > sizeof sink->buffer) {
        flush_buffer(sink);
    }
}

static void sink_begin(struct sink *sink, int fd, int64_t offset, struct fault *fault) {
    sink->fd = fd;
    sink->offset = offset;
    sink->status = OK;
    sink->fault = fault;
    sink->text = text_over(sink->buffer, sizeof sink->buffer);
}

static enum status sink_end(struct sink *sink) {
    flush_buffer(sink);
    sink->status = file_end_write(sink->fd, sink->path, sink->status, sink->fault);
    if (sink->status != OK) {
        unlink(sink->path);
    }
    return sink->status;
}

enum status trace_file_begin(const char *path, struct fault *fault) {
    int fd;
    struct sink sink;
    file_unfinished_path(path, sink.path, sizeof sink.path);
    TRY(file_open_write(sink.path, &fd, fault));
    sink_begin(&sink, fd, 0, fault);
    /* Writes a first event, so that every later event can start with a comma. */
    text_add(&sink.text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
                         "{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": 0, "
                         "\"args\": {\"labels\": \"skep\"}}");
    return sink_end(&sink);
}

static void add_process_and_lane_names(struct sink *sink, int rank) {
    text_add(&sink->text,
             ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
             "\"args\": {\"name\": \"rank %d\"}}",
             rank, rank);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        text_add(&sink->text,
                 ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, "
                 "\"args\": {\"name\": \"%s\"}}",
                 rank, lane, LANE_TITLES[lane]);
    }
}

/* Name of the first extent that the instruction writes, or else of the first extent that it
 * reads. */
static const char *main_extent_name(const struct schedule *schedule,
                                    const struct instruction *instruction) {
    const char *read = NULL;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        const struct operand *operand = &instruction->operands[k];
        if (operand->extent == EXTENT_NONE) {
            continue;
        }
        const char *name = schedule->extents[operand->extent].name;
        if ((operand->access & ACCESS_WRITE) != 0) {
            return name;
        }
        read = read == NULL ? name : read;
    }
    return read != NULL ? read : "";
}

static uint64_t operand_bytes(const struct instruction *instruction) {
    uint64_t bytes = 0;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        const struct operand *operand = &instruction->operands[k];
        bytes += operand->extent != EXTENT_NONE ? operand->bytes : 0;
    }
    return bytes;
}

static void add_event(struct sink *sink, const struct schedule *schedule, int rank, int lane,
                      const struct trace_record *record) {
    const struct instruction *instruction = &schedule->instructions[record->instruction];
    char title[256];
    struct text name = text_over(title, sizeof title);
    if (record->kind == TRACE_JOIN) {
        text_add(&name, "join");
    } else {
        text_add(&name, "%s%s %s", record->kind == TRACE_WAIT ? "wait: " : "",
                 op_row(instruction->op)->name, main_extent_name(schedule, instruction));
    }
    text_add(&sink->text,
             ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": ", rank, lane,
             record->kind == TRACE_RUN ? "run" : "wait");
    text_add_json(&sink->text, title);
    text_add(&sink->text,
             ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"segment\": \"%s\", \"layer\": %d, "
             "\"instruction\": %u",
             (double)record->begin_ns * 1e-3, (double)(record->end_ns - record->begin_ns) * 1e-3,
             segment_name((enum segment_kind)instruction->segment), instruction->layer,
             record->instruction);
    if (record->kind == TRACE_RUN) {
        text_add(&sink->text, ", \"bytes\": %llu", (unsigned long long)operand_bytes(instruction));
    } else if (record->kind == TRACE_WAIT) {
        text_add(&sink->text, ", \"event\": %u", record->event);
    }
    text_add(&sink->text, "}}");
}

/* Opens the unfinished file to append to it. */
static enum status open_for_append(struct sink *sink, const char *path, struct fault *fault) {
    int fd;
    int64_t bytes;
    file_unfinished_path(path, sink->path, sizeof sink->path);
    TRY(file_open_append(sink->path, &fd, &bytes, fault));
    sink_begin(sink, fd, bytes, fault);
    return OK;
}

enum status trace_file_append(const char *path, const struct schedule *schedule,
                              const struct trace *trace, int rank, struct fault *fault) {
    struct sink sink;
    TRY(open_for_append(&sink, path, fault));
    add_process_and_lane_names(&sink, rank);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (uint32_t i = 0; i < trace->lanes[lane].count; i++) {
            flush_if_nearly_full(&sink);
            add_event(&sink, schedule, rank, lane, &trace->lanes[lane].records[i]);
        }
    }
    return sink_end(&sink);
}

enum status trace_file_end(const char *path, struct fault *fault) {
    struct sink sink;
    TRY(open_for_append(&sink, path, fault));
    text_add(&sink.text, "\n]}\n");
    TRY(sink_end(&sink));
    return file_publish(sink.path, path, fault);
}
