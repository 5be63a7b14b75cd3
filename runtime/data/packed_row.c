#include "runtime/data/packed_row.h"

#include "base/limits.h"

#include <stdio.h>

enum status packed_row_check(const struct token_file *file, int64_t sequence, struct fault *fault) {
    const long long row_tokens = file->header.row_tokens;
    char remedy[NAME_BYTES];
    if (row_tokens == 0 || row_tokens == sequence) {
        return OK;
    }
    snprintf(remedy, sizeof remedy,
             "set batch.sequence to %lld, or make the file again with --sequence %lld", row_tokens,
             (long long)sequence);
    return fault_set(fault, STATUS_INPUT, file->path, remedy,
                     "is packed into rows of %lld tokens, but batch.sequence is %lld", row_tokens,
                     (long long)sequence);
}

static bool get_bit(const uint8_t *bits, int64_t index) {
    return (bits[index / 8] >> index % 8 & 1) != 0;
}

enum status packed_row_fill(const struct token_file *file, int64_t first, int64_t sequence,
                            void *raw, const struct token_row *row, struct fault *fault) {
    const uint8_t *trained = raw;
    const uint8_t *starts = trained + sequence / 8 + 2;
    int64_t position = 0;
    TRY(token_file_read_bits(file, first, sequence, raw, fault));
    for (int64_t t = 0; t < sequence; t++) {
        const bool has_label = t + 1 < sequence && get_bit(trained, first % 8 + t + 1);
        position = get_bit(starts, first % 8 + t) ? 0 : position;
        row->positions[t] = (int32_t)position++;
        row->labels[t] = has_label ? row->ids[t + 1] : LABEL_IGNORED;
    }
    return OK;
}

enum status packed_row_count_trained(const struct token_file *file, int64_t first, int64_t sequence,
                                     void *raw, int64_t *valid, struct fault *fault) {
    int64_t count = 0;
    TRY(token_file_read_bits(file, first, sequence, raw, fault));
    for (int64_t t = 1; t < sequence; t++) {
        count += get_bit(raw, first % 8 + t);
    }
    *valid = count;
    return OK;
}
