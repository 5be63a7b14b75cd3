#include "tests/sim/guests.h"

#include "tests/sim/parts.h"

#include <string.h>

void guests_sign_roster(struct world *world, const struct hash *swarm) {
    const struct key_pairs operator_keys = keys_of(&OPERATOR_ID);
    const bool is_open = world->first_guest > 0;
    const uint32_t end = is_open ? world->first_guest : TRACKERS + world->member_count;
    struct roster_epoch *roster = &world->roster;
    *roster = (struct roster_epoch){.serial = 1, .is_open = is_open};
    for (uint32_t n = TRACKERS; n < end; n++) {
        roster->members[roster->count++][0] = (uint8_t)n;
    }
    roster_epoch_sign(&operator_keys, swarm, roster);
}

/* With leases, a voter that has resigned has no vote, which ledger_append checks. */
uint64_t guests_voters(const struct world *world, const struct entry *entry) {
    uint64_t voters = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        uint32_t node = entry->seats[seat].id.bytes[0];
        bool is_named = world->first_guest == 0 || node < world->first_guest;
        bool is_voter = is_named && (entry->seats[seat].is_guest == 0 || !world->needs_leases);
        voters |= (uint64_t)is_voter << seat;
    }
    return voters;
}

/* The entry is valid until the next call: the machine copies it. */
struct event guests_mishear(const struct world *world, uint32_t node, const struct event *event) {
    static struct message message;
    static struct entry open;
    struct event heard = *event;
    bool is_liar = world->first_guest > 0 && node >= world->first_guest &&
                   world->nodes[node].hostility != HONEST;
    if (!is_liar || event->kind != EVENT_MESSAGE || event->message->kind != MESSAGE_ENTRY ||
        event->message->entry->kind != ENTRY_OPEN) {
        return heard;
    }
    message = *event->message;
    open = *message.entry;
    for (uint32_t seat = 0; seat < open.seat_count; seat++) {
        bool is_own = open.seats[seat].id.bytes[0] == node;
        open.seats[seat].is_guest = is_own ? 0 : open.seats[seat].is_guest;
    }
    message.entry = &open;
    heard.message = &message;
    return heard;
}
