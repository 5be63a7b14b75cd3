#include "runtime/train/metrics.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/settings/setting_keys.h"
#include "targets/os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_BYTES = 2048,    /* size of the text of a line, without the memory use of the ranks */
    RANK_BYTES = 256,     /* size of the text of the memory use of one rank in a line */
    TAIL_BYTES = 64 << 10 /* bytes at the end of an earlier file that are read */
};

enum status metrics_check_path(const char *path, const char *key, struct fault *fault) {
    char remedy[NAME_BYTES];
    char above[PATH_BYTES];
    if (file_exists(path)) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd < 0) {
            return fault_set_errno(fault, STATUS_INPUT, path,
                                   "the file cannot be opened for appending", errno);
        }
        close(fd);
        return OK;
    }
    file_parent_folder(path, above, sizeof above);
    while (!file_exists(above)) {
        char next[PATH_BYTES];
        file_parent_folder(above, next, sizeof next);
        memcpy(above, next, sizeof above);
    }
    if (!file_is_folder(above)) {
        snprintf(remedy, sizeof remedy, "set %s to a different file", key);
        return fault_set(fault, STATUS_INPUT, above, remedy,
                         "is a file, but the metrics need a folder here");
    }
    return access(above, W_OK | X_OK) == 0
               ? OK
               : fault_set_errno(fault, STATUS_INPUT, above,
                                 "a file cannot be created in this folder", errno);
}

/* Reads the end of the file into `buffer` [TAIL_BYTES]; returns the number of bytes, 0 if the path
 * is no regular file. */
static size_t read_tail(const char *path, char *buffer) {
    int fd;
    int64_t bytes;
    struct fault unread;
    if (file_open_read(path, &fd, &bytes, &unread) != OK) {
        return 0;
    }
    const size_t count = (size_t)min_i64(bytes, TAIL_BYTES);
    const enum status status =
        file_read_at(fd, path, buffer, count, bytes - (int64_t)count, &unread);
    close(fd);
    return status == OK ? count : 0;
}

static bool has_prefix(const char *line, const char *end, const char *prefix) {
    const size_t length = strlen(prefix);
    return (size_t)(end - line) >= length && memcmp(line, prefix, length) == 0;
}

/* Returns the step in the line [line, end); 0 if there is none. */
static int64_t step_of_line(const char *line, const char *end) {
    static const char NAME[] = ", \"step\": ";
    char digits[24] = "";
    int64_t step = 0;
    const char *number = memmem(line, (size_t)(end - line), NAME, sizeof NAME - 1);
    if (number != NULL) {
        number += sizeof NAME - 1;
        size_t length = 0;
        while (number < end && length < sizeof digits - 1 && *number >= '0' && *number <= '9') {
            digits[length++] = *number++;
        }
    }
    return text_parse_i64(digits, &step) ? step : 0;
}

int64_t metrics_find_interrupted_step(const char *path, struct region *region) {
    char *buffer = region_alloc(region, TAIL_BYTES, 1);
    const char *end = buffer + read_tail(path, buffer);
    const char *next;
    int64_t step = 0;
    for (const char *line = buffer; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline != NULL ? newline + 1 : end;
        if (newline != NULL && has_prefix(line, next, "{\"kind\": \"step\"")) {
            step = step_of_line(line, next);
        } else if (has_prefix(line, next, "{\"kind\": \"end\"")) {
            step = 0;
        }
    }
    return step;
}

/* Finds an incomplete line at the end of the file. Sets *tail to its text, in `buffer`, and returns
 * its length in bytes; 0 if there is none, or if the path is not a regular file. */
static size_t read_incomplete_line(const char *path, char *buffer, const char **tail) {
    const size_t count = read_tail(path, buffer);
    if (count == 0) {
        return 0;
    }
    const char *newline = memrchr(buffer, '\n', count);
    *tail = newline == NULL ? buffer : newline + 1;
    return count - (size_t)(*tail - buffer);
}

/* Makes every line of the file complete: removes part of a metrics line or zeros at the end, which
 * a crash during a write may leave, and ends a line of any other text with a line break. */
static void repair_last_line(int fd, const char *path, struct region *region) {
    static const char START[] = "{\"kind\": \"";
    char *buffer = region_alloc(region, TAIL_BYTES, 1);
    const char *tail = NULL;
    const size_t length = read_incomplete_line(path, buffer, &tail);
    struct stat info;
    if (length == 0 || fstat(fd, &info) != 0) {
        return;
    }
    const bool is_ours =
        tail[0] == '\0' || memcmp(tail, START, min_u64(length, sizeof START - 1)) == 0;
    const bool repaired =
        is_ours ? ftruncate(fd, info.st_size - (off_t)length) == 0 : write(fd, "\n", 1) == 1;
    log_line(LOG_WARNING, "%s: the last line was incomplete%s", path,
             !repaired ? ", and cannot be completed"
             : is_ours ? "; it was removed"
                       : "; a line end was added");
}

