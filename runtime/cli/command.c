/* command: reads the arguments that a command's row declares, and runs the command. */
#include "runtime/cli/cli.h"

#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/reports/generated_text.h"
#include "runtime/cli/unknown_option.h"
#include "runtime/swarm_setup/member_session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct option *find_option(const struct command *command, const char *name,
                                        size_t length) {
    for (int i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            return option;
        }
    }
    return NULL;
}

int command_skip_argument(const struct command *command, char *const *argv, int index) {
    const char *word = argv[index];
    const struct option *option = command != NULL ? find_option(command, word, strlen(word)) : NULL;
    bool has_value = option != NULL && option->kind != OPTION_FLAG && argv[index + 1] != NULL;
    return index + (has_value ? 2 : 1);
}

int command_find_options_end(const struct command *command, int argc, char *const *argv) {
    int index = 0;
    while (index < argc && strcmp(argv[index], "--") != 0) {
        index = command_skip_argument(command, argv, index);
    }
    return index;
}

static enum status set_usage_fault(const struct command *command, struct invocation *invocation,
                                   const char *reason, const char *word) {
    char remedy[64];
    snprintf(remedy, sizeof remedy, "see `skep help %s`", command->name);
    return fault_set(&invocation->fault, STATUS_USAGE, command->name, remedy, "%s%s%s%s", reason,
                     word != NULL ? ": \"" : "", word != NULL ? word : "",
                     word != NULL ? "\"" : "");
}

/* Appends `value` to the values of an option that may be repeated. */
static enum status add_text(const struct option *option, const char *value,
                            struct invocation *invocation) {
    void *field = (unsigned char *)invocation->request + option->field_offset;
    struct option_texts *values = field;
    if (values->count == OPTION_VALUES_MAX) {
        return fault_set(&invocation->fault, STATUS_USAGE, option->name, "leave some out",
                         "is given more than %d times", OPTION_VALUES_MAX);
    }
    values->texts[values->count++] = value;
    return OK;
}

/* Stores the option's value in `values`, or "" for a flag. Advances *index if the value is the next
 * argument. */
static enum status read_option(const struct command *command, struct invocation *invocation,
                               int *index, const char **values) {
    const char *word = invocation->argv[*index];
    size_t length = strcspn(word, "=");
    const struct option *option = find_option(command, word, length);
    bool has_equals = word[length] == '=';
    if (option == NULL || (option->kind == OPTION_FLAG && has_equals)) {
        return unknown_option_fault(command, invocation, *index);
    }
    const char **value = &values[option - command->options];
    if (option->kind == OPTION_FLAG) {
        *value = "";
    } else if (has_equals) {
        *value = word + length + 1;
    } else if (*index + 1 < invocation->argc) {
        *value = invocation->argv[++*index];
    } else {
        return fault_set(&invocation->fault, STATUS_USAGE, command->name, NULL, "%s needs a value",
                         word);
    }
    return option->kind == OPTION_TEXTS ? add_text(option, *value, invocation) : OK;
}

static enum status read_positional(const struct command *command, struct invocation *invocation,
                                   const char *word) {
    if (command->takes_inputs) {
        invocation->inputs[invocation->input_count++] = word;
        return OK;
    }
    if (invocation->positional_count < command->positional_count + command->optional_count) {
        invocation->positionals[invocation->positional_count++] = word;
        return OK;
    }
    bool is_override = command->takes_overrides && strchr(word, '=') != NULL;
    if (!is_override || invocation->override_count == OVERRIDES_MAX) {
        return set_usage_fault(command, invocation, "one argument too many", word);
    }
    invocation->overrides[invocation->override_count++] = word;
    return OK;
}

static enum status check_maximum(const struct option *option, const char *value, double number,
                                 struct fault *fault) {
    char remedy[64];
    if (option->maximum == 0 || number <= option->maximum) {
        return OK;
    }
    snprintf(remedy, sizeof remedy, "use at most %.0f", option->maximum);
    return fault_set(fault, STATUS_USAGE, option->name, remedy, "%s is too large", value);
}

/* Whether `value` consists of digits, as a whole number of any size does. */
static bool is_digits(const char *value) {
    return *value != '\0' && value[strspn(value, "0123456789")] == '\0';
}

static enum status read_integer(const struct option *option, const char *value, int64_t *field,
                                struct fault *fault) {
    int64_t parsed;
    if (is_digits(value) && !text_parse_i64(value, &parsed)) {
        char remedy[64];
        snprintf(remedy, sizeof remedy, "use at most %lld",
                 option->maximum > 0 ? (long long)option->maximum : (long long)INT64_MAX);
        return fault_set(fault, STATUS_USAGE, option->name, remedy, "%s is too large", value);
    }
    if (!text_parse_i64(value, &parsed) || (double)parsed < option->minimum) {
        return fault_set(fault, STATUS_USAGE, option->name, NULL,
                         "\"%s\" is not a whole number of at least %.0f", value, option->minimum);
    }
    TRY(check_maximum(option, value, (double)parsed, fault));
    *field = parsed;
    return OK;
}

static enum status read_number(const struct option *option, const char *value, double *field,
                               struct fault *fault) {
    double parsed;
    if (!text_parse_f64(value, &parsed) || !(parsed >= option->minimum)) {
        return fault_set(fault, STATUS_USAGE, option->name, NULL,
                         "\"%s\" is not a number of at least %g", value, option->minimum);
    }
    TRY(check_maximum(option, value, parsed, fault));
    *field = parsed;
    return OK;
}

