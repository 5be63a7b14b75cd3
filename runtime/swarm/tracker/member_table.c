#include "runtime/swarm/tracker/member_table.h"

#include "base/text.h"

#include <string.h>

int member_table_find_by_channel_key(const struct member_table *table,
                                     const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t row = 0; row < table->count; row++) {
        if (memcmp(table->rows[row].keys.curve, curve, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return MEMBER_NONE;
}

int member_table_find_by_identity(const struct member_table *table, const struct identity *id) {
    for (uint32_t row = 0; row < table->count; row++) {
        if (memcmp(table->rows[row].keys.sign, id->bytes, KEY_BYTES) == 0) {
            return (int)row;
        }
    }
    return MEMBER_NONE;
}

struct identity member_identity(const struct admitted_member *member) {
    struct identity id;
    memcpy(id.bytes, member->keys.sign, KEY_BYTES);
    return id;
}

struct admitted_member *member_table_add(struct member_table *table,
                                         const struct public_keys *keys) {
    int row = member_table_find_by_channel_key(table, keys->curve);
    if (row == MEMBER_NONE) {
        ASSERT(table->count < SWARM_MEMBERS_MAX);
        row = (int)table->count++;
        table->rows[row] =
            (struct admitted_member){.keys = *keys, .probe = make_idle_member_probe()};
    }
    return &table->rows[row];
}

void member_table_remove(struct member_table *table, int row) {
    ASSERT(row >= 0 && (uint32_t)row < table->count);
    member_probe_end(&table->rows[row].probe);
    table->count--;
    memmove(&table->rows[row], &table->rows[row + 1],
            (table->count - (uint32_t)row) * sizeof table->rows[0]);
}

void member_table_mark_changed(struct member_table *table) {
    table->version++;
    table->is_unsaved = true;
}

void member_table_mark_saved(struct member_table *table) {
    table->is_unsaved = false;
}

void member_set_name(struct admitted_member *member, const char *name) {
    struct text text = text_over(member->name, sizeof member->name);
    text_add(&text, "%s", name);
}

void member_set_address(struct admitted_member *member, const char *address) {
    struct text text = text_over(member->address, sizeof member->address);
    text_add(&text, "%s", address);
    ASSERT(!text.truncated);
    member->is_reachable = 0;
    member_probe_end(&member->probe);
}

void member_set_reachable(struct admitted_member *member, bool is_reachable) {
    ASSERT(!is_reachable || member->address[0] != '\0');
    member->is_reachable = is_reachable;
}

void member_record_received(struct admitted_member *member, int64_t now_ms) {
    ASSERT(now_ms >= 0);
    member->last_received_ms = now_ms;
}

void member_record_report(struct admitted_member *member, const struct message *report) {
    ASSERT(report->kind == MESSAGE_REPORT);
    member->measured = report->measured;
    member->report_round = report->round;
}

void member_table_shift_received_times(struct member_table *table, int64_t gap_ms) {
    for (uint32_t row = 0; row < table->count; row++) {
        table->rows[row].last_received_ms += gap_ms;
    }
}

bool member_record_start(struct admitted_member *member, uint64_t start_id) {
    const bool is_known = member->start_count > 0;
    if (is_known && member->start_ids[0] == start_id) {
        return false;
    }
    memmove(&member->start_ids[1], &member->start_ids[0],
            sizeof member->start_ids - sizeof member->start_ids[0]);
    member->start_ids[0] = start_id;
    member->start_count += member->start_count < START_IDS_MAX;
    return is_known;
}

bool member_was_replaced(const struct admitted_member *member, uint64_t start_id) {
    bool is_older = false;
    for (uint32_t i = 1; i < member->start_count; i++) {
        is_older |= member->start_ids[i] == start_id;
    }
    return is_older && member->start_ids[0] != start_id;
}