enum status metrics_open(struct session *session, struct metrics *metrics, struct fault *fault) {
    const char *path = session->settings.metrics_path;
    char folder[PATH_BYTES];
    file_parent_folder(path, folder, sizeof folder);
    TRY(file_make_folders(folder, fault));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path,
                               "the file cannot be opened for appending", errno);
    }
    repair_last_line(fd, path, &session->region);
    int ranks = session_rank_count(session);
    size_t room = LINE_BYTES + (size_t)ranks * RANK_BYTES;
    *metrics = (struct metrics){.fd = fd,
                                .path = path,
                                .region = &session->region,
                                .line = region_alloc(&session->region, room, 1),
                                .line_bytes = room,
                                .ranks = ranks};
    return OK;
}

void metrics_close(struct metrics *metrics) {
    if (metrics->fd >= 0) {
        close(metrics->fd);
        metrics->fd = -1;
    }
}

/* Adds a number to the line. Infinities and NaN are written as null, because JSON has neither. */
static void add_number(struct text *line, const char *name, double value) {
    if (isfinite(value)) {
        text_add(line, ", \"%s\": %.9g", name, value);
    } else {
        text_add(line, ", \"%s\": null", name);
    }
}

static struct text begin_line_in_buffer(char *buffer, size_t capacity, const char *kind) {
    struct text line = text_over(buffer, capacity);
    text_add(&line, "{\"kind\": \"%s\", \"time\": %.3f", kind, clock_unix_s());
    return line;
}

static struct text begin_line(const struct metrics *metrics, const char *kind) {
    return begin_line_in_buffer(metrics->line, metrics->line_bytes, kind);
}

/* Writes the whole line or nothing, and returns whether the line was written. */
static bool write_line(int fd, const struct text *line) {
    struct stat info;
    ssize_t written;
    do {
        written = write(fd, line->bytes, line->length);
    } while (written < 0 && errno == EINTR);
    if (written == (ssize_t)line->length) {
        return true;
    }
    if (written > 0) {
        const bool removed = fstat(fd, &info) == 0 && ftruncate(fd, info.st_size - written) == 0;
        errno = removed ? ENOSPC : errno;
    }
    return false;
}

static void end_line(struct metrics *metrics, struct text *line) {
    text_add(line, "}\n");
    ASSERT(!line->truncated);
    if (!write_line(metrics->fd, line)) {
        metrics->lost_lines++;
        if (metrics->lost_lines == 1) {
            log_line(LOG_WARNING, "%s: cannot write metrics: %s; training continues without them",
                     metrics->path, strerror(errno));
        }
    } else if (metrics->lost_lines > 0) {
        log_line(LOG_WARNING, "%s: metrics are written again; %lld %s could not be written",
                 metrics->path, (long long)metrics->lost_lines,
                 metrics->lost_lines == 1 ? "line" : "lines");
        metrics->lost_lines = 0;
    }
}

static void add_setting(struct text *line, const struct settings *settings,
                        const struct setting_key *key) {
    bool bare = key->type == SETTING_CHOICE || key->type == SETTING_DTYPE;
    text_add(line, "\"%s\": %s", key->name, bare ? "\"" : "");
    settings_describe_key(settings, key, line);
    text_add(line, "%s", bare ? "\"" : "");
}

void metrics_write_start(struct metrics *metrics, const struct session *session,
                         const char *version) {
    if (metrics->fd < 0) {
        return;
    }
    const struct sharding *sharding = &session->sharding_settings.sharding;
    size_t room = LINE_BYTES + settings_describe_bytes_max(&session->settings);
    char *buffer = region_alloc(metrics->region, room, 1);
    char host[256] = "unknown";
    char hash[HASH_HEX_BYTES];
    struct text line = begin_line_in_buffer(buffer, room, "start");
    gethostname(host, sizeof host - 1);
    text_add(&line, ", \"format\": 1, \"version\": \"%s\", \"host\": ", version);
    text_add_json(&line, host);
    text_add(&line, ", \"ranks\": %d, \"mesh\": {\"replicate\": %d, \"shard\": %d}", metrics->ranks,
             sharding->replicate, sharding->shard);
    text_add(&line, ", \"plan\": \"%s\", \"keys\": {", hash_hex(&session->program.hash, hash));
    for (int i = 0; i < setting_key_count(); i++) {
        text_add(&line, "%s", i > 0 ? ", " : "");
        add_setting(&line, &session->settings, setting_key_at(i));
    }
    text_add(&line, "}");
    end_line(metrics, &line);
}

