/* fuzz_shards: any bytes as a token file are refused or give windows that all lie within it; ids
 * are checked before they reach a row. */
#include "runtime/data/data.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEQUENCE_MAX = 64, WINDOWS_MAX = 64, VOCAB = 300, SUBJECT_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_row(const struct token_data *data, const struct token_row *row, int64_t valid) {
    const bool is_packed = data->files[0].tokens.header.row_tokens > 0;
    int64_t labels = 0;
    for (int64_t t = 0; t < data->sequence; t++) {
        bool ignored = row->labels[t] == LABEL_IGNORED;
        ASSERT(row->ids[t] >= 0 && row->ids[t] < VOCAB);
        ASSERT(ignored || (row->labels[t] >= 0 && row->labels[t] < VOCAB));
        ASSERT(is_packed || ignored == (row->ids[t] == data->separator));
        ASSERT(row->positions[t] >= 0 && row->positions[t] <= t);
        labels += !ignored;
    }
    ASSERT(labels == valid);
}

static void check_windows(const struct token_data *data) {
    uint8_t raw[4 * (SEQUENCE_MAX + 1)];
    int32_t ids[SEQUENCE_MAX], labels[SEQUENCE_MAX], positions[SEQUENCE_MAX];
    const struct token_row row = {.ids = ids, .labels = labels, .positions = positions};
    int64_t cursor = data->window_count;
    for (int64_t i = 0; i < WINDOWS_MAX; i++) {
        int64_t window = i < data->window_count ? i : data_next_window(data, 7, &cursor);
        int64_t valid = -1;
        struct fault fault = {0};
        ASSERT(data_count_valid_labels(data, window, raw, &valid, &fault) == OK);
        enum status status = data_read_window(data, window, raw, &row, &fault);
        ASSERT(status == OK || (status == STATUS_INPUT && strstr(fault.reason, "vocabulary")));
        if (status == OK) {
            check_row(data, &row, valid);
        }
    }
}

/* The first byte chooses the format, the second the length of a row; the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const FORMATS[] = {NULL, "u16", "u32", "bytes", "?"};
    char path[SUBJECT_BYTES];
    if (size < 2) {
        return 0;
    }
    int fd = memfd_create("shard", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write(fd, data + 2, size - 2) == (ssize_t)(size - 2));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const char *paths[] = {path, path};
    struct data_options options = {.paths = {.paths = paths, .count = 1 + (data[0] >> 7)},
                                   .format = FORMATS[data[0] % ARRAY_COUNT(FORMATS)],
                                   .sequence = 1 + data[1] % SEQUENCE_MAX,
                                   .vocab = VOCAB,
                                   .separator = data[1] >= 128 ? 10 : DATA_NO_SEPARATOR};
    struct region region = {0};
    struct token_data opened = {.file_count = 77};
    struct fault fault = {0};
    enum status status = data_open(&options, &region, &opened, &fault);
    if (status == OK) {
        check_windows(&opened);
        data_close(&opened);
    } else {
        ASSERT(status == STATUS_INPUT && fault.reason[0] != '\0' && opened.file_count == 77);
    }
    close(fd);
    region_finish(&region);
    return 0;
}
