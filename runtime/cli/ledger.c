/* ledger: `skep ledger FILE-or-SWARM` prints the ledger in a file of JSON lines, in a tracker's
 * store or of a running tracker. --verify checks its chain, signatures and quorums, and --export
 * writes it as JSON lines. */
#include "runtime/swarm/ledger/ledger.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"
#include "runtime/diagnose/ledger_export.h"
#include "runtime/swarm/client/ledger_source.h"

#include <stdio.h>
#include <string.h>

enum {
    SHOWN_DIGITS = 12, /* number of digits of a hash that are printed */
    SEARCH_MS = 10000, /* how long to wait for the tracker's delegation, in milliseconds */
};

static const char *const KINDS[] = {"genesis", "open", "commit", "abort", "rollback", "suspend"};

struct request { /* options of `skep ledger` */
    /* public key of the operator; NULL: the operator's signatures are not verified */
    const char *operator_key;
    const char *identity, *export; /* path of the private key; path of the export, or NULL */
    bool verify, json; /* whether to verify signatures and hashes; whether to print JSON */
};

struct ledger_report {
    const char *path; /* path of the ledger, or the given name of the swarm */
    struct ledger_chain chain;
    struct ledger_export export;
    uint64_t kind_counts[ARRAY_COUNT(KINDS)]; /* [index in KINDS]: number of entries of the kind */
    uint64_t first_entry; /* index of the first entry: above 0 after a checkpoint */
    /* number of entries; number of tokens trained in committed rounds */
    uint64_t entry_count, tokens;
    /* hash of the newest entry; root of the outer state after that entry */
    struct hash head, root;
    uint32_t round; /* newest committed round */
};

static uint64_t entry_tokens(const struct entry *entry) {
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
           entry->seat_count, entry->signature_count, (unsigned long long)entry_tokens(entry),
           SHOWN_DIGITS, hash_hex(&entry->root, root), SHOWN_DIGITS, hash_hex(&entry->hash, hash));
}

static void count_entry(struct ledger_report *report, const struct entry *entry) {
    report->entry_count++;
    report->kind_counts[entry->kind]++;
    report->tokens += entry_tokens(entry);
    report->head = entry->hash;
    report->root = entry->root;
    report->round = entry->round;
}

static enum status add_entry(const struct request *request, const struct ledger_source *source,
                             struct ledger_report *report, struct fault *fault) {
    const char *error = request->verify ? ledger_append(&report->chain, source->entry) : NULL;
    if (error != NULL) {
        return fault_set(
            fault, STATUS_INPUT, source->location,
            "use a different member's ledger; do not trust this line or those after it",
            "the entry %s", error);
    }
    if (!request->json && !request->verify) {
        print_row(source->entry, report->entry_count == 0);
    }
    count_entry(report, source->entry);
    return ledger_export_add_entry(&report->export, source->entry, fault);
}

/* If the ledger lacks its first entries, starts the chain from the ledger's checkpoint. */
static enum status add_checkpoint(const struct request *request, const struct ledger_source *source,
                                  struct ledger_report *report, struct fault *fault) {
    uint8_t key[KEY_BYTES];
    const char *error = NULL;
    if (source->checkpoint == NULL) {
        return OK;
    }
    if (request->verify) {
        const bool has_operator = report->chain.has_operator;
        memcpy(key, report->chain.operator_key, KEY_BYTES);
        report->chain = *source->checkpoint;
        if (has_operator) {
            ledger_set_operator_key(&report->chain, key);
        }
        error = ledger_chain_begin(&report->chain, NULL);
    }
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, report->path, "use a different member's ledger",
                         "begins with a checkpoint, which %s", error);
    }
    report->first_entry = source->checkpoint->entry_count;
    if (!request->json && !request->verify) {
        printf("begins with a checkpoint: the %llu entries before are not included\n",
               (unsigned long long)report->first_entry);
    }
    return ledger_export_add_checkpoint(&report->export, source->checkpoint, fault);
}

static enum status report_entries(const struct request *request, struct ledger_source *source,
                                  struct ledger_report *report, struct fault *fault) {
    bool has_entry = true;
    TRY(ledger_source_next(source, &has_entry, fault));
    TRY(add_checkpoint(request, source, report, fault));
    while (has_entry) {
        TRY(add_entry(request, source, report, fault));
        TRY(ledger_source_next(source, &has_entry, fault));
    }
    if (report->entry_count == 0) {
        return fault_set(fault, STATUS_INPUT, report->path,
                         "use the ledger of a tracker or of a member", "contains no entries");
    }
    return OK;
}

static void print_json(const struct request *request, const struct ledger_report *report) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    json_add_bool(json, "verified", request->verify);
    json_add_bool(json, "tracker_verified", request->verify && report->chain.has_tracker);
    json_add_bool(json, "operator_verified", request->verify && report->chain.has_operator);
    json_add_u64(json, "first_entry", report->first_entry);
    json_add_u64(json, "entries", report->entry_count);
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        json_add_u64(json, KINDS[i], report->kind_counts[i]);
    }
    json_add_u64(json, "round", report->round);
    json_add_u64(json, "tokens", report->tokens);
    json_add_hex(json, "head", report->head.bytes, HASH_BYTES);
    json_add_hex(json, "root", report->root.bytes, HASH_BYTES);
    json_stdout_end(&out);
}

