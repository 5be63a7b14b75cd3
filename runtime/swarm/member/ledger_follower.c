#include "runtime/swarm/member/ledger_follower.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum { REQUEST_RETRY_MS = 1000 /* time until an unanswered request is repeated */ };

size_t ledger_follower_memory_bytes(uint32_t slice_count) {
    return 2 * slice_count * sizeof(struct entry_slice);
}

void ledger_follower_init(struct ledger_follower *follower, const struct ledger_follower_args *args,
                          void *memory) {
    uint32_t slice_count = args->options->replica->shape.slices.count;
    *follower = (struct ledger_follower){.options = args->options,
                                         .member = args->member,
                                         .catch_up = args->catch_up,
                                         .reason = args->reason,
                                         .slice_count = slice_count,
                                         .tracker_has_head = true,
                                         .needs_entries = true};
    ledger_set_operator_key(&follower->chain, args->options->operator_key);
    follower->entry.slices = memory;
    follower->deferred_entry.slices = follower->entry.slices + slice_count;
}

static void reject_entry(struct ledger_follower *follower, const char *error) {
    char reason[WIRE_REJECT_REASON_BYTES];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "rejected the tracker's ledger: entry %llu %s",
             (unsigned long long)follower->chain.entry_count, error);
    (void)idle_reason_set(follower->reason, reason);
    follower->is_rejected = true;
}

/* Discards a checkpoint of the tracker, so that the whole ledger is read instead. */
static void reject_checkpoint(struct ledger_follower *follower, const char *subject,
                              const char *error) {
    log_line(LOG_WARNING,
             "swarm: rejected the tracker's checkpoint: %s %s; reading the whole ledger instead",
             subject, error);
    ledger_chain_clear(&follower->chain);
    follower->wants_checkpoint = false;
    follower->needs_entries = true;
}

/* Rejects the tracker's ledger, which ends before this member's copy or differs from it. Following
 * that ledger would undo rounds that a quorum has signed. */
static void reject_ledger(struct ledger_follower *follower) {
    char reason[WIRE_REJECT_REASON_BYTES];
    struct text text = text_over(reason, sizeof reason);
    text_add(&text, "%s: this tracker's ledger is not the one that this member followed: ",
             follower->options->tracker_address);
    if (follower->tracker_has_head) {
        text_add(&text, "it ends before the entry of round %u, which this member has applied",
                 follower->options->state_round);
    } else {
        text_add(&text, "it does not contain entry %llu, of round %u",
                 (unsigned long long)follower->chain.entry_count - 1, follower->round);
    }
    text_add(&text, "; the operator has to restore the newest state of the tracker; until then, "
                    "this member retries");
    (void)idle_reason_set(follower->reason, reason);
    follower->is_rejected = true;
    follower->has_deferred = false;
}

static void clear_ledger_rejection(struct ledger_follower *follower) {
    follower->tracker_has_head = true;
    if (follower->is_rejected) {
        idle_reason_clear(follower->reason);
    }
    follower->is_rejected = false;
}

/* Verifies `entry` and appends it to the chain. Returns NULL, or a text that describes the
 * error. */
static const char *append_verified_entry(struct ledger_follower *follower,
                                         const struct entry *entry) {
    const struct hash base = follower->chain.root;
    const uint64_t entry_count = follower->chain.entry_count;
    if (entry->kind == ENTRY_GENESIS &&
        !hash_equal(&entry->manifest, &follower->options->manifest)) {
        return "belongs to a different swarm than the manifest";
    }
    const char *error = ledger_append(&follower->chain, entry);
    if (error != NULL) {
        return error;
    }
    ASSERT(follower->chain.entry_count == entry_count + 1);
    follower->round = entry->round > follower->round ? entry->round : follower->round;
    if (entry_sets_state(entry->kind)) {
        follower->commit = entry->hash;
        follower->base = base;
        catch_up_add_entry(follower->catch_up, entry, &base, member_current_root(follower->member));
    }
    return NULL;
}

