/* What a member does so that no contribution is of use to another member: it sends its own only
 * once there is a table, and rejects slices that were part of contributions to earlier rounds. */
#include "runtime/swarm/member_machine/member_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS = 3, SLICES = 6, OWN = SLICES / SEATS, ALL = (1 << SEATS) - 1, SESSION = 7 };
enum { SAMPLE_TOKENS = 8, TOKENS = 2 * SAMPLE_TOKENS };

/* Member 0 of three, which owns the first slices, between a tracker and two members that a test
 * speaks for. */
static struct scene {
    struct member *member;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    uint32_t round; /* newest round */
    uint32_t sum;   /* job of the sum in progress; 0: none */
    struct entry open, end;
    struct hash root; /* of its state */
    struct round_table table;
    struct slice_plan plans[SLICES];
    struct hash hashes[SEATS][SLICES]; /* of the encoded contributions to the round */
    double norms[SEATS][SLICES];
    struct hash nodes[SEATS][3 * SLICES]; /* trees over the contributions */
} scene;

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, 0, &scene.actions);
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        scene.sum = scene.rows[i].kind == ACTION_SUM ? scene.rows[i].job : scene.sum;
    }
}

static void hear(struct message message) {
    message.session = SESSION;
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static const struct action *find(enum action_kind kind) {
    const struct action *found = NULL;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        found = found == NULL && scene.rows[i].kind == kind ? &scene.rows[i] : found;
    }
    return found;
}

/* The messages of a kind that were sent to a seat. */
static uint32_t count_sent(enum message_kind kind, uint32_t seat, const struct message **last) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        if (action->kind == ACTION_SEND && action->message.kind == kind && !action->to_tracker &&
            action->to.bytes[0] == seat + 1) {
            *last = &action->message;
            count++;
        }
    }
    return count;
}

static struct identity id_of(uint32_t seat) {
    return (struct identity){{(uint8_t)(seat + 1)}};
}

static struct hash hash_of_words(uint32_t seat, uint32_t slice, uint32_t round) {
    const uint32_t words[] = {seat, slice, round};
    return hash_of(words, sizeof words);
}

static void begin(void) {
    struct member_initial_state start = {
        .id = id_of(0), .start_id = 5, .slice_count = SLICES, .sample_tokens = SAMPLE_TOKENS};
    free(scene.member);
    memset(&scene, 0, sizeof scene);
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.member = member_init(aligned_alloc(64, member_memory_bytes(SLICES)), &start);
    hear((struct message){.kind = MESSAGE_WELCOME, .number = 5});
}

/* Each member trains, and makes a new contribution with a norm of 1. */
static void open_round(void) {
    scene.round++;
    scene.open = (struct entry){.kind = ENTRY_OPEN,
                                .round = scene.round,
                                .seat_count = SEATS,
                                .root = scene.root,
                                .hash = {{(uint8_t)scene.round, 5}},
                                .reference_norm = 1};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        scene.open.seats[seat] = (struct entry_seat){.id = id_of(seat),
                                                     .session = SESSION + seat,
                                                     .range_count = 1,
                                                     .ranges = {{2 * seat, 2 * seat + 2}}};
        for (uint32_t s = 0; s < SLICES; s++) {
            scene.hashes[seat][s] = hash_of_words(seat, s, scene.round);
            scene.norms[seat][s] = 0.4;
        }
    }
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.open});
    assert_non_null(find(ACTION_TRAIN));
}

static void train(void) {
    take(&(struct event){.kind = EVENT_TRAINED,
                         .round = scene.round,
                         .trained = {.tokens = TOKENS, .samples = 2, .norm = 1},
                         .root = {{1}}});
}

static void say_table(void) {
    scene.table = (struct round_table){
        .round = scene.round, .version = 1, .declared_seats = ALL, .slices = scene.plans};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        for (uint32_t s = 0; s < SLICES; s++) {
            scene.nodes[seat][s] = contribution_leaf(&scene.hashes[seat][s], scene.norms[seat][s]);
        }
        merkle_list_build(scene.nodes[seat], SLICES);
        scene.table.roots[seat] = merkle_tree_root(scene.nodes[seat], SLICES);
        scene.table.members[seat] =
            (struct entry_member){.tokens = TOKENS, .weight = TOKENS, .samples = 2, .norm = 1};
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = s / OWN, .expected_seats = ALL};
    }
    hear((struct message){.kind = MESSAGE_TABLE, .round = scene.round, .table = &scene.table});
}

