#include "runtime/swarm/leases/leases.h"

#include <string.h>

/* Domains of signatures, so that no signature is valid for a document of another kind. */
static const char RESIGNATION[] = "skep resignation", ORDER[] = "skep order to continue";

enum {
    BYTE_BITS = 8,   /* bits in a byte */
    PLACE_SHIFT = 32 /* the number of a start is place << PLACE_SHIFT | random number */
};

static void hash_add_number(struct hash_state *state, uint64_t value, uint32_t bytes) {
    uint8_t little_endian[sizeof value];
    for (uint32_t i = 0; i < bytes; i++) {
        little_endian[i] = (uint8_t)(value >> (BYTE_BITS * i));
    }
    hash_add(state, little_endian, bytes);
}

bool tracker_start_equal(const struct tracker_start *a, const struct tracker_start *b) {
    return a->incarnation == b->incarnation && a->number == b->number;
}

bool tracker_start_replaces(const struct tracker_start *a, const struct tracker_start *b) {
    const uint64_t place = a->number >> PLACE_SHIFT;
    return place != 0 && place == b->number >> PLACE_SHIFT && a->incarnation > b->incarnation;
}

uint64_t tracker_start_number(uint32_t place, uint32_t drawn) {
    ASSERT(place != 0 && place <= INT32_MAX);
    return (uint64_t)place << PLACE_SHIFT | drawn;
}

/* ---- leases ---- */

static bool is_same_or_later_start(const struct tracker_start *start,
                                   const struct tracker_start *held) {
    return tracker_start_equal(start, held) || tracker_start_replaces(start, held);
}

bool lease_allows_vote(const struct lease *held, const struct hash *state,
                       const struct tracker_start *start, const struct hash *vote) {
    ASSERT(start->number != 0 && !hash_is_zero(vote));
    if (!hash_equal(&held->state, state)) {
        return true;
    }
    return !held->is_resignation &&
           (hash_equal(&held->vote, vote) || is_same_or_later_start(start, &held->start));
}

struct lease lease_after_vote(const struct lease *held, const struct lease *vote) {
    struct lease renewed = *vote;
    ASSERT(lease_allows_vote(held, &vote->state, &vote->start, &vote->vote));
    if (hash_equal(&held->state, &vote->state) &&
        !is_same_or_later_start(&vote->start, &held->start)) {
        renewed.start = (struct tracker_start){0};
    }
    return renewed;
}

void lease_release(struct lease *held, uint32_t round, const struct tracker_start *start) {
    if (!held->is_resignation && held->round == round && held->start.number != 0 &&
        is_same_or_later_start(start, &held->start)) {
        memset(held, 0, sizeof *held);
    }
}

bool lease_allows_resignation(const struct lease *held, const struct hash *state) {
    return held->is_resignation || !hash_equal(&held->state, state);
}

/* ---- resignations ---- */

static struct hash hash_resignation(const struct hash *swarm, const struct hash *state) {
    struct hash_state hashing;
    hash_begin(&hashing);
    hash_add(&hashing, swarm->bytes, HASH_BYTES);
    hash_add(&hashing, state->bytes, HASH_BYTES);
    return hash_end(&hashing);
}

void resignation_sign(const struct key_pairs *keys, const struct hash *swarm,
                      const struct hash *state, uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash hash = hash_resignation(swarm, state);
    keys_sign(keys, RESIGNATION, hash.bytes, HASH_BYTES, signature);
}

bool resignation_is_signed(const uint8_t sign_key[static KEY_BYTES], const struct hash *swarm,
                           const struct hash *state,
                           const uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash hash = hash_resignation(swarm, state);
    return keys_verify(sign_key, RESIGNATION, hash.bytes, HASH_BYTES, signature);
}

/* ---- orders ---- */

static struct hash hash_continue_order(const struct hash *swarm, const struct hash *state,
                                       const struct tracker_start *start,
                                       const struct continue_order *order) {
    struct hash_state hashing;
    ASSERT(order->count <= ORDER_MEMBERS_MAX);
    hash_begin(&hashing);
    hash_add(&hashing, swarm->bytes, HASH_BYTES);
    hash_add(&hashing, state->bytes, HASH_BYTES);
    hash_add_number(&hashing, start->incarnation, sizeof start->incarnation);
    hash_add_number(&hashing, start->number, sizeof start->number);
    hash_add_number(&hashing, order->count, sizeof order->count);
    hash_add(&hashing, order->members, order->count * sizeof order->members[0]);
    return hash_end(&hashing);
}

void continue_order_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                         const struct hash *state, const struct tracker_start *start,
                         struct continue_order *order) {
    ASSERT(continue_order_error(order) == NULL && start->number != 0);
    const struct hash hash = hash_continue_order(swarm, state, start, order);
    keys_sign(operator_keys, ORDER, hash.bytes, HASH_BYTES, order->signature);
}

bool continue_order_is_signed(const uint8_t operator_key[static KEY_BYTES],
                              const struct hash *swarm, const struct hash *state,
                              const struct tracker_start *start,
                              const struct continue_order *order) {
    const struct hash hash = hash_continue_order(swarm, state, start, order);
    return keys_verify(operator_key, ORDER, hash.bytes, HASH_BYTES, order->signature);
}

const char *continue_order_error(const struct continue_order *order) {
    if (order->count == 0 || order->count > ORDER_MEMBERS_MAX) {
        return "lists no members, or more than a roster has seats";
    }
    for (uint32_t i = 1; i < order->count; i++) {
        if (memcmp(order->members[i - 1], order->members[i], KEY_BYTES) >= 0) {
            return "lists keys that are not in ascending order";
        }
    }
    return NULL;
}

bool continue_order_has_member(const struct continue_order *order,
                               const uint8_t key[static KEY_BYTES]) {
    ASSERT(order->count <= ORDER_MEMBERS_MAX);
    bool is_named = false;
    for (uint32_t i = 0; i < order->count && !is_named; i++) {
        is_named = memcmp(order->members[i], key, KEY_BYTES) == 0;
    }
    return is_named;
}
