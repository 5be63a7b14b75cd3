/* status: `skep status SWARM` prints the current state of a swarm, as its tracker reports it. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/delegation/delegation.h"

#include <stdio.h>
#include <string.h>

enum {
    FIRST_TIMEOUT_MS = 2000, /* timeout of the first query to the tracker, in milliseconds */
    RETRY_TIMEOUT_MS = 5000, /* timeout of each later query to the tracker, in milliseconds */
    SHOWN_DIGITS = 16,       /* number of digits of a hash that are printed */
    SLICES_TEXT_BYTES = 16   /* size of the buffer for the text of a number of slices */
};

struct request {          /* options of `skep status` */
    const char *identity; /* path of the file with the private key */
    bool json;            /* --json */
};

/* One row of the table of members. */
struct member_row {
    /* the member's name and address; NULL: the tracker does not show the address to strangers */
    const char *name, *address;
    double last_frame_s;          /* time since the last frame from the member */
    double round;                 /* newest round of which the member has the state */
    double slices;                /* number of slices that the member owns */
    double step_ms, upload_kib_s; /* the member's measured time of an inner step, and upload rate */
    bool is_silent;               /* no frame of the member has arrived within the limit */
    /* the member leaves after this round; the member voted in this round */
    bool is_leaving, has_voted;
    bool has_declared; /* the member has sent its declaration of this round */
    bool is_current;   /* the member has the current state */
    bool is_reachable, is_guest;
    bool has_contributed;   /* the member's contribution is in the newest commit */
    double suspended_until; /* first round in which the member may have a seat; 0: not suspended */
    const char *suspension_reason;
};

/* The values printed before the table. A text is "" if the tracker sent no value. */
struct swarm_summary {
    const char *name, *stage, *root;
    const char *awaited;    /* event for which the tracker waits */
    const char *derivation; /* how the tracker derived the deadlines of the round */
    double round, slice_count;
    /* seconds in the current stage, of waiting, and since the tracker's start */
    double stage_s, awaited_s, up_s;
    /* number of committed rounds, of planned rounds, and of ledger entries */
    double commits, commits_max, entries;
    /* tokens of the newest commit: trained, and assigned to its members */
    double tokens, planned_tokens;
    /* index of the first ledger entry that a joiner reads; 0: the ledger's beginning */
    double checkpoint;
    double expires_s; /* Unix time at which the delegation to the tracker expires; 0: never */
    /* probability that audits find a lie in one round, and in 10 rounds */
    double found_in_round, found_in_10_rounds;
};

struct swarm_status {
    struct swarm_summary summary;
    struct member_row *members;
    size_t member_count, contributor_count;
    struct json_node guests; /* processes whose key is not on the allow-list */
    bool has_guests;         /* at least one member is a guest */
};

/* A field of a JSON object, and the variable that is set to its value if it is present. */
struct field {
    const char *key;   /* name of the JSON member */
    const char **text; /* variable for a text; exactly one of text, number and flag is not NULL */
    double *number;    /* receives a number */
    bool *flag;        /* variable for true or false */
};

static enum status read_fields(const struct json_node *node, const struct field *fields,
                               size_t count, struct fault *fault) {
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        if (field->text != NULL) {
            TRY(json_get_text(node, field->key, field->text, NULL, fault));
        } else if (field->number != NULL) {
            TRY(json_get_f64(node, field->key, field->number, NULL, fault));
        } else {
            TRY(json_get_bool(node, field->key, field->flag, NULL, fault));
        }
    }
    return OK;
}

/* Reads fields of the object `part` in `root`. The object may be missing. */
static enum status read_object_fields(const struct json_node *root, const char *part,
                                      const struct field *fields, size_t count,
                                      struct fault *fault) {
    struct json_node node;
    bool has_node = false;
    TRY(json_get_object(root, part, &node, &has_node, fault));
    return has_node ? read_fields(&node, fields, count, fault) : OK;
}

