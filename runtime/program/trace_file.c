#include "runtime/program/trace_file.h"

#include "base/file.h"
#include "base/text.h"

#include <unistd.h>

enum {
    BUFFER_BYTES = 8192,                   /* size of the buffer for text that is not yet written */
    EVENT_BYTES = 1024,                    /* maximum size of one event */
    UNFINISHED_PATH_BYTES = PATH_BYTES + 8 /* size of the text of the unfinished file's path */
};

static const char *const LANE_TITLES[LANE_COUNT] = {"compute", "collective", "copy"};

/* A buffered writer that appends text to the unfinished file. */
struct trace_writer {
    char path[UNFINISHED_PATH_BYTES]; /* path of the unfinished file */
    int fd;                           /* descriptor of the unfinished file */
    int64_t offset;                   /* position in the file of the next write */
    char buffer[BUFFER_BYTES];        /* text that is not yet written to the file */
    struct text text;                 /* writer into `buffer` */
    enum status status;               /* result of the writes so far */
    struct fault *fault;
};

static void flush_buffer(struct trace_writer *trace_writer) {
    ASSERT(!trace_writer->text.truncated);
    if (trace_writer->status == OK) {
        trace_writer->status =
            file_write_at(trace_writer->fd, trace_writer->path, trace_writer->buffer,
                          trace_writer->text.length, trace_writer->offset, trace_writer->fault);
    }
    trace_writer->offset += (int64_t)trace_writer->text.length;
    trace_writer->text = text_over(trace_writer->buffer, sizeof trace_writer->buffer);
}

static void flush_if_nearly_full(struct trace_writer *trace_writer) {
    if (trace_writer->text.length + EVENT_BYTES > sizeof trace_writer->buffer) {
        flush_buffer(trace_writer);
    }
}

static void trace_writer_init(struct trace_writer *trace_writer, int fd, int64_t offset,
                              struct fault *fault) {
    trace_writer->fd = fd;
    trace_writer->offset = offset;
    trace_writer->status = OK;
    trace_writer->fault = fault;
    trace_writer->text = text_over(trace_writer->buffer, sizeof trace_writer->buffer);
}

static enum status trace_writer_close(struct trace_writer *trace_writer) {
    flush_buffer(trace_writer);
    trace_writer->status = file_close_written(trace_writer->fd, trace_writer->path,
                                              trace_writer->status, trace_writer->fault);
    if (trace_writer->status != OK) {
        unlink(trace_writer->path);
    }
    return trace_writer->status;
}

enum status trace_file_begin(const char *path, struct fault *fault) {
    int fd;
    struct trace_writer trace_writer;
    file_unfinished_path(path, trace_writer.path, sizeof trace_writer.path);
    TRY(file_open_write(trace_writer.path, &fd, fault));
    trace_writer_init(&trace_writer, fd, 0, fault);
    /* Writes a first event, so that every later event can start with a comma. */
    text_add(&trace_writer.text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
                                 "{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": 0, "
                                 "\"args\": {\"labels\": \"skep\"}}");
    return trace_writer_close(&trace_writer);
}

static void add_process_and_lane_names(struct trace_writer *trace_writer, int rank) {
    text_add(&trace_writer->text,
             ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
             "\"args\": {\"name\": \"rank %d\"}}",
             rank, rank);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        text_add(&trace_writer->text,
                 ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, "
                 "\"args\": {\"name\": \"%s\"}}",
                 rank, lane, LANE_TITLES[lane]);
    }
}

/* Returns the name of the first extent that the instruction writes, or else of the first extent
 * that it reads. */
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

static void add_event(struct trace_writer *trace_writer, const struct schedule *schedule, int rank,
                      int lane, const struct trace_record *record) {
    const struct instruction *instruction = &schedule->instructions[record->instruction];
    char title[256];
    struct text name = text_over(title, sizeof title);
    if (record->kind == TRACE_JOIN) {
        text_add(&name, "join");
    } else {
        text_add(&name, "%s%s %s", record->kind == TRACE_WAIT ? "wait: " : "",
                 op_row(instruction->op)->name, main_extent_name(schedule, instruction));
    }
    text_add(&trace_writer->text,
             ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": ", rank, lane,
             record->kind == TRACE_EXECUTE ? "run" : "wait");
    text_add_json(&trace_writer->text, title);
    text_add(&trace_writer->text,
             ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"segment\": \"%s\", \"layer\": %d, "
             "\"instruction\": %u",
             (double)record->begin_ns * 1e-3, (double)(record->end_ns - record->begin_ns) * 1e-3,
             segment_name((enum segment_kind)instruction->segment), instruction->layer,
             record->instruction);
    if (record->kind == TRACE_EXECUTE) {
        text_add(&trace_writer->text, ", \"bytes\": %llu",
                 (unsigned long long)operand_bytes(instruction));
    } else if (record->kind == TRACE_WAIT) {
        text_add(&trace_writer->text, ", \"event\": %u", record->event);
    }
    text_add(&trace_writer->text, "}}");
}

/* Opens the unfinished file to append to it. */
static enum status open_for_append(struct trace_writer *trace_writer, const char *path,
                                   struct fault *fault) {
    int fd;
    int64_t bytes;
    file_unfinished_path(path, trace_writer->path, sizeof trace_writer->path);
    TRY(file_open_append(trace_writer->path, &fd, &bytes, fault));
    trace_writer_init(trace_writer, fd, bytes, fault);
    return OK;
}

enum status trace_file_append(const char *path, const struct schedule *schedule,
                              const struct trace *trace, int rank, struct fault *fault) {
    struct trace_writer trace_writer;
    TRY(open_for_append(&trace_writer, path, fault));
    add_process_and_lane_names(&trace_writer, rank);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (uint32_t i = 0; i < trace->lanes[lane].count; i++) {
            flush_if_nearly_full(&trace_writer);
            add_event(&trace_writer, schedule, rank, lane, &trace->lanes[lane].records[i]);
        }
    }
    return trace_writer_close(&trace_writer);
}

enum status trace_file_end(const char *path, struct fault *fault) {
    struct trace_writer trace_writer;
    TRY(open_for_append(&trace_writer, path, fault));
    text_add(&trace_writer.text, "\n]}\n");
    TRY(trace_writer_close(&trace_writer));
    return file_publish(trace_writer.path, path, fault);
}