/* Whether the member adds the contribution of a seat to slice 0. */
static bool is_added(uint32_t seat) {
    struct slice_proof proof;
    contribution_prove(scene.nodes[seat], scene.norms[seat], SLICES, 0, &proof);
    hear((struct message){.kind = MESSAGE_CONTRIBUTION,
                          .from = id_of(seat),
                          .round = scene.round,
                          .hash = scene.hashes[seat][0],
                          .proof = &proof,
                          .values.norm = scene.norms[seat][0]});
    const bool is_kept = find(ACTION_KEEP_BYTES) != NULL;
    take(&(struct event){.kind = EVENT_TICK});
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *report = &scene.rows[i].message;
        if (scene.rows[i].kind == ACTION_SEND && report->kind == MESSAGE_REPORT) {
            const struct slice_report *row = &report->report.rows[0];
            assert_int_equal(row->received_seats >> seat & 1, 1);
            assert_int_equal(row->rejected_seats >> seat & 1, !is_kept);
            assert_int_equal(row->repeated_seats >> seat & 1, !is_kept);
        }
    }
    return is_kept;
}

static void end_round_without(uint32_t unused_seats, enum entry_kind kind) {
    struct entry *end = &scene.end;
    *end = scene.open;
    end->kind = kind;
    end->prev = scene.open.hash;
    end->root = (struct hash){{(uint8_t)scene.round, (uint8_t)kind, 9}};
    end->result_count = SLICES;
    for (uint32_t seat = 0; seat < SEATS && kind == ENTRY_COMMIT; seat++) {
        end->members[seat] = scene.table.members[seat];
        end->members[seat].contributed = (unused_seats >> seat & 1) != 0 ? 0 : SLICES;
    }
    end->signature_count = 2;
    end->signatures[1].seat = 1;
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = end, .root = scene.root});
    if (scene.sum > 0) {
        take(&(struct event){.kind = EVENT_SUMMED, .job = scene.sum});
        scene.sum = 0;
    }
    if (kind == ENTRY_ABORT) {
        return;
    }
    const struct action *adopt = find(ACTION_ADOPT);
    assert_non_null(adopt);
    scene.root = end->root;
    take(&(struct event){.kind = EVENT_APPLIED, .job = adopt->job, .root = scene.root});
}

static void end_round(enum entry_kind kind) {
    end_round_without(0, kind);
}

static void next_round(void) {
    open_round();
    train();
}

/* In the next round, the second member repeats what another one contributed to slice 0. */
static bool is_repetition_added(uint32_t seat, uint32_t round) {
    next_round();
    scene.hashes[1][0] = hash_of_words(seat, 0, round);
    say_table();
    return is_added(1);
}

static void exchange(void) {
    next_round();
    say_table();
    assert_true(is_added(1));
    assert_true(is_added(2));
}

static void ask(uint32_t seat, uint32_t slice, uint32_t epoch) {
    hear((struct message){.kind = MESSAGE_FETCH_CONTRIBUTION,
                          .from = id_of(seat),
                          .round = scene.round,
                          .slice = slice,
                          .epoch = epoch});
}

static void a_contribution_is_sent_only_once_there_is_a_table(void **state) {
    (void)state;
    const struct message *sent = NULL;
    for (int order = 0; order < 2;
         order++) { /* the request comes before the training ends, or after */
        begin();
        open_round();
        if (order == 0) {
            ask(1, 2, 3);
            train();
        } else {
            train();
            ask(1, 2, 3);
        }
        assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), 0);
        take(&(struct event){.kind = EVENT_TICK});
        assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), 0);
        say_table();
        assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), 1);
        assert_int_equal(sent->slice, 2);
        assert_int_equal(sent->epoch, 3);
        assert_int_equal(sent->round, 1);
        assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 2, &sent), 0);
        ask(1, 3, 0); /* from now on, at once */
        assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), 1);
        assert_int_equal(sent->slice, 3);
    }
}

static void a_member_holds_as_many_requests_as_others_may_have_open(void **state) {
    (void)state;
    const struct message *sent = NULL;
    begin();
    next_round();
    for (uint32_t slice = 0; slice < SLICES; slice++) { /* the newest replace the oldest */
        ask(1, slice, 0);
        ask(1, slice, 0);
        ask(2, 5, slice); /* the same one, with the newest epoch */
    }
    say_table();
    assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), CONTRIBUTION_SLOTS_PER_MEMBER);
    assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 2, &sent), 1);
    assert_int_equal(sent->slice, 5);
    assert_int_equal(sent->epoch, SLICES - 1);
    uint32_t slices = 0;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        bool is_first = action->kind == ACTION_SEND && action->to.bytes[0] == 2 &&
                        action->message.kind == MESSAGE_CONTRIBUTION;
        slices |= is_first ? 1U << action->message.slice : 0;
    }
    assert_int_equal(slices, 0x3c);
}

