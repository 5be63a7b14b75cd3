/* What a member makes of declared norms: tables and proposals whose weights do not follow from
 * them, slices with another norm than declared, results that no mean can be, and states that are
 * not finite. */
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/member_machine/member_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEATS = 3, SLICES = 6, OWN = SLICES / SEATS, ALL = (1 << SEATS) - 1, SESSION = 7 };
enum { SAMPLE_TOKENS = 8, TOKENS = 2 * SAMPLE_TOKENS };

/* Member 0 of three in round 1, between a tracker and two members that a test speaks for. */
static struct scene {
    struct member *member;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    struct entry open, proposal;
    struct entry_slice slices[SLICES];
    struct round_table table;
    struct slice_plan plans[SLICES];
    struct hash nodes[SEATS][3 * SLICES]; /* trees over the contributions */
} scene;

static bool has_guest;       /* the second member is one, in rounds that open from now on */
static uint64_t sent_values; /* of a sparse codec, for members that begin from now on */

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, 0, &scene.actions);
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

static const struct message *sent(enum message_kind kind) {
    const struct message *found = NULL;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        found =
            action->kind == ACTION_SEND && action->message.kind == kind ? &action->message : found;
    }
    return found;
}

static struct identity id_of(uint32_t seat) {
    return (struct identity){{(uint8_t)(seat + 1)}};
}

static struct hash result_hash(uint32_t slice) {
    return (struct hash){{(uint8_t)(50 + slice)}};
}

static struct hash declared_hash(uint32_t seat, uint32_t slice) {
    const uint32_t words[] = {seat, slice};
    return hash_of(words, sizeof words);
}

/* Makes the tree over the contribution of a seat, which declares `norm` for its first slice. */
static void declare(uint32_t seat, double norm) {
    for (uint32_t s = 0; s < SLICES; s++) {
        const struct hash hash = declared_hash(seat, s);
        scene.nodes[seat][s] = contribution_leaf(&hash, s == 0 ? norm : 0);
    }
    merkle_list_build(scene.nodes[seat], SLICES);
    scene.table.roots[seat] = merkle_tree_root(scene.nodes[seat], SLICES);
}

/* Gives the first slice of a seat's contribution, whose values have the norm `norm`. */
static void give_contribution(uint32_t seat, double declared_norm, double norm) {
    const double norms[SLICES] = {declared_norm};
    struct slice_proof proof;
    contribution_prove(scene.nodes[seat], norms, SLICES, 0, &proof);
    hear((struct message){.kind = MESSAGE_CONTRIBUTION,
                          .from = id_of(seat),
                          .round = 1,
                          .hash = declared_hash(seat, 0),
                          .proof = &proof,
                          .values.norm = norm});
}

static void open_round(void) {
    scene.open = (struct entry){
        .kind = ENTRY_OPEN, .round = 1, .seat_count = SEATS, .hash = {{5}}, .reference_norm = 1};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        scene.open.seats[seat] = (struct entry_seat){.id = id_of(seat),
                                                     .session = SESSION + seat,
                                                     .is_guest = has_guest && seat == 1,
                                                     .range_count = 1,
                                                     .ranges = {{2 * seat, 2 * seat + 2}}};
    }
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.open});
    take(&(struct event){.kind = EVENT_TRAINED,
                         .round = 1,
                         .trained = {.tokens = TOKENS, .samples = 2, .norm = 1},
                         .root = merkle_tree_root(scene.nodes[0], SLICES)});
}

static void make_table(void) {
    scene.table = (struct round_table){
        .round = 1, .version = 1, .declared_seats = ALL, .slices = scene.plans};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        scene.table.roots[seat] = merkle_tree_root(scene.nodes[seat], SLICES);
        scene.table.members[seat] =
            (struct entry_member){.tokens = TOKENS, .weight = TOKENS, .samples = 2, .norm = 1};
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = s / OWN, .expected_seats = ALL};
    }
}

