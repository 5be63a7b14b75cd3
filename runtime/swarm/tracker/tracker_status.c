#include "runtime/swarm/tracker/tracker_documents.h"

#include "base/json_write.h"
#include "runtime/swarm/ledger/training_share.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"

#include <string.h>

/* Size of the longest text that write_awaited writes. */
enum { AWAITED_BYTES = SWARM_MEMBERS_MAX * (MEMBER_NAME_BYTES + 2) + 160 };

static double seconds_since(int64_t at_ms) {
    return (double)(tracker_now_ms() - at_ms) / 1000;
}

static void add_tracker_json(const struct tracker_loop *loop, struct json_writer *json) {
    json_add_u64(json, "format", 1);
    json_add_text(json, "name", loop->options.name);
    json_add_hex(json, "manifest", loop->options.manifest_hash.bytes, HASH_BYTES);
    json_add_fixed(json, "since", loop->started_unix_s, 3);
    json_add_fixed(json, "up_s", seconds_since(loop->started_ms), 3);
    json_add_u64(json, "incarnation", loop->driver->durable.incarnation);
    json_begin_object(json, "delegation");
    json_add_u64(json, "serial", loop->delegation.known.delegation.serial);
    json_add_u64(json, "expires_s", loop->delegation.known.delegation.expires_s);
    json_end(json);
}

static void add_round_json(const struct tracker_loop *loop, const struct tracker_view *view,
                           struct json_writer *json) {
    const struct entry *head = &view->record->head;
    json_add_u64(json, "round", head->round);
    json_add_text(json, "stage", view->stage);
    json_add_fixed(json, "stage_s", seconds_since(view->stage_began_ms), 3);
    json_add_fixed(json, "round_s", seconds_since(view->round_began_ms), 3);
    json_add_u64(json, "commits", head->commits);
    json_add_u64(json, "commits_max", loop->options.settings.commits_max);
    json_add_u64(json, "entries", loop->driver->durable.store.entry_count);
    json_add_u64(json, "checkpoint", loop->driver->durable.checkpoint.entry_count);
    json_add_u64(json, "slices", view->slice_count);
    json_add_hex(json, "root", view->record->commit.root.bytes, HASH_BYTES);
    json_add_hex(json, "head", head->hash.bytes, HASH_BYTES);
    uint64_t returned = 0;
    for (uint32_t i = 0; i < head->cursor.returned_count; i++) {
        returned += head->cursor.returned[i].end - head->cursor.returned[i].begin;
    }
    const struct training_share share =
        training_share_of(&view->record->commit, loop->options.settings.sample_tokens);
    json_begin_object(json, "trained"); /* what the member trained for the newest commit */
    json_add_u64(json, "tokens", share.tokens);
    json_add_u64(json, "planned", share.planned);
    json_end(json);
    json_begin_object(json, "cursor");
    json_add_u64(json, "position", head->cursor.position);
    json_add_u64(json, "returned", returned);
    json_end(json);
}

/* Returns the state machine's view of a member, or NULL before the first HELLO of its process. */
static const struct tracker_view_member *find_member_view(const struct tracker_view *view,
                                                          const struct admitted_member *member) {
    for (uint32_t row = 0; row < view->member_count; row++) {
        if (memcmp(view->members[row].id.bytes, member->keys.sign, KEY_BYTES) == 0) {
            return &view->members[row];
        }
    }
    return NULL;
}

/* Writes what the round waits for as a text, or "" if it waits for no member. */
static void write_awaited(const struct tracker_loop *loop, const struct tracker_view *view,
                          struct text *text) {
    const char *comma = "";
    struct attendance attendance;
    attendance_count(loop, view, tracker_now_ms(), &attendance);
    bool is_over = loop->options.settings.commits_max > 0 &&
                   view->record->head.commits >= loop->options.settings.commits_max;
    if (view->is_fork_possible && !view->electors.is_enough && !is_over) {
        const struct elector_count *electors = &view->electors;
        text_add(text, "electors: %u of %u can vote here, which is too few (a possible fork",
                 electors->here, electors->all);
        if (electors->promised > 0) {
            text_add(text, "; another start of the tracker has the votes of %u members",
                     electors->promised);
        }
        text_add(text, ")");
        attendance_describe_absence(&attendance, 0, text);
        return;
    }
    if (view->present < view->needed && !is_over) {
        text_add(text, "members: %u of at least %u are %s", view->present, view->needed,
                 view->awaited == NULL ? "ready" : "connected");
        attendance_describe_absence(&attendance, 0, text);
        return;
    }
    for (uint32_t row = 0; row < loop->members->count; row++) {
        const struct admitted_member *member = &loop->members->rows[row];
        const struct tracker_view_member *member_view = find_member_view(view, member);
        if (member_view != NULL && member_view->is_awaited) {
            text_add(text, "%s%s%s", comma[0] == '\0' ? view->awaited : "",
                     comma[0] == '\0' ? " of " : comma, member->name);
            comma = ", ";
        }
    }
}

