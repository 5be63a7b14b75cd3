/* status: `skep status SWARM [--identity FILE] [--json]`: what a swarm is doing now, as its tracker
 * says. SWARM is a NAME.skep or a join string. */
#include "base/json.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/swarm/client/client.h"

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

/* A line of the table. */
struct member_row {
    const char *name, *address, *state;
    double heard_s, round, slices, step_ms, up_kib_s;
    bool is_reached, has_contributed;
};

static enum status read_measured(const struct json_node *member, struct member_row *row,
                                 struct fault *fault) {
    struct json_node measured;
    bool has_measured = false;
    TRY(json_get_object(member, "measured", &measured, &has_measured, fault));
    if (has_measured) {
        TRY(read_number(&measured, "step_ms", &row->step_ms, fault));
    }
    if (has_measured) {
        TRY(read_number(&measured, "up_kib_s", &row->up_kib_s, fault));
    }
    return OK;
}

static enum status read_member(const struct json_node *member, struct member_row *row,
                               struct fault *fault) {
    const struct {
        const char *key, **text;
        double *number;
        bool *truth;
    } fields[] = {{"name", &row->name, NULL, NULL},
                  {"address", &row->address, NULL, NULL},
                  {"reached", NULL, NULL, &row->is_reached},
                  {"heard_s", NULL, &row->heard_s, NULL},
                  {"round", NULL, &row->round, NULL},
                  {"slices", NULL, &row->slices, NULL},
                  {"contributed", NULL, NULL, &row->has_contributed}};
    TRY(state_of(member, &row->state, fault));
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        if (fields[i].text != NULL) {
            TRY(read_text(member, fields[i].key, fields[i].text, fault));
        } else if (fields[i].number != NULL) {
            TRY(read_number(member, fields[i].key, fields[i].number, fault));
        } else {
            TRY(json_get_bool(member, fields[i].key, fields[i].truth, NULL, fault));
        }
    }
    return read_measured(member, row, fault);
}

static void print_member(const struct member_row *row, double slice_count) {
    const double share = slice_count > 0 ? 100 * row->slices / slice_count : 0;
    const bool is_outward = row->address[0] == '\0';
    printf("%-20.20s  %-10s %6.0f  %7.1f s  %5.0f %%  %-6s  %8.0f  %10.0f  %s%s\n", row->name,
           row->state, row->round, row->heard_s, share, row->has_contributed ? "in it" : "-",
           row->step_ms, row->up_kib_s, is_outward ? "outward only" : row->address,
           is_outward || row->is_reached ? "" : " (not reached)");
}

static enum status print_members(const struct json_node *root, struct fault *fault) {
    struct json_node members;
    double slice_count = 0;
    bool has_members = false;
    enum status status = json_get_array(root, "members", &members, &has_members, fault);
    if (status == OK) {
        status = read_number(root, "slices", &slice_count, fault);
    }
    if (status != OK || !has_members || json_count(&members) == 0) {
        return status;
    }
    printf("\n%-20s  %-10s %6s  %9s  %7s  %-6s  %8s  %10s  %s\n", "member", "state", "round",
           "heard", "slices", "commit", "step ms", "up KiB/s", "address");
    for (size_t i = 0; i < json_count(&members) && status == OK; i++) {
        const struct json_node member = json_element(&members, i);
        struct member_row row = {.name = ""};
        status = read_member(&member, &row, fault);
        if (status == OK) {
            print_member(&row, slice_count);
        }
    }
    return status;
}

static enum status print_waiting(const struct json_node *root, struct fault *fault) {
    struct json_node waiting;
    bool has_waiting = false;
    TRY(json_get_array(root, "waiting", &waiting, &has_waiting, fault));
    for (size_t i = 0; has_waiting && i < json_count(&waiting); i++) {
        const struct json_node row = json_element(&waiting, i);
        const char *key, *name;
        TRY(read_text(&row, "key", &key, fault));
        TRY(read_text(&row, "name", &name, fault));
        printf("%swaits to be let in: %s %s\n", i == 0 ? "\n" : "", key, name);
    }
    return OK;
}