static void begin(void) {
    struct member_initial_state start = {
        .id = id_of(0), .start_id = 5, .slice_count = SLICES, .sample_tokens = SAMPLE_TOKENS};
    start.sent_values = sent_values;
    free(scene.member);
    memset(&scene, 0, sizeof scene);
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    scene.member = member_init(aligned_alloc(64, member_memory_bytes(SLICES)), &start);
    struct message welcome = {.kind = MESSAGE_WELCOME, .number = 5};
    hear(welcome);
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        declare(seat, 1);
    }
    open_round();
    make_table();
}

static void say_table(void) {
    hear((struct message){.kind = MESSAGE_TABLE, .round = 1, .table = &scene.table});
}

static void begin_exchange(void) {
    begin();
    say_table();
}

/* Whether the member has taken the table: it then requests what it needs. */
static bool has_taken_table(void) {
    say_table();
    return sent(MESSAGE_FETCH_CONTRIBUTION) != NULL;
}

static void make_proposal(void) {
    scene.proposal = scene.open;
    scene.proposal.kind = ENTRY_COMMIT;
    scene.proposal.prev = scene.open.hash;
    scene.proposal.slices = scene.slices;
    scene.proposal.slice_count = SLICES;
    scene.proposal.result_count = SLICES;
    memcpy(scene.proposal.members, scene.table.members, sizeof scene.proposal.members);
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.slices[s] =
            (struct entry_slice){.owner = s / OWN, .contributors = ALL, .hash = result_hash(s)};
    }
}

static void give_values(uint32_t slice, struct message_values values) {
    hear((struct message){.kind = MESSAGE_RESULT,
                          .from = id_of(slice / OWN),
                          .owner = id_of(slice / OWN),
                          .round = 1,
                          .slice = slice,
                          .contributors = ALL,
                          .hash = result_hash(slice),
                          .values = values});
}

static void give_result(uint32_t slice, double norm) {
    give_values(slice, (struct message_values){.norm = norm});
}

/* Says the proposal and gives all results. Returns the ROOT job, or NULL if there is none. */
static const struct action *propose(void) {
    static uint64_t holders[SLICES];
    hear((struct message){.kind = MESSAGE_PROPOSE,
                          .round = 1,
                          .number = 1,
                          .entry = &scene.proposal,
                          .ballot.holders = holders});
    for (uint32_t s = 0; s < SLICES; s++) {
        give_result(s, 1);
    }
    return find(ACTION_ROOT);
}

static void a_table_is_taken_only_with_weights_that_follow_from_it(void **state) {
    (void)state;
    begin();
    scene.table.members[1].weight = TOKENS - 1;
    assert_false(has_taken_table());
    scene.table.members[1].weight = TOKENS;
    scene.table.members[1].samples = 3; /* more than it was assigned */
    assert_false(has_taken_table());
    scene.table.members[1].samples = 1; /* the weight is that of two samples */
    assert_false(has_taken_table());
    scene.table.members[1].samples = 2;
    scene.table.members[1].norm = 9; /* above the bound */
    assert_false(has_taken_table());
    scene.table.members[1].norm = 0; /* without effect */
    assert_false(has_taken_table());
    scene.table.members[1].weight = 0; /* the tracker has taken it */
    assert_true(has_taken_table());
}

static struct message report_after_heartbeat(void) {
    take(&(struct event){.kind = EVENT_TICK});
    assert_non_null(sent(MESSAGE_REPORT));
    return *sent(MESSAGE_REPORT);
}

static uint32_t reported_version(void) {
    return report_after_heartbeat().version;
}

/* Says a table that has the plan of slice 0 only, as it is read from a message with a base. */
static void say_difference(uint32_t base, uint32_t version, uint32_t owner, uint64_t expected) {
    static struct slice_plan plans[SLICES];
    plans[0] = (struct slice_plan){
        .owner = owner, .epoch = version, .expected_seats = expected, .version = version};
    struct round_table table = {.round = 1, .version = version, .slices = plans};
    hear((struct message){.kind = MESSAGE_TABLE, .round = 1, .version = base, .table = &table});
}

