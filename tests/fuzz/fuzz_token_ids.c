/* fuzz_token_ids: any line is rejected, or is a list of ids. Written as a JSON array, it has the
 * same ids, also for jansson. */
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/cli/reports/token_ids.h"

#include <stdio.h>
#include <string.h>

enum { INPUT_MAX = 1 << 10, TEXT_MAX = 64 * INPUT_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a list, and writes it as an array. Returns the number of ids, or -1. */
static int read_list(const char *text, size_t count, struct text *array, int64_t *ids) {
    struct token_ids list;
    int found = 0;
    int64_t id = -1;
    token_ids_begin(&list, text, count);
    enum token_ids_status status = token_ids_next(&list, &id);
    text_add(array, "[");
    while (status == TOKEN_IDS_FOUND) {
        ASSERT(id >= 0 && list.digit_count > 0 && found < INPUT_MAX);
        ASSERT(list.digits >= text && list.digits + list.digit_count <= text + count);
        text_add(array, "%s%lld", found > 0 ? ", " : "", (long long)id);
        ids[found++] = id;
        status = token_ids_next(&list, &id);
    }
    text_add(array, "]");
    ASSERT(status == TOKEN_IDS_INVALID || list.at == list.end);
    return status == TOKEN_IDS_END ? found : -1;
}

/* Whether jansson reads the text as an array of these ids. */
static bool is_json_array(const char *text, size_t count, const int64_t *ids, int id_count) {
    static char wrapped[INPUT_MAX + 16];
    struct json_document document;
    struct json_node list;
    struct fault fault;
    const int length = snprintf(wrapped, sizeof wrapped, "{\"a\": %.*s}", (int)count, text);
    if (json_parse(wrapped, (size_t)length, sizeof wrapped, "line", &document, &fault) != OK) {
        return false;
    }
    bool is_equal = json_require(&document.root, "a", &list, &fault) == OK &&
                    json_as_array(&list, &fault) == OK &&
                    json_child_count(&list) == (size_t)id_count;
    for (int i = 0; i < id_count && is_equal; i++) {
        const struct json_node element = json_element(&list, (size_t)i);
        int64_t id;
        is_equal = json_as_i64(&element, &id, &fault) == OK && id == ids[i];
    }
    json_finish(&document);
    return is_equal;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char array[TEXT_MAX], again[TEXT_MAX];
    static int64_t ids[INPUT_MAX], read[INPUT_MAX];
    struct text text = text_over(array, sizeof array);
    struct text second = text_over(again, sizeof again);
    const char *bytes = (const char *)data;
    if (size == 0 || size > INPUT_MAX || memchr(data, '\n', size) != NULL) {
        return 0;
    }
    const int count = read_list(bytes, size, &text, ids);
    if (count < 0) {
        return 0;
    }
    ASSERT(read_list(text.bytes, text.length, &second, read) == count);
    ASSERT(strcmp(array, again) == 0 && memcmp(ids, read, (size_t)count * sizeof *ids) == 0);
    if (text.length < INPUT_MAX) {
        ASSERT(is_json_array(text.bytes, text.length, ids, count));
    }
    return 0;
}