static enum status read_member(const struct json_node *member, struct member_row *row,
                               struct fault *fault) {
    const struct field fields[] = {{.key = "name", .text = &row->name},
                                   {.key = "address", .text = &row->address},
                                   {.key = "heard_s", .number = &row->last_frame_s},
                                   {.key = "round", .number = &row->round},
                                   {.key = "slices", .number = &row->slices},
                                   {.key = "guest", .flag = &row->is_guest},
                                   {.key = "silent", .flag = &row->is_silent},
                                   {.key = "leaving", .flag = &row->is_leaving},
                                   {.key = "voted", .flag = &row->has_voted},
                                   {.key = "declared", .flag = &row->has_declared},
                                   {.key = "current", .flag = &row->is_current},
                                   {.key = "reached", .flag = &row->is_reachable},
                                   {.key = "contributed", .flag = &row->has_contributed}};
    const struct field measured[] = {{.key = "step_ms", .number = &row->step_ms},
                                     {.key = "up_kib_s", .number = &row->upload_kib_s}};
    const struct field suspended[] = {{.key = "until_round", .number = &row->suspended_until},
                                      {.key = "reason", .text = &row->suspension_reason}};
    *row = (struct member_row){.name = "", .suspension_reason = ""};
    TRY(read_fields(member, fields, ARRAY_COUNT(fields), fault));
    TRY(read_object_fields(member, "suspended", suspended, ARRAY_COUNT(suspended), fault));
    return read_object_fields(member, "measured", measured, ARRAY_COUNT(measured), fault);
}

static enum status read_summary(const struct json_node *root, struct swarm_summary *summary,
                                struct fault *fault) {
    const struct field fields[] = {{.key = "name", .text = &summary->name},
                                   {.key = "stage", .text = &summary->stage},
                                   {.key = "root", .text = &summary->root},
                                   {.key = "round", .number = &summary->round},
                                   {.key = "stage_s", .number = &summary->stage_s},
                                   {.key = "commits", .number = &summary->commits},
                                   {.key = "commits_max", .number = &summary->commits_max},
                                   {.key = "entries", .number = &summary->entries},
                                   {.key = "checkpoint", .number = &summary->checkpoint},
                                   {.key = "up_s", .number = &summary->up_s},
                                   {.key = "slices", .number = &summary->slice_count}};
    const struct field awaits[] = {{.key = "what", .text = &summary->awaited},
                                   {.key = "for_s", .number = &summary->awaited_s}};
    const struct field delegation[] = {{.key = "expires_s", .number = &summary->expires_s}};
    const struct field trained[] = {{.key = "tokens", .number = &summary->tokens},
                                    {.key = "planned", .number = &summary->planned_tokens}};
    const struct field deadlines[] = {{.key = "derivation", .text = &summary->derivation}};
    const struct field audits[] = {
        {.key = "found_in_round", .number = &summary->found_in_round},
        {.key = "found_in_10_rounds", .number = &summary->found_in_10_rounds}};
    *summary = (struct swarm_summary){
        .name = "", .stage = "", .root = "", .awaited = "", .derivation = ""};
    TRY(read_fields(root, fields, ARRAY_COUNT(fields), fault));
    TRY(read_object_fields(root, "awaits", awaits, ARRAY_COUNT(awaits), fault));
    TRY(read_object_fields(root, "delegation", delegation, ARRAY_COUNT(delegation), fault));
    TRY(read_object_fields(root, "trained", trained, ARRAY_COUNT(trained), fault));
    TRY(read_object_fields(root, "audits", audits, ARRAY_COUNT(audits), fault));
    return read_object_fields(root, "deadlines", deadlines, ARRAY_COUNT(deadlines), fault);
}

static enum status read_status(const struct json_node *root, struct region *region,
                               struct swarm_status *read, struct fault *fault) {
    struct json_node members;
    bool has_members = false;
    TRY(read_summary(root, &read->summary, fault));
    TRY(json_get_array(root, "members", &members, &has_members, fault));
    read->member_count = has_members ? json_child_count(&members) : 0;
    read->members = region_alloc(region, read->member_count, sizeof *read->members);
    for (size_t i = 0; i < read->member_count; i++) {
        const struct json_node member = json_element(&members, i);
        TRY(read_member(&member, &read->members[i], fault));
        read->contributor_count += read->members[i].has_contributed;
    }
    return json_get_array(root, "waiting", &read->guests, &read->has_guests, fault);
}

static const char *member_state(const struct member_row *row, bool is_between_rounds) {
    return row->is_silent             ? (row->is_leaving ? "left" : "silent")
           : row->is_leaving          ? "leaving"
           : row->suspended_until > 0 ? "suspended"
           : row->has_voted           ? "voted"
           : row->has_declared        ? "exchanging"
           : is_between_rounds        ? (row->is_current ? "waiting" : "catch-up")
           : row->is_current          ? "training"
                                      : "catch-up";
}

