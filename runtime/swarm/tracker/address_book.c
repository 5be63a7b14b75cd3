#include "runtime/swarm/tracker/address_book.h"

#include "runtime/swarm/packer/packer.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/tracker_machine/tracker_machine.h"

#include <string.h>

/* The name of the promise that contains the member table. */
static const char PROMISE_NAME[] = "announced";

enum {
    SHORT_ID_BYTES = 13,  /* size of the first 12 hex digits of an id, with a NUL */
    FORMAT_VERSION = 2,   /* version of the stored form of the table */
    ATTENDANCE_MS = 1000, /* time between two counts of members, each of which visits all slices */
};

void address_book_make_message(const struct member_table *table, const struct swarm_timing *timing,
                               struct wire_address_book *message) {
    memset(message, 0, sizeof *message);
    message->version = table->version;
    message->count = table->count;
    message->timing = *timing;
    for (uint32_t row = 0; row < table->count; row++) {
        const struct admitted_member *member = &table->rows[row];
        message->members[row].keys = member->keys;
        if (member->is_reachable != 0) {
            memcpy(message->members[row].address, member->address, sizeof member->address);
        }
    }
}

static void pack_table(struct packer *packer, void *object) {
    struct member_table *table = object;
    uint32_t format = FORMAT_VERSION;
    pack_u32(packer, "format", &format);
    if (format != FORMAT_VERSION) {
        packer_fail(packer, "has an unknown version");
    }
    pack_u32(packer, "version", &table->version);
    uint32_t count = pack_element_count(packer, "count", &table->count, SWARM_MEMBERS_MAX);
    struct packer_rows rows = {table->rows, sizeof table->rows[0], .count = count};
    pack_bytes_column(packer, "curve_keys", rows, offsetof(struct admitted_member, keys.curve),
                      KEY_BYTES);
    pack_bytes_column(packer, "sign_keys", rows, offsetof(struct admitted_member, keys.sign),
                      KEY_BYTES);
    pack_u32_column(packer, "is_reachable", rows, offsetof(struct admitted_member, is_reachable),
                    1);
    pack_array_header(packer, "names", count);
    for (uint32_t row = 0; row < count; row++) {
        pack_text(packer, NULL, table->rows[row].name, sizeof table->rows[row].name);
    }
    pack_array_header(packer, "addresses", count);
    for (uint32_t row = 0; row < count; row++) {
        pack_text(packer, NULL, table->rows[row].address, sizeof table->rows[row].address);
    }
}

size_t address_book_write(const struct member_table *table, uint8_t *bytes) {
    /* The cast is safe: writing does not change the table. */
    struct packed_object object = {pack_table, (struct member_table *)(uintptr_t)table};
    return packer_write(object, bytes, ADDRESS_BOOK_BYTES_MAX);
}

const char *address_book_read(const uint8_t *bytes, size_t count, struct member_table *table) {
    memset(table, 0, sizeof *table);
    for (uint32_t row = 0; row < SWARM_MEMBERS_MAX; row++) {
        table->rows[row].probe = make_idle_member_probe();
    }
    return packer_read((struct packed_object){pack_table, table}, bytes, count);
}

enum status address_book_restore(struct tracker_loop *loop, struct fault *fault) {
    size_t count = 0;
    TRY(machine_driver_load_promise(loop->driver, PROMISE_NAME, loop->scratch,
                                    ADDRESS_BOOK_BYTES_MAX, &count, fault));
    if (count == 0) {
        return OK;
    }
    const char *error = address_book_read(loop->scratch, count, loop->members);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, loop->options.store_path,
                         "restore the store from a copy", "the stored value \"%s\" %s",
                         PROMISE_NAME, error);
    }
    for (uint32_t row = 0; row < loop->members->count; row++) {
        /* Counts as a message, so that members have time to reconnect before they are
         * unresponsive. */
        member_record_received(&loop->members->rows[row], tracker_now_ms());
    }
    return OK;
}

static void save_table(struct tracker_loop *loop) {
    const struct store_promise promise = {PROMISE_NAME, loop->scratch,
                                          address_book_write(loop->members, loop->scratch)};
    reach_crash_point(loop, CRASH_BEFORE, CRASH_WRITE_ADDRESS_BOOK);
    if (machine_driver_store_promise(loop->driver, &promise)) {
        member_table_mark_saved(loop->members);
    }
    reach_crash_point(loop, CRASH_AFTER, CRASH_WRITE_ADDRESS_BOOK);
}

