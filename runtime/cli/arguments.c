#include "runtime/cli/arguments.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { FLAGS_MAX = 32 };

static enum status unknown_flag(const char *given, const struct flag *flags, int flag_count,
                                const char *command, struct fault *fault) {
    const char *names[FLAGS_MAX];
    char remedy[128];
    ASSERT(flag_count <= FLAGS_MAX);
    for (int i = 0; i < flag_count; i++) {
        names[i] = flags[i].name;
    }
    int nearest = text_nearest(given, names, flag_count);
    snprintf(remedy, sizeof remedy, nearest >= 0 ? "did you mean %s?" : "see `skep help %s`",
             nearest >= 0 ? names[nearest] : command);
    return fault_set(fault, STATUS_USAGE, command, remedy, "unknown flag \"%s\"", given);
}

/* *index moves on over a flag's value. */
static enum status read_flag(int argc, char **argv, int *index, const struct flag *flags,
                             int flag_count, struct fault *fault) {
    const char *given = argv[*index];
    for (int i = 0; i < flag_count; i++) {
        size_t length = strlen(flags[i].name);
        if (flags[i].value != NULL && strncmp(given, flags[i].name, length) == 0 &&
            given[length] == '=') {
            *flags[i].value = given + length + 1;
            return OK;
        }
        if (strcmp(given, flags[i].name) != 0) {
            continue;
        }
        if (flags[i].present != NULL) {
            *flags[i].present = true;
            return OK;
        }
        if (*index + 1 >= argc) {
            return fault_set(fault, STATUS_USAGE, argv[0], NULL, "%s wants a value", given);
        }
        *flags[i].value = argv[++*index];
        return OK;
    }
    return unknown_flag(given, flags, flag_count, argv[0], fault);
}

static enum status read_plain(struct arguments *arguments, const char *command, char *given,
                              int wanted, struct fault *fault) {
    bool override = arguments->positional_count >= wanted && strchr(given, '=') != NULL;
    if (override && arguments->override_count < OVERRIDES_MAX) {
        arguments->overrides[arguments->override_count++] = given;
        return OK;
    }
    if (arguments->positional_count >= wanted) {
        char remedy[128];
        snprintf(remedy, sizeof remedy, "see `skep help %s`", command);
        return fault_set(fault, STATUS_USAGE, command, remedy, "one argument too many: \"%s\"",
                         given);
    }
    arguments->positionals[arguments->positional_count++] = given;
    return OK;
}

enum status arguments_read(int argc, char **argv, const struct flag *flags, int flag_count,
                           int wanted, struct arguments *arguments, struct fault *fault) {
    struct arguments read = {.positional_count = 0};
    enum status status = OK;
    ASSERT(wanted <= POSITIONALS_MAX);
    for (int i = 1; i < argc && status == OK; i++) {
        bool flag = argv[i][0] == '-' && argv[i][1] != '\0';
        status = flag ? read_flag(argc, argv, &i, flags, flag_count, fault)
                      : read_plain(&read, argv[0], argv[i], wanted, fault);
    }
    if (status == OK && read.positional_count < wanted) {
        char remedy[128];
        snprintf(remedy, sizeof remedy, "see `skep help %s`", argv[0]);
        return fault_set(fault, STATUS_USAGE, argv[0], remedy, "an argument is missing");
    }
    if (status == OK) {
        *arguments = read;
    }
    return status;
}

enum status argument_i64(const char *flag, const char *value, int64_t minimum, int64_t *out,
                         struct fault *fault) {
    int64_t parsed;
    if (value == NULL) {
        return OK;
    }
    if (!text_parse_i64(value, &parsed) || parsed < minimum) {
        return fault_set(fault, STATUS_USAGE, flag, NULL,
                         "\"%s\" is not a whole number of at least %lld", value,
                         (long long)minimum);
    }
    *out = parsed;
    return OK;
}

enum status argument_f64(const char *flag, const char *value, double minimum, double *out,
                         struct fault *fault) {
    double parsed;
    if (value == NULL) {
        return OK;
    }
    if (!text_parse_f64(value, &parsed) || parsed < minimum) {
        return fault_set(fault, STATUS_USAGE, flag, NULL, "\"%s\" is not a number of at least %g",
                         value, minimum);
    }
    *out = parsed;
    return OK;
}
