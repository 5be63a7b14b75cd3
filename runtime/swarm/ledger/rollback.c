#include "runtime/swarm/ledger/rollback.h"

#include <string.h>

static const char ORDER_CONTEXT[] = "skep rollback order";

struct hash hash_cursor(const struct data_cursor *cursor) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &cursor->position, sizeof cursor->position);
    hash_add(&state, cursor->returned, cursor->returned_count * sizeof cursor->returned[0]);
    return hash_end(&state);
}

uint32_t state_history_find_root(const struct state_history *history, const struct hash *root) {
    ASSERT(history->count <= ROLLBACK_STATES_MAX);
    for (uint32_t i = history->count; i > 0; i--) {
        if (hash_equal(&history->states[i - 1].root, root)) {
            return i - 1;
        }
    }
    return history->count;
}

uint32_t state_history_find_entry(const struct state_history *history, const struct hash *entry) {
    uint32_t at = 0;
    while (at < history->count && !hash_equal(&history->states[at].entry, entry)) {
        at++;
    }
    return at;
}

uint32_t state_history_apply_entry(struct state_history *history, const struct entry *entry) {
    ASSERT(entry_sets_state(entry->kind));
    uint32_t at = entry->kind == ENTRY_ROLLBACK ? state_history_find_root(history, &entry->root)
                                                : history->count;
    if (at < history->count) {
        history->count = at + 1;
        return at;
    }
    if (at == ROLLBACK_STATES_MAX) {
        memmove(&history->states[1], &history->states[2],
                (ROLLBACK_STATES_MAX - 2) * sizeof history->states[0]);
        at--;
    }
    history->states[at] = (struct past_state){.root = entry->root,
                                              .entry = entry->hash,
                                              .cursor = hash_cursor(&entry->cursor),
                                              .round = entry->round,
                                              .commits = entry->commits};
    history->count = at + 1;
    return at;
}

bool is_state_stored_after(uint32_t commits) {
    return commits > 0 && commits % STORED_STATE_COMMITS == 0;
}

bool is_stored_state_retained(uint32_t commits, uint32_t newest) {
    ASSERT(commits <= newest);
    return is_state_stored_after(commits) &&
           newest - commits < STORED_STATES_MAX * STORED_STATE_COMMITS;
}

/* The pseudo-random number of a seat: the members with the lowest ones store the state. */
static struct hash hash_seat(const struct entry *entry, uint32_t seat) {
    static const char PURPOSE[] = "skep state keeper"; /* hashed with its NUL */
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, PURPOSE, sizeof PURPOSE);
    hash_add(&state, entry->hash.bytes, HASH_BYTES);
    hash_add(&state, entry->seats[seat].id.bytes, SWARM_IDENTITY_BYTES);
    return hash_end(&state);
}

uint64_t state_storing_seats(const struct entry *entry) {
    struct hash numbers[SWARM_MEMBERS_MAX];
    const uint64_t voters = entry_voting_seats(entry);
    uint64_t keepers = 0;
    ASSERT(entry->kind == ENTRY_COMMIT && !hash_is_zero(&entry->hash));
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        numbers[seat] = hash_seat(entry, seat);
    }
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        uint32_t lower = 0;
        for (uint32_t other = 0; other < entry->seat_count; other++) {
            lower += (voters >> other & 1) != 0 &&
                     memcmp(&numbers[other], &numbers[seat], sizeof numbers[seat]) < 0;
        }
        keepers |= lower < STORED_STATE_KEEPERS ? (uint64_t)1 << seat : 0;
    }
    return keepers & voters;
}

/* The signed bytes of an order to roll back: hash of the swarm, root to return to, newest entry. */
struct order_bytes {
    struct hash swarm, root, newest;
};

_Static_assert(sizeof(struct order_bytes) == (size_t)3 * HASH_BYTES,
               "the signed bytes have no padding");

struct rollback_order rollback_order_sign(const struct key_pairs *operator_keys,
                                          const struct hash *swarm, const struct hash *root,
                                          const struct hash *newest) {
    const struct order_bytes bytes = {*swarm, *root, *newest};
    struct rollback_order order = {.newest = *newest};
    ASSERT(!hash_is_zero(newest));
    keys_sign(operator_keys, ORDER_CONTEXT, &bytes, sizeof bytes, order.signature.bytes);
    return order;
}

bool rollback_order_is_signed(const uint8_t operator_key[static KEY_BYTES],
                              const struct hash *swarm, const struct hash *root,
                              const struct rollback_order *order) {
    const struct order_bytes bytes = {*swarm, *root, order->newest};
    return keys_verify(operator_key, ORDER_CONTEXT, &bytes, sizeof bytes, order->signature.bytes);
}

uint32_t rollback_order_find_target(const struct state_history *history, const struct hash *root,
                                    const struct rollback_order *order) {
    const uint32_t target = state_history_find_root(history, root);
    const uint32_t newest = state_history_find_entry(history, &order->newest);
    return newest > target && newest < history->count ? target : history->count;
}

const char *rollback_error(const struct state_history *history, const struct entry *entry) {
    const uint32_t target = state_history_find_root(history, &entry->root);
    ASSERT(entry->kind == ENTRY_ROLLBACK);
    if (target == history->count) {
        return "rolls back to a root that is not in the history of the ledger";
    }
    if (target + 1 == history->count) {
        return "rolls back to the root that is already current";
    }
    const struct hash cursor = hash_cursor(&entry->cursor);
    if (!hash_equal(&cursor, &history->states[target].cursor)) {
        return "rolls back, but with a data cursor other than that of the restored state";
    }
    if (hash_is_zero(&entry->order.newest)) {
        return NULL; /* the tracker rolls back without an order if no member has the newest state */
    }
    return rollback_order_find_target(history, &entry->root, &entry->order) == target
               ? NULL
               : "rolls back by an order that the operator gave for a different history";
}