static void a_table_with_a_base_changes_only_the_plans_that_it_has(void **state) {
    (void)state;
    begin();
    say_difference(1, 2, 1, ALL); /* there is no base yet */
    assert_int_equal(reported_version(), 0);
    say_table();
    say_difference(2, 3, 1, ALL); /* the member does not have version 2 */
    assert_int_equal(reported_version(), 1);
    say_difference(1, 2, 1, ALL | 8); /* an undeclared seat */
    assert_int_equal(reported_version(), 1);
    say_difference(1, 3, 1, ALL & ~4);
    assert_null(find(ACTION_SUM));
    assert_int_equal(reported_version(), 3);
    say_difference(1, 4, 1, ALL); /* what has changed since an older version */
    assert_int_equal(reported_version(), 4);
    say_difference(2, 5, 0, ALL & ~4);
    const struct message *request = sent(MESSAGE_FETCH_CONTRIBUTION);
    assert_non_null(request);
    assert_int_equal(request->slice, 0);
    assert_int_equal(request->epoch, 5);
    for (uint32_t seat = 1; seat < SEATS; seat++) {
        give_contribution(seat, 1, 1);
    }
    assert_int_equal(reported_version(), 5);
}

static void confirm(uint64_t number) {
    hear((struct message){.kind = MESSAGE_CONFIRM, .number = number});
}

static void a_report_has_what_the_tracker_has_not_confirmed(void **state) {
    (void)state;
    begin_exchange();
    struct message report = report_after_heartbeat();
    assert_int_equal(report.report.parts, REPORT_ALL - REPORT_REPEATED);
    assert_int_equal(report.report.base, 0);
    confirm(report.number);
    confirm(report.number + 1); /* there is no such report */
    const uint64_t confirmed = report.number;
    report = report_after_heartbeat();
    assert_int_equal(report.report.parts, 0);
    assert_int_equal(report.report.base, confirmed);
    give_contribution(1, 1, 1);
    for (int i = 0; i < 2; i++) { /* until it is confirmed */
        report = report_after_heartbeat();
        assert_int_equal(report.report.base, confirmed);
        assert_true((report.report.parts & REPORT_ROWS) != 0);
        for (uint32_t s = 0; s < SLICES; s++) {
            assert_int_equal(report.report.rows[s].changed > confirmed, s == 0);
        }
    }
    confirm(report.number);
    assert_int_equal(report_after_heartbeat().report.parts & REPORT_ROWS, 0);
    confirm(0); /* the tracker has restarted */
    report = report_after_heartbeat();
    assert_int_equal(report.report.base, 0);
    assert_true((report.report.parts & (REPORT_ROWS | REPORT_POSITION)) ==
                (REPORT_ROWS | REPORT_POSITION));
}

static void a_proposal_is_accepted_only_with_the_weights_of_the_table(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        begin_exchange();
        make_proposal();
        scene.proposal.members[1].weight -= i == 1;
        scene.proposal.members[2].norm *= i == 2 ? 1.5 : 1;
        scene.proposal.members[2].samples -= i == 3;
        scene.proposal.reference_norm = i == 4 ? 1.5 : 1;
        const struct action *root = propose();
        assert_true((root != NULL) == (i == 0));
    }
}

/* The rows of a commit name its results. Without them the state itself is fetched, although the
 * commit applies to the member's state. */
static void a_commit_without_its_rows_is_fetched_as_a_state(void **state) {
    (void)state;
    for (int has_rows = 0; has_rows <= 1; has_rows++) {
        begin_exchange();
        make_proposal();
        scene.proposal.root.bytes[0] = 50;
        scene.proposal.slice_count = has_rows ? SLICES : 0;
        scene.proposal.signature_count = entry_votes_needed(&scene.proposal);
        for (uint32_t i = 0; i < scene.proposal.signature_count; i++) {
            scene.proposal.signatures[i].seat = i;
        }
        hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.proposal});
        assert_true((find(ACTION_ADOPT) == NULL) == has_rows);
    }
}

