/* seats: sets of seats as 64-bit masks, and lists of actions, for both state machines. */
#ifndef SKEP_SWARM_PROTOCOL_SEATS_H
#define SKEP_SWARM_PROTOCOL_SEATS_H

#include "base/bytes.h"
#include "base/check.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/protocol/protocol.h"

#include <string.h>

enum { NO_SEAT = -1 }; /* the member has no seat in the round */

/* SEATS_EACH: run the block for every seat of `mask`, in ascending order. */
#define SEATS_EACH(seat, mask)                                                                     \
    for (uint64_t seat##_left = (mask), seat = 0;                                                  \
         seat##_left != 0 && (seat = (uint64_t)__builtin_ctzll(seat##_left), true);                \
         seat##_left &= seat##_left - 1)

static inline uint64_t seat_bit(uint64_t seat) {
    ASSERT(seat < SWARM_MEMBERS_MAX);
    return UINT64_C(1) << seat;
}

static inline bool seats_contain(uint64_t seats, uint64_t seat) {
    return (seats & seat_bit(seat)) != 0;
}

static inline uint32_t seats_count(uint64_t seats) {
    return (uint32_t)__builtin_popcountll(seats);
}

static inline uint32_t seats_find_lowest(uint64_t seats) {
    ASSERT(seats != 0);
    return (uint32_t)__builtin_ctzll(seats);
}

/* roster_seats: the mask of all seats of a roster. */
static inline uint64_t roster_seats(const struct entry *roster) {
    ASSERT(roster->seat_count <= SWARM_MEMBERS_MAX);
    return roster->seat_count == 64 ? UINT64_MAX : (UINT64_C(1) << roster->seat_count) - 1;
}

/* roster_find_seat: the seat of an identity in a roster, or NO_SEAT. */
static inline int roster_find_seat(const struct entry *roster, const struct identity *id) {
    ASSERT(roster->seat_count <= SWARM_MEMBERS_MAX);
    for (uint32_t seat = 0; seat < roster->seat_count; seat++) {
        if (memcmp(&roster->seats[seat].id, id, sizeof *id) == 0) {
            return (int)seat;
        }
    }
    return NO_SEAT;
}

/* seat_samples: the number of samples that a seat was assigned. */
static inline uint64_t seat_samples(const struct entry_seat *seat) {
    uint64_t samples = 0;
    for (uint32_t r = 0; r < seat->range_count; r++) {
        ASSERT(seat->ranges[r].begin <= seat->ranges[r].end);
        samples += seat->ranges[r].end - seat->ranges[r].begin;
    }
    return samples;
}

/* declared_weight: the weight of a declaration whose norm is within the bounds, which is the
 * declared number of tokens, but at most the number of tokens in the member's samples. */
static inline uint64_t declared_weight(uint64_t tokens, uint64_t samples, uint64_t sample_tokens) {
    uint64_t most = samples * sample_tokens;
    return tokens < most ? tokens : most;
}

/* actions_add: append an action of this kind whose other fields are zero. */
static inline struct action *actions_add(struct actions *actions, enum action_kind kind) {
    ASSERT(actions->count < actions->capacity);
    struct action *action = &actions->rows[actions->count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

#endif
