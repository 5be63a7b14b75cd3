/* status: `skep status SWARM [--identity FILE] [--json]`: what a swarm is doing now, as its tracker
 * says. SWARM is a NAME.skep or a join string. */
#include "base/json.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/swarm_place.h"
#include "runtime/swarm/tracker_ask.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000, SHOWN_DIGITS = 16 };

struct status_request {
    const char *swarm, *identity;
    bool json;
};

static enum status read_number(const struct json_node *node, const char *key, double *value,
                               struct fault *fault) {
    *value = 0;
    return json_get_f64(node, key, value, NULL, fault);
}

static enum status read_text(const struct json_node *node, const char *key, const char **value,
                             struct fault *fault) {
    *value = "";
    return json_get_text(node, key, value, NULL, fault);
}

/* What a member does, in a word. */
static enum status state_of(const struct json_node *member, const char **state,
                            struct fault *fault) {
    static const struct {
        const char *key, *word;
    } STATES[] = {{"silent", "silent"},
                  {"leaving", "leaving"},
                  {"voted", "voted"},
                  {"declared", "exchanges"},
                  {"current", "trains"}};
    *state = "catches up";
    for (size_t i = 0; i < ARRAY_COUNT(STATES); i++) {
        bool is_so = false;
        enum status status = json_get_bool(member, STATES[i].key, &is_so, NULL, fault);
        if (status != OK || is_so) {
            *state = STATES[i].word;
            return status;
        }
    }
    return OK;
}

static enum status print_member(const struct json_node *member, struct fault *fault) {
    const char *name, *address, *state;
    double heard_s, round, step_ms, up_kib_s;
    struct json_node measured;
    bool reached = false;
    enum status status = read_text(member, "name", &name, fault);
    if (status == OK) {
        status = read_text(member, "address", &address, fault);
    }
    if (status == OK) {
        status = json_get_bool(member, "reached", &reached, NULL, fault);
    }
    if (status == OK) {
        status = state_of(member, &state, fault);
    }
    if (status == OK) {
        status = read_number(member, "heard_s", &heard_s, fault);
    }
    if (status == OK) {
        status = read_number(member, "round", &round, fault);
    }
    bool has_measured = false;
    if (status == OK) {
        status = json_get_object(member, "measured", &measured, &has_measured, fault);
    }
    if (status != OK || !has_measured) {
        return status;
    }
    status = read_number(&measured, "step_ms", &step_ms, fault);
    if (status == OK) {
        status = read_number(&measured, "up_kib_s", &up_kib_s, fault);
    }
    if (status == OK) {
        printf("%-20.20s  %-10s %6.0f  %7.1f s  %8.0f  %10.0f  %s%s\n", name, state, round, heard_s,
               step_ms, up_kib_s, address[0] != '\0' ? address : "outward only",
               address[0] != '\0' && !reached ? " (not reached)" : "");
    }
    return status;
}

static enum status print_members(const struct json_node *root, struct fault *fault) {
    struct json_node members;
    bool has_members = false;
    enum status status = json_get_array(root, "members", &members, &has_members, fault);
    if (status != OK || !has_members || json_count(&members) == 0) {
        return status;
    }
    printf("\n%-20s  %-10s %6s  %9s  %8s  %10s  %s\n", "member", "state", "round", "heard",
           "step ms", "up KiB/s", "address");
    for (size_t i = 0; i < json_count(&members) && status == OK; i++) {
        const struct json_node member = json_element(&members, i);
        status = print_member(&member, fault);
    }
    return status;
}

static enum status print_waiting(const struct json_node *root, struct fault *fault) {
    struct json_node waiting;
    bool has_waiting = false;
    enum status status = json_get_array(root, "waiting", &waiting, &has_waiting, fault);
    for (size_t i = 0; status == OK && has_waiting && i < json_count(&waiting); i++) {
        const struct json_node row = json_element(&waiting, i);
        const char *key, *name;
        status = read_text(&row, "key", &key, fault);
        if (status == OK) {
            status = read_text(&row, "name", &name, fault);
        }
        if (status == OK) {
            printf("%swaits to be let in: %s %s\n", i == 0 ? "\n" : "", key, name);
        }
    }
    return status;
}

