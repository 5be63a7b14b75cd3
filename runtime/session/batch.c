#include "runtime/session/batch.h"

#include <math.h>

void batch_fill_rope_table(struct session *session) {
    const struct cpu_extents *host = &session->program.schedule.host;
    if (host->rope_table == EXTENT_NONE) {
        return;
    }
    int64_t half = session->blueprint.head_dim / 2;
    float *frequencies = region_alloc(&session->region, (size_t)half, sizeof *frequencies);
    blueprint_rope_frequencies(&session->blueprint, frequencies);
    float *table = program_extent_address(&session->bound, host->rope_table);
    uint64_t bytes = session->program.schedule.extents[host->rope_table].bytes;
    int64_t positions = (int64_t)(bytes / sizeof(float)) / (2 * half);
    for (int64_t position = 0; position < positions; position++) {
        float *row = table + position * 2 * half;
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)position * frequencies[i];
            row[i] = (float)cos((double)angle);
            row[half + i] = (float)sin((double)angle);
        }
    }
}

struct token_row batch_row(const struct session *session, int64_t row) {
    const struct cpu_extents *host = &session->program.schedule.host;
    int64_t first = row * session->settings.sequence_tokens;
    return (struct token_row){
        .ids = (int32_t *)program_extent_address(&session->bound, host->ids) + first,
        .labels = (int32_t *)program_extent_address(&session->bound, host->labels) + first,
        .positions = (int32_t *)program_extent_address(&session->bound, host->positions) + first};
}

void batch_clear_rows(const struct session *session, int64_t first) {
    for (int64_t row = first; row < session->settings.microbatch; row++) {
        struct token_row empty = batch_row(session, row);
        for (int64_t t = 0; t < session->settings.sequence_tokens; t++) {
            empty.ids[t] = 0;
            empty.labels[t] = LABEL_IGNORED;
            empty.positions[t] = (int32_t)t;
        }
    }
}
