#include "runtime/cli/arguments.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { FLAGS_MAX = 32 };

static const char *const TAKE_VALUES[] = {
    "--bytes",   "--capacity",    "--data",     "--dtype",   "--export", "--identity", "--ledger",
    "--listen",  "--name",        "--per-node", "--prompt",  "--public", "--ranks",    "--roster",
    "--seconds", "--seed",        "--shards",   "--state",   "--steps",  "--svg",      "--table",
    "--target",  "--temperature", "--tokens",   "--tracker", "--write",  "-o"};

static bool takes_value(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(TAKE_VALUES); i++) {
        if (strcmp(name, TAKE_VALUES[i]) == 0) {
            return true;
        }
    }
    return false;
}

int arguments_skip(char *const *argv, int index) {
    bool two = takes_value(argv[index]) && argv[index + 1] != NULL;
    return index + (two ? 2 : 1);
}

int arguments_flags_end(int argc, char *const *argv) {
    int index = 0;
    while (index < argc && strcmp(argv[index], "--") != 0) {
        index = arguments_skip(argv, index);
    }
    return index;
}

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
    const int flags_end = arguments_flags_end(argc, argv);
    ASSERT(wanted <= POSITIONALS_MAX);
    for (int i = 0; i < flag_count; i++) {
        ASSERT(takes_value(flags[i].name) == (flags[i].value != NULL));
    }
    for (int i = 1; i < argc && status == OK; i++) {
        if (i == flags_end) {
            continue;
        }
        bool flag = i < flags_end && argv[i][0] == '-' && argv[i][1] != '\0';
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

enum status arguments_only(const struct arguments *arguments, const char *command,
                           struct fault *fault) {
    char remedy[128];
    if (arguments->override_count == 0) {
        return OK;
    }
    snprintf(remedy, sizeof remedy, "see `skep help %s`", command);
    return fault_set(fault, STATUS_USAGE, command, remedy, "one argument too many: \"%s\"",
                     arguments->overrides[0]);
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
    if (!text_parse_f64(value, &parsed) || !(parsed >= minimum)) {
        return fault_set(fault, STATUS_USAGE, flag, NULL, "\"%s\" is not a number of at least %g",
                         value, minimum);
    }
    *out = parsed;
    return OK;
}

enum status argument_bytes(const char *flag, const char *value, uint64_t *out,
                           struct fault *fault) {
    uint64_t parsed;
    if (value == NULL) {
        return OK;
    }
    if (!text_parse_bytes(value, &parsed) || parsed == 0) {
        return fault_set(fault, STATUS_USAGE, flag, "write 4096, 512MiB or 1.5GB",
                         "\"%s\" is not a number of bytes above 0", value);
    }
    *out = parsed;
    return OK;
}
