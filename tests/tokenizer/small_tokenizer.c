#include "tests/tokenizer/small_tokenizer.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILE_CAPACITY = 8192, PATH_CAPACITY = 256 };

static char folder[] = "/tmp/skep-tokenizer-XXXXXX";

const char *small_folder(void) {
    return folder;
}

static const struct parts DEFAULTS = {
    .added = "[]",
    .normalizer = "null",
    .pre_tokenizer = "null",
    .post_processor = "null",
    .decoder = "null",
    .options = "\"type\": \"BPE\"",
    .vocab = "{\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \" \": 4, \"\xe2\x96\x81\": 5}",
    .merges = "[[\"a\", \"b\"]]"};

static const char *or_default(const char *part, const char *other) {
    return part != NULL ? part : other;
}

void write_small_file(const char *name, const char *text) {
    char path[PATH_CAPACITY];
    struct fault fault;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write_new(path, text, strlen(text), &fault), OK);
}

void remove_small_file(const char *name) {
    char path[PATH_CAPACITY];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

enum status load_small(const struct parts *parts, struct region *region,
                       const struct tokenizer **tokenizer, struct fault *fault) {
    char text[FILE_CAPACITY];
    int length = snprintf(
        text, sizeof text,
        "{\"version\": \"1.0\", \"added_tokens\": %s, \"normalizer\": %s, \"pre_tokenizer\": %s, "
        "\"post_processor\": %s, \"decoder\": %s, \"model\": {%s, \"vocab\": %s, \"merges\": %s}}",
        or_default(parts->added, DEFAULTS.added),
        or_default(parts->normalizer, DEFAULTS.normalizer),
        or_default(parts->pre_tokenizer, DEFAULTS.pre_tokenizer),
        or_default(parts->post_processor, DEFAULTS.post_processor),
        or_default(parts->decoder, DEFAULTS.decoder), or_default(parts->options, DEFAULTS.options),
        or_default(parts->vocab, DEFAULTS.vocab), or_default(parts->merges, DEFAULTS.merges));
    assert_true(length > 0 && length < FILE_CAPACITY);
    write_small_file("tokenizer.json", text);
    return tokenizer_load(folder, region, tokenizer, fault);
}

int make_small_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL;
}

int remove_small_folder(void **state) {
    (void)state;
    remove_small_file("tokenizer.json");
    return rmdir(folder);
}