/* The norm of the whole contributions is 1. */
static void a_slice_without_its_declared_norm_is_not_added(void **state) {
    (void)state;
    static const struct {
        double declared, norm;
        bool is_added;
    } CASES[] = {{1, 1, true},
                 {0.2, 0.2, true},
                 {1.00001, 1.00001, false},
                 {0.5, 0.50001, false},
                 {0.5, 0.49999, false},
                 {1e38, 1e38, false},
                 {1, (double)INFINITY, false}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        begin();
        declare(1, CASES[i].declared);
        say_table();
        give_contribution(1, CASES[i].declared, CASES[i].norm);
        give_contribution(2, 1, 1);
        const struct action *sum = find(ACTION_SUM);
        assert_non_null(sum);
        assert_int_equal(sum->contributors, CASES[i].is_added ? ALL : ALL & ~2);
        assert_true(sum->table->reference_norm == 1);
    }
}

/* It is requested again. */
static void a_slice_without_a_valid_proof_does_not_count_as_received(void **state) {
    (void)state;
    begin_exchange();
    give_contribution(2, 1, 1);
    give_contribution(1, 0.5, 0.5); /* the path belongs to another norm */
    assert_null(find(ACTION_KEEP_BYTES));
    assert_null(find(ACTION_SUM));
    give_contribution(1, 1, 1);
    assert_non_null(find(ACTION_KEEP_BYTES));
    assert_non_null(find(ACTION_SUM));
}

static void a_result_that_no_mean_can_be_is_not_kept(void **state) {
    (void)state;
    begin_exchange();
    give_result(OWN, 5);
    assert_null(find(ACTION_KEEP_BYTES));
    give_result(OWN, 3.9);
    assert_non_null(find(ACTION_KEEP_BYTES));
}

/* What a quorum has committed is applied, whatever its size. */
static void a_committed_result_is_kept_in_any_case(void **state) {
    (void)state;
    begin_exchange();
    make_proposal();
    scene.proposal.signature_count = 2;
    scene.proposal.signatures[1].seat = 1;
    scene.proposal.root = (struct hash){{8}};
    hear((struct message){.kind = MESSAGE_ENTRY, .entry = &scene.proposal});
    give_result(OWN, 1000);
    assert_non_null(find(ACTION_KEEP_BYTES));
}

static void a_state_that_is_not_finite_is_refused_and_not_stored(void **state) {
    (void)state;
    begin_exchange();
    make_proposal();
    const struct action *root = propose();
    assert_non_null(root);
    take(&(struct event){.kind = EVENT_ROOT_COMPUTED, .job = root->job});
    assert_null(find(ACTION_STORE));
    for (int i = 0; i < 2; i++) { /* at once, and again with each heartbeat */
        const struct message *vote = sent(MESSAGE_VOTE);
        assert_non_null(vote);
        assert_int_equal(vote->number, 1);
        assert_true(hash_is_zero(&vote->root) && hash_is_zero(&vote->hash));
        take(&(struct event){.kind = EVENT_TICK});
        assert_null(find(ACTION_ROOT)); /* it is not computed again */
    }
}

/* Makes the list of slice OWN, whose contributions have a norm of 0. */
static void make_list(struct listed_contribution listed[static SEATS]) {
    static const double NORMS[SLICES] = {1};
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        listed[seat] = (struct listed_contribution){.part = {.weight = TOKENS, .clip = 1},
                                                    .hash = declared_hash(seat, OWN)};
        contribution_prove(scene.nodes[seat], NORMS, SLICES, OWN, &listed[seat].part.proof);
    }
}

