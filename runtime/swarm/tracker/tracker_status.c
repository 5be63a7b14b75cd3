#include "runtime/swarm/tracker/tracker_status.h"

#include "runtime/swarm/protocol/tracker.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include <string.h>

enum { AWAITED_BYTES = SWARM_MEMBERS_MAX * (MEMBER_NAME_BYTES + 2) + 64 };

static void add_hash(struct text *text, const char *key, const struct hash *hash) {
    char digits[HASH_HEX_BYTES];
    text_add(text, "\"%s\": \"%s\"", key, hash_hex(hash, digits));
}

static const char *truth(int value) {
    return value ? "true" : "false";
}

static void add_tracker(const struct tracker_loop *loop, struct text *text) {
    const int64_t now_ms = tracker_now_ms();
    text_add(text, "{\"format\": 1, \"name\": ");
    text_add_json(text, loop->options.name);
    text_add(text, ", ");
    add_hash(text, "manifest", &loop->options.manifest_hash);
    text_add(text, ", \"since\": %.3f, \"up_s\": %.3f, \"incarnation\": %u", loop->started_unix_s,
             (double)(now_ms - loop->started_ms) / 1000, loop->driver->durable.incarnation);
}

static void add_round(const struct tracker_loop *loop, const struct tracker_view *view,
                      struct text *text) {
    const struct entry *head = &view->record->head;
    const int64_t now_ms = tracker_now_ms();
    text_add(text, ", \"round\": %u, \"stage\": \"%s\", \"stage_s\": %.3f, \"round_s\": %.3f",
             head->round, view->stage, (double)(now_ms - view->stage_ms) / 1000,
             (double)(now_ms - view->round_ms) / 1000);
    text_add(text, ", \"commits\": %u, \"commits_max\": %u, \"entries\": %llu, \"slices\": %u, ",
             head->commits, loop->options.settings.commits_max,
             (unsigned long long)loop->driver->durable.store.count, view->slice_count);
    add_hash(text, "root", &view->record->commit.root);
    text_add(text, ", ");
    add_hash(text, "head", &head->hash);
    uint64_t returned = 0;
    for (uint32_t i = 0; i < head->cursor.returned_count; i++) {
        returned += head->cursor.returned[i].end - head->cursor.returned[i].begin;
    }
    text_add(text, ", \"cursor\": {\"position\": %llu, \"returned\": %llu}",
             (unsigned long long)head->cursor.position, (unsigned long long)returned);
}

/* The state machine's view of a member; NULL before the first HELLO of its process. */
static const struct tracker_view_member *view_of(const struct tracker_view *view,
                                                 const struct admitted_member *member) {
    for (uint32_t row = 0; row < view->member_count; row++) {
        if (memcmp(view->members[row].id.bytes, member->keys.sign, KEY_BYTES) == 0) {
            return &view->members[row];
        }
    }
    return NULL;
}

/* What the round waits for, in words; "" when it waits for nothing. */
static void write_awaited(const struct tracker_loop *loop, const struct tracker_view *view,
                          struct text *text) {
    const char *comma = "";
    bool is_over = loop->options.settings.commits_max > 0 &&
                   view->record->head.commits >= loop->options.settings.commits_max;
    if (view->present < view->needed && !is_over) {
        text_add(text, "members: %u of at least %u are %s", view->present, view->needed,
                 view->awaited == NULL ? "ready" : "connected");
        return;
    }
    for (uint32_t row = 0; row < loop->members->count; row++) {
        const struct admitted_member *member = &loop->members->rows[row];
        const struct tracker_view_member *seen = view_of(view, member);
        if (seen != NULL && seen->is_awaited) {
            text_add(text, "%s%s%s", comma[0] == '\0' ? view->awaited : "",
                     comma[0] == '\0' ? " of " : comma, member->name);
            comma = ", ";
        }
    }
}

static void add_awaited(const struct tracker_loop *loop, const struct tracker_view *view,
                        struct text *text) {
    char words[AWAITED_BYTES];
    struct text awaited = text_over(words, sizeof words);
    write_awaited(loop, view, &awaited);
    text_add(text, ", \"awaits\": {\"what\": ");
    text_add_json(text, words);
    text_add(text, ", \"for_s\": %.3f}", (double)(tracker_now_ms() - view->moved_ms) / 1000);
}

