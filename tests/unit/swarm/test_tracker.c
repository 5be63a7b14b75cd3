/* test_tracker: the tracker's machine by hand: who owns what, where orphans go, deadlines that
 * follow what was measured, and the run's end. What faults do to it is the simulator's. */
#include "runtime/swarm/tracker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES = 16, MEMBERS = 5, SEATS_ALL = (1 << MEMBERS) - 1 };

static const struct hash ROOT = {{1}}; /* nothing here changes it */
static uint32_t members_min = MEMBERS;

/* A tracker with its disk, which never fails, and what it said last to whom. */
static struct scene {
    struct tracker *tracker;
    struct tracker_record record;
    struct entry_slice slices[SLICES];
    struct slice_plan plans[SLICES];
    struct hash hashes[SWARM_MEMBERS_MAX * SLICES];
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    int64_t now_ms;
    uint64_t number;
    uint8_t entries; /* appended so far */
    struct entry head;
    struct slice_plan table[SLICES]; /* as it was said */
    uint32_t table_version;
    uint32_t ask;
    uint64_t goodbyes; /* by member */
    struct slice_report reports[MEMBERS][SLICES];
    struct timing_measured measured[MEMBERS];
    uint64_t cut[MEMBERS];
    uint32_t adopting; /* members whose state is on its way */
} scene;

static void take(const struct event *event);

static void do_action(const struct action *action) {
    if (action->kind == ACTION_WRITE) {
        struct event written = {.kind = EVENT_WRITTEN};
        written.hash.bytes[0] = ++scene.entries;
        if (action->entry != NULL) {
            scene.head = *action->entry;
        }
        take(&written);
        return;
    }
    const struct message *message = &action->message;
    scene.ask = message->kind == MESSAGE_ASK ? message->ask : scene.ask;
    if (message->kind == MESSAGE_TABLE) {
        scene.table_version = message->table->version;
        memcpy(scene.table, message->table->slices, sizeof(scene.table));
    } else if (message->kind == MESSAGE_GOODBYE) {
        scene.goodbyes |= UINT64_C(1) << (action->to.bytes[0] - 1);
    }
}

/* One event; a write that it causes ends at once, and is the last that it causes. */
static void take(const struct event *event) {
    scene.actions.count = 0;
    tracker_step(scene.tracker, event, scene.now_ms, &scene.actions);
    uint32_t count = scene.actions.count;
    for (uint32_t i = 0; i < count; i++) {
        struct action action = scene.rows[i];
        do_action(&action);
    }
}

static void say(uint32_t member, struct message message) {
    message.from.bytes[0] = (uint8_t)(member + 1);
    message.session = message.kind == MESSAGE_HELLO ? 0 : member + 1;
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static void report(uint32_t member, uint32_t round) {
    int is_adopting = (scene.adopting >> member & 1) != 0;
    say(member, (struct message){.kind = MESSAGE_REPORT,
                                 .number = ++scene.number,
                                 .root = is_adopting ? (struct hash){{0}} : ROOT,
                                 .round = round,
                                 .version = scene.table_version,
                                 .ask = scene.ask,
                                 .cut = scene.cut[member],
                                 .measured = scene.measured[member],
                                 .reports = scene.reports[member]});
}

/* A heartbeat of everybody but those in `silent`. */
static void beat(uint32_t round, uint32_t silent) {
    scene.now_ms += 100;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if ((silent >> m & 1) == 0) {
            report(m, round);
        }
    }
    take(&(struct event){.kind = EVENT_TICK});
}

static void begin(uint32_t commits_max) {
    free(scene.tracker);
    memset(&scene, 0, sizeof(scene));
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.record.commit.slices = scene.slices;
    scene.record.table.slices = scene.plans;
    scene.record.table.hashes = scene.hashes;
    scene.record.session_next = 1;
    scene.record.commit.root = ROOT;
    scene.record.head.root = ROOT;
    struct tracker_settings settings = {.slice_count = SLICES,
                                        .slice_elements = 100,
                                        .parameter_count = 100 * SLICES - 50,
                                        .seat_samples = 8,
                                        .sample_tokens = 1,
                                        .members_min = members_min,
                                        .commits_max = commits_max,
                                        .training = {30, 2},
                                        .timing = {100, 1000, 1000, 5000, 60000}};
    scene.tracker = aligned_alloc(64, tracker_bytes(&settings));
    scene.tracker = tracker_init(scene.tracker, &settings, &scene.record, 0);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene.measured[m].up_kib_s = TIMING_UNKNOWN;
        say(m, (struct message){.kind = MESSAGE_HELLO, .number = 70 + m});
    }
}