void metrics_write_step(struct metrics *metrics, int64_t step, const struct step_result *result,
                        double seconds) {
    if (metrics->fd < 0) {
        return;
    }
    struct text line = begin_line(metrics, "step");
    text_add(&line, ", \"step\": %lld", (long long)step);
    add_number(&line, "loss", result->loss);
    text_add(&line, ", \"tokens\": %lld", (long long)result->tokens);
    add_number(&line, "lr", result->learning_rate);
    add_number(&line, "grad_norm", result->gradient_norm);
    add_number(&line, "tokens_per_s", (double)result->tokens / seconds);
    add_number(&line, "step_ms", seconds * 1e3);
    text_add(&line, ", \"skipped\": %s", result->skipped ? "true" : "false");
    if (metrics->ranks > 1) {
        text_add(&line, ", \"received_bytes\": %llu", (unsigned long long)result->received_bytes);
    }
    end_line(metrics, &line);
}

void metrics_write_evaluation(struct metrics *metrics, int64_t step, double loss) {
    if (metrics->fd < 0) {
        return;
    }
    struct text line = begin_line(metrics, "eval");
    text_add(&line, ", \"step\": %lld", (long long)step);
    add_number(&line, "loss", loss);
    add_number(&line, "perplexity", exp(loss));
    end_line(metrics, &line);
}

void metrics_write_round(struct metrics *metrics, const struct metrics_round *round) {
    if (metrics->fd < 0) {
        return;
    }
    char root[HASH_HEX_BYTES];
    struct text line = begin_line(metrics, "round");
    text_add(&line, ", \"round\": %u, \"step\": %lld, \"members\": %u, \"contributors\": %u",
             round->round, (long long)round->step, round->members, round->contributors);
    text_add(&line, ", \"sent_bytes\": %llu, \"received_bytes\": %llu, \"exchange_ms\": %u",
             (unsigned long long)round->sent_bytes, (unsigned long long)round->received_bytes,
             round->exchange_ms);
    add_number(&line, "loss", round->loss);
    text_add(&line, ", \"root\": \"%s\"", hash_hex(&round->root, root));
    end_line(metrics, &line);
}

/* Returns the bytes of a space that this rank uses. Ranks other than rank 0 do not use resident
 * extents. */
static uint64_t used_bytes(const struct bound_program *bound, enum space space) {
    const struct port_block *block = &bound->port.blocks[space];
    uint64_t highest = bound->high_water[space];
    uint64_t held = highest;
    for (int i = 0; i < block->unused_range_count; i++) {
        const struct unused_range *unused = &block->unused_ranges[i];
        uint64_t end = unused->end < highest ? unused->end : highest;
        held -= unused->begin < end ? end - unused->begin : 0;
    }
    return held;
}

struct rank_memory metrics_own_memory(const struct session *session) {
    struct rank_memory own = {.process_bytes = 0};
    struct process_memory memory = {0};
    if (process_memory_read(&memory)) {
        own.process_bytes = memory.anonymous_bytes + memory.shared_bytes;
    }
    for (int space = 0; space < SPACE_COUNT; space++) {
        own.high_water_bytes[space] = used_bytes(&session->bound, (enum space)space);
    }
    return own;
}

static void add_rank_memory(struct text *line, const struct session *session, int rank,
                            const struct rank_memory *memory) {
    bool first = true;
    text_add(line, "%s{\"rank\": %d, \"high_water_bytes\": {", rank > 0 ? ", " : "", rank);
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (session->program.plan.peak_bytes[space] > 0) {
            text_add(line, "%s\"%s\": %llu", first ? "" : ", ", space_name((enum space)space),
                     (unsigned long long)memory->high_water_bytes[space]);
            first = false;
        }
    }
    text_add(line, "}, \"process_bytes\": %llu}", (unsigned long long)memory->process_bytes);
}

void metrics_write_memory(struct metrics *metrics, const struct session *session,
                          const struct rank_memory *memories) {
    if (metrics->fd < 0) {
        return;
    }
    struct text line = begin_line(metrics, "memory");
    text_add(&line, ", \"spaces\": [");
    bool first = true;
    for (int space = 0; space < SPACE_COUNT; space++) {
        uint64_t planned = session->program.plan.peak_bytes[space];
        if (planned > 0) {
            text_add(&line,
                     "%s{\"name\": \"%s\", \"planned_bytes\": %llu, \"high_water_bytes\": %llu}",
                     first ? "" : ", ", space_name((enum space)space), (unsigned long long)planned,
                     (unsigned long long)memories[0].high_water_bytes[space]);
            first = false;
        }
    }
    text_add(&line, "], \"process_bytes\": %llu", (unsigned long long)memories[0].process_bytes);
    if (metrics->ranks > 1) {
        text_add(&line, ", \"ranks\": [");
        for (int rank = 0; rank < metrics->ranks; rank++) {
            add_rank_memory(&line, session, rank, &memories[rank]);
        }
        text_add(&line, "]");
    }
    end_line(metrics, &line);
}

void metrics_write_end(struct metrics *metrics, bool finished) {
    if (metrics->fd < 0) {
        return;
    }
    struct text line = begin_line(metrics, "end");
    text_add(&line, ", \"reason\": \"%s\"", finished ? "finished" : "stopped");
    end_line(metrics, &line);
}