static enum status print_head(const struct json_node *root, struct fault *fault) {
    static const char *const NUMBERS[] = {"round",       "stage_s", "commits",
                                          "commits_max", "entries", "up_s"};
    static const char *const TEXTS[] = {"name", "stage", "root"};
    double numbers[ARRAY_COUNT(NUMBERS)];
    const char *texts[ARRAY_COUNT(TEXTS)];
    struct json_node deadlines;
    const char *derivation = "";
    bool has_deadlines = false;
    enum status status = OK;
    for (size_t i = 0; i < ARRAY_COUNT(NUMBERS) && status == OK; i++) {
        status = read_number(root, NUMBERS[i], &numbers[i], fault);
    }
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS) && status == OK; i++) {
        status = read_text(root, TEXTS[i], &texts[i], fault);
    }
    if (status == OK) {
        status = json_get_object(root, "deadlines", &deadlines, &has_deadlines, fault);
    }
    if (status == OK && has_deadlines) {
        status = read_text(&deadlines, "derivation", &derivation, fault);
    }
    if (status == OK) {
        printf("swarm      %s, up %.0f s\nround      %.0f, %s for %.1f s\n", texts[0], numbers[5],
               numbers[0], texts[1], numbers[1]);
        bool is_over = numbers[3] > 0 && numbers[2] >= numbers[3];
        printf("committed  %.0f of %.0f rounds%s, %.0f entries, root %.*s\ndeadlines  %s\n",
               numbers[2], numbers[3], is_over ? " (the run has ended)" : "", numbers[4],
               SHOWN_DIGITS, texts[2], derivation);
    }
    return status;
}

static enum status print_report(const struct tracker_answer *answer, const char *place,
                                struct fault *fault) {
    struct json_document document;
    enum status status = json_parse((const char *)answer->bytes, answer->count, WIRE_STATUS_MAX,
                                    place, &document, fault);
    if (status != OK) {
        return status;
    }
    status = print_head(&document.root, fault);
    if (status == OK) {
        status = print_members(&document.root, fault);
    }
    if (status == OK) {
        status = print_waiting(&document.root, fault);
    }
    json_finish(&document);
    return status;
}

static enum status ask(const struct status_request *request, const struct key_pairs *keys,
                       struct region *region, struct fault *fault) {
    const struct tracker_question question = {.ask = WIRE_STATUS_ASK, .timeout_ms = TIMEOUT_MS};
    struct tracker_asker *asker = NULL;
    struct tracker_answer answer;
    struct join_string tracker;
    enum status status = swarm_place_read(request->swarm, region, &tracker, fault);
    if (status == OK) {
        status = tracker_asker_open(keys, &tracker, region, &asker, fault);
    }
    if (status != OK) {
        return status;
    }
    status = tracker_ask(asker, &question, &answer, fault);
    if (status == OK && request->json) {
        printf("%.*s\n", (int)answer.count, (const char *)answer.bytes);
    } else if (status == OK) {
        status = print_report(&answer, tracker.address, fault);
    }
    tracker_asker_close(asker);
    return status;
}

int command_status(int argc, char **argv) {
    struct arguments arguments;
    struct status_request request = {0};
    struct key_pairs keys = {0};
    struct region region = {0};
    struct fault fault;
    const struct flag flags[] = {{"--identity", &request.identity, NULL},
                                 {"--json", NULL, &request.json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status = arguments_only(&arguments, argv[0], &fault);
    }
    if (status == OK) {
        status = swarm_identity(request.identity, &keys, &fault);
    }
    if (status == OK) {
        request.swarm = arguments.positionals[0];
        status = ask(&request, &keys, &region, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    keys_forget(&keys);
    region_finish(&region);
    return fault_exit_code(status);
}
