#include "runtime/swarm/tracker/guest_table.h"

#include <string.h>

uint64_t guest_table_bytes(uint32_t capacity) {
    return sizeof(struct guest_table) + capacity * sizeof(struct tracker_guest);
}

struct guest_table *guest_table_init(uint32_t capacity, struct region *region) {
    struct guest_table *table = region_alloc(region, 1, sizeof *table);
    table->rows = region_alloc(region, capacity, sizeof *table->rows);
    table->capacity = capacity;
    return table;
}

struct tracker_guest *guest_find(const struct guest_table *table,
                                 const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < table->capacity; i++) {
        struct tracker_guest *guest = &table->rows[i];
        if (guest->is_used && memcmp(guest->curve, curve, KEY_BYTES) == 0) {
            return guest;
        }
    }
    return NULL;
}

struct tracker_guest *guest_find_or_add(struct guest_table *table,
                                        const uint8_t curve[static KEY_BYTES], int64_t now_ms) {
    struct tracker_guest *guest = guest_find(table, curve);
    for (uint32_t i = 0; guest == NULL && i < table->capacity; i++) {
        if (!table->rows[i].is_used) {
            guest = &table->rows[i];
            *guest = (struct tracker_guest){
                .is_used = true, .last_active_ms = now_ms, .stream = make_idle_document_stream()};
            memcpy(guest->curve, curve, KEY_BYTES);
        }
    }
    return guest;
}

void guest_remove(struct tracker_guest *guest) {
    ASSERT(guest->is_used);
    guest->is_used = false;
}

void guest_set_ip(struct tracker_guest *guest, const char ip[static MESSAGE_ADDRESS_BYTES]) {
    memcpy(guest->ip, ip, sizeof guest->ip);
}

void guest_record_activity(struct tracker_guest *guest, int64_t now_ms) {
    ASSERT(now_ms >= guest->last_active_ms);
    guest->last_active_ms = now_ms;
}

void guest_set_announced_version(struct tracker_guest *guest, uint32_t version) {
    guest->announced_version = version;
}

void guest_set_attendance_version(struct tracker_guest *guest, uint32_t version) {
    guest->attendance_version = version;
}

void guest_set_rejected(struct tracker_guest *guest, bool was_rejected) {
    guest->was_rejected = was_rejected;
}

void guest_permit_queries(struct tracker_guest *guest) {
    guest->may_query = true;
}

void guest_store_introduction(struct tracker_guest *guest,
                              const struct wire_introduction *introduction, int64_t now_ms) {
    guest->introduction = *introduction;
    guest->has_introduced = true;
    guest->announced_version = 0;
    guest->attendance_version = 0;
    guest_record_activity(guest, now_ms);
}

void guest_withdraw_introduction(struct tracker_guest *guest) {
    guest->has_introduced = false;
}

void guest_add_strike(struct tracker_guest *guest) {
    ASSERT(guest->is_used);
    guest->strikes++;
}

void guest_table_count_rejected_message(struct guest_table *table) {
    table->rejected_messages++;
}
