#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct play play;

void play_evenly(void) {
    memset(&play, 0, sizeof(play));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        play.train_beats[m] = TRAIN_BEATS;
        play.awaited_ms[m] = AWAITED_MS;
    }
}

static void declare(uint32_t member, uint64_t samples) {
    const struct hash root = {{play.root_byte}};
    scene_declare(member, (struct training_amount){samples, samples, play.norms[member]},
                  member == SLOW ? &root : &SCENE_ZERO_ROOT);
}

uint64_t play_samples_of(uint32_t member) {
    uint64_t samples = 0;
    for (uint32_t r = 0; r < scene.head.seats[member].range_count; r++) {
        samples +=
            scene.head.seats[member].ranges[r].end - scene.head.seats[member].ranges[r].begin;
    }
    return samples;
}

/* Opens a round and lets the members declare, each at its own pace; up to the first table. */
void play_train(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 400 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    scene.table_version = 0;
    play.earlier_proposal = scene.proposal;
    memset(scene.reports, 0, sizeof(scene.reports));
    memset(scene.awaited_ms, 0, sizeof(scene.awaited_ms));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        play.samples[m] = play_samples_of(m);
    }
    uint32_t declared = 0;
    uint32_t last_beat = scene.head.train_ms / 100 - 1;
    for (uint32_t beat = 0; beat < 1000 && scene.table_version == 0; beat++) {
        if (beat > 0 && beat == play.restart_beat) {
            scene_restart();
        }
        for (uint32_t m = 0; m < MEMBERS; m++) {
            uint64_t trained = beat * TRAINED_SAMPLES / play.train_beats[m];
            if ((trained >= play.samples[m] || beat == last_beat) && (declared >> m & 1) == 0) {
                trained = trained < play.samples[m] ? trained : play.samples[m];
                declare(m, play.trained_max[m] == 0 ? trained : play.trained_max[m]);
                declared |= 1U << m;
            }
        }
        scene_beat(scene.head.round, 0);
        play.trained_beats = beat;
    }
    assert_true(scene.table_version > 0);
}

/* Members whose optional contributions arrive in time. */
static uint64_t prompt_members(void) {
    uint64_t prompt = 0;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        prompt |= (uint64_t)(play.awaited_ms[m] <= AWAITED_MS) << m;
    }
    return prompt & ~(uint64_t)play.withholding;
}

/* What every member has after a heartbeat of the exchange. */
void play_exchange_beat(void) {
    for (uint32_t m = 0; m < MEMBERS; m++) {
        for (uint32_t other = 0; other < MEMBERS; other++) {
            scene.awaited_ms[m][other] = play.awaited_ms[other];
        }
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        const struct slice_plan *plan = &scene.table[s];
        uint64_t received = SEATS_ALL & ~(uint64_t)(play.withholding | play.missing[plan->owner]);
        uint64_t wanted = plan->expected_seats & ~(1U << plan->owner);
        bool is_complete = (wanted & ~received) == 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct slice_report *report = &scene.reports[m][s];
            *report = (struct slice_report){.epoch = plan->epoch};
            report->received_seats =
                m == plan->owner ? (received & plan->expected_seats) | 1U << m : 0;
            report->rejected_seats = m == plan->owner ? play.rejecting[m] : 0;
            report->repeated_seats = m == plan->owner ? play.repeating[m] : 0;
            bool is_sent = m == plan->owner || (play.holding_owners >> plan->owner & 1) == 0;
            report->has_result = is_complete && is_sent &&
                                 (play.silent_owners >> plan->owner & 1) == 0 &&
                                 play.beat >= play.result_beats[plan->owner];
            report->contributors = (plan->expected_seats & (received | 1U << plan->owner)) |
                                   (plan->optional_seats & received & prompt_members());
            report->contributors &=
                ~(uint64_t)(play.rejecting[plan->owner] | play.left_out[plan->owner]);
        }
    }
    play.beat++;
    scene_beat(scene.head.round, play.gone);
}

/* Exchanges and votes until the round has ended. Returns how many heartbeats the exchange took. */
int play_exchange(void) {
    int beats = 0;
    uint32_t round = scene.head.round;
    play.beat = 0;
    for (; beats < 2000 && scene.head.kind == ENTRY_OPEN; beats++) {
        play_exchange_beat();
        bool is_proposed = scene.proposal != play.earlier_proposal;
        for (uint32_t m = 0; m < MEMBERS && is_proposed && scene.head.kind == ENTRY_OPEN; m++) {
            if ((play.gone >> m & 1) != 0) {
                continue;
            }
            struct message vote = {.kind = MESSAGE_VOTE, .round = round, .number = scene.proposal};
            vote.root = scene.record.commit.root;
            scene_say(m, vote);
        }
    }
    return beats;
}

int play_round(void) {
    play_train();
    int beats = play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    return beats;
}

/* One more round, in which the last member may have no seat. Returns the number of seats. */
uint32_t play_judged_round(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 400 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    uint32_t seats = scene.head.seat_count;
    scene.table_version = 0;
    memset(scene.reports, 0, sizeof(scene.reports));
    play.earlier_proposal = scene.proposal;
    for (uint32_t seat = 0; seat < seats; seat++) {
        assert_int_equal(scene.head.seats[seat].id.bytes[0], seat + 1);
        declare(seat, play_samples_of(seat));
    }
    scene_beat(scene.head.round, 0);
    play.exchange_beats = play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    return seats;
}

uint32_t play_owned(uint32_t member) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        count += scene.plans_first[s].owner == member;
    }
    return count;
}

uint32_t play_slices_with(uint32_t member, bool is_optional) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        uint64_t seats =
            is_optional ? scene.plans_first[s].optional_seats : scene.plans_first[s].expected_seats;
        count += (seats >> member & 1) != 0;
    }
    return count;
}
