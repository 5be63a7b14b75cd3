/* member_loop_chain: the tracker's ledger, verified entry by entry; the machine hears no entry that
 * does not stand in it, so a tracker that tells two histories is found out. */
#include "runtime/swarm/member/member_loop_state.h"

#include "base/clock.h"
#include "base/text.h"
#include "runtime/swarm/ledger/entry_bytes.h"

#include <string.h>

static const int64_t MS = 1000000;

void ledger_follower_init(struct member_loop *loop, struct entry_slice *slices,
                          struct entry_slice *held_slices) {
    struct ledger_follower *ledger = &loop->ledger;
    ledger->held_entry.slices = held_slices;
    ledger->chain.has_tracker = true;
    memcpy(ledger->chain.tracker_key, loop->options.tracker.sign, KEY_BYTES);
    ledger->entry.slices = slices;
    ledger->is_shown = true;
    ledger->is_wanted = true;
}

/* Told by whoever looks at the view, once until it changes. */
static void doubt(struct member_loop *loop, const char *why) {
    struct ledger_follower *ledger = &loop->ledger;
    struct text text = text_over(loop->reason, sizeof(loop->reason));
    text_add(&text, "the tracker's ledger is refused: entry %llu %s",
             (unsigned long long)ledger->chain.entry_count, why);
    ledger->is_broken = true;
}

/* It is older than what this member was in, or another one: what it says next would lead away from
 * rounds that a quorum has signed. */
static void doubt_whole(struct member_loop *loop) {
    struct ledger_follower *ledger = &loop->ledger;
    struct text text = text_over(loop->reason, sizeof(loop->reason));
    text_add(&text, "%s: the tracker's ledger is not the one that this member was in: ",
             loop->options.tracker_address);
    if (ledger->is_shown) {
        text_add(&text, "it ends before round %u, whose state is here", loop->options.state_round);
    } else {
        text_add(&text, "it does not have entry %llu, of round %u",
                 (unsigned long long)ledger->chain.entry_count - 1, ledger->round);
    }
    text_add(&text, "; give the tracker its newest state back: this member waits for that");
    ledger->is_broken = true;
    ledger->is_held = false;
}

static void trust(struct member_loop *loop) {
    struct ledger_follower *ledger = &loop->ledger;
    ledger->is_shown = true;
    if (ledger->is_broken) {
        loop->reason[0] = '\0';
    }
    ledger->is_broken = false;
}

/* The chain moves on to the entry, or what is wrong. */
static const char *follow(struct member_loop *loop, const struct entry *entry) {
    struct ledger_follower *ledger = &loop->ledger;
    struct hash root = ledger->chain.root;
    bool is_ours =
        entry->kind != ENTRY_GENESIS || hash_equal(&entry->manifest, &loop->options.manifest);
    const char *wrong =
        is_ours ? ledger_append(&ledger->chain, entry) : "begins another swarm than the manifest's";
    if (wrong != NULL) {
        return wrong;
    }
    ledger->round = entry->round > ledger->round ? entry->round : ledger->round;
    if (entry->kind != ENTRY_OPEN && entry->kind != ENTRY_ABORT) {
        ledger->commit = entry->hash;
        ledger->base = root;
        catch_up_add(loop, entry, &root);
    }
    return NULL;
}

enum status ledger_follower_restore(struct member_loop *loop, struct fault *fault) {
    const struct member_loop_options *options = &loop->options;
    const struct entry *entry = NULL;
    const char *place = NULL;
    const char *wrong = NULL;
    enum status status = OK;
    bool goes_on = options->ledger_past != NULL;
    while (goes_on) {
        status = options->ledger_past(options->ledger_context, &entry, &place, fault);
        goes_on = status == OK && entry != NULL;
        wrong = goes_on ? follow(loop, entry) : NULL;
        goes_on = goes_on && wrong == NULL;
    }
    loop->ledger.is_shown = loop->ledger.chain.entry_count == 0;
    return wrong == NULL
               ? status
               : fault_set(fault, STATUS_INPUT, place,
                           "put a copy of the file back, or remove it to take the tracker's word "
                           "for what it held",
                           "the entry %s", wrong);
}

void ledger_follower_on_connect(struct member_loop *loop) {
    struct ledger_follower *ledger = &loop->ledger;
    ledger->is_shown = ledger->chain.entry_count == 0;
    ledger->lacks = false; /* what another tracker said may be none of this one's */
    ledger->is_held = false;
    ledger->is_wanted = true;
    ledger->asked_ns = 0;
}

bool ledger_follower_is_synced(const struct member_loop *loop) {
    return loop->ledger.is_shown && loop->ledger.round >= loop->options.state_round;
}

/* The member's own copy has not taken the last entry: a full disk. */
static bool is_copy_behind(const struct member_loop *loop) {
    return loop->options.ledger_entry != NULL &&
           !loop->options.ledger_entry(loop->options.ledger_context, NULL);
}