static enum status read_bytes(const struct option *option, const char *value, uint64_t *field,
                              struct fault *fault) {
    uint64_t parsed;
    if (!text_parse_bytes(value, &parsed) || parsed == 0) {
        return fault_set(fault, STATUS_USAGE, option->name, "write 4096, 512MiB or 1.5GB",
                         "\"%s\" is not a number of bytes above 0", value);
    }
    *field = parsed;
    return OK;
}

/* Sets the option's field of the request to `value`, which is NULL when the option was not
 * given. */
static enum status read_value(const struct option *option, const char *value,
                              struct invocation *invocation) {
    void *field = (unsigned char *)invocation->request + option->field_offset;
    struct fault *fault = &invocation->fault;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = value != NULL;
        return OK;
    case OPTION_TEXTS:
        return OK; /* read_option has stored each value */
    case OPTION_TEXT:
        *(const char **)field = value;
        return OK;
    case OPTION_INTEGER:
        *(int64_t *)field = (int64_t)option->default_value;
        return value != NULL ? read_integer(option, value, field, fault) : OK;
    case OPTION_NUMBER:
        *(double *)field = option->default_value;
        return value != NULL ? read_number(option, value, field, fault) : OK;
    case OPTION_BYTES:
        return value != NULL ? read_bytes(option, value, field, fault) : OK;
    case OPTION_RUN_KEY:
        if (value != NULL) {
            invocation_add_override(invocation, option->name + strlen("--"), value);
        }
        return OK;
    }
    return OK;
}

/* Sets a fault that names the first missing argument by its word in command->arguments. */
static enum status set_missing_fault(const struct command *command, struct invocation *invocation) {
    char reason[NAME_BYTES];
    const char *word = command->arguments;
    for (int i = 0; i < invocation->positional_count && strchr(word, ' ') != NULL; i++) {
        word = strchr(word, ' ') + 1;
    }
    const bool has_choices = strstr(word, " | ") != NULL; /* true: the message lists all choices */
    const int length = (int)(has_choices ? strlen(word) : strcspn(word, " "));
    snprintf(reason, sizeof reason, "%.*s is missing", length, word);
    return set_usage_fault(command, invocation, reason, NULL);
}

enum status command_read_arguments(const struct command *command, struct invocation *invocation) {
    const char *values[OPTIONS_MAX] = {NULL};
    char **argv = invocation->argv;
    const int options_end = command_find_options_end(command, invocation->argc, argv);
    ASSERT(command->option_count <= OPTIONS_MAX &&
           command->positional_count + command->optional_count <= POSITIONALS_MAX);
    invocation->inputs =
        region_alloc(&invocation->region, (size_t)invocation->argc, sizeof *invocation->inputs);
    for (int i = 1; i < invocation->argc; i++) {
        if (i < options_end && argv[i][0] == '-' && argv[i][1] != '\0') {
            TRY(read_option(command, invocation, &i, values));
        } else if (i != options_end) {
            TRY(read_positional(command, invocation, argv[i]));
        }
    }
    if (invocation->positional_count < command->positional_count) {
        return set_missing_fault(command, invocation);
    }
    for (int i = 0; i < command->option_count; i++) {
        TRY(read_value(&command->options[i], values[i], invocation));
    }
    return OK;
}

int command_report_output(int error) {
    struct fault fault;
    (void)stdout_fault(error, &fault);
    fault_print(&fault, STDERR_FILENO);
    return fault_exit_code(fault.status);
}

int command_run(const struct command *command, int argc, char **argv) {
    struct invocation invocation = {.argc = argc, .argv = argv};
    invocation.request = region_alloc(&invocation.region, 1, command->request_bytes);
    invocation.session = region_alloc(&invocation.region, 1, sizeof *invocation.session);
    enum status status = command_read_arguments(command, &invocation);
    bool has_run = status == OK;
    if (has_run && command->runs_long) {
        log_show_times(true);
    }
    if (has_run) {
        status = command->run(&invocation);
    }
    errno = 0; /* the flush prints the report before the fault */
    const bool is_written = fflush(stdout) == 0 && ferror(stdout) == 0;
    const int error = errno;
    int code = ranks_end(&invocation.ranks, status, &invocation.fault);
    if (has_run && command->finish != NULL) {
        command->finish(invocation.request);
    }
    session_finish(invocation.session);
    region_finish(&invocation.region);
    return code == 0 && !is_written ? command_report_output(error) : code;
}

void invocation_add_override(struct invocation *invocation, const char *key, const char *value) {
    size_t bytes = strlen(key) + strlen(value) + sizeof "=";
    char *override = region_alloc(&invocation->region, bytes, 1);
    ASSERT(invocation->override_count < OVERRIDES_MAX + OVERRIDES_ADDED_MAX);
    snprintf(override, bytes, "%s=%s", key, value);
    invocation->overrides[invocation->override_count++] = override;
}

enum status invocation_read_session(struct invocation *invocation, struct session *session) {
    return member_session_or_run_read(session, invocation->positionals[0], invocation->overrides,
                                      invocation->override_count, NULL, &invocation->fault);
}