/* Up to the table of the next round. */
static void open_and_declare(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 50 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        beat(round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    struct hash hashes[SLICES] = {0};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        say(m,
            (struct message){
                .kind = MESSAGE_DECLARE, .round = scene.head.round, .tokens = 8, .hashes = hashes});
    }
    beat(scene.head.round, 0);
    assert_true(scene.table_version > 0);
}

/* The open round ends by its age. */
static void end_round(void) {
    for (int i = 0; i < 1000 && scene.head.kind == ENTRY_OPEN; i++) {
        beat(scene.head.round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
}

static void count_owned(uint32_t counts[MEMBERS]) {
    memset(counts, 0, MEMBERS * sizeof(*counts));
    for (int s = 0; s < SLICES; s++) {
        assert_true(scene.table[s].owner < MEMBERS);
        counts[scene.table[s].owner] += 1;
    }
}

static void slices_are_dealt_by_what_members_can_send(void **state) {
    (void)state;
    static const struct {
        uint32_t up[MEMBERS];
        uint32_t owned[MEMBERS];
    } CASES[] = {
        /* 16/6 = 2.67 and 5.33: the first has the larger remainder */
        {{1000, 2000, 3000, 0, 0}, {3, 5, 8, 0, 0}},
        {{0, 0, 0, 0, 0}, {4, 3, 3, 3, 3}},
        {{5, 0, 0, 0, 0}, {16, 0, 0, 0, 0}},
        /* 200 for those who do not know: 16/12 = 1.33, thrice 2.67, and 6.67, remainders alike */
        {{100, 200, TIMING_UNKNOWN, TIMING_UNKNOWN, 500}, {1, 3, 3, 3, 6}},
        {{UINT32_MAX - 1, UINT32_MAX - 1, 1, 0, 0}, {8, 8, 0, 0, 0}},
        /* within half as much again of the median, 1000, all are taken for equal */
        {{700, 1499, 1000, 1100, 0}, {4, 4, 4, 4, 0}},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        uint32_t counts[MEMBERS];
        begin(0);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            scene.measured[m].up_kib_s = CASES[i].up[m];
        }
        open_and_declare();
        count_owned(counts);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            if (counts[m] != CASES[i].owned[m]) {
                fail_msg("case %zu: member %u owns %u slices", i, m, counts[m]);
            }
        }
    }
}

/* The dead owner's four slices are spread by what each can send and still has to do. */
static void orphans_go_to_whoever_is_done_soonest(void **state) {
    (void)state;
    uint32_t counts[MEMBERS];
    begin(0);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene.measured[m].up_kib_s = m == 4 ? 0 : 1000;
    }
    open_and_declare();
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) { /* all but one of what seats 1 and 2 own is summed */
        uint32_t owner = scene.table[s].owner;
        int is_last = s == SLICES - 1 || scene.table[s + 1].owner != owner;
        if ((owner == 1 || owner == 2) && !is_last) {
            scene.reports[owner][s] =
                (struct slice_report){.held = 1, .received = SEATS_ALL, .contributors = SEATS_ALL};
        }
    }
    beat(round, 0);
    take(&(struct event){.kind = EVENT_CLOSED, .peer = {{1}}});
    assert_true(scene.ask > 0); /* does anybody hold a result of his? */
    beat(round, 1);
    count_owned(counts);
    assert_int_equal(scene.table_version, 3); /* 2: his contributions are not waited for */
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[3], 4); /* has four to do himself */
    assert_int_equal(counts[1] + counts[2], 12);
    assert_int_equal(counts[1], 6);
    assert_int_equal(counts[4], 0);
    for (int s = 0; s < 4; s++) {
        assert_int_equal(scene.table[s].epoch, 1);
        assert_int_equal(scene.table[s].expected, SEATS_ALL & ~1);
    }
}

