/* roster: `skep roster add, remove, list` edits or prints the allow-list of a tracker. */
#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "transport/identity/operator_key.h"

#include <stdio.h>
#include <string.h>

struct request {              /* options of `skep roster` */
    const char *path, *name;  /* path of the allow-list; name of the member to add */
    const char *operator_key; /* file of the operator's key; NULL: operator.key beside the list */
    bool json;                /* --json */
};

static void print_rows(const char *path, const struct allow_list *list) {
    (void)path;
    char key[KEYS_TEXT_BYTES];
    for (uint32_t i = 0; i < list->count; i++) {
        const struct allow_list_row *row = &list->rows[i];
        printf("%s  %s\n", public_keys_write(&row->keys, key),
               row->name[0] != '\0' ? row->name : "-");
    }
    if (list->is_open) {
        printf("open: processes with other keys are admitted too\n");
    }
}

static void print_json(const char *path, const struct allow_list *list) {
    char key[KEYS_TEXT_BYTES];
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_text(json, "file", path);
    json_add_bool(json, "open", list->is_open);
    json_begin_array(json, "members");
    for (uint32_t i = 0; i < list->count; i++) {
        json_begin_object(json, NULL);
        json_add_text(json, "key", public_keys_write(&list->rows[i].keys, key));
        json_add_text(json, "name", list->rows[i].name);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

/* Prints what an edit changed: one line, or the whole list as JSON. */
static enum status print_edit(const struct request *request, const char *verb, const char *who,
                              struct fault *fault) {
    enum { SHOWN_LETTERS = 16 }; /* number of letters of a key that a message shows */
    static struct allow_list list;
    struct public_keys keys;
    TRY(allow_list_read(request->path, &list, fault));
    if (request->json) {
        print_json(request->path, &list);
        return OK;
    }
    const bool is_key = public_keys_read(who, &keys) == NULL;
    printf("%s %.*s%s; %u member%s on the list\n", verb, is_key ? SHOWN_LETTERS : PATH_BYTES, who,
           is_key ? "..." : "", list.count, list.count == 1 ? "" : "s");
    return OK;
}

static enum status print_list(const struct request *request, struct fault *fault) {
    static struct allow_list list;
    TRY(allow_list_read(request->path, &list, fault));
    (request->json ? print_json : print_rows)(request->path, &list);
    return OK;
}

/* Signs the list if this machine has the operator's key. The tracker wrote the first signed list,
 * which names the swarm. If only the tracker has the key, the tracker signs the list. */
static enum status sign_list(const struct request *request, bool is_required, struct fault *fault) {
    static struct allow_list list;
    static struct known_roster known;
    char folder[PATH_BYTES], beside[PATH_BYTES], file[ROSTER_PATH_BYTES];
    struct operator_key key;
    file_parent_folder(request->path, folder, sizeof folder);
    path_join(folder, "operator.key", beside, sizeof beside);
    const char *key_path = request->operator_key != NULL ? request->operator_key : beside;
    is_required |= request->operator_key != NULL;
    roster_file_path(request->path, file);
    if (!is_required && (!file_exists(key_path) || !file_exists(file))) {
        return OK;
    }
    TRY(allow_list_read(request->path, &list, fault));
    TRY(operator_key_read(key_path, &key, fault));
    enum status status =
        key.has_secrets ? roster_file_read(file, key.keys.public_keys.sign, &known, fault)
                        : fault_set(fault, STATUS_INPUT, key_path,
                                    "pass the identity file of the operator with --operator-key",
                                    "contains only the operator's public key, which cannot sign");
    if (status == OK) {
        status = allow_list_sign(request->path, &list, &known.swarm, &key.keys, fault);
    }
    keys_wipe(&key.keys);
    return status;
}

static enum status check_path(const struct request *request, struct fault *fault) {
    if (request->path == NULL) {
        return fault_set(fault, STATUS_USAGE, "roster",
                         "add --roster FILE; `skep track` logs the path of its allow-list",
                         "the path of the allow-list is missing");
    }
    if (strlen(request->path) >= PATH_BYTES / 2) {
        return fault_set(fault, STATUS_USAGE, "--roster", "use a shorter path",
                         "the path is too long");
    }
    return OK;
}

static enum status run_roster(struct invocation *invocation) {
    const struct request *request = invocation->request;
    const char *action = invocation->positionals[0];
    const char *subject = invocation->positionals[1]; /* NULL: none */
    struct fault *fault = &invocation->fault;
    bool is_add = strcmp(action, "add") == 0;
    bool is_list = strcmp(action, "list") == 0;
    bool is_sign = strcmp(action, "sign") == 0;
    if (!is_add && !is_list && !is_sign && strcmp(action, "remove") != 0) {
        return fault_set(fault, STATUS_USAGE, "roster", "write add, remove, sign or list",
                         "unknown action \"%s\"", action);
    }
    if ((is_list || is_sign) != (subject == NULL)) {
        return fault_set(
            fault, STATUS_USAGE, "roster",
            subject != NULL ? "pass the allow-list with --roster FILE" : "see `skep help roster`",
            subject != NULL ? "one argument too many: \"%s\"" : "an argument is missing", subject);
    }
    TRY(check_path(request, fault));
    if (is_list) {
        return print_list(request, fault);
    }
    if (is_sign) {
        return sign_list(request, true, fault);
    }
    TRY(is_add ? allow_list_add(request->path, subject, request->name, fault)
               : allow_list_remove(request->path, subject, fault));
    TRY(sign_list(request, false, fault));
    return print_edit(request, is_add ? "added" : "removed",
                      is_add && request->name != NULL ? request->name : subject, fault);
}

static const struct option OPTIONS[] = {
    {OPTION("--roster", TEXT, path), .value_name = "FILE",
     .help = "path of the allow-list, as `skep track` logs it; required",
     .example = "list --roster roster.yaml"},
    {OPTION("--name", TEXT, name), .value_name = "NAME", .help = "name of the member to add",
     .example = "add KEY --name anna --roster roster.yaml"},
    {OPTION("--operator-key", TEXT, operator_key), .value_name = "FILE",
     .help = "key that signs the list; default: operator.key beside the list, if it is there",
     .example = "add KEY --roster roster.yaml --operator-key operator.key"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "list --roster roster.yaml --json"},
};

const struct command COMMAND_ROSTER = {
    .name = "roster",
    .arguments = "add KEY | remove KEY-or-NAME | sign | list",
    .actions = "add|remove|sign|list",
    .summary = "edit the allow-list of a tracker; a running tracker applies the change",
    .details =
        "KEY is a public key as `skep keys` prints it. A running tracker applies a change of its "
        "allow-list within a second.",
    .example = "add KEY --name anna --roster roster.yaml",
    .positional_count = 1,
    .optional_count = 1,
    REQUEST_OPTIONS,
    .run = run_roster,
};
