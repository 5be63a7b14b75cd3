/* Tests of train/fit_report: each figure against what the swarm's own numbers make of it by hand,
 * and what is said when it does not fit. */
#include "runtime/cli/reports/reports.h"
#include "runtime/schedule/estimate.h"
#include "runtime/swarm_setup/member_session.h"
#include "scratch.h"
#include "swarm_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OVERRIDES_MAX = 4 };

static struct fault fault;
static struct region region;
static struct manifest_draft offer;
static struct manifest manifest;
static struct session session;
static struct swarm_terms terms;
static char buffer[FIT_REPORT_BYTES];

static int make_swarm(void **state) {
    int failed = scratch_open(state);
    if (failed == 0) {
        (void)swarm_fixture_make(&region, &offer, &manifest);
    }
    return failed;
}

static int forget_swarm(void **state) {
    region_finish(&region);
    return scratch_close(state);
}

static void expect_ok(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

/* On a machine that is described, not this one. */
static void read_site(int ranks, const char *first, const char *second) {
    const char *overrides[OVERRIDES_MAX] = {"target=cpu-zen5-2c-24g", first, second};
    int count = second != NULL ? 3 : first != NULL ? 2 : 1;
    session = (struct session){.ranks = ranks};
    expect_ok(
        member_session_or_run_read(&session, "heather.skep", overrides, count, &terms, &fault));
}

static void read_session(const char *first, const char *second) {
    read_site(0, first, second);
}

static void assert_near(double found, double wanted) {
    if (fabs(found - wanted) > 1e-9 * fabs(wanted)) {
        fail_msg("%.17g, not %.17g", found, wanted);
    }
}

static void figures_are_those_of_the_formulas(void **state) {
    (void)state;
    const struct fit_link link = {
        .round_trip_s = 0.02, .up_bytes_per_s = 1e6, .down_bytes_per_s = 5e6};
    struct fit_report *report = calloc(1, sizeof *report);
    assert_non_null(report);
    read_session(NULL, NULL);
    expect_ok(fit_report_make(&session, &terms, &link, 4, report, &fault));
    int64_t count = blueprint_elements(&offer.blueprint);
    /* int4: 4 bits each and a scale of 2 bytes for 64 */
    uint64_t encoded = (uint64_t)(count / 2 + (count + 63) / 64 * 2);
    assert_int_equal(count % 64, 0);
    assert_int_equal(report->exchange.up_bytes, encoded * 6 / 4);
    assert_int_equal(report->exchange.down_bytes, encoded * 6 / 4);
    struct segment_estimate step = estimate_step(&session.program.schedule, session.target);
    assert_near(report->train_s, 40 * step.seconds);
    assert_near(report->exchange_s, (double)(encoded * 6 / 4) / 1e6);
    assert_near((double)report->exchange.up_bytes / report->tenth_of_round_bytes_per_s,
                (report->train_s / 0.9) / 10);
    assert_near(report->round_s, report->train_s + report->exchange_s);
    assert_near(report->up_bytes_per_day, (double)(encoded * 6 / 4) * 86400 / report->round_s);
    assert_int_equal(report->join_bytes, 8 * count);
    assert_int_equal(report->misfit.status, OK);
    /* weights, momentum, feedback and two moments in fp32, and 1 MiB beside them */
    assert_int_equal(report->disk.snapshot_bytes, 20 * count + (1 << 20));
    assert_int_equal(report->disk.results_bytes, (9 + REPLAY_ROUNDS_MAX) * encoded);
    /* four states of params and momentum in fp32, each with its header and the hash of each leaf */
    uint64_t leaves = (8 * (uint64_t)count + LEAF_BYTES - 1) / LEAF_BYTES;
    assert_int_equal(report->disk.states_bytes, 4 * (8 * count + 64 + 32 * leaves));
    assert_int_equal(report->disk.peak_bytes,
                     report->disk.snapshot_bytes * report->disk.snapshot_count +
                         report->disk.results_bytes + report->disk.ledger_bytes +
                         report->disk.states_bytes + report->disk.export_bytes);
    assert_int_equal(report->space_count, 1);
    assert_int_equal(report->spaces[0].planned_bytes,
                     session.program.plan.peak_bytes[SPACE_DEVICE] +
                         session.program.plan.peak_bytes[SPACE_PINNED] +
                         session.program.plan.peak_bytes[SPACE_HOST]);
    session_finish(&session);
    free(report);
}

/* What rank 0 keeps lies on the machine once, whatever number of ranks its memory is shared by. */
static void a_site_takes_what_rank_0_keeps_once(void **state) {
    (void)state;
    const struct fit_link unknown = {.round_trip_s = 0};
    struct fit_report *report = calloc(1, sizeof *report);
    assert_non_null(report);
    read_session(NULL, NULL);
    uint64_t machine = session.target->spaces[SPACE_DEVICE].capacity_bytes;
    uint64_t others = target_declared_bytes(session.target, SPACE_DEVICE);
    session_finish(&session);
    for (int ranks = 2; ranks <= 5; ranks++) {
        struct text text = text_over(buffer, sizeof buffer);
        read_site(ranks, NULL, NULL);
        expect_ok(fit_report_make(&session, &terms, &unknown, 0, report, &fault));
        const struct fit_space *space = &report->spaces[0];
        /* ZeroMQ's line, of the last one declared, is rank 0's too */
        const struct target_space *of = &session.target->spaces[SPACE_DEVICE];
        uint64_t zeromq = of->declared[of->declared_use_count - 1].bytes;
        uint64_t once = space->swarm_bytes + zeromq;
        uint64_t each = space->capacity_bytes - once;
        uint64_t together = each * (uint64_t)ranks + once;
        assert_in_range(together, machine - (uint64_t)(ranks * ranks), machine); /* rounded down */
        together = (space->declared_bytes - zeromq) * (uint64_t)ranks + zeromq;
        assert_in_range(together, others, others + (uint64_t)(2 * ranks)); /* and up */
        assert_true(space->swarm_bytes > 4 * (uint64_t)blueprint_elements(&offer.blueprint) * 5);
        fit_report_append(report, &text);
        assert_non_null(
            strstr(buffer, ranks == 2 ? "arena of the other rank" : "arena of each other rank"));
        session_finish(&session);
    }
    free(report);
}

static void limits_slow_the_exchange_and_nobody_alone_exchanges(void **state) {
    (void)state;
    const struct fit_link fast = {
        .round_trip_s = 0.02, .up_bytes_per_s = 1e9, .down_bytes_per_s = 1e9};
    const struct fit_link unknown = {.round_trip_s = 0};
    struct fit_report *report = calloc(1, sizeof *report);
    assert_non_null(report);
    read_session("limits.up=100kB/s", "limits.down=1kB/s");
    expect_ok(fit_report_make(&session, &terms, &fast, 2, report, &fault));
    assert_near(report->exchange_s, (double)report->exchange.down_bytes / 1e3);
    session_finish(&session);
    read_session(NULL, NULL);
    expect_ok(fit_report_make(&session, &terms, &unknown, 0, report, &fault));
    assert_int_equal(report->exchange.members, 5);
    assert_true(report->exchange_s == 0 && report->exchange.up_bytes > 0);
    session_finish(&session);
    read_session(NULL, NULL);
    expect_ok(fit_report_make(&session, &terms, &fast, 1, report, &fault));
    assert_int_equal(report->exchange.up_bytes, 0);
    session_finish(&session);
    free(report);
}

static void text_shows_the_same_figures(void **state) {
    (void)state;
    struct text text = text_over(buffer, sizeof buffer);
    const struct fit_report_request request = {.terms = &terms, .members = 4};
    char expected[64], bytes[24];
    read_session(NULL, NULL);
    expect_ok(fit_report_write(&session, &request, &text, &fault));
    assert_false(text.truncated);
    snprintf(expected, sizeof expected, ", %s parameters\n",
             text_format_count((double)blueprint_elements(&offer.blueprint), bytes));
    assert_non_null(strstr(buffer, expected));
    assert_non_null(strstr(buffer, "7 rounds of "));
    snprintf(expected, sizeof expected, "; joining %s down, once\n",
             text_format_bytes(8 * (uint64_t)blueprint_elements(&offer.blueprint), bytes));
    assert_non_null(strstr(buffer, expected));
    assert_non_null(strstr(buffer, "\nfits\n"));
    assert_null(strstr(buffer, "\nlink "));
    session_finish(&session);
}

static void a_machine_that_is_too_small_is_told_what_would_fit(void **state) {
    (void)state;
    struct text text = text_over(buffer, sizeof buffer);
    const struct fit_report_request request = {.terms = &terms, .members = 4};
    uint64_t peak;
    char limit[64];
    read_session("batch.microbatch=6", NULL);
    expect_ok(session_compile(&session, PURPOSE_TRAIN, &fault));
    peak = session.program.plan.peak_bytes[SPACE_DEVICE] +
           target_declared_bytes(session.target, SPACE_DEVICE);
    session_finish(&session);
    snprintf(limit, sizeof limit, "limits.device=%llu", (unsigned long long)(peak - 4096));
    read_session("batch.microbatch=6", limit);
    assert_int_equal(fit_report_write(&session, &request, &text, &fault), STATUS_FIT);
    assert_int_equal(fault_exit_code(fault.status), 3);
    assert_non_null(strstr(buffer, "does not fit: the device arena needs "));
    assert_non_null(
        strstr(buffer, "changes with which the run fits, each planned:\n  batch.microbatch=3 "));
    /* What all members share is no remedy of one. */
    assert_null(strstr(buffer, "precision.moments"));
    assert_null(strstr(buffer, "batch.sequence"));
    session_finish(&session);
}

static void a_disk_that_is_too_small_is_said_too(void **state) {
    (void)state;
    struct text text = text_over(buffer, sizeof buffer);
    const struct fit_report_request request = {.terms = &terms, .members = 4};
    read_session("limits.disk=1MB", NULL);
    assert_int_equal(fit_report_write(&session, &request, &text, &fault), STATUS_FIT);
    assert_non_null(strstr(buffer, "does not fit: the snapshots and the export need "));
    assert_null(strstr(buffer, "each planned"));
    session_finish(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_formulas),
        cmocka_unit_test(a_site_takes_what_rank_0_keeps_once),
        cmocka_unit_test(limits_slow_the_exchange_and_nobody_alone_exchanges),
        cmocka_unit_test(text_shows_the_same_figures),
        cmocka_unit_test(a_machine_that_is_too_small_is_told_what_would_fit),
        cmocka_unit_test(a_disk_that_is_too_small_is_said_too),
    };
    return cmocka_run_group_tests(tests, make_swarm, forget_swarm);
}
