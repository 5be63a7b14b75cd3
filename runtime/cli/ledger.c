/* ledger: `skep ledger FILE-or-SWARM [--verify] [--tracker KEY] [--export OUT] [--json]`: what a
 * ledger of JSON lines, a tracker's store or a running tracker records; with --verify, whether its
 * chain, signatures and quorums hold; with --export, the same as JSON lines. */
#include "runtime/swarm/ledger/ledger.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/json_stdout.h"
#include "runtime/diagnose/ledger_export.h"
#include "runtime/swarm/client/ledger_source.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_DIGITS = 12 };

static const char *const KINDS[] = {"genesis", "open", "commit", "abort", "rollback"};

struct ledger_request {
    const char *path;
    const char *tracker; /* NULL: its signatures are not looked at */
    const char *identity, *export;
    bool verify, json;
};

struct ledger_report {
    struct ledger_chain chain;
    struct ledger_export export;
    uint64_t kinds[ARRAY_COUNT(KINDS)];
    uint64_t lines, tokens; /* tokens of committed rounds */
    struct hash head, root;
    uint32_t round;
};

static uint64_t tokens_of(const struct entry *entry) {
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        tokens += entry->members[i].tokens;
    }
    return tokens;
}

static void print_row(const struct entry *entry, bool is_first) {
    char root[HASH_HEX_BYTES], hash[HASH_HEX_BYTES];
    if (is_first) {
        printf("%8s  %-8s %7s %10s %14s  %-*s  %s\n", "round", "kind", "members", "signatures",
               "tokens", SHOWN_DIGITS, "root", "hash");
    }
    printf("%8u  %-8s %7u %10u %14llu  %.*s  %.*s\n", entry->round, KINDS[entry->kind],
           entry->seat_count, entry->signature_count, (unsigned long long)tokens_of(entry),
           SHOWN_DIGITS, hash_hex(&entry->root, root), SHOWN_DIGITS, hash_hex(&entry->hash, hash));
}

static void count(struct ledger_report *report, const struct entry *entry) {
    report->lines++;
    report->kinds[entry->kind]++;
    report->tokens += tokens_of(entry);
    report->head = entry->hash;
    report->root = entry->root;
    report->round = entry->round;
}

static enum status take(const struct ledger_request *request, const struct ledger_source *source,
                        struct ledger_report *report, struct fault *fault) {
    const char *wrong = request->verify ? ledger_append(&report->chain, source->entry) : NULL;
    if (wrong != NULL) {
        return fault_set(fault, STATUS_INPUT, source->location,
                         "take a ledger of another member, and trust nothing from this line on",
                         "the entry %s", wrong);
    }
    if (!request->json && !request->verify) {
        print_row(source->entry, report->lines == 0);
    }
    count(report, source->entry);
    return ledger_export_add(&report->export, source->entry, fault);
}

static enum status read_all(const struct ledger_request *request, struct ledger_source *source,
                            struct ledger_report *report, struct fault *fault) {
    bool more = true;
    while (more) {
        TRY(ledger_source_next(source, &more, fault));
        if (more) {
            TRY(take(request, source, report, fault));
        }
    }
    if (report->lines == 0) {
        return fault_set(fault, STATUS_INPUT, request->path, NULL, "holds no entries");
    }
    return OK;
}

static void print_document(const struct ledger_request *request,
                           const struct ledger_report *report) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    json_add_i64(json, "format", 1);
    json_add_bool(json, "verified", request->verify);
    json_add_bool(json, "tracker_verified", request->verify && report->chain.has_tracker);
    json_add_u64(json, "entries", report->lines);
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        json_add_u64(json, KINDS[i], report->kinds[i]);
    }
    json_add_u64(json, "round", report->round);
    json_add_u64(json, "tokens", report->tokens);
    json_add_hex(json, "head", report->head.bytes, HASH_BYTES);
    json_add_hex(json, "root", report->root.bytes, HASH_BYTES);
    json_stdout_end(&out);
}

static void print_verified(const struct ledger_report *report) {
    char head[HASH_HEX_BYTES], root[HASH_HEX_BYTES];
    printf("%llu entries, %llu commits, %llu aborts: chain, signatures and quorums hold\n",
           (unsigned long long)report->lines, (unsigned long long)report->kinds[ENTRY_COMMIT],
           (unsigned long long)report->kinds[ENTRY_ABORT]);
    printf("head  %s\nroot  %s\n", hash_hex(&report->head, head), hash_hex(&report->root, root));
    if (!report->chain.has_tracker) {
        printf("the tracker's own signatures were not looked at: give its key by --tracker\n");
    }
}

static enum status read_key(const char *text, struct ledger_chain *chain, struct fault *fault) {
    struct public_keys keys;
    if (text == NULL) {
        return OK;
    }
    const char *wrong = public_keys_read(text, &keys);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_USAGE, "--tracker",
                         "it stands behind the # of the join string", "the key %s", wrong);
    }
    ledger_verify_tracker(chain, keys.sign);
    return OK;
}

static enum status open_source(const struct ledger_request *request, struct region *region,
                               struct ledger_chain *chain, struct ledger_source **source,
                               struct fault *fault) {
    if (!swarm_is_reference(request->path)) {
        return ledger_source_open(request->path, region, source, fault);
    }
    struct join_string *tracker = region_alloc(region, 1, sizeof *tracker);
    struct key_pairs *keys = region_alloc(region, 1, sizeof *keys);
    TRY(swarm_reference_read(request->path, region, tracker, fault));
    TRY(swarm_identity(request->identity, keys, fault));
    ledger_verify_tracker(chain, tracker->keys.sign);
    return ledger_source_open_remote(keys, tracker, region, source, fault);
}

static enum status read_source(const struct ledger_request *request, struct region *region,
                               struct ledger_source *source, struct ledger_report *report,
                               struct fault *fault) {
    TRY(ledger_export_begin(request->export, region, &report->export, fault));
    enum status status = read_all(request, source, report, fault);
    return ledger_export_end(&report->export, status, fault);
}

static enum status run(const struct ledger_request *request, struct region *region,
                       struct fault *fault) {
    struct ledger_report *report = region_alloc(region, 1, sizeof *report);
    struct ledger_source *source = NULL;
    enum status status = read_key(request->tracker, &report->chain, fault);
    if (status == OK) {
        status = open_source(request, region, &report->chain, &source, fault);
    }
    if (status != OK) {
        return status;
    }
    status = read_source(request, region, source, report, fault);
    ledger_source_close(source);
    if (status == OK && request->json) {
        print_document(request, report);
    } else if (status == OK && request->verify) {
        print_verified(report);
    }
    return status;
}

int command_ledger(int argc, char **argv) {
    struct arguments arguments;
    struct ledger_request request = {0};
    struct region region = {0};
    struct fault fault;
    const struct flag flags[] = {{"--verify", NULL, &request.verify},
                                 {"--tracker", &request.tracker, NULL},
                                 {"--identity", &request.identity, NULL},
                                 {"--export", &request.export, NULL},
                                 {"--json", NULL, &request.json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 1, &arguments, &fault);
    if (status == OK) {
        status = arguments_only(&arguments, argv[0], &fault);
    }
    if (status == OK) {
        request.path = arguments.positionals[0];
        status = run(&request, &region, &fault);
    }
    if (status != OK) {
        fault_print(&fault, STDERR_FILENO);
    }
    region_finish(&region);
    return fault_exit_code(status);
}