static void requests_of_an_ended_round_are_dropped(void **state) {
    (void)state;
    const struct message *sent = NULL;
    begin();
    next_round();
    ask(1, 2, 0);
    end_round(ENTRY_ABORT);
    ask(1, 2, 0);
    next_round();
    say_table();
    assert_int_equal(count_sent(MESSAGE_CONTRIBUTION, 1, &sent), 0);
}

static void a_slice_of_an_earlier_commit_is_rejected_whoever_made_it(void **state) {
    (void)state;
    for (uint32_t seat = 1; seat <= 2; seat++) {
        begin();
        exchange();
        end_round(ENTRY_COMMIT);
        assert_false(is_repetition_added(seat, 1));
        assert_true(is_added(2));
        end_round(ENTRY_COMMIT);
        exchange(); /* what is new is added as before */
    }
}

static void a_slice_is_remembered_for_eight_commits(void **state) {
    (void)state;
    for (uint32_t rounds = 1; rounds <= REPEAT_ROUNDS; rounds++) {
        begin();
        for (uint32_t i = 0; i < rounds; i++) {
            exchange();
            end_round(ENTRY_COMMIT);
        }
        assert_false(is_repetition_added(2, 1));
    }
}

/* Two members with equal data may have equal contributions. */
static void equal_slices_of_one_round_are_added(void **state) {
    (void)state;
    begin();
    next_round();
    scene.hashes[1][0] = scene.hashes[2][0];
    say_table();
    assert_true(is_added(2));
    assert_true(is_added(1));
}

static void a_member_may_repeat_what_it_declared_in_an_aborted_round(void **state) {
    (void)state;
    for (uint32_t seat = 1; seat <= 2; seat++) {
        begin();
        exchange();
        end_round(ENTRY_ABORT);
        assert_true(is_repetition_added(seat, 1) == (seat == 1));
    }
}

/* The contribution of the second member arrived, and no slice of the commit has it. */
static void a_member_may_repeat_what_a_commit_lacks(void **state) {
    (void)state;
    for (uint32_t seat = 1; seat <= 2; seat++) {
        begin();
        exchange();
        end_round_without(1U << seat, ENTRY_COMMIT);
        assert_true(is_repetition_added(seat, 1) == (seat == 1));
    }
}

static void nothing_from_before_a_rollback_is_remembered(void **state) {
    (void)state;
    begin();
    exchange();
    end_round(ENTRY_COMMIT);
    end_round(ENTRY_ROLLBACK);
    assert_true(is_repetition_added(2, 1));
}

/* The parameters of rare tokens only decay, and zeros are always equal. */
static void equal_slices_without_effect_are_added(void **state) {
    (void)state;
    const double bound = 1 / (16 * 2.449489742783178); /* the square root of the six slices */
    const double norms[] = {0, 0.99 * bound, 1.01 * bound};
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        begin();
        exchange();
        end_round(ENTRY_COMMIT);
        next_round();
        scene.hashes[1][0] = hash_of_words(2, 0, 1);
        scene.norms[1][0] = norms[i];
        say_table();
        assert_true(is_added(1) == (norms[i] < bound));
    }
}

static int free_scene(void **state) {
    (void)state;
    free(scene.member);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contribution_is_sent_only_once_there_is_a_table),
        cmocka_unit_test(a_member_holds_as_many_requests_as_others_may_have_open),
        cmocka_unit_test(requests_of_an_ended_round_are_dropped),
        cmocka_unit_test(a_slice_of_an_earlier_commit_is_rejected_whoever_made_it),
        cmocka_unit_test(a_slice_is_remembered_for_eight_commits),
        cmocka_unit_test(equal_slices_of_one_round_are_added),
        cmocka_unit_test(a_member_may_repeat_what_it_declared_in_an_aborted_round),
        cmocka_unit_test(a_member_may_repeat_what_a_commit_lacks),
        cmocka_unit_test(nothing_from_before_a_rollback_is_remembered),
        cmocka_unit_test(equal_slices_without_effect_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
