#include "runtime/cli/reports/json_stdout.h"

#include <stdio.h>

static void flush_to_stdout(void *context, struct text *text) {
    (void)context;
    fwrite(text->bytes, 1, text->length, stdout);
    *text = text_over(text->bytes, text->capacity);
}

struct json_writer *json_stdout_begin(struct json_stdout *out, int indent) {
    out->text = text_over(out->buffer, sizeof out->buffer);
    out->json = json_writer_draining(&out->text, flush_to_stdout, NULL);
    json_begin_object(&out->json, NULL);
    if (indent != JSON_ONE_LINE) {
        json_newline(&out->json, indent);
    }
    json_add_i64(&out->json, "format", 1);
    return &out->json;
}

void json_stdout_end(struct json_stdout *out) {
    json_end(&out->json);
    ASSERT(out->json.depth == 0);
    flush_to_stdout(NULL, &out->text);
    putchar('\n');
}