/* Appends an entry of this member's own copy, which may begin with a checkpoint. */
static const char *append_stored_entry(struct ledger_follower *follower,
                                       const struct entry *entry) {
    const struct member_loop_options *options = follower->options;
    const char *error = NULL;
    if (options->checkpoint != NULL && follower->chain.entry_count == 0) {
        follower->chain = *options->checkpoint;
        ledger_set_operator_key(&follower->chain, options->operator_key);
        error = ledger_chain_begin(&follower->chain, &options->manifest);
    }
    return error == NULL ? append_verified_entry(follower, entry) : error;
}

enum status ledger_follower_restore(struct ledger_follower *follower, struct fault *fault) {
    const struct member_loop_options *options = follower->options;
    const struct entry *entry = NULL;
    const char *location = NULL;
    bool has_more = options->read_ledger_entry != NULL;
    while (has_more) {
        TRY(options->read_ledger_entry(options->ledger_context, &entry, &location, fault));
        const char *error = entry != NULL ? append_stored_entry(follower, entry) : NULL;
        if (error != NULL) {
            return fault_set(fault, STATUS_INPUT, location,
                             "restore the file from a copy, or remove it to fetch the ledger from "
                             "the tracker again",
                             "the entry %s", error);
        }
        has_more = entry != NULL;
    }
    follower->tracker_has_head = follower->chain.entry_count == 0;
    follower->wants_checkpoint = follower->chain.entry_count == 0;
    return OK;
}

void ledger_follower_on_connect(struct ledger_follower *follower) {
    if (ledger_chain_is_unconfirmed(&follower->chain)) {
        ledger_chain_clear(&follower->chain);
    }
    follower->wants_checkpoint = follower->chain.entry_count == 0;
    follower->tracker_has_head = follower->chain.entry_count == 0;
    follower->has_gap = false; /* the entry that showed the gap may be from a different tracker */
    follower->has_deferred = false;
    follower->needs_entries = true;
    follower->requested_ns = 0;
}

bool ledger_follower_is_synced(const struct ledger_follower *follower) {
    return follower->tracker_has_head && !ledger_chain_is_unconfirmed(&follower->chain) &&
           follower->round >= follower->options->state_round;
}

/* Whether the copy on disk lacks the last entry of the chain, because the disk is full. */
static bool is_copy_outdated(const struct ledger_follower *follower) {
    const struct member_loop_options *options = follower->options;
    return options->append_ledger_entry != NULL &&
           !options->append_ledger_entry(options->ledger_context, NULL, NULL);
}

static void log_suspension(const struct ledger_follower *follower, const struct entry *entry) {
    const uint8_t *own = follower->options->keys->public_keys.sign;
    if (entry->kind == ENTRY_SUSPEND && memcmp(entry->suspension.id.bytes, own, KEY_BYTES) == 0) {
        log_line(LOG_WARNING,
                 "swarm: this member has no seat until round %u: it is suspended because %s",
                 entry->suspension.until_round, ledger_suspension_cause(entry->suspension.reason));
    }
}

static void log_checkpoint(const struct ledger_follower *follower) {
    const struct ledger_start *start = &follower->chain.start;
    log_line(
        LOG_INFO,
        "swarm: verified the ledger from entry %llu on; %u of the %u voters of its round vouch for "
        "the entries before it, under the operator's roster epoch %llu",
        (unsigned long long)start->entry_count, start->votes, start->voters,
        (unsigned long long)start->roster);
}

static bool append_entry(struct ledger_follower *follower, const struct entry *entry) {
    const struct member_loop_options *options = follower->options;
    const bool begins = ledger_chain_is_unconfirmed(&follower->chain);
    if (is_copy_outdated(follower)) {
        follower->needs_entries = true;
        return false;
    }
    const char *error = append_verified_entry(follower, entry);
    if (error != NULL && begins) {
        reject_checkpoint(follower, "the entry after the checkpoint", error);
        return false;
    }
    if (error != NULL) {
        reject_entry(follower, error);
        return false;
    }
    clear_ledger_rejection(follower);
    follower->has_gap = follower->has_gap && !hash_equal(&follower->gap_entry_hash, &entry->hash);
    follower->is_deferred_in_chain |=
        follower->has_deferred && hash_equal(&follower->deferred_entry.hash, &entry->hash);
    if (options->append_ledger_entry != NULL) {
        (void)options->append_ledger_entry(options->ledger_context,
                                           begins ? &follower->checkpoint : NULL, entry);
    }
    if (begins) {
        log_checkpoint(follower);
    }
    log_suspension(follower, entry);
    return true;
}

