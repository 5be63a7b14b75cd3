#include "runtime/corpus/input_window.h"

#include "base/bytes.h"
#include "runtime/corpus/utf8_repair.h"
#include "targets/os/mapping.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    RAW_BYTES = 1 << 16, /* maximum bytes of the input that are repaired at a time */
    MARK_BYTES = 3,      /* size of the byte order mark in UTF-8 */
    /* size of the window: the unread text, at most as much consumed text before it, and one fill */
    WINDOW_BYTES = 2 * WINDOW_TEXT_MAX + UTF8_GROWTH_MAX * RAW_BYTES + 64
};

enum status input_window_init(struct input_window *window, bool is_strict, struct fault *fault) {
    void *memory;
    const int error = mapping_map(-1, WINDOW_BYTES + RAW_BYTES, PROT_READ | PROT_WRITE, &memory);
    if (error != 0) {
        return fault_set_errno(fault, STATUS_FIT, "host memory", "cannot map", error);
    }
    *window = (struct input_window){.is_strict = is_strict,
                                    .stream.fd = -1,
                                    .text = memory,
                                    .raw = (char *)memory + WINDOW_BYTES};
    return OK;
}

enum status input_window_open(struct input_window *window, const char *path, bool skips_mark,
                              struct fault *fault) {
    ASSERT(!window->is_open);
    TRY(byte_stream_open(path, &window->stream, fault));
    window->is_open = true;
    window->is_at_end = false;
    window->skips_mark = skips_mark;
    window->raw_count = 0;
    window->raw_offset = 0;
    window->begin = window->end = 0;
    return OK;
}

/* Moves the unread text to the start of the memory. The text is moved only when the consumed part
 * is at least as long, so that a byte is moved at most once on average. */
static void make_room(struct input_window *window) {
    const size_t length = window->end - window->begin;
    if (window->begin >= length) {
        memmove(window->text, window->text + window->begin, length);
        window->begin = 0;
        window->end = length;
    }
}

static enum status note_replacements(struct input_window *window,
                                     const struct utf8_repaired *repaired, struct fault *fault) {
    const uint64_t offset = window->raw_offset + repaired->first_replaced;
    if (repaired->replacements == 0) {
        return OK;
    }
    if (window->is_strict) {
        return fault_set(fault, STATUS_INPUT, window->stream.path,
                         "convert the file to UTF-8, or leave out --strict",
                         "byte %llu is not UTF-8", (unsigned long long)offset);
    }
    if (window->replaced.count == 0) {
        window->replaced.path = window->stream.path;
        window->replaced.offset = offset;
    }
    window->replaced.count += repaired->replacements;
    return OK;
}

/* Skips a byte order mark at the start of the input. Returns false while the window has too few
 * bytes to decide whether there is a mark. */
static bool skip_mark(struct input_window *window) {
    static const char MARK[MARK_BYTES] = {'\xef', '\xbb', '\xbf'};
    if (!window->skips_mark || window->raw_offset > 0) {
        return true;
    }
    if (window->raw_count < MARK_BYTES) {
        return window->is_at_end;
    }
    if (memcmp(window->raw, MARK, MARK_BYTES) == 0) {
        window->raw_count -= MARK_BYTES;
        window->raw_offset += MARK_BYTES;
        memmove(window->raw, window->raw + MARK_BYTES, window->raw_count);
    }
    return true;
}

enum status input_window_fill(struct input_window *window, struct fault *fault) {
    make_room(window);
    if (window->end - window->begin >= WINDOW_TEXT_MAX) {
        return fault_set(fault, STATUS_INPUT, window->stream.path, "divide the text with line ends",
                         "more than %d MiB of text without a place to divide it",
                         WINDOW_TEXT_MAX >> 20);
    }
    const size_t before = window->end;
    while (window->end == before && !window->is_at_end) {
        size_t count;
        TRY(byte_stream_read(&window->stream, window->raw + window->raw_count,
                             RAW_BYTES - window->raw_count, &count, fault));
        window->is_at_end = count == 0;
        window->raw_count += count;
        if (!skip_mark(window)) {
            continue;
        }
        const struct utf8_repaired repaired = utf8_repair(
            window->raw, window->raw_count, window->is_at_end, window->text + window->end);
        TRY(note_replacements(window, &repaired, fault));
        window->end += repaired.written_bytes;
        window->raw_count -= repaired.read_bytes;
        window->raw_offset += repaired.read_bytes;
        memmove(window->raw, window->raw + repaired.read_bytes, window->raw_count);
    }
    return OK;
}

enum status input_window_fill_line(struct input_window *window, uint64_t line,
                                   struct fault *fault) {
    char place[sizeof fault->subject];
    if (window->end - window->begin < WINDOW_TEXT_MAX) {
        return input_window_fill(window, fault);
    }
    snprintf(place, sizeof place, "%.280s:%llu", window->stream.path, (unsigned long long)line);
    return fault_set(fault, STATUS_INPUT, place, "divide it into several objects, one on each line",
                     "the line has more than %d MiB", WINDOW_TEXT_MAX >> 20);
}

uint64_t input_window_file_bytes(const struct input_window *window) {
    return window->earlier_bytes + (window->is_open ? window->stream.file_bytes : 0);
}

void input_window_close(struct input_window *window) {
    if (window->is_open) {
        window->earlier_bytes += window->stream.file_bytes;
        window->is_open = false;
        byte_stream_close(&window->stream);
    }
}

void input_window_finish(struct input_window *window) {
    if (window->text != NULL) {
        input_window_close(window);
        munmap(window->text, WINDOW_BYTES + RAW_BYTES);
        window->text = NULL;
    }
}
