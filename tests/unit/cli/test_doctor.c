/* test_doctor: each defect of a machine is found by its own check, with a remedy, and a machine
 * without defects has none. */
#include "runtime/diagnose/doctor.h"

#include "build_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A machine with two GPUs that lacks nothing. */
static struct doctor_facts sound_machine(void) {
    struct doctor_facts facts = {.has_cuda = true,
                                 .has_gpu = true,
                                 .gpu_count = 2,
                                 .driver = "580.65.06",
                                 .driver_remedy = "install a newer driver",
                                 .cpu = "a CPU, 8 CPUs, avx2",
                                 .memory_bytes = 64ull << 30,
                                 .memory_free_bytes = 32ull << 30,
                                 .shared_memory_bytes = 16ull << 30,
                                 .memlock_bytes = UINT64_MAX,
                                 .open_files_max = 1 << 20,
                                 .is_clock_synchronized = true,
                                 .unix_s = 1.8e9};
    for (int i = 0; i < DOCTOR_FOLDERS; i++) {
        facts.folders[i] = (struct doctor_folder){
            .use = "state", .path = "/var/lib/skep", .is_writable = true, .free_bytes = 9ull << 30};
    }
    return facts;
}

/* Only the check called `name` has this verdict and a remedy; the others are ok. NULL: all are. */
static void assert_defect(const struct doctor_facts *facts, const char *name,
                          enum doctor_verdict verdict) {
    struct doctor_report report;
    int defects = 0;
    doctor_judge(facts, &report);
    for (int i = 0; i < report.count; i++) {
        const struct doctor_check *check = &report.checks[i];
        assert_true(check->found[0] != '\0');
        assert_int_equal(check->remedy[0] != '\0', check->verdict != DOCTOR_OK);
        if (check->verdict != DOCTOR_OK) {
            assert_non_null(name);
            assert_string_equal(check->name, name);
            assert_int_equal(check->verdict, verdict);
            defects++;
        }
    }
    assert_int_equal(defects, name != NULL);
    assert_int_equal(report.failed, name != NULL && verdict == DOCTOR_FAILED);
}

static void a_sound_machine_has_no_defect(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    assert_defect(&facts, NULL, DOCTOR_OK);
    facts.has_gpu = false;
    facts.gpu_count = 0;
    facts.driver[0] = '\0';
    facts.memlock_bytes = 64 << 10;
    facts.shared_memory_bytes = 0;
    assert_defect(&facts, NULL, DOCTOR_OK);
}

static void a_gpu_that_is_not_used_is_a_warning(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    facts.gpu_count = 0;
    assert_defect(&facts, "device", DOCTOR_WARNING);
    facts.has_cuda = false;
    assert_defect(&facts, "device", DOCTOR_WARNING);
}

static void an_old_driver_fails(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    snprintf(facts.driver, sizeof facts.driver, "%d.99", CUDA_DRIVER_BRANCH_MIN - 1);
    assert_defect(&facts, "driver", DOCTOR_FAILED);
    snprintf(facts.driver, sizeof facts.driver, "%d", CUDA_DRIVER_BRANCH_MIN);
    assert_defect(&facts, NULL, DOCTOR_OK);
    facts.driver[0] = '\0';
    assert_defect(&facts, "driver", DOCTOR_WARNING);
}

static void small_memory_and_limits_are_warnings(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    facts.memory_free_bytes = 1 << 20;
    assert_defect(&facts, "memory", DOCTOR_WARNING);
    facts = sound_machine();
    facts.is_overcommit_strict = true;
    assert_defect(&facts, "overcommit", DOCTOR_WARNING);
    facts = sound_machine();
    facts.memlock_bytes = 8 << 20;
    assert_defect(&facts, "memlock", DOCTOR_WARNING);
    facts = sound_machine();
    facts.open_files_max = 1024;
    assert_defect(&facts, "open files", DOCTOR_WARNING);
    facts = sound_machine();
    facts.shared_memory_bytes = 64 << 20; /* the default of a container */
    assert_defect(&facts, "shared memory", DOCTOR_WARNING);
}

static void a_folder_without_space_or_permission_is_found(void **state) {
    (void)state;
    for (int i = 0; i < DOCTOR_FOLDERS; i++) {
        struct doctor_facts facts = sound_machine();
        facts.folders[i].free_bytes = 1 << 20;
        assert_defect(&facts, "disk", DOCTOR_WARNING);
        facts.folders[i].is_writable = false;
        assert_defect(&facts, "disk", DOCTOR_FAILED);
        facts.folders[i].path[0] = '\0';
        assert_defect(&facts, "disk", DOCTOR_FAILED);
    }
}

static void the_port_and_the_clock_are_checked(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    facts.port_error = EADDRINUSE;
    assert_defect(&facts, "port", DOCTOR_WARNING);
    facts.port_error = EACCES;
    assert_defect(&facts, "port", DOCTOR_WARNING);
    facts = sound_machine();
    facts.is_clock_synchronized = false;
    assert_defect(&facts, "clock", DOCTOR_WARNING);
    facts.unix_s = 86400;
    assert_defect(&facts, "clock", DOCTOR_FAILED);
}

static void a_delegation_that_ends_soon_is_a_warning(void **state) {
    (void)state;
    struct doctor_facts facts = sound_machine();
    facts.swarm = (struct doctor_swarm){.is_checked = true, .left = "8 days"};
    assert_defect(&facts, NULL, DOCTOR_OK);
    facts.swarm.is_expiring = true;
    assert_defect(&facts, "delegation", DOCTOR_WARNING);
    facts.swarm = (struct doctor_swarm){
        .is_checked = true, .problem = "it has expired", .remedy = "sign a new one"};
    assert_defect(&facts, "delegation", DOCTOR_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_machine_has_no_defect),
        cmocka_unit_test(a_gpu_that_is_not_used_is_a_warning),
        cmocka_unit_test(an_old_driver_fails),
        cmocka_unit_test(small_memory_and_limits_are_warnings),
        cmocka_unit_test(a_delegation_that_ends_soon_is_a_warning),
        cmocka_unit_test(a_folder_without_space_or_permission_is_found),
        cmocka_unit_test(the_port_and_the_clock_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