/* Stores a message whose entry does not follow the chain yet, until the entries before it have been
 * appended. Otherwise the message would be lost: the tracker repeats it only after some time, and
 * may have a newer one by then. */
static void defer_message(struct ledger_follower *follower, const struct message *message) {
    follower->has_deferred = true;
    follower->is_deferred_in_chain = false;
    if (message != &follower->deferred) {
        follower->deferred = *message;
        entry_copy(&follower->deferred_entry, message->entry);
        follower->deferred.entry = &follower->deferred_entry;
    }
}

bool ledger_follower_accept_entry(struct ledger_follower *follower, struct message *message) {
    const struct entry *entry = message->entry;
    ASSERT(message->kind == MESSAGE_ENTRY && entry != &follower->entry);
    bool is_next = follower->tracker_has_head && follower->chain.entry_count > 0 &&
                   hash_equal(&entry->prev, &follower->chain.head);
    if (is_next && !append_entry(follower, entry)) {
        return false;
    }
    if (!ledger_follower_is_synced(follower)) {
        follower->needs_entries = true;
        defer_message(follower, message);
        return false;
    }
    const struct hash *base = ledger_follower_base_root(follower, entry);
    if (base != NULL) {
        message->root = *base;
        return true;
    }
    if (hash_equal(&entry->hash, &follower->chain.head)) {
        return true;
    }
    if (message == &follower->deferred && follower->is_deferred_in_chain) {
        return false; /* outdated: the chain contains newer entries */
    }
    follower->needs_entries = true;
    follower->has_gap = true;
    follower->gap_entry_hash = entry->hash;
    defer_message(follower, message);
    return false;
}

/* If `entry` is the head of the chain, ends the rejection of the tracker's ledger; else rejects
 * it. */
static bool check_entry_is_head(struct ledger_follower *follower, const struct entry *entry) {
    struct hash hash = entry_hash(entry);
    bool is_head = hash_equal(&hash, &follower->chain.head);
    if (is_head) {
        clear_ledger_rejection(follower);
    } else {
        reject_ledger(follower);
    }
    return is_head;
}

/* Returns the index of the first entry to request: the one after the head, or the head itself until
 * the tracker has sent it. */
static uint64_t next_requested_index(const struct ledger_follower *follower) {
    ASSERT(follower->tracker_has_head || follower->chain.entry_count > 0);
    return follower->chain.entry_count - (follower->tracker_has_head ? 0U : 1U);
}

/* Called at the end of the tracker's ledger. If the tracker must have more entries, rejects its
 * ledger and returns true. */
static bool reject_early_end(struct ledger_follower *follower) {
    if (ledger_chain_is_unconfirmed(&follower->chain)) {
        reject_checkpoint(follower, "the entry after the checkpoint", "is missing");
        return true;
    }
    if (!ledger_follower_is_synced(follower)) {
        reject_ledger(follower);
        return true;
    }
    bool has_gap = follower->has_gap;
    if (has_gap) {
        follower->has_gap = false;
        reject_entry(follower, "is missing, although the tracker sent a later entry");
    }
    return has_gap;
}

/* Reads and appends the next entry of a page. */
static bool append_next_entry_of_page(struct ledger_follower *follower,
                                      struct wire_ledger_page *page) {
    struct entry *entry = &follower->entry;
    const char *error = wire_next_ledger_entry(page, entry->slices, follower->slice_count, entry);
    if (error != NULL) {
        reject_entry(follower, error);
        return false;
    }
    return follower->tracker_has_head ? append_entry(follower, entry)
                                      : check_entry_is_head(follower, entry);
}

/* Reads and appends the entries of a page. Returns false if the page is invalid, or has fewer
 * entries than the tracker must have. Sets *is_end if the ledger has no entry after the page. */