static void add_awaited_json(const struct tracker_loop *loop, const struct tracker_view *view,
                             struct json_writer *json) {
    char words[AWAITED_BYTES];
    struct text awaited = text_over(words, sizeof words);
    write_awaited(loop, view, &awaited);
    json_begin_object(json, "awaits");
    json_add_text(json, "what", words);
    json_add_fixed(json, "for_s", seconds_since(view->last_progress_ms), 3);
    json_end(json);
}

static void add_deadlines_json(const struct tracker_view *view, struct json_writer *json) {
    json_begin_object(json, "deadlines");
    json_add_u64(json, "heartbeat_ms", view->timing.heartbeat_ms);
    json_add_u64(json, "silence_ms", view->timing.silence_ms);
    json_add_u64(json, "train_ms", view->timing.train_ms);
    json_add_u64(json, "exchange_ms", view->timing.exchange_ms);
    json_add_u64(json, "round_ms", view->timing.round_ms);
    json_add_text(json, "derivation", view->derivation);
    json_end(json);
}

static void add_audits_json(const struct tracker_view *view, struct json_writer *json) {
    json_begin_object(json, "audits");
    json_add_fixed(json, "found_in_round", view->found_in_round, 4);
    json_add_fixed(json, "found_in_10_rounds", view->found_in_10_rounds, 4);
    json_end(json);
}

static void add_measured_json(const struct timing_measured *measured, struct json_writer *json) {
    json_begin_object(json, "measured");
    json_add_u64(json, "step_ms", measured->step_ms);
    json_add_u64(json, "transfer_ms", measured->transfer_ms);
    json_add_u64(json, "round_trip_ms", measured->round_trip_ms);
    json_add_u64(json, "up_kib_s", measured->upload_kib_s);
    json_end(json);
}

static void add_suspension_json(const struct tracker_view_member *member,
                                struct json_writer *json) {
    if (member->suspended_until == 0) {
        json_add_null(json, "suspended");
        return;
    }
    json_begin_object(json, "suspended");
    json_add_u64(json, "until_round", member->suspended_until);
    json_add_text(json, "reason", ledger_suspension_name(member->suspended_for));
    json_end(json);
}

static void add_member_json(const struct tracker_view *view, const struct admitted_member *member,
                            bool has_address, struct json_writer *json) {
    const struct tracker_view_member none = {.is_silent = 1, .seat = -1};
    const struct tracker_view_member *member_view = find_member_view(view, member);
    member_view = member_view == NULL ? &none : member_view;
    json_begin_object(json, NULL);
    json_add_hex(json, "id", member->keys.sign, KEY_BYTES);
    json_add_text(json, "name", member->name);
    if (has_address) {
        json_add_text(json, "address", member->address);
    }
    json_add_bool(json, "reached", member->is_reachable);
    json_add_u64(json, "session", member_view->session);
    json_add_bool(json, "guest", member_view->is_guest);
    json_add_bool(json, "silent", member_view->is_silent);
    json_add_bool(json, "leaving", member_view->is_leaving);
    if (member->last_received_ms == 0) {
        json_add_null(json, "heard_s");
    } else {
        json_add_fixed(json, "heard_s", seconds_since(member->last_received_ms), 3);
    }
    if (member_view->seat < 0) {
        json_add_null(json, "seat");
    } else {
        json_add_i64(json, "seat", member_view->seat);
    }
    json_add_u64(json, "round", member->report_round);
    json_add_bool(json, "current", member_view->is_current);
    json_add_bool(json, "declared", member_view->has_declared);
    json_add_bool(json, "voted", member_view->has_voted);
    json_add_u64(json, "slices", member_view->slices);
    json_add_bool(json, "contributed", member_view->has_contributed);
    add_suspension_json(member_view, json);
    add_measured_json(&member->measured, json);
    json_end(json);
}

static void add_waiting_guests_json(const struct tracker_loop *loop, struct json_writer *json) {
    char key[KEYS_TEXT_BYTES];
    json_begin_array(json, "waiting");
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        const struct tracker_guest *guest = &loop->guests->rows[i];
        if (guest->is_used && guest->was_rejected && guest->has_introduced) {
            json_begin_object(json, NULL);
            json_add_text(json, "key", public_keys_write(&guest->introduction.keys, key));
            json_add_text(json, "name", guest->introduction.name);
            json_end(json);
        }
    }
    json_end(json);
}

void tracker_status_write(const struct tracker_loop *loop, bool has_addresses, struct text *text) {
    struct tracker_view view;
    struct json_writer json = json_writer_over(text);
    tracker_read_view(loop->driver->tracker, &view);
    json_begin_object(&json, NULL);
    add_tracker_json(loop, &json);
    add_round_json(loop, &view, &json);
    add_awaited_json(loop, &view, &json);
    add_deadlines_json(&view, &json);
    add_audits_json(&view, &json);
    json_begin_array(&json, "members");
    for (uint32_t row = 0; row < loop->members->count; row++) {
        add_member_json(&view, &loop->members->rows[row], has_addresses, &json);
    }
    json_end(&json);
    add_waiting_guests_json(loop, &json);
    json_add_u64(&json, "refused_messages", loop->guests->rejected_messages);
    json_end(&json);
}
