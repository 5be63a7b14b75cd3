/* fuzz_corpus: any bytes become well-formed UTF-8, whole or divided, and any such line is rejected
 * as JSON or gives a text that is well-formed UTF-8 too. */
#include "base/check.h"
#include "runtime/corpus/json_field.h"
#include "runtime/corpus/utf8_repair.h"

#include <stdbool.h>
#include <string.h>

enum { INPUT_MAX = 1 << 12, TEXT_MAX = UTF8_GROWTH_MAX * INPUT_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_well_formed(const char *text, size_t length) {
    static char again[UTF8_GROWTH_MAX * TEXT_MAX];
    const struct utf8_repaired repaired = utf8_repair(text, length, true, again);
    ASSERT(repaired.replacements == 0 && repaired.written_bytes == length);
    ASSERT(memcmp(text, again, length) == 0);
}

/* The first byte says where the input is divided, and whether the text is a line of JSON's text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char whole[TEXT_MAX + 1];
    static char parts[TEXT_MAX + 1];
    if (size == 0 || size > INPUT_MAX) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    const size_t count = size - 1;
    const size_t cut = count * data[0] / UINT8_MAX;
    const struct utf8_repaired once = utf8_repair(bytes, count, true, whole);
    const struct utf8_repaired first = utf8_repair(bytes, cut, false, parts);
    const struct utf8_repaired second = utf8_repair(
        bytes + first.read_bytes, count - first.read_bytes, true, parts + first.written_bytes);
    ASSERT(once.read_bytes == count && cut - first.read_bytes <= UTF8_TAIL_MAX);
    ASSERT(once.written_bytes == first.written_bytes + second.written_bytes);
    ASSERT(once.replacements == first.replacements + second.replacements);
    ASSERT(memcmp(whole, parts, once.written_bytes) == 0);
    check_well_formed(whole, once.written_bytes);
    struct json_field field;
    whole[once.written_bytes] = '\0';
    const enum json_field_status status =
        json_field_find(whole, once.written_bytes, "text", &field);
    ASSERT((status == JSON_FIELD_INVALID) == (field.reason != NULL));
    ASSERT(field.column <= once.written_bytes);
    if (status == JSON_FIELD_FOUND) {
        ASSERT(field.text >= whole && field.text + field.length <= whole + once.written_bytes);
        check_well_formed(field.text, field.length);
    }
    return 0;
}