static void print_verified(const struct ledger_report *report) {
    char head[HASH_HEX_BYTES], root[HASH_HEX_BYTES];
    printf("%llu entries, %llu commits, %llu aborts: chain, signatures and quorums are valid\n",
           (unsigned long long)report->entry_count,
           (unsigned long long)report->kind_counts[ENTRY_COMMIT],
           (unsigned long long)report->kind_counts[ENTRY_ABORT]);
    printf("head  %s\nroot  %s\n", hash_hex(&report->head, head), hash_hex(&report->root, root));
    if (report->first_entry > 0) {
        const struct ledger_start *start = &report->chain.start;
        printf("verified from entry %llu on; the %llu entries before are vouched for by the votes "
               "of %u of %u voters under roster epoch %llu\n",
               (unsigned long long)start->entry_count, (unsigned long long)start->entry_count,
               start->votes, start->voters, (unsigned long long)start->roster);
    }
    if (!report->chain.has_operator) {
        printf("the operator's signatures were not verified: pass its key, the part of the join "
               "string after #, with --operator\n");
    }
}

static enum status read_public_key(const char *text, const char *option, const char *remedy,
                                   struct public_keys *keys, struct fault *fault) {
    const char *error = public_keys_read(text, keys);
    return error == NULL ? OK : fault_set(fault, STATUS_USAGE, option, remedy, "the key %s", error);
}

/* Sets the keys of `chain` that the options specify. */
static enum status read_keys(const struct request *request, struct ledger_chain *chain,
                             struct fault *fault) {
    struct public_keys keys;
    if (request->operator_key != NULL) {
        TRY(read_public_key(request->operator_key, "--operator",
                            "pass the part of the join string that follows #", &keys, fault));
        ledger_set_operator_key(chain, keys.sign);
    }
    return OK;
}

/* Opens the ledger. If the source is a tracker, sets the operator's key in report->chain. */
static enum status open_source(const char *identity, struct region *region,
                               struct ledger_report *report, struct ledger_source **source,
                               struct fault *fault) {
    if (!swarm_is_reference(report->path)) {
        return ledger_source_open(report->path, region, source, fault);
    }
    const struct delegation_search_args search = {.timeout_ms = SEARCH_MS, .may_store = true};
    struct join_string join;
    struct tracker_contact *tracker = region_alloc(region, 1, sizeof *tracker);
    struct key_pairs *keys = region_alloc(region, 1, sizeof *keys);
    TRY(swarm_reference_read(report->path, region, &join, fault));
    TRY(delegation_search(&join, &search, tracker, fault));
    TRY(swarm_load_identity(identity, keys, fault));
    ledger_set_operator_key(&report->chain, join.operator_keys.sign);
    return ledger_source_open_remote(keys, tracker, region, source, fault);
}

static enum status read_source(const struct request *request, struct region *region,
                               struct ledger_source *source, struct ledger_report *report,
                               struct fault *fault) {
    TRY(ledger_export_begin(request->export, region, &report->export, fault));
    enum status status = report_entries(request, source, report, fault);
    return ledger_export_end(&report->export, status, fault);
}

static enum status run_ledger(struct invocation *invocation) {
    const struct request *request = invocation->request;
    struct region *region = &invocation->region;
    struct fault *fault = &invocation->fault;
    struct ledger_report *report = region_alloc(region, 1, sizeof *report);
    struct ledger_source *source = NULL;
    report->path = invocation->positionals[0];
    TRY(read_keys(request, &report->chain, fault));
    TRY(open_source(request->identity, region, report, &source, fault));
    enum status status = read_source(request, region, source, report, fault);
    ledger_source_close(source);
    TRY(status);
    if (request->json) {
        print_json(request, report);
    } else if (request->verify) {
        print_verified(report);
    }
    return OK;
}

static const struct option OPTIONS[] = {
    {OPTION("--verify", FLAG, verify),
     .help = "check the chain, the signatures and the quorums of all entries",
     .example = "ledger.jsonl --verify"},
    {OPTION("--operator", TEXT, operator_key), .value_name = "KEY",
     .help = "public key of the operator: the part of the join string after #",
     .example = "ledger.jsonl --verify --operator KEY"},
    {OPTION("--identity", TEXT, identity), .value_name = "FILE",
     .help = "identity for a query to a tracker; default: as for `skep join`",
     .example = "austen.skep --identity anna.identity"},
    {OPTION("--export", TEXT, export), .value_name = "OUT.jsonl",
     .help = "write the ledger as JSON lines", .example = "austen.skep --export ledger.jsonl"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "ledger.jsonl --verify --json"},
};

const struct command COMMAND_LEDGER = {
    .name = "ledger",
    .arguments = "FILE-or-SWARM",
    .summary = "print, verify or export the ledger of a swarm",
    .details =
        "The argument is a file of JSON lines, the store of a tracker, or a swarm: NAME.skep or "
        "tcp://HOST:PORT#KEY. Without --verify each entry is one line of a table.",
    .example = "austen.skep --verify",
    .positional_count = 1,
    REQUEST_OPTIONS,
    .run = run_ledger,
};
