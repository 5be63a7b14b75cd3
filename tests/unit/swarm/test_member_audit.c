/* Audits of slices that a member draws or that the tracker names: what it fetches, compares, and
 * votes. The test speaks for the tracker and for the other two members. */
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/member_machine/member_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS = 3, SLICES = 6, ALL = (1 << SEATS) - 1, SESSION = 7, TOKENS = 16 };
enum { PATIENCE_TICKS = 100 }; /* longer than any wait */

static struct scene {
    struct member *member;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    struct action job; /* of the compute thread: the newest one */
    struct entry open, proposal;
    struct entry_slice slices[SLICES];
    struct round_table table;
    struct slice_plan plans[SLICES];
    struct hash nodes[SEATS][3 * SLICES]; /* trees over the contributions */
    uint32_t fetched_slice;               /* of the newest request for a contribution */
    uint64_t fetched_seats;               /* seats that were asked for one since the proposal */
} scene;

static struct identity id_of(uint32_t seat) {
    return (struct identity){{(uint8_t)(seat + 1)}};
}

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, 0, &scene.actions);
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        scene.job = action->job != 0 ? *action : scene.job;
        if (action->kind == ACTION_SEND && action->message.kind == MESSAGE_FETCH_CONTRIBUTION) {
            scene.fetched_slice = action->message.slice;
            scene.fetched_seats |= UINT64_C(1) << (action->to.bytes[0] - 1);
        }
    }
}

static void hear(struct message message) {
    message.session = SESSION;
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static const struct action *find(enum action_kind kind) {
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        if (scene.rows[i].kind == kind) {
            return &scene.rows[i];
        }
    }
    return NULL;
}

static const struct message *vote(void) {
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        if (scene.rows[i].kind == ACTION_SEND && scene.rows[i].message.kind == MESSAGE_VOTE) {
            return &scene.rows[i].message;
        }
    }
    return NULL;
}

static struct hash hash_of_slice(uint32_t seat, uint32_t slice) {
    const uint32_t words[] = {seat, slice};
    return hash_of(words, sizeof words);
}

static void make_round(void) {
    scene.open = (struct entry){
        .kind = ENTRY_OPEN, .round = 1, .seat_count = SEATS, .hash = {{5}}, .reference_norm = 1};
    scene.table = (struct round_table){
        .round = 1, .version = 1, .declared_seats = ALL, .slices = scene.plans};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        scene.open.seats[seat] = (struct entry_seat){.id = id_of(seat),
                                                     .session = SESSION + seat,
                                                     .range_count = 1,
                                                     .ranges = {{2 * seat, 2 * seat + 2}}};
        for (uint32_t s = 0; s < SLICES; s++) {
            const struct hash hash = hash_of_slice(seat, s);
            scene.nodes[seat][s] = contribution_leaf(&hash, 0);
        }
        merkle_list_build(scene.nodes[seat], SLICES);
        scene.table.roots[seat] = merkle_tree_root(scene.nodes[seat], SLICES);
        scene.table.members[seat] =
            (struct entry_member){.tokens = TOKENS, .weight = TOKENS, .samples = 2, .norm = 1};
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = s % SEATS, .expected_seats = ALL};
        scene.slices[s] = (struct entry_slice){
            .owner = s % SEATS, .contributors = ALL, .hash = hash_of_slice(9, s)};
    }
}

/* The member has trained, and has the table. */
static void begin(bool has_sketches) {
    struct member_initial_state start = {.id = id_of(0),
                                         .start_id = 5,
                                         .slice_count = SLICES,
                                         .sample_tokens = TOKENS / 2,
                                         .has_sketches = has_sketches,
                                         .audit_secret = {{1}}};
    free(scene.member);
    memset(&scene, 0, sizeof scene);
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.member = member_init(aligned_alloc(64, member_memory_bytes(SLICES)), &start);
    make_round();
    hear((struct message){.kind = MESSAGE_WELCOME, .number = 5});
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.open});
    take(&(struct event){.kind = EVENT_TRAINED,
                         .round = 1,
                         .trained = {.tokens = TOKENS, .samples = 2, .norm = 1},
                         .root = merkle_tree_root(scene.nodes[0], SLICES)});
    hear((struct message){.kind = MESSAGE_TABLE, .round = 1, .table = &scene.table});
}

static void end_job(enum action_kind action, struct event event) {
    assert_int_equal(scene.job.kind, action);
    event.job = scene.job.job;
    take(&event);
}

