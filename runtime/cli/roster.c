/* roster: `skep roster add, remove, list`: whose processes a tracker lets in. */
#include "base/limits.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/swarm/tracker/allow_list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct roster_request {
    const char *action, *subject, *path, *name;
    bool json;
};

static void print_rows(const struct allow_list *roster) {
    char key[KEYS_TEXT_BYTES];
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct allow_list_row *row = &roster->rows[i];
        printf("%s  %s\n", public_keys_write(&row->keys, key),
               row->name[0] != '\0' ? row->name : "-");
    }
    if (roster->open) {
        printf("open: everybody else is let in too\n");
    }
}

static void print_document(const char *path, const struct allow_list *roster) {
    char key[KEYS_TEXT_BYTES];
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
    json_add_text(json, "file", path);
    json_add_bool(json, "open", roster->open);
    json_begin_array(json, "members");
    for (uint32_t i = 0; i < roster->count; i++) {
        json_begin_object(json, NULL);
        json_add_text(json, "key", public_keys_write(&roster->rows[i].keys, key));
        json_add_text(json, "name", roster->rows[i].name);
        json_end(json);
    }
    json_end(json);
    json_stdout_end(&out);
}

static enum status list(const struct roster_request *request, struct fault *fault) {
    static struct allow_list roster;
    TRY(allow_list_read(request->path, &roster, fault));
    if (request->json) {
        print_document(request->path, &roster);
    } else {
        print_rows(&roster);
    }
    return OK;
}

static enum status run(const struct roster_request *request, struct fault *fault) {
    if (request->path == NULL) {
        return fault_set(fault, STATUS_USAGE, "roster",
                         "add --roster FILE; `skep track` says where its own is",
                         "there is no roster named");
    }
    if (strlen(request->path) >= PATH_BYTES / 2) {
        return fault_set(fault, STATUS_USAGE, "--roster", NULL, "the path is too long");
    }
    if (strcmp(request->action, "list") == 0) {
        return list(request, fault);
    }
    return strcmp(request->action, "add") == 0
               ? allow_list_add(request->path, request->subject, request->name, fault)
               : allow_list_remove(request->path, request->subject, fault);
}

/* How many words the action takes with it, or -1. */
static int words_of(const char *action) {
    if (strcmp(action, "list") == 0) {
        return 1;
    }
    return strcmp(action, "add") == 0 || strcmp(action, "remove") == 0 ? 2 : -1;
}

static enum status read_request(int argc, char **argv, struct roster_request *request,
                                struct fault *fault) {
    struct arguments arguments;
    const struct flag flags[] = {{"--roster", &request->path, NULL},
                                 {"--name", &request->name, NULL},
                                 {"--json", NULL, &request->json}};
    int words = argc < 2 ? -1 : words_of(argv[1]);
    if (words < 0) {
        return fault_set(fault, STATUS_USAGE, "roster", "add, remove or list", "cannot \"%s\"",
                         argc < 2 ? "" : argv[1]);
    }
    TRY(arguments_read(argc, argv, flags, ARRAY_COUNT(flags), words, &arguments, fault));
    TRY(arguments_only(&arguments, argv[0], fault));
    request->action = arguments.positionals[0];
    request->subject = words > 1 ? arguments.positionals[1] : NULL;
    return OK;
}

int command_roster(int argc, char **argv) {
    struct roster_request request = {0};
    struct fault fault;
    enum status status = read_request(argc, argv, &request, &fault);
    if (status == OK) {
        status = run(&request, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    return fault_exit_code(status);
}