/* The proposal that was said in the last step, or NULL. */
static const struct message *proposed(void) {
    const struct message *found = NULL;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        found = message->kind == MESSAGE_PROPOSE ? message : found;
    }
    return found;
}

/* A result that its owner does not have yet is nobody's, whoever says so; an owner's own word for
 * what it is counts before others'. */
static void results_that_nobody_can_have_are_not_proposed(void **state) {
    (void)state;
    begin(0);
    open_and_declare();
    uint32_t round = scene.head.round;
    uint32_t owner = scene.table[0].owner;
    uint32_t liar = scene.table[SLICES - 1].owner;
    assert_int_not_equal(owner, liar);
    struct slice_report held = {.held = 1, .received = SEATS_ALL, .contributors = SEATS_ALL};
    for (int s = 1; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] = held;
    }
    held.hash.bytes[0] = 66;
    scene.reports[liar][0] = held;
    for (int i = 0; i < 3; i++) {
        beat(round, 0);
        assert_null(proposed());
    }
    held.hash.bytes[0] = 7;
    scene.reports[owner][0] = held;
    report(owner, round);
    assert_non_null(proposed());
    assert_int_equal(proposed()->entry->slices[0].hash.bytes[0], 7);
}

/* Everybody has everything else, and nobody votes. */
static void what_one_alone_has_of_a_dead_owner_is_summed_again(void **state) {
    (void)state;
    begin(0);
    open_and_declare();
    uint32_t round = scene.head.round;
    uint32_t liar = scene.table[SLICES - 1].owner;
    for (int s = 0; s < SLICES; s++) {
        for (uint32_t m = 1; m < MEMBERS; m++) {
            scene.reports[m][s].held = scene.table[s].owner != 0 || m == liar;
        }
    }
    assert_int_equal(scene.table[0].owner, 0);
    take(&(struct event){.kind = EVENT_CLOSED, .peer = {{1}}});
    for (int i = 0; i < 100 && scene.table[0].epoch == 0; i++) {
        beat(round, 1);
    }
    assert_int_equal(scene.table[0].epoch, 1);
    assert_int_not_equal(scene.table[0].owner, 0);
}

/* One of the two says it. Neither waits for the other, and from the next round on neither owns what
 * the other would be left out of. */
static void a_pair_that_is_cut_waits_for_nobody(void **state) {
    (void)state;
    begin(0);
    open_and_declare();
    scene.cut[3] = 1 << 1;
    report(3, scene.head.round);
    assert_int_equal(scene.table_version, 2);
    for (int s = 0; s < SLICES; s++) {
        uint32_t owner = scene.table[s].owner;
        uint64_t cut = owner == 1 ? 1 << 3 : owner == 3 ? 1 << 1 : 0;
        assert_int_equal(scene.table[s].epoch, 0);
        assert_int_equal(scene.table[s].expected, SEATS_ALL & ~cut);
    }
    end_round();
    open_and_declare();
    for (int s = 0; s < SLICES; s++) {
        assert_true(scene.table[s].owner != 1 && scene.table[s].owner != 3);
        assert_int_equal(scene.table[s].expected, SEATS_ALL);
    }
}

static void who_reaches_nobody_owns_nothing(void **state) {
    (void)state;
    begin(0);
    open_and_declare();
    scene.cut[2] = SEATS_ALL & ~(1 << 2);
    report(2, scene.head.round);
    for (int s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, 2);
        assert_int_equal(scene.table[s].expected, SEATS_ALL & ~(1 << 2));
    }
    uint32_t version = scene.table_version;
    beat(scene.head.round, 0);
    assert_int_equal(scene.table_version, version);
}

/* Heartbeats until the next round opens. */
static int beats_to_next(void) {
    end_round();
    int count = 0;
    for (uint32_t round = scene.head.round; scene.head.round == round && count < 1000; count++) {
        beat(0, 0);
    }
    return count;
}