/* All other members send their sketches under the seed of this request. */
static void give_sketches(void) {
    struct message requests[SEATS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        if (scene.rows[i].kind == ACTION_SEND &&
            scene.rows[i].message.kind == MESSAGE_FETCH_SKETCHES) {
            requests[count] = scene.rows[i].message;
            requests[count].from = scene.rows[i].to;
            requests[count++].kind = MESSAGE_SKETCHES;
        }
    }
    assert_int_equal(count, SEATS - 1);
    end_job(ACTION_SKETCH, (struct event){.kind = EVENT_SKETCHED});
    for (uint32_t i = 0; i < count; i++) {
        hear(requests[i]);
    }
}

/* The proposal with number `number`, up to the point where its sums are to be checked. */
static void propose(uint64_t number, uint32_t recheck, bool has_sketches) {
    static uint64_t holders[SLICES];
    scene.proposal = scene.open;
    scene.proposal.kind = ENTRY_COMMIT;
    scene.proposal.prev = scene.open.hash;
    scene.proposal.slices = scene.slices;
    scene.proposal.slice_count = SLICES;
    scene.proposal.result_count = SLICES;
    memcpy(scene.proposal.members, scene.table.members, sizeof scene.proposal.members);
    scene.fetched_seats = 0;
    hear((struct message){.kind = MESSAGE_PROPOSE,
                          .round = 1,
                          .number = number,
                          .entry = &scene.proposal,
                          .ballot.recheck = recheck,
                          .ballot.holders = holders});
    if (has_sketches) {
        give_sketches();
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        hear((struct message){.kind = MESSAGE_RESULT,
                              .from = id_of(s % SEATS),
                              .owner = id_of(s % SEATS),
                              .round = 1,
                              .slice = s,
                              .contributors = scene.slices[s].contributors,
                              .hash = hash_of_slice(9, s),
                              .values.norm = 1});
    }
    end_job(ACTION_ROOT, (struct event){.kind = EVENT_ROOT_COMPUTED, .root = {{3}}, .hash = {{4}}});
    end_job(ACTION_STORE, (struct event){.kind = EVENT_STORED, .write_outcome = WRITE_OK});
    if (has_sketches) {
        end_job(ACTION_CHECK, (struct event){.kind = EVENT_CHECKED, .slice = SLICES});
    }
}

static void give_contribution(uint32_t seat) {
    const double norms[SLICES] = {0};
    struct slice_proof proof;
    contribution_prove(scene.nodes[seat], norms, SLICES, scene.fetched_slice, &proof);
    hear((struct message){.kind = MESSAGE_CONTRIBUTION,
                          .from = id_of(seat),
                          .round = 1,
                          .slice = scene.fetched_slice,
                          .hash = hash_of_slice(seat, scene.fetched_slice),
                          .proof = &proof});
}

static void wait_until_vote(void) {
    for (uint32_t tick = 0; tick < PATIENCE_TICKS && vote() == NULL; tick++) {
        take(&(struct event){.kind = EVENT_TICK});
    }
    assert_non_null(vote());
}

static void end_recheck(enum refusal_reason reason, uint32_t suspect) {
    end_job(ACTION_RECHECK, (struct event){.kind = EVENT_RECHECKED,
                                           .refusal = {.reason = reason, .suspect = suspect}});
}

static void assert_votes(uint32_t reason) {
    assert_non_null(vote());
    assert_int_equal(vote()->ballot.refusal.reason, reason);
    assert_int_equal(hash_is_zero(&vote()->root), reason != REFUSAL_NONE);
}

static void without_a_recheck_nothing_is_fetched(void **state) {
    (void)state;
    for (int has_sketches = 0; has_sketches < 2; has_sketches++) {
        begin(has_sketches == 1);
        propose(1, RECHECK_NONE, has_sketches == 1);
        assert_votes(REFUSAL_NONE);
        assert_int_equal(scene.fetched_seats, 0);
    }
}

static void only_the_owners_contribution_is_compared_with_its_sketch(void **state) {
    (void)state;
    begin(true);
    propose(1, RECHECK_SLICE + 4, true);
    assert_null(vote());
    assert_int_equal(scene.fetched_slice, 4);
    assert_int_equal(scene.fetched_seats, 1 << 1);
    give_contribution(1);
    assert_int_equal(find(ACTION_RECHECK)->slice, 4);
    assert_int_equal(find(ACTION_RECHECK)->contributors, 1 << 1);
    end_recheck(REFUSAL_NONE, 0);
    assert_votes(REFUSAL_NONE);

    propose(2, RECHECK_SLICE + 4, true);
    give_contribution(1);
    end_recheck(REFUSAL_SKETCH, 1);
    assert_votes(REFUSAL_SKETCH);
    const struct identity owner = id_of(1);
    assert_int_equal(vote()->slice, 4);
    assert_int_equal(vote()->ballot.refusal.suspect, 1);
    assert_memory_equal(&vote()->owner, &owner, sizeof owner);
}

