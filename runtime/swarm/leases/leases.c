#include "runtime/swarm/leases/leases.h"

#include <string.h>

static const char LEASE[] = "skep lease", RESIGNATION[] = "skep resignation",
                  ORDER[] = "skep order to continue";

enum { BYTE_BITS = 8 };

static void add_number(struct hash_state *state, uint64_t value, uint32_t bytes) {
    uint8_t little_endian[sizeof value];
    for (uint32_t i = 0; i < bytes; i++) {
        little_endian[i] = (uint8_t)(value >> (BYTE_BITS * i));
    }
    hash_add(state, little_endian, bytes);
}

static void add_scope(struct hash_state *hashing, const struct hash *swarm,
                      const struct hash *state, const struct tracker_start *start) {
    hash_add(hashing, swarm->bytes, HASH_BYTES);
    hash_add(hashing, state->bytes, HASH_BYTES);
    add_number(hashing, start->incarnation, sizeof start->incarnation);
    add_number(hashing, start->number, sizeof start->number);
}

bool tracker_start_equal(const struct tracker_start *a, const struct tracker_start *b) {
    return a->incarnation == b->incarnation && a->number == b->number;
}

/* ---- leases ---- */

static struct hash hash_lease(const struct hash *swarm, const struct lease *lease) {
    struct hash_state hashing;
    hash_begin(&hashing);
    add_scope(&hashing, swarm, &lease->state, &lease->start);
    return hash_end(&hashing);
}

static const char *context_of(const struct lease *lease) {
    ASSERT(lease->is_resignation == (lease->start.number == 0));
    return lease->is_resignation ? RESIGNATION : LEASE;
}

void lease_sign(const struct key_pairs *keys, const struct hash *swarm, const struct lease *lease,
                uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash hash = hash_lease(swarm, lease);
    keys_sign(keys, context_of(lease), hash.bytes, HASH_BYTES, signature);
}

bool lease_is_signed(const uint8_t sign_key[static KEY_BYTES], const struct hash *swarm,
                     const struct lease *lease, const uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash hash = hash_lease(swarm, lease);
    return keys_verify(sign_key, context_of(lease), hash.bytes, HASH_BYTES, signature);
}

enum lease_answer lease_answer(const struct lease *held, const struct lease *asked,
                               uint32_t stored_round) {
    const bool is_bound = stored_round > asked->round;
    if (!hash_equal(&held->state, &asked->state)) {
        const bool is_older = asked->round < held->round;
        return is_older || (asked->is_resignation && is_bound) ? LEASE_IGNORE : LEASE_WRITE;
    }
    if (held->is_resignation || tracker_start_equal(&held->start, &asked->start)) {
        return LEASE_REPEAT;
    }
    if (asked->is_resignation) {
        return is_bound ? LEASE_REPEAT : LEASE_WRITE;
    }
    if (asked->start.incarnation == held->start.incarnation) {
        return LEASE_FORK;
    }
    return asked->start.incarnation > held->start.incarnation && !is_bound ? LEASE_WRITE
                                                                           : LEASE_REPEAT;
}

bool lease_is_held(const struct lease *held, const struct hash *state,
                   const struct tracker_start *start) {
    return !held->is_resignation && start->number != 0 && hash_equal(&held->state, state) &&
           tracker_start_equal(&held->start, start);
}

/* ---- orders ---- */

static struct hash hash_order(const struct hash *swarm, const struct hash *state,
                              const struct tracker_start *start,
                              const struct continue_order *order) {
    struct hash_state hashing;
    ASSERT(order->count <= ORDER_MEMBERS_MAX);
    hash_begin(&hashing);
    add_scope(&hashing, swarm, state, start);
    add_number(&hashing, order->count, sizeof order->count);
    hash_add(&hashing, order->members, order->count * sizeof order->members[0]);
    return hash_end(&hashing);
}

void continue_order_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                         const struct hash *state, const struct tracker_start *start,
                         struct continue_order *order) {
    ASSERT(continue_order_error(order) == NULL && start->number != 0);
    const struct hash hash = hash_order(swarm, state, start, order);
    keys_sign(operator_keys, ORDER, hash.bytes, HASH_BYTES, order->signature);
}

bool continue_order_is_signed(const uint8_t operator_key[static KEY_BYTES],
                              const struct hash *swarm, const struct hash *state,
                              const struct tracker_start *start,
                              const struct continue_order *order) {
    const struct hash hash = hash_order(swarm, state, start, order);
    return keys_verify(operator_key, ORDER, hash.bytes, HASH_BYTES, order->signature);
}

const char *continue_order_error(const struct continue_order *order) {
    if (order->count == 0 || order->count > ORDER_MEMBERS_MAX) {
        return "names no members, or more than a roster has seats";
    }
    for (uint32_t i = 1; i < order->count; i++) {
        if (memcmp(order->members[i - 1], order->members[i], KEY_BYTES) >= 0) {
            return "has keys that are not in ascending order";
        }
    }
    return NULL;
}

bool continue_order_has(const struct continue_order *order, const uint8_t key[static KEY_BYTES]) {
    ASSERT(order->count <= ORDER_MEMBERS_MAX);
    bool is_named = false;
    for (uint32_t i = 0; i < order->count && !is_named; i++) {
        is_named = memcmp(order->members[i], key, KEY_BYTES) == 0;
    }
    return is_named;
}