static bool append(struct member_loop *loop, const struct entry *entry) {
    struct ledger_follower *ledger = &loop->ledger;
    if (is_copy_behind(loop)) {
        ledger->is_wanted = true;
        return false;
    }
    const char *wrong = follow(loop, entry);
    if (wrong != NULL) {
        doubt(loop, wrong);
        return false;
    }
    trust(loop);
    ledger->lacks = ledger->lacks && !hash_equal(&ledger->lacked, &entry->hash);
    ledger->is_met |= ledger->is_held && hash_equal(&ledger->held_entry.hash, &entry->hash);
    if (loop->options.ledger_entry != NULL) {
        (void)loop->options.ledger_entry(loop->options.ledger_context, entry);
    }
    return true;
}

/* Heard again when the gap is filled: the tracker repeats itself only after a silence, and may have
 * something newer to say by then. */
static void hold(struct ledger_follower *ledger, const struct message *message) {
    ledger->is_held = true;
    ledger->is_met = false;
    if (message != &ledger->held) {
        ledger->held = *message;
        entry_copy(&ledger->held_entry, message->entry);
        ledger->held.entry = &ledger->held_entry;
    }
}

bool ledger_follower_may_deliver(struct member_loop *loop, struct message *message) {
    struct ledger_follower *ledger = &loop->ledger;
    const struct entry *entry = message->entry;
    bool follows = ledger->is_shown && ledger->chain.entry_count > 0 &&
                   hash_equal(&entry->prev, &ledger->chain.head);
    if (follows && !append(loop, entry)) {
        return false;
    }
    if (!ledger_follower_is_synced(loop)) {
        ledger->is_wanted = true;
        hold(ledger, message);
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

static bool is_head(struct member_loop *loop, const struct entry *entry) {
    struct hash hash = entry_hash(entry);
    bool is_its = hash_equal(&hash, &loop->ledger.chain.head);
    if (is_its) {
        trust(loop);
    } else {
        doubt_whole(loop);
    }
    return is_its;
}

/* What is asked for: the entries behind the head, or from it on until the tracker has shown it. */
static uint64_t next_number(const struct ledger_follower *ledger) {
    return ledger->chain.entry_count - (ledger->is_shown ? 0U : 1U);
}

/* The tracker has no more. */
static bool is_doubtful_end(struct member_loop *loop) {
    struct ledger_follower *ledger = &loop->ledger;
    if (!ledger_follower_is_synced(loop)) {
        doubt_whole(loop);
        return true;
    }
    bool lacks = ledger->lacks;
    if (lacks) {
        ledger->lacks = false;
        doubt(loop, "is not in it, though the tracker has said what comes behind");
    }
    return lacks;
}

/* Records lie one behind the other; each says by itself where it ends. */
static bool take_record(struct member_loop *loop, const uint8_t *bytes, size_t count,
                        size_t *taken) {
    struct entry *entry = &loop->ledger.entry;
    struct entry_slice *slices = entry->slices;
    struct packer pack = packer_reading(bytes, count);
    memset(entry, 0, sizeof(*entry));
    entry->slices = slices;
    entry_pack(&pack, entry, loop->shape.slice_count);
    entry_pack_proof(&pack, entry);
    *taken = pack.at;
    if (pack.wrong != NULL) {
        doubt(loop, pack.wrong);
        return false;
    }
    return loop->ledger.is_shown ? append(loop, entry) : is_head(loop, entry);
}

void ledger_follower_on_records(struct member_loop *loop, const struct frame *frame,
                                const uint8_t *payload) {
    struct ledger_follower *ledger = &loop->ledger;
    if (frame->offset != next_number(ledger)) {
        return; /* an answer that comes late */
    }
    size_t at = 0;
    bool goes_on = true;
    while (goes_on && at < frame->length) {
        size_t taken = 0;
        goes_on = take_record(loop, payload + at, frame->length - at, &taken);
        at += taken;
    }
    bool is_doubtful = frame->length == 0 && is_doubtful_end(loop);
    ledger->is_wanted =
        (frame->length > 0 && goes_on) || !ledger_follower_is_synced(loop) || is_copy_behind(loop);
    ledger->asked_ns = goes_on && !is_doubtful ? 0 : ledger->asked_ns; /* no ask upon ask */
    if (ledger->is_held) {
        ledger->is_held = false;
        member_loop_receive_entry(loop, &ledger->held);
    }
}

void ledger_follower_request(struct member_loop *loop, int64_t now_ns) {
    struct ledger_follower *ledger = &loop->ledger;
    bool is_behind = is_copy_behind(loop);
    bool may_ask = loop->tracker_is_there && loop->is_admitted && ledger->is_wanted && !is_behind;
    if (!may_ask || (ledger->asked_ns > 0 && now_ns - ledger->asked_ns < LOOP_AGAIN_MS * MS)) {
        return;
    }
    struct frame frame = {.kind = WIRE_LEDGER_REQUEST, .offset = next_number(ledger)};
    if (uplink_send(loop, loop->options.tracker.curve, CHANNEL_CONTROL, &frame, NULL) == SEND_OK) {
        ledger->asked_ns = now_ns;
    }
}
