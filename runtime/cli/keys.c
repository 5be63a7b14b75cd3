/* keys: `skep keys` prints the public key of this machine's identity, and creates the identity if
 * there is none. */
#include "transport/identity/keys.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "transport/identity/identity.h"

#include <stdio.h>

struct request {          /* options of `skep keys` */
    const char *identity; /* path of the file with the private key */
    bool json;            /* --json */
};

static void print_json(const char *key, const char *path, bool is_new) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "key", key);
    json_add_text(json, "file", path);
    json_add_bool(json, "made", is_new);
    json_stdout_end(&out);
}

static enum status run_keys(struct invocation *invocation) {
    const struct request *request = invocation->request;
    struct key_pairs keys;
    char path[PATH_BYTES], key[KEYS_TEXT_BYTES];
    bool is_new = false;
    TRY(identity_path(request->identity, path, &invocation->fault));
    TRY(identity_load_or_create(path, &keys, &is_new, &invocation->fault));
    keys_wipe(&keys);
    public_keys_write(&keys.public_keys, key);
    if (request->json) {
        print_json(key, path, is_new);
    } else {
        printf("%s\n", key);
        fprintf(stderr, "%s %s\n",
                is_new ? "created the secret identity file" : "identity file:", path);
    }
    return OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--identity", TEXT, identity), .value_name = "FILE",
     .help = "identity to print or create; default: skep/identity in $XDG_CONFIG_HOME",
     .example = "--identity anna.identity"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "--json"},
};

const struct command COMMAND_KEYS = {
    .name = "keys",
    .arguments = "",
    .summary = "print the public key of this machine; creates an identity if there is none",
    .details =
        "Prints the public key that an operator adds to an allow-list with `skep roster add`. The "
        "identity file holds the secret key; an existing file is never changed. `skep help keys` "
        "lists "
        "the keys of a run file instead.",
    .example = "--identity anna.identity",
    REQUEST_OPTIONS,
    .run = run_keys,
};