/* What stands in a part of the document: a text, and how long that has been so. */
static enum status read_part(const struct json_node *root, const char *part, const char *key,
                             const char **text, double *for_s, struct fault *fault) {
    struct json_node node;
    bool has_node = false;
    *text = "";
    *for_s = 0;
    enum status status = json_get_object(root, part, &node, &has_node, fault);
    if (status == OK && has_node) {
        status = read_text(&node, key, text, fault);
    }
    return status == OK && has_node ? read_number(&node, "for_s", for_s, fault) : status;
}

/* Of the newest commit: who had a part in it. */
static enum status count_contributors(const struct json_node *root, uint32_t *count,
                                      struct fault *fault) {
    struct json_node members;
    bool has_members = false;
    enum status status = json_get_array(root, "members", &members, &has_members, fault);
    *count = 0;
    for (size_t i = 0; status == OK && has_members && i < json_count(&members); i++) {
        const struct json_node member = json_element(&members, i);
        bool has_contributed = false;
        status = json_get_bool(&member, "contributed", &has_contributed, NULL, fault);
        *count += has_contributed;
    }
    return status;
}

struct head {
    double round, stage_s, commits, commits_max, entries, up_s, awaited_s, unused_s;
    const char *name, *stage, *root, *awaited, *derivation;
    uint32_t contributors;
};

static enum status read_head(const struct json_node *root, struct head *head, struct fault *fault) {
    const struct {
        const char *key;
        double *number;
    } numbers[] = {{"round", &head->round},     {"stage_s", &head->stage_s},
                   {"commits", &head->commits}, {"commits_max", &head->commits_max},
                   {"entries", &head->entries}, {"up_s", &head->up_s}};
    const struct {
        const char *key, **text;
    } texts[] = {{"name", &head->name}, {"stage", &head->stage}, {"root", &head->root}};
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        TRY(read_number(root, numbers[i].key, numbers[i].number, fault));
    }
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        TRY(read_text(root, texts[i].key, texts[i].text, fault));
    }
    TRY(read_part(root, "awaits", "what", &head->awaited, &head->awaited_s, fault));
    TRY(read_part(root, "deadlines", "derivation", &head->derivation, &head->unused_s, fault));
    return count_contributors(root, &head->contributors, fault);
}

static enum status print_head(const struct json_node *root, struct fault *fault) {
    struct head head = {.name = ""};
    TRY(read_head(root, &head, fault));
    bool is_over = head.commits_max > 0 && head.commits >= head.commits_max;
    printf("swarm      %s, up %.0f s\nround      %.0f, %s for %.1f s\n", head.name, head.up_s,
           head.round, head.stage, head.stage_s);
    if (head.awaited[0] != '\0') {
        printf("waits for  %s, for %.1f s\n", head.awaited, head.awaited_s);
    }
    printf("committed  %.0f of %.0f rounds%s, %.0f entries, root %.*s", head.commits,
           head.commits_max, is_over ? " (the run has ended)" : "", head.entries, SHOWN_DIGITS,
           head.root);
    if (head.commits > 0) {
        printf(", the last by %u", head.contributors);
    }
    printf("\ndeadlines  %s\n", head.derivation);
    return OK;
}

static enum status print_report(const struct tracker_answer *answer, const char *place,
                                struct fault *fault) {
    struct json_document document;
    TRY(json_parse((const char *)answer->bytes, answer->count, WIRE_STATUS_MAX, place, &document,
                   fault));
    enum status status = print_head(&document.root, fault);
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
    const struct tracker_query_args question = {.request = WIRE_STATUS_REQUEST,
                                                .timeout_ms = TIMEOUT_MS};
    struct tracker_client *asker = NULL;
    struct tracker_answer answer;
    struct join_string tracker;
    enum status status = swarm_reference_read(request->swarm, region, &tracker, fault);
    if (status == OK) {
        status = tracker_client_open(keys, &tracker, region, &asker, fault);
    }
    if (status != OK) {
        return status;
    }
    status = tracker_query(asker, &question, &answer, fault);
    if (status == OK && request->json) {
        printf("%.*s\n", (int)answer.count, (const char *)answer.bytes);
    } else if (status == OK) {
        status = print_report(&answer, tracker.address, fault);
    }
    tracker_client_close(asker);
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
    keys_wipe(&keys);
    region_finish(&region);
    return fault_exit_code(status);
}