static bool is_list_kept(const struct listed_contribution *listed, double value_limit) {
    give_values(OWN, (struct message_values){.value_limit = value_limit, .listed = listed});
    return find(ACTION_KEEP_BYTES) != NULL;
}

static void a_list_is_kept_only_as_its_members_declared_it(void **state) {
    (void)state;
    sent_values = 64;
    for (int lie = 0; lie < 8; lie++) {
        struct listed_contribution listed[SEATS];
        begin_exchange();
        make_list(listed);
        double limit = norms_value_limit(1, sent_values);
        listed[2].part.weight += lie == 1;
        listed[2].part.clip = lie == 2 ? 0.5F : 1;
        listed[0].hash.bytes[3] ^= lie == 3;
        listed[2].norm = lie == 4 ? 0.5 : 0;
        listed[1].norm = listed[1].part.proof.norm = lie == 5 ? 1e-300 : 0;
        listed[1] = lie == 6 ? listed[2] : listed[1]; /* in the seat of another member */
        limit *= lie == 7 ? 1.5 : 1;
        assert_true(is_list_kept(listed, limit) == (lie == 0));
    }
    sent_values = 0;
}

static uint64_t ask_for_list(uint64_t left_out) {
    hear((struct message){.kind = MESSAGE_FETCH_RESULT,
                          .from = id_of(2),
                          .round = 1,
                          .slice = OWN,
                          .values.left_out = left_out});
    assert_non_null(sent(MESSAGE_RESULT));
    return sent(MESSAGE_RESULT)->values.left_out;
}

static void lists_are_sent_without_the_receivers_own_contribution(void **state) {
    (void)state;
    struct listed_contribution listed[SEATS];
    sent_values = 64;
    begin_exchange();
    assert_int_equal(sent(MESSAGE_FETCH_RESULT)->values.left_out, 1);
    assert_int_equal(sent(MESSAGE_FETCH_RESULT)->values.expected, 2);
    make_list(listed);
    assert_true(is_list_kept(listed, norms_value_limit(1, sent_values)));
    assert_int_equal(ask_for_list(4), 4);
    assert_int_equal(ask_for_list(0), 0);
    assert_int_equal(ask_for_list(2), 0); /* that of another member */
    sent_values = 0;
}

static int free_scene(void **state) {
    (void)state;
    free(scene.member);
    return 0;
}

/* The tracker says that the second member is a guest, and gives it slices all the same. */
static void a_table_in_which_a_guest_owns_slices_is_refused(void **state) {
    (void)state;
    for (uint32_t owners = 1; owners <= 2; owners++) {
        has_guest = true;
        begin();
        has_guest = false;
        for (uint32_t s = 0; s < SLICES && owners == 1; s++) {
            scene.plans[s].owner = scene.plans[s].owner == 1 ? 0 : scene.plans[s].owner;
        }
        say_table();
        assert_int_equal(reported_version(), owners == 1 ? 1 : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_taken_only_with_weights_that_follow_from_it),
        cmocka_unit_test(a_table_in_which_a_guest_owns_slices_is_refused),
        cmocka_unit_test(a_table_with_a_base_changes_only_the_plans_that_it_has),
        cmocka_unit_test(a_report_has_what_the_tracker_has_not_confirmed),
        cmocka_unit_test(a_proposal_is_accepted_only_with_the_weights_of_the_table),
        cmocka_unit_test(a_commit_without_its_rows_is_fetched_as_a_state),
        cmocka_unit_test(a_slice_without_its_declared_norm_is_not_added),
        cmocka_unit_test(a_slice_without_a_valid_proof_does_not_count_as_received),
        cmocka_unit_test(a_result_that_no_mean_can_be_is_not_kept),
        cmocka_unit_test(a_committed_result_is_kept_in_any_case),
        cmocka_unit_test(a_state_that_is_not_finite_is_refused_and_not_stored),
        cmocka_unit_test(a_list_is_kept_only_as_its_members_declared_it),
        cmocka_unit_test(lists_are_sent_without_the_receivers_own_contribution),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