static void a_slice_without_its_owners_values_is_computed_from_all(void **state) {
    (void)state;
    begin(true);
    scene.slices[4].contributors = 5;
    propose(1, RECHECK_SLICE + 4, true);
    assert_int_equal(scene.fetched_seats, 1 << 2);
    give_contribution(2);
    assert_int_equal(find(ACTION_RECHECK)->contributors, 5);
    end_recheck(REFUSAL_NONE, 0);
    assert_votes(REFUSAL_NONE);
    propose(2, RECHECK_SLICE + 3, true); /* its own slice, which the others audit */
    assert_votes(REFUSAL_NONE);
    assert_int_equal(scene.fetched_seats, 0);
}

static void a_member_that_drew_a_slice_fetches_it_at_once_or_votes(void **state) {
    (void)state;
    uint32_t audits = 0;
    begin(true);
    for (uint64_t number = 1; number <= 64; number++) {
        propose(number, RECHECK_DRAWN, true);
        if (scene.fetched_seats != 0) {
            assert_null(vote());
            assert_int_equal(scene.fetched_seats, 1 << scene.slices[scene.fetched_slice].owner);
            give_contribution(scene.slices[scene.fetched_slice].owner);
            end_recheck(REFUSAL_NONE, 0);
            audits++;
        }
        assert_votes(REFUSAL_NONE);
    }
    /* 8 x 0.25 % of 8 slices: 0.16 of the proposals */
    assert_in_range(audits, 2, 24);
}

static void sums_of_int4_are_computed_from_all_contributions(void **state) {
    (void)state;
    begin(false);
    propose(1, RECHECK_SLICE + 5, false);
    assert_int_equal(scene.fetched_seats, 6); /* it has its own */
    give_contribution(2);
    assert_null(find(ACTION_RECHECK));
    give_contribution(1);
    assert_int_equal(find(ACTION_RECHECK)->contributors, ALL);
    end_recheck(REFUSAL_SUM, 2);
    assert_votes(REFUSAL_SUM);
    assert_int_equal(vote()->slice, 5);
}

static void an_owner_that_withholds_its_contribution_is_named(void **state) {
    (void)state;
    for (int has_sketches = 0; has_sketches < 2; has_sketches++) {
        begin(has_sketches == 1);
        propose(1, RECHECK_SLICE + 4, has_sketches == 1);
        give_contribution(2); /* not needed with sketches */
        wait_until_vote();
        assert_votes(REFUSAL_WITHHELD);
        assert_int_equal(vote()->ballot.refusal.suspect, 1);
    }
}

static void a_contributor_that_is_late_is_not_named(void **state) {
    (void)state;
    begin(false);
    propose(1, RECHECK_SLICE + 4, false);
    give_contribution(1);
    wait_until_vote();
    assert_votes(REFUSAL_UNPROVEN);

    uint64_t number = 1;
    do {
        propose(++number, RECHECK_DRAWN, false);
    } while (scene.fetched_seats == 0);
    give_contribution(scene.slices[scene.fetched_slice].owner);
    wait_until_vote();
    assert_votes(REFUSAL_NONE); /* what this member drew is of no concern to the others */
}

static void bytes_that_were_not_declared_are_not_compared(void **state) {
    (void)state;
    begin(true);
    propose(1, RECHECK_SLICE + 4, true);
    const double norms[SLICES] = {0};
    struct slice_proof proof;
    contribution_prove(scene.nodes[1], norms, SLICES, 4, &proof);
    hear((struct message){.kind = MESSAGE_CONTRIBUTION,
                          .from = id_of(1),
                          .round = 1,
                          .slice = 4,
                          .hash = hash_of_slice(1, 3),
                          .proof = &proof});
    assert_null(find(ACTION_RECHECK));
    assert_null(find(ACTION_KEEP_BYTES));
    give_contribution(1);
    assert_non_null(find(ACTION_RECHECK));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_recheck_nothing_is_fetched),
        cmocka_unit_test(only_the_owners_contribution_is_compared_with_its_sketch),
        cmocka_unit_test(a_slice_without_its_owners_values_is_computed_from_all),
        cmocka_unit_test(a_member_that_drew_a_slice_fetches_it_at_once_or_votes),
        cmocka_unit_test(sums_of_int4_are_computed_from_all_contributions),
        cmocka_unit_test(an_owner_that_withholds_its_contribution_is_named),
        cmocka_unit_test(a_contributor_that_is_late_is_not_named),
        cmocka_unit_test(bytes_that_were_not_declared_are_not_compared),
    };
    int failed = cmocka_run_group_tests_name("member_audit", tests, NULL, NULL);
    free(scene.member);
    return failed;
}