static bool append_page(struct ledger_follower *follower, struct wire_ledger_page *page,
                        bool *is_end) {
    bool is_valid = true;
    *is_end = page->entry_count <= page->first + page->count;
    if (page->count == 0 && !*is_end) {
        reject_entry(follower, "cannot be read by the tracker from its store");
        return false;
    }
    while (is_valid && page->count > 0) {
        is_valid = append_next_entry_of_page(follower, page);
    }
    return is_valid && !(*is_end && reject_early_end(follower));
}

struct message *ledger_follower_on_page(struct ledger_follower *follower, const uint8_t *payload,
                                        size_t count) {
    struct wire_ledger_page page;
    bool is_end = false;
    const char *error = wire_read_ledger_page(payload, count, &page);
    if (error != NULL) {
        reject_entry(follower, error);
        return NULL;
    }
    if (page.first != next_requested_index(follower)) {
        return NULL; /* a late answer to an earlier request */
    }
    const bool is_valid = append_page(follower, &page, &is_end);
    const bool starts_over = !is_valid && follower->chain.entry_count == 0;
    follower->needs_entries = !is_end || starts_over || !ledger_follower_is_synced(follower) ||
                              is_copy_outdated(follower);
    if (is_valid) {
        follower->requested_ns =
            0; /* after an invalid answer, the next request waits for REQUEST_RETRY_MS */
    }
    bool had_deferred = follower->has_deferred;
    follower->has_deferred = false;
    bool is_due = had_deferred && ledger_follower_accept_entry(follower, &follower->deferred);
    return is_due ? &follower->deferred : NULL;
}

void ledger_follower_on_checkpoint(struct ledger_follower *follower, const uint8_t *payload,
                                   size_t count) {
    struct ledger_chain *chain = &follower->chain;
    const uint8_t *bytes = NULL;
    size_t byte_count = 0;
    if (!follower->wants_checkpoint || chain->entry_count > 0) {
        return; /* a late answer */
    }
    follower->wants_checkpoint = false;
    follower->requested_ns = 0;
    const char *error = wire_read_document(WIRE_CHECKPOINT, payload, count, &bytes, &byte_count);
    if (error == NULL && byte_count == 0) {
        return; /* the tracker has no checkpoint */
    }
    error = error == NULL ? ledger_chain_read(bytes, byte_count, chain) : error;
    error = error == NULL ? ledger_chain_begin(chain, &follower->options->manifest) : error;
    if (error != NULL) {
        reject_checkpoint(follower, "it", error);
        return;
    }
    follower->checkpoint = *chain;
}

bool ledger_follower_fill_request(const struct ledger_follower *follower, int64_t now_ns,
                                  struct frame *frame) {
    bool is_unanswered = follower->requested_ns > 0 &&
                         now_ns - follower->requested_ns < REQUEST_RETRY_MS * NS_PER_MS;
    if (is_copy_outdated(follower) || !follower->needs_entries || is_unanswered) {
        return false;
    }
    const bool wants_checkpoint = follower->wants_checkpoint && follower->chain.entry_count == 0;
    *frame =
        (struct frame){.kind = wants_checkpoint ? WIRE_CHECKPOINT_REQUEST : WIRE_LEDGER_REQUEST,
                       .offset = next_requested_index(follower)};
    return true;
}

void ledger_follower_record_request(struct ledger_follower *follower, int64_t now_ns) {
    follower->requested_ns = now_ns;
}

bool ledger_follower_extends_chain(const struct ledger_follower *follower,
                                   const struct entry *entry) {
    const struct hash state = ledger_chain_hash(&follower->chain);
    ASSERT(entry->kind == ENTRY_COMMIT);
    return hash_equal(&entry->prev, &follower->chain.head) && hash_equal(&entry->chain, &state);
}

bool ledger_follower_may_resign(const struct ledger_follower *follower,
                                const struct message *goodbye) {
    const struct ledger_chain *chain = &follower->chain;
    return hash_is_zero(&goodbye->hash) ||
           (chain->needs_leases == 1 && goodbye->round == chain->electors.round &&
            hash_equal(&goodbye->hash, &chain->electors.state));
}

const struct hash *ledger_follower_base_root(const struct ledger_follower *follower,
                                             const struct entry *entry) {
    return hash_equal(&entry->hash, &follower->commit) ? &follower->base : NULL;
}