static void send_to_outdated_members(struct tracker_loop *loop) {
    struct wire_address_book message;
    size_t count = 0;
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        struct tracker_guest *guest = &loop->guests->rows[i];
        if (!guest->is_used || !guest->has_introduced ||
            guest->announced_version == loop->members->version ||
            member_table_find_by_channel_key(loop->members, guest->curve) == MEMBER_NONE) {
            continue;
        }
        if (count == 0) {
            address_book_make_message(loop->members, &loop->timing, &message);
            count = wire_write_address_book(&message, loop->scratch);
        }
        reach_crash_point(loop, CRASH_BEFORE, CRASH_SEND_ADDRESS_BOOK);
        if (tracker_loop_send_payload(loop, guest, WIRE_ADDRESS_BOOK, 0, loop->scratch, count)) {
            guest_set_announced_version(guest, loop->members->version);
        }
        reach_crash_point(loop, CRASH_AFTER, CRASH_SEND_ADDRESS_BOOK);
    }
}

void address_book_publish_changes(struct tracker_loop *loop) {
    if (loop->members->is_unsaved) {
        save_table(loop);
    }
    if (!loop->members->is_unsaved) {
        send_to_outdated_members(loop);
    }
}

/* ---- attendance ---- */

static void add_absent_member(const struct tracker_loop *loop, int at, bool has_left,
                              int64_t now_ms, struct attendance *attendance) {
    const struct admitted_member *admitted = &loop->members->rows[at];
    attendance_add_absence(attendance, admitted->name,
                           has_left ? ABSENCE_LEFT : ABSENCE_DISCONNECTED,
                           (uint64_t)(now_ms - admitted->last_received_ms));
}

static bool is_leaving(const struct tracker_view *view, const struct identity *id) {
    bool is_found = false;
    for (uint32_t row = 0; row < view->member_count; row++) {
        is_found |=
            view->members[row].is_leaving && memcmp(&view->members[row].id, id, sizeof *id) == 0;
    }
    return is_found;
}

/* Counts the connected electors, and adds the absent ones. An elector that was removed from the
 * allow-list has no name any more, so its id is shown. */
static void count_electors(const struct tracker_loop *loop, const struct tracker_view *view,
                           int64_t now_ms, struct attendance *attendance) {
    for (uint32_t i = 0; i < view->missing_count; i++) {
        const struct identity *id = &view->missing[i];
        const int at = member_table_find_by_identity(loop->members, id);
        if (at != MEMBER_NONE) {
            add_absent_member(loop, at, is_leaving(view, id), now_ms, attendance);
        } else {
            char hex[HASH_HEX_BYTES], name[SHORT_ID_BYTES];
            struct hash key;
            memcpy(key.bytes, id->bytes, sizeof key.bytes);
            struct text text = text_over(name, sizeof name);
            text_add(&text, "%.12s", hash_hex(&key, hex));
            attendance_add_absence(attendance, name, ABSENCE_REMOVED, 0);
        }
    }
    attendance_set_electors(attendance, view->electors.here, view->electors.all);
}

void attendance_count(const struct tracker_loop *loop, const struct tracker_view *view,
                      int64_t now_ms, struct attendance *attendance) {
    const uint32_t commits_max = loop->options.settings.commits_max;
    const bool is_over = commits_max > 0 && view->record->head.commits >= commits_max;
    uint32_t present = 0;
    attendance_init(attendance);
    if (view->is_fork_possible && !view->electors.is_enough && !is_over) {
        count_electors(loop, view, now_ms, attendance);
        return;
    }
    for (uint32_t row = 0; row < view->member_count; row++) {
        const struct tracker_view_member *member = &view->members[row];
        const bool is_absent = member->is_silent || member->is_leaving;
        const int at = member_table_find_by_identity(loop->members, &member->id);
        present += !member->is_guest && !is_absent;
        if (!member->is_guest && is_absent && at != MEMBER_NONE) {
            add_absent_member(loop, at, member->is_leaving, now_ms, attendance);
        }
    }
    if (view->awaited != NULL) { /* a round is open: only members with a seat count */
        present = view->present;
    }
    attendance_set_counts(attendance, present, is_over ? 0 : view->needed);
}

static void send_attendance(struct tracker_loop *loop) {
    uint8_t payload[ATTENDANCE_BYTES_MAX];
    const struct attendance_watch *watch = &loop->attendance;
    const size_t count = attendance_write(&watch->state, payload);
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        struct tracker_guest *guest = &loop->guests->rows[i];
        if (guest->is_used && guest->has_introduced &&
            guest->attendance_version != watch->version &&
            member_table_find_by_channel_key(loop->members, guest->curve) != MEMBER_NONE &&
            tracker_loop_send_payload(loop, guest, WIRE_ATTENDANCE, 0, payload, count)) {
            guest_set_attendance_version(guest, watch->version);
        }
    }
}

void attendance_publish_changes(struct tracker_loop *loop, int64_t now_ms) {
    struct attendance_watch *watch = &loop->attendance;
    struct tracker_view view;
    struct attendance counted;
    if (watch->counted_ms != 0 && now_ms - watch->counted_ms < ATTENDANCE_MS) {
        return;
    }
    tracker_read_view(loop->driver->tracker, &view);
    attendance_count(loop, &view, now_ms, &counted);
    attendance_watch_update(watch, &counted, now_ms);
    if (watch->version > 0) {
        send_attendance(loop);
    }
}
