/* messages_ban: stores which keys are rejected: until messenger_register_peer registers them again,
 * or for a limited time after protocol violations. */
#include "transport/messages/messages_state.h"

#include <string.h>

/* Returns the index of a key's ban, or MESSENGER_BANS_MAX if it has none. */
static uint32_t find_ban(const struct ban_list *list, const uint8_t curve[static KEY_BYTES]) {
    uint32_t i = 0;
    while (i < MESSENGER_BANS_MAX && memcmp(list->bans[i].curve, curve, KEY_BYTES) != 0) {
        i++;
    }
    return i;
}

bool is_banned(const struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const uint32_t index = find_ban(&messenger->bans, curve);
    return index < MESSENGER_BANS_MAX &&
           messenger->bans.bans[index].until_ns > clock_monotonic_ns();
}

void ban_lift(struct messenger *messenger, const uint8_t curve[static KEY_BYTES]) {
    const uint32_t index = find_ban(&messenger->bans, curve);
    if (index < MESSENGER_BANS_MAX && messenger->bans.bans[index].until_ns == INT64_MAX) {
        messenger->bans.bans[index].until_ns = 0;
    }
}

void ban_add(struct messenger *messenger, const uint8_t curve[static KEY_BYTES], int64_t until_ns) {
    struct ban_list *list = &messenger->bans;
    uint32_t index = find_ban(list, curve);
    if (index == MESSENGER_BANS_MAX) {
        index = list->next_index++ % MESSENGER_BANS_MAX;
    }
    memcpy(list->bans[index].curve, curve, KEY_BYTES);
    list->bans[index].until_ns = until_ns;
}

void peer_disconnect_and_ban(struct messenger *messenger, struct peer *peer) {
    messenger->counts.banned_peers++;
    peer->strikes = 0;
    ban_add(messenger, peer_curve(messenger, peer),
            clock_monotonic_ns() + MESSENGER_BAN_MS * NS_PER_MS);
    peer_on_close(messenger, peer);
}

void peer_add_strike(struct messenger *messenger, struct peer *peer) {
    ASSERT(peer->strikes < MESSAGE_STRIKES_MAX);
    if (++peer->strikes >= MESSAGE_STRIKES_MAX) {
        peer_disconnect_and_ban(messenger, peer);
    }
}
