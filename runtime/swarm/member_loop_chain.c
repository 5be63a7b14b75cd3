/* member_loop_chain: the tracker's ledger, verified entry by entry; the machine hears no entry that
 * does not stand in it, so a tracker that tells two histories is found out. */
#include "runtime/swarm/member_loop_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/entry_code.h"

#include <string.h>

static const int64_t MS = 1000000;

void member_loop_chain_init(struct member_loop *loop, struct entry_slice *slices,
                            struct entry_slice *held_slices) {
    struct loop_chain *ledger = &loop->ledger;
    ledger->held_entry.slices = held_slices;
    ledger->chain.has_tracker = true;
    memcpy(ledger->chain.tracker_key, loop->options.tracker.sign, KEY_BYTES);
    ledger->entry.slices = slices;
    ledger->is_wanted = true;
}

static void doubt(struct member_loop *loop, const char *why) {
    struct loop_chain *ledger = &loop->ledger;
    struct text text = text_over(loop->reason, sizeof(loop->reason));
    text_add(&text, "the tracker's ledger is refused: entry %llu %s",
             (unsigned long long)ledger->chain.entry_count, why);
    if (!ledger->is_broken) {
        log_line(LOG_ERROR, "swarm: %s", loop->reason);
    }
    ledger->is_broken = true;
}

static bool append(struct member_loop *loop, const struct entry *entry) {
    struct loop_chain *ledger = &loop->ledger;
    struct hash root = ledger->chain.root;
    bool is_ours =
        entry->kind != ENTRY_GENESIS || hash_equal(&entry->manifest, &loop->options.manifest);
    const char *wrong =
        is_ours ? ledger_append(&ledger->chain, entry) : "begins another swarm than the manifest's";
    if (wrong != NULL) {
        doubt(loop, wrong);
        return false;
    }
    if (entry->kind != ENTRY_OPEN && entry->kind != ENTRY_ABORT) {
        ledger->commit = entry->hash;
        ledger->base = root;
        member_loop_trail_note(loop, entry, &root);
    }
    if (ledger->is_broken) {
        loop->reason[0] = '\0';
    }
    ledger->is_broken = false;
    ledger->lacks = ledger->lacks && !hash_equal(&ledger->lacked, &entry->hash);
    ledger->is_met |= ledger->is_held && hash_equal(&ledger->held_entry.hash, &entry->hash);
    if (loop->options.ledger_entry != NULL) {
        loop->options.ledger_entry(loop->options.ledger_context, entry);
    }
    return true;
}

/* Heard again when the gap is filled: the tracker repeats itself only after a silence, and may have
 * something newer to say by then. */
static void hold(struct loop_chain *ledger, const struct message *message) {
    ledger->is_held = true;
    ledger->is_met = false;
    if (message != &ledger->held) {
        ledger->held = *message;
        entry_copy(&ledger->held_entry, message->entry);
        ledger->held.entry = &ledger->held_entry;
    }
}

bool member_loop_chain_lets(struct member_loop *loop, struct message *message) {
    struct loop_chain *ledger = &loop->ledger;
    const struct entry *entry = message->entry;
    bool follows = ledger->chain.entry_count > 0 && hash_equal(&entry->prev, &ledger->chain.head);
    if (follows && !append(loop, entry)) {
        return false;
    }
    if (hash_equal(&entry->hash, &ledger->commit)) {
        message->root = ledger->base;
        return true;
    }
    if (hash_equal(&entry->hash, &ledger->chain.head)) {
        return true;
    }
    if (message == &ledger->held && ledger->is_met) {
        return false; /* it is in the chain, and others are behind it: its time is over */
    }
    ledger->is_wanted = true;
    ledger->lacks = true;
    ledger->lacked = entry->hash;
    hold(ledger, message);
    return false;
}

/* Records lie one behind the other; each says by itself where it ends. */
static bool take_record(struct member_loop *loop, const uint8_t *bytes, size_t count,
                        size_t *taken) {
    struct entry *entry = &loop->ledger.entry;
    struct entry_slice *slices = entry->slices;
    struct pack pack = pack_reading(bytes, count);
    memset(entry, 0, sizeof(*entry));
    entry->slices = slices;
    entry_pack(&pack, entry, loop->shape.slice_count);
    entry_pack_proof(&pack, entry);
    *taken = pack.at;
    if (pack.wrong != NULL) {
        doubt(loop, pack.wrong);
        return false;
    }
    return append(loop, entry);
}

void member_loop_chain_hear(struct member_loop *loop, const struct frame *frame,
                            const uint8_t *payload) {
    struct loop_chain *ledger = &loop->ledger;
    if (frame->offset != ledger->chain.entry_count) {
        return; /* an answer that comes late */
    }
    size_t at = 0;
    bool goes_on = true;
    while (goes_on && at < frame->length) {
        size_t taken = 0;
        goes_on = take_record(loop, payload + at, frame->length - at, &taken);
        at += taken;
    }
    bool is_doubtful = frame->length == 0 && ledger->lacks;
    ledger->is_wanted = frame->length > 0 && goes_on;
    ledger->asked_ns = goes_on && !is_doubtful ? 0 : ledger->asked_ns; /* no ask upon ask */
    if (is_doubtful) {
        ledger->lacks = false;
        doubt(loop, "is not in it, though the tracker has said what comes behind");
    }
    if (ledger->is_held) {
        ledger->is_held = false;
        member_loop_hear_entry(loop, &ledger->held);
    }
}

void member_loop_chain_ask(struct member_loop *loop, int64_t now_ns) {
    struct loop_chain *ledger = &loop->ledger;
    bool may_ask = loop->tracker_is_there && loop->is_admitted && ledger->is_wanted;
    if (!may_ask || (ledger->asked_ns > 0 && now_ns - ledger->asked_ns < LOOP_AGAIN_MS * MS)) {
        return;
    }
    struct frame frame = {.kind = WIRE_LEDGER_ASK, .offset = ledger->chain.entry_count};
    if (member_loop_say(loop, loop->options.tracker.curve, CHANNEL_CONTROL, &frame, NULL) ==
        SENT_TAKEN) {
        ledger->asked_ns = now_ns;
    }
}
