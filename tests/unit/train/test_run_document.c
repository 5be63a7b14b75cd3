/* Tests of docs/RUN.md: its example is a run file, and its listing is the table of keys. */
#include "base/file.h"
#include "runtime/settings/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DOCUMENT_BYTES = 1 << 17, BLOCKS = 2 };

static struct region region;
static struct fault fault;
static char document[DOCUMENT_BYTES];

/* The YAML of the document: first the example, then the listing. */
static struct {
    const char *text;
    size_t length;
} blocks[BLOCKS];

static int read_document(void **state) {
    (void)state;
    size_t length;
    const char *path = getenv("SKEP_RUN_DOCUMENT");
    if (path == NULL || file_read_text(path, document, sizeof document, &length, &fault) != OK) {
        return -1;
    }
    const char *at = document;
    for (int i = 0; i < BLOCKS; i++) {
        at = strstr(at, "```yaml\n");
        const char *end = at == NULL ? NULL : strstr(at, "\n```\n");
        if (end == NULL) {
            return -1;
        }
        blocks[i].text = at + strlen("```yaml\n");
        blocks[i].length = (size_t)(end + 1 - blocks[i].text);
        at = end + 1;
    }
    return 0;
}

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static struct settings read_block(int block) {
    struct settings settings;
    if (settings_open_text(blocks[block].text, blocks[block].length, "run.yaml", &region, &settings,
                           &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return settings;
}

static void the_example_is_a_run_file(void **state) {
    (void)state;
    struct settings settings = read_block(0);
    assert_int_equal(settings.batch_tokens % (settings.sequence_tokens * settings.microbatch), 0);
    assert_int_equal(settings.batch_tokens / settings.sequence_tokens, 64);
    assert_int_equal(settings.document_end_token, 50256);
}

static void the_listing_has_every_default(void **state) {
    (void)state;
    static char listed[1 << 15], defaults[1 << 15];
    struct settings settings = read_block(1);
    struct text text = text_over(listed, sizeof listed);
    settings_describe(&settings, false, &text);
    assert_int_equal(settings_open_text("seed: 1\n", 8, "run.yaml", &region, &settings, &fault),
                     OK);
    text = text_over(defaults, sizeof defaults);
    settings_describe(&settings, false, &text);
    assert_string_equal(listed, defaults);
}

static void the_listing_says_of_every_key_what_the_table_says(void **state) {
    (void)state;
    for (int i = 0; i < setting_key_count(); i++) {
        const struct setting_key *key = setting_key_at(i);
        const char *dot = strrchr(key->name, '.');
        if (strcmp(key->name, "export.dtype") == 0) { /* export is a key too, so it is no group */
            dot = NULL;
        }
        const char *indent = dot != NULL ? "  " : "";
        char line[512];
        snprintf(line, sizeof line, "\n%s# %s\n%s%s: ", indent, key->help, indent,
                 dot != NULL ? dot + 1 : key->name);
        const char *at = strstr(blocks[1].text - 1, line);
        if (at == NULL) {
            fail_msg("docs/RUN.md lacks \"%s\"", line);
        }
        snprintf(line, sizeof line, "  # %s%s%s%s%s\n",
                 key->class == SETTING_SHARED ? "shared" : "local",
                 key->unit[0] != '\0' ? ", " : "", key->unit, key->choices != NULL ? ": " : "",
                 key->choices != NULL ? key->choices : "");
        at = strstr(at + strlen(indent) + 3 + strlen(key->help), "  # ");
        assert_memory_equal(at, line, strlen(line));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_example_is_a_run_file, finish_region),
        cmocka_unit_test_teardown(the_listing_has_every_default, finish_region),
        cmocka_unit_test_teardown(the_listing_says_of_every_key_what_the_table_says, finish_region),
    };
    return cmocka_run_group_tests(tests, read_document, NULL);
}