static void print_member(const struct member_row *row, const struct swarm_summary *summary) {
    const double share = summary->slice_count > 0 ? 100 * row->slices / summary->slice_count : 0;
    const bool is_between_rounds = strcmp(summary->stage, "ready") == 0;
    const bool has_address = row->address != NULL && row->address[0] != '\0';
    char slices[SLICES_TEXT_BYTES];
    struct text text = text_over(slices, sizeof slices);
    if (row->is_guest) {
        text_add(&text, "guest");
    } else {
        text_add(&text, "%.0f %%", share);
    }
    printf("%-20.20s  %-10s %6.0f  %7.1f s  %7s  %-6s  %8.0f  %10.0f  %s%s\n", row->name,
           member_state(row, is_between_rounds), row->round, row->last_frame_s, slices,
           row->has_contributed ? "yes" : "-", row->step_ms, row->upload_kib_s,
           has_address            ? row->address
           : row->address == NULL ? "(for members)"
                                  : "outgoing only",
           has_address && !row->is_reachable ? " (unreachable)" : "");
}

/* Prints when the delegation expires. In the week before that time, the line is a warning, as in
 * the tracker's log. */
static void print_expiry(double expires_s) {
    char left[24];
    const struct delegation delegation = {.expires_s = (uint64_t)expires_s};
    const uint64_t now_s = (uint64_t)clock_unix_s();
    if (expires_s > 0 && expires_s < (double)(now_s + DELEGATION_WARN_S)) {
        printf("\ndelegation expires in %s: the operator has to sign a new one",
               delegation_time_left(&delegation, now_s, left));
    }
}

/* Prints the share of the assigned samples that members trained on in the newest commit. */
static void print_trained_tokens(const struct swarm_summary *summary) {
    char tokens[24], planned[24];
    if (summary->planned_tokens > 0) {
        printf(" and %s of %s tokens", text_format_count(summary->tokens, tokens),
               text_format_count(summary->planned_tokens, planned));
    }
}

static void print_audits(const struct swarm_summary *summary) {
    if (summary->found_in_round > 0) {
        printf("audits     probability of detecting an owner that falsifies its own contribution: "
               "%.1f %% in a round, %.0f %% in 10\n",
               100 * summary->found_in_round, 100 * summary->found_in_10_rounds);
    }
}

static void print_summary(const struct swarm_summary *summary, size_t contributor_count) {
    bool has_ended = summary->commits_max > 0 && summary->commits >= summary->commits_max;
    printf("swarm      %s, up %.0f s\nround      %.0f, %s for %.1f s\n", summary->name,
           summary->up_s, summary->round, summary->stage, summary->stage_s);
    if (summary->awaited[0] != '\0') {
        printf("waits for  %s, for %.1f s\n", summary->awaited, summary->awaited_s);
    }
    printf("committed  %.0f of %.0f rounds%s, %.0f entries, root %.*s", summary->commits,
           summary->commits_max, has_ended ? " (the run has ended)" : "", summary->entries,
           SHOWN_DIGITS, summary->root);
    if (summary->commits > 0) {
        printf(", the newest with %zu contributor%s", contributor_count,
               contributor_count == 1 ? "" : "s");
        print_trained_tokens(summary);
    }
    if (summary->checkpoint > 0) {
        printf("\ncheckpoint entry %.0f: joiners read the ledger from there on",
               summary->checkpoint);
    }
    print_expiry(summary->expires_s);
    putchar('\n');
    print_audits(summary);
    if (log_is_enabled(LOG_DEBUG)) {
        printf("deadlines  %s\n", summary->derivation);
    }
}

static void print_suspensions(const struct swarm_status *read) {
    bool is_first = true;
    for (size_t i = 0; i < read->member_count; i++) {
        const struct member_row *row = &read->members[i];
        if (row->suspended_until > 0) {
            printf("%ssuspended until round %.0f: %s, reason: %s\n", is_first ? "\n" : "",
                   row->suspended_until, row->name, row->suspension_reason);
            is_first = false;
        }
    }
}

static enum status print_guests(const struct json_node *guests, struct fault *fault) {
    for (size_t i = 0; i < json_child_count(guests); i++) {
        const struct json_node guest = json_element(guests, i);
        const char *key = "", *name = "";
        const struct field fields[] = {{.key = "key", .text = &key},
                                       {.key = "name", .text = &name}};
        TRY(read_fields(&guest, fields, ARRAY_COUNT(fields), fault));
        printf("%snot on the allow-list: %s %s\n", i == 0 ? "\n" : "", key, name);
    }
    return OK;
}