/* Two rounds go on without it, then it is waited for: as long as four exchanges may stand still, or
 * until it is there. */
static void who_never_comes_by_the_state_is_waited_for_once(void **state) {
    (void)state;
    enum { SOON = 5, HELD = 4 * 5000 / 100 };
    members_min = MEMBERS - 1;
    begin(0);
    members_min = MEMBERS;
    while (scene.head.kind != ENTRY_OPEN) {
        beat(0, 0);
    }
    assert_true(beats_to_next() < SOON);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    scene.adopting = 1 << 4;
    assert_true(beats_to_next() < SOON);
    assert_true(beats_to_next() < SOON);
    assert_in_range(beats_to_next(), HELD, HELD + SOON);
    assert_true(beats_to_next() < SOON);
    assert_int_equal(scene.head.seat_count, MEMBERS - 1);
    scene.adopting = 0;
    assert_true(beats_to_next() < SOON);
    assert_int_equal(scene.head.seat_count, MEMBERS);
}

static void deadlines_follow_what_members_measured(void **state) {
    (void)state;
    const struct timing_measured *rows = NULL;
    begin(0);
    assert_int_equal(tracker_timing(scene.tracker)->train_ms, 1000);
    assert_int_equal(tracker_measured(scene.tracker, &rows), 0);
    for (uint32_t m = 0; m < 3; m++) {
        scene.measured[m] = (struct timing_measured){100 + 10 * m, 2000, 120, 1000};
    }
    scene.measured[3] = (struct timing_measured){9000, 0, 0, 1000}; /* has exchanged nothing yet */
    open_and_declare();
    assert_int_equal(tracker_measured(scene.tracker, &rows), 3);
    const struct swarm_timing *timing = tracker_timing(scene.tracker);
    assert_int_equal(timing->train_ms, 2 * 120 * 30);
    assert_int_equal(timing->exchange_ms, 3 * 2000 + 4 * 120);
    assert_int_equal(timing->heartbeat_ms, 120);
    assert_int_equal(scene.head.deadline_ms, 2 * 120 * 30);
}

/* A round by hand: results are at their owners, everybody votes alike. */
static void the_run_ends_with_its_last_commit(void **state) {
    (void)state;
    begin(1);
    open_and_declare();
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] =
            (struct slice_report){.held = 1, .received = SEATS_ALL, .contributors = SEATS_ALL};
    }
    beat(round, 0);
    uint64_t number = 0;
    for (uint32_t i = 0; i < ACTIONS_MAX; i++) {
        const struct message *message = &scene.rows[i].message;
        number = message->kind == MESSAGE_PROPOSE ? message->number : number;
    }
    assert_true(number > 0);
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(scene.head.kind, ENTRY_OPEN); /* two are no quorum of five */
        struct message vote = {.kind = MESSAGE_VOTE, .round = round, .number = number};
        vote.root = ROOT;
        say(m, vote);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.commits, 1);
    assert_int_equal(scene.head.signature_count, 3);
    assert_int_equal(scene.head.slices[SLICES - 1].begin, 100 * (SLICES - 1));
    assert_int_equal(scene.head.slices[SLICES - 1].end, 100 * SLICES - 50);
    assert_int_equal(scene.head.slices[0].weight, 5 * 8);
    beat(0, 0);
    assert_int_equal(scene.goodbyes, SEATS_ALL);
    for (int i = 0; i < 100; i++) {
        beat(0, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_dealt_by_what_members_can_send),
        cmocka_unit_test(orphans_go_to_whoever_is_done_soonest),
        cmocka_unit_test(results_that_nobody_can_have_are_not_proposed),
        cmocka_unit_test(what_one_alone_has_of_a_dead_owner_is_summed_again),
        cmocka_unit_test(a_pair_that_is_cut_waits_for_nobody),
        cmocka_unit_test(who_reaches_nobody_owns_nothing),
        cmocka_unit_test(who_never_comes_by_the_state_is_waited_for_once),
        cmocka_unit_test(deadlines_follow_what_members_measured),
        cmocka_unit_test(the_run_ends_with_its_last_commit),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scene.tracker);
    return failed;
}