static void add_deadlines(const struct tracker_view *view, struct text *text) {
    const struct swarm_timing *timing = &view->timing;
    text_add(text,
             ", \"deadlines\": {\"heartbeat_ms\": %u, \"silence_ms\": %u, \"train_ms\": %u, "
             "\"exchange_ms\": %u, \"round_ms\": %u, \"derivation\": ",
             timing->heartbeat_ms, timing->silence_ms, timing->train_ms, timing->exchange_ms,
             timing->round_ms);
    text_add_json(text, view->derivation);
    text_add(text, "}");
}

static void add_member(const struct tracker_loop *loop, const struct tracker_view *view,
                       uint32_t row, struct text *text) {
    const struct admitted_member *member = &loop->members->rows[row];
    const struct tracker_view_member *seen = view_of(view, member);
    const struct tracker_view_member none = {.silent = 1, .seat = -1};
    struct hash id;
    seen = seen == NULL ? &none : seen;
    memcpy(id.bytes, member->keys.sign, KEY_BYTES);
    text_add(text, "{");
    add_hash(text, "id", &id);
    text_add(text, ", \"name\": ");
    text_add_json(text, member->name);
    text_add(text, ", \"address\": ");
    text_add_json(text, member->address);
    text_add(text, ", \"reached\": %s, \"session\": %u, \"silent\": %s, \"leaving\": %s",
             truth((int)member->is_reachable), seen->session, truth(seen->silent),
             truth(seen->leaving));
    text_add(text, ", \"heard_s\": ");
    if (member->last_received_ms == 0) {
        text_add(text, "null");
    } else {
        text_add(text, "%.3f", (double)(tracker_now_ms() - member->last_received_ms) / 1000);
    }
    text_add(text, ", \"seat\": ");
    if (seen->seat < 0) {
        text_add(text, "null");
    } else {
        text_add(text, "%d", seen->seat);
    }
    text_add(text, ", \"round\": %u, \"current\": %s, \"declared\": %s, \"voted\": %s",
             member->round, truth(seen->is_current), truth(seen->has_declared),
             truth(seen->has_voted));
    text_add(text, ", \"slices\": %u, \"contributed\": %s", seen->slices,
             truth(seen->has_contributed));
    text_add(text,
             ", \"measured\": {\"step_ms\": %u, \"transfer_ms\": %u, \"round_trip_ms\": %u, "
             "\"up_kib_s\": %u}}",
             member->measured.step_ms, member->measured.transfer_ms, member->measured.round_trip_ms,
             member->measured.up_kib_s);
}

static void add_waiting(const struct tracker_loop *loop, struct text *text) {
    const char *comma = "";
    text_add(text, ", \"waiting\": [");
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        const struct tracker_guest *guest = &loop->guests->rows[i];
        char key[KEYS_TEXT_BYTES];
        if (!guest->is_used || !guest->was_rejected || !guest->has_introduced) {
            continue;
        }
        text_add(text, "%s{\"key\": \"%s\", \"name\": ", comma,
                 public_keys_write(&guest->introduction.keys, key));
        text_add_json(text, guest->introduction.name);
        text_add(text, "}");
        comma = ", ";
    }
    text_add(text, "]");
}

void tracker_status_write(const struct tracker_loop *loop, struct text *text) {
    struct tracker_view view;
    tracker_read_view(loop->driver->tracker, &view);
    add_tracker(loop, text);
    add_round(loop, &view, text);
    add_awaited(loop, &view, text);
    add_deadlines(&view, text);
    text_add(text, ", \"members\": [");
    for (uint32_t row = 0; row < loop->members->count; row++) {
        text_add(text, "%s", row == 0 ? "" : ", ");
        add_member(loop, &view, row, text);
    }
    text_add(text, "]");
    add_waiting(loop, text);
    text_add(text, ", \"refused_messages\": %llu}",
             (unsigned long long)loop->guests->refused_messages);
}