static enum status print_status(const struct json_node *root, struct region *region,
                                struct fault *fault) {
    struct swarm_status read = {.member_count = 0};
    TRY(read_status(root, region, &read, fault));
    print_summary(&read.summary, read.contributor_count);
    if (read.member_count > 0) {
        printf("\n%-20s  %-10s %6s  %9s  %7s  %-6s  %8s  %10s  %s\n", "member", "state", "round",
               "last seen", "slices", "commit", "step ms", "up KiB/s", "address");
    }
    for (size_t i = 0; i < read.member_count; i++) {
        print_member(&read.members[i], &read.summary);
    }
    print_suspensions(&read);
    return read.has_guests ? print_guests(&read.guests, fault) : OK;
}

static enum status print_answer(const struct tracker_answer *answer, const char *subject,
                                struct region *region, struct fault *fault) {
    struct json_document document;
    TRY(json_parse((const char *)answer->bytes, answer->count, WIRE_STATUS_BYTES_MAX, subject,
                   &document, fault));
    enum status status = print_status(&document.root, region, fault);
    json_finish(&document);
    return status;
}

static enum status query_tracker(struct tracker_client *client, const struct request *request,
                                 const char *subject, struct region *region, struct fault *fault) {
    const struct tracker_query_args first = {.request = WIRE_STATUS_REQUEST,
                                             .timeout_ms = FIRST_TIMEOUT_MS};
    const struct tracker_query_args retry = {.request = WIRE_STATUS_REQUEST,
                                             .timeout_ms = RETRY_TIMEOUT_MS};
    struct tracker_answer answer;
    enum status status = tracker_query(client, &first, &answer, fault);
    if (status == STATUS_FAILED) {
        log_line(LOG_WARNING, "%s is busy or unreachable: retrying", subject);
        status = tracker_query(client, &retry, &answer, fault);
    }
    if (status != OK) {
        return status;
    }
    if (request->json) {
        printf("%.*s\n", (int)answer.count, (const char *)answer.bytes);
        return OK;
    }
    return print_answer(&answer, subject, region, fault);
}

static enum status find_tracker(const struct join_string *join, struct tracker_contact *tracker,
                                struct fault *fault) {
    const struct delegation_search_args first = {.timeout_ms = FIRST_TIMEOUT_MS, .may_store = true};
    const struct delegation_search_args retry = {.timeout_ms = RETRY_TIMEOUT_MS, .may_store = true};
    enum status status = delegation_search(join, &first, tracker, fault);
    if (status == STATUS_FAILED) {
        log_line(LOG_WARNING, "%s is busy or unreachable: retrying", join->address);
        status = delegation_search(join, &retry, tracker, fault);
    }
    return status;
}

static enum status query_swarm(struct invocation *invocation, const struct key_pairs *keys) {
    struct tracker_client *client = NULL;
    struct join_string join;
    struct tracker_contact tracker;
    struct region *region = &invocation->region;
    struct fault *fault = &invocation->fault;
    TRY(swarm_reference_read(invocation->positionals[0], region, &join, fault));
    TRY(find_tracker(&join, &tracker, fault));
    TRY(tracker_client_open(keys, &tracker, NULL, region, &client, fault));
    enum status status = query_tracker(client, invocation->request, tracker.address, region, fault);
    tracker_client_close(client);
    return status;
}

static enum status run_status(struct invocation *invocation) {
    const struct request *request = invocation->request;
    struct key_pairs keys = {0};
    TRY(swarm_load_identity(request->identity, &keys, &invocation->fault));
    enum status status = query_swarm(invocation, &keys);
    keys_wipe(&keys);
    return status;
}

static const struct option OPTIONS[] = {
    {OPTION("--identity", TEXT, identity), .value_name = "FILE",
     .help = "identity for the query; default: as for `skep join`",
     .example = "austen.skep --identity anna.identity"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "austen.skep --json"},
};

const struct command COMMAND_STATUS = {
    .name = "status",
    .arguments = "SWARM",
    .summary = "print the current state of a swarm, as its tracker reports it",
    .details =
        "SWARM is the manifest NAME.skep or the join string tcp://HOST:PORT#KEY of a tracker.",
    .example = "austen.skep",
    .positional_count = 1,
    REQUEST_OPTIONS,
    .run = run_status,
};
