/* test_command_table: every row of the commands is complete, and its example is accepted by the
 * reader of arguments, with the option in it. */
#include "runtime/cli/command_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORDS_MAX = 16, LINE_BYTES = 256 };

/* Splits a line at blanks that are not inside double quotes. Changes `line`. */
static int split(char *line, char **words) {
    int count = 0;
    for (char *at = line; *at != '\0';) {
        bool is_quoted = *at == '"';
        at += is_quoted;
        assert_true(count < WORDS_MAX - 1);
        words[count++] = at;
        at += strcspn(at, is_quoted ? "\"" : " ");
        if (*at != '\0') {
            *at++ = '\0';
        }
        at += strspn(at, " ");
    }
    words[count] = NULL;
    return count;
}

static void assert_accepted(const struct command *command, const char *example,
                            const char *option) {
    char line[LINE_BYTES];
    char *words[WORDS_MAX];
    struct invocation invocation = {.argv = words};
    assert_non_null(example);
    assert_true(snprintf(line, sizeof line, "%s %s", command->name, example) < LINE_BYTES);
    invocation.argc = split(line, words);
    invocation.request = region_alloc(&invocation.region, 1, command->request_bytes);
    if (command_read_arguments(command, &invocation) != OK) {
        fail_msg("skep %s %s: %s", command->name, example, invocation.fault.reason);
    }
    bool is_in = option == NULL;
    for (int i = 1; i < invocation.argc && !is_in; i++) {
        is_in = strcmp(words[i], option) == 0;
    }
    if (!is_in) {
        fail_msg("the example of %s does not use it: skep %s %s", option, command->name, example);
    }
    region_finish(&invocation.region);
}

static void every_command_has_arguments_details_and_an_example(void **state) {
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = COMMANDS[i];
        assert_non_null(command->arguments);
        assert_non_null(command->summary);
        assert_non_null(command->details);
        assert_int_equal(command->details[strlen(command->details) - 1], '.');
        assert_int_equal(command->arguments[0] != '\0',
                         command->takes_inputs ||
                             command->positional_count + command->optional_count > 0);
        assert_accepted(command, command->example, NULL);
    }
}

static void every_option_is_explained_with_an_example(void **state) {
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        for (int j = 0; j < COMMANDS[i]->option_count; j++) {
            const struct option *option = &COMMANDS[i]->options[j];
            if (option->help == NULL || option->example == NULL) {
                fail_msg("skep %s: add .help and .example to the row of %s", COMMANDS[i]->name,
                         option->name);
            }
            assert_int_not_equal(option->help[strlen(option->help) - 1], '.');
            assert_int_equal(option_has_value(option), option->kind != OPTION_FLAG);
            assert_accepted(COMMANDS[i], option->example, option->name);
        }
    }
}

static void the_help_states_the_default_of_a_number(void **state) {
    (void)state;
    for (int i = 0; i < COMMAND_COUNT; i++) {
        for (int j = 0; j < COMMANDS[i]->option_count; j++) {
            const struct option *option = &COMMANDS[i]->options[j];
            char stated[LINE_BYTES];
            snprintf(stated, sizeof stated, "default: %g", option->default_value);
            bool is_number = option->kind == OPTION_INTEGER || option->kind == OPTION_NUMBER;
            if (is_number && option->default_value != 0 && strstr(option->help, stated) == NULL) {
                fail_msg("skep %s %s: write \"%s\"", COMMANDS[i]->name, option->name, stated);
            }
        }
    }
}

static void the_name_of_a_value_selects_what_shells_complete(void **state) {
    (void)state;
    static const struct {
        const char *value;
        enum completion completion;
    } ROWS[] = {{NULL, COMPLETE_NOTHING},       {"N", COMPLETE_NOTHING},
                {"RANK,...", COMPLETE_NOTHING}, {"FILE", COMPLETE_FILES},
                {"OUT.csv", COMPLETE_FILES},    {"DIR", COMPLETE_FOLDERS},
                {"TARGET", COMPLETE_TARGETS},   {"f32|bf16", COMPLETE_WORDS}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        const struct option option = {.name = "--x", .value_name = ROWS[i].value};
        assert_int_equal(option_completion(&option), ROWS[i].completion);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_arguments_details_and_an_example),
        cmocka_unit_test(every_option_is_explained_with_an_example),
        cmocka_unit_test(the_help_states_the_default_of_a_number),
        cmocka_unit_test(the_name_of_a_value_selects_what_shells_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
