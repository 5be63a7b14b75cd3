/* keys: `skep keys [--identity FILE] [--json]`: prints the public part of this machine's identity,
 * and makes one if there is none. */
#include "transport/identity/keys.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/json_stdout.h"
#include "transport/identity/identity.h"

#include <stdio.h>
#include <unistd.h>

static void print_identity(const char *key, const char *path, bool made) {
    printf("%s\n", key);
    fprintf(stderr, "%s in %s\n", made ? "made, and kept secret," : "from the identity", path);
}

static void print_document(const char *key, const char *path, bool made) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
    json_add_text(json, "key", key);
    json_add_text(json, "file", path);
    json_add_bool(json, "made", made);
    json_stdout_end(&out);
}

static enum status run(const char *given, bool json, struct fault *fault) {
    struct key_pairs keys;
    char path[PATH_BYTES];
    char key[KEYS_TEXT_BYTES];
    bool made = false;
    TRY(identity_path(given, path, fault));
    TRY(identity_load_or_create(path, &keys, &made, fault));
    keys_wipe(&keys);
    public_keys_write(&keys.public_keys, key);
    (json ? print_document : print_identity)(key, path, made);
    return OK;
}

int command_keys(int argc, char **argv) {
    struct arguments arguments;
    struct fault fault;
    const char *identity = NULL;
    bool json = false;
    const struct flag flags[] = {{"--identity", &identity, NULL}, {"--json", NULL, &json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 0, &arguments, &fault);
    if (status == OK) {
        status = arguments_only(&arguments, argv[0], &fault);
    }
    if (status == OK) {
        status = run(identity, json, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
