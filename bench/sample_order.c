/* sample_order: write the rows that a run of Skep trains on, in order, so that another program can
 * train on the same data.
 *
 *   sample_order RUN.yaml COUNT [key=value...] > rows.i32
 *
 * Writes COUNT rows of sequence + 1 token ids, int32 little-endian: the tokens of a row and the
 * label of the last one. */
#include "runtime/session/session.h"

#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

enum { OVERRIDES_MAX = 64 };

static enum status write_rows(struct session *session, int64_t count, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct token_data data;
    enum status status = data_open_run(settings, &settings->train_files, session->blueprint.vocab,
                                       &session->region, &data, fault);
    if (status != OK) {
        return status;
    }
    size_t tokens = (size_t)settings->sequence_tokens + 1;
    void *raw = region_alloc(&session->region, tokens, sizeof(int32_t));
    struct token_row row = {.ids = region_alloc(&session->region, tokens, sizeof(int32_t)),
                            .labels = region_alloc(&session->region, tokens, sizeof(int32_t)),
                            .positions = region_alloc(&session->region, tokens, sizeof(int32_t))};
    int64_t cursor = 0;
    for (int64_t i = 0; i < count && status == OK; i++) {
        int64_t window = data_next_window(&data, (uint64_t)settings->seed, &cursor);
        status = data_read_window(&data, window, raw, &row, fault);
        row.ids[settings->sequence_tokens] = row.labels[settings->sequence_tokens - 1];
        fwrite(row.ids, sizeof(int32_t), tokens, stdout);
    }
    data_close(&data);
    return status;
}

int main(int argc, char **argv) {
    static struct session session;
    struct fault fault;
    int64_t count;
    const char *overrides[OVERRIDES_MAX];
    int override_count = 0;
    if (argc < 3 || !text_parse_i64(argv[2], &count) || count < 1) {
        fprintf(stderr, "usage: sample_order RUN.yaml COUNT [key=value...] > rows.i32\n");
        return 2;
    }
    for (int i = 3; i < argc && override_count < OVERRIDES_MAX; i++) {
        overrides[override_count++] = argv[i];
    }
    enum status status = session_read(&session, argv[1], overrides, override_count, &fault);
    if (status == OK) {
        status = write_rows(&session, count, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    session_finish(&session);
    return fault_exit_code(status);
}
