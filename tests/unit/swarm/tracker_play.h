/* tracker_play: rounds of the tracker's machine by hand, with members that train, exchange and vote
 * as a test says. */
#ifndef SKEP_TESTS_UNIT_SWARM_TRACKER_PLAY_H
#define SKEP_TESTS_UNIT_SWARM_TRACKER_PLAY_H

#include "tests/unit/swarm/tracker_scene.h"

enum { TRAIN_BEATS = 5, AWAITED_MS = 2000, SLOW = 4 /* the last member */ };

/* How the members behave in the rounds of a test. */
extern struct play {
    uint32_t train_beats[MEMBERS]; /* to train on a full share of samples */
    uint64_t trained_max[MEMBERS]; /* samples that they train on at most; 0: any number */
    uint32_t awaited_ms[MEMBERS];  /* that each other one waits for this one's contributions */
    uint32_t withholding;          /* members whose contributions never arrive */
    uint32_t silent_owners;        /* members that never have a result */
    uint32_t holding_owners;       /* members whose results no other member gets */
    uint32_t rejecting[MEMBERS];   /* by owner: members whose contributions it rejects */
    uint32_t repeating[MEMBERS];   /* those of them that repeat earlier ones */
    uint32_t missing[MEMBERS];     /* by owner: members whose contributions do not reach it */
    uint32_t left_out[MEMBERS]; /* by owner: members whose contributions it has and does not add */
    uint32_t gone;              /* members from which nothing arrives in an exchange */
    uint32_t result_beats[MEMBERS]; /* heartbeats of the exchange until it has its results */
    double norms[MEMBERS];          /* that the members declare */
    uint8_t root_byte;              /* of the root that the last member declares */
    uint64_t samples[MEMBERS];      /* given in the last round */
    uint32_t restart_beat;     /* heartbeat of training at which the tracker restarts; 0: none */
    uint32_t trained_beats;    /* heartbeats from the last OPEN to its table */
    int exchange_beats;        /* heartbeats of the last exchange */
    uint32_t beat;             /* heartbeats of the exchange so far */
    uint64_t earlier_proposal; /* number of the last one before the round */
} play;

/* play_evenly: all members behave alike.
 * play_train: open a round and let the members declare, each at its own pace; to the first table.
 * play_exchange_beat: one heartbeat of the exchange.
 * play_exchange: exchange and vote until the round has ended. Returns the heartbeats that it took.
 * play_round: a whole round with all members, which is committed. Returns the same.
 * play_judged_round: the same, but the last member may have no seat. Returns the number of seats.
 */
void play_evenly(void);
void play_train(void);
void play_exchange_beat(void);
int play_exchange(void);
int play_round(void);
uint32_t play_judged_round(void);

/* play_samples_of: samples that a member was given in the newest round.
 * play_owned: slices that it owns by the first table of the round.
 * play_slices_with: slices of that table for which it is optional or expected. */
uint64_t play_samples_of(uint32_t member);
uint32_t play_owned(uint32_t member);
uint32_t play_slices_with(uint32_t member, bool is_optional);

#endif
