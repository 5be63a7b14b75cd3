/* launch_detect: what each launcher's environment says, and what is wrong with broken ones. */
#include "transport/site/launch.h"

#include "base/hash.h"
#include "words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DERIVED = -1 }; /* a port between LAUNCH_PORT_FIRST and its last */

struct good_case {
    const char *environment;
    int flag;
    struct launch_info wanted;
};

#define TORCH                                                                                      \
    "RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n0 MASTER_PORT=29500 "
#define MPI                                                                                        \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 "
#define MPI_TWO                                                                                    \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=1 "
#define STEP  "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=4 SLURM_NTASKS=7 SLURM_LOCALID=1 "
#define NODES "SLURM_NNODES=3 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=3(x2),1 "
#define LIST  "SLURM_STEP_NODELIST=gpu[03-05] "
#define CHILD                                                                                      \
    "SKEP_LAUNCHED=1 RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "   \
    "MASTER_PORT=4000 SKEP_JOB=99 SKEP_LISTENER=5 "

static const struct good_case GOOD[] = {
    /* nobody says anything */
    {"", 0, {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
    {"", 1, {0, 1, 0, 1, "", 0, "--ranks", 0, 0, 0}},
    {"", 4, {LAUNCH_PARENT, 4, 0, 4, "", 0, "--ranks", 0, 0, 0}},
    {"RANK= WORLD_SIZE=", 0, {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
    /* torchrun and what sets the same names */
    {TORCH, 0, {2, 4, 0, 2, "n0", 29500, "torchrun", 0, 0, 0}},
    {TORCH "TORCHELASTIC_USE_AGENT_STORE=True", 0, {2, 4, 0, 2, "n0", 29501, "torchrun", 0, 0, 0}},
    {TORCH "TORCHELASTIC_USE_AGENT_STORE=False", 0, {2, 4, 0, 2, "n0", 29500, "torchrun", 0, 0, 0}},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=65535 "
     "TORCHELASTIC_USE_AGENT_STORE=True",
     0,
     {1, 2, 1, 2, "127.0.0.1", 65534, "torchrun", 0, 0, 0}},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1",
     0,
     {1, 2, 1, 2, "localhost", 1, "torchrun", 0, 0, 0}},
    {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=job-0.svc MASTER_PORT=1",
     0,
     {1, 2, 0, 1, "job-0.svc", 1, "torchrun", 0, 0, 0}},
    {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=::1 MASTER_PORT=65535",
     0,
     {1, 2, 1, 2, "::1", 65535, "torchrun", 0, 0, 0}},
    {"RANK=0 WORLD_SIZE=1", 0, {0, 1, 0, 1, "", 0, "torchrun", 0, 0, 0}},
    {"RANK=1023 WORLD_SIZE=1024 MASTER_ADDR=h MASTER_PORT=9",
     0,
     {1023, 1024, 0, 1, "h", 9, "torchrun", 0, 0, 0}},
    /* the flag beats them */
    {TORCH, 3, {LAUNCH_PARENT, 3, 0, 3, "", 0, "--ranks", 0, 0, 0}},
    {TORCH, 1, {0, 1, 0, 1, "", 0, "--ranks", 0, 0, 0}},
    {STEP NODES LIST, 2, {LAUNCH_PARENT, 2, 0, 2, "", 0, "--ranks", 0, 0, 0}},
    /* a child of our own parent */
    {CHILD, 3, {0, 3, 0, 3, "127.0.0.1", 4000, "--ranks", 99, 5, 0}},
    {CHILD, 0, {0, 3, 0, 3, "127.0.0.1", 4000, "--ranks", 99, 5, 0}},
    {CHILD,
     2,
     {LAUNCH_PARENT, 2, 0, 2, "", 0, "--ranks", 0, 0, 0}}, /* it starts a run of its own */
    {CHILD STEP MPI, 3, {0, 3, 0, 3, "127.0.0.1", 4000, "--ranks", 99, 5, 0}},
    {"SKEP_LAUNCHED=1", 2, {LAUNCH_PARENT, 2, 0, 2, "", 0, "--ranks", 0, 0, 0}},
    /* OpenMPI */
    {MPI "OMPI_MCA_ess_base_jobid=2101084161",
     0,
     {1, 2, 1, 2, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}},
    {MPI "PMIX_NAMESPACE=prterun-a-1@1", 0, {1, 2, 1, 2, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}},
    {MPI "MASTER_PORT=7", 0, {1, 2, 1, 2, "127.0.0.1", 7, "OpenMPI", 0, 0, 0}},
    {MPI_TWO "MASTER_ADDR=a MASTER_PORT=7", 0, {1, 2, 0, 1, "a", 7, "OpenMPI", 0, 0, 0}},
    {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=1",
     0,
     {0, 1, 0, 1, "", 0, "OpenMPI", 0, 0, 0}},
    {MPI STEP "PMIX_NAMESPACE=9", 0, {1, 2, 1, 2, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}},
    {TORCH MPI, 0, {2, 4, 0, 2, "n0", 29500, "torchrun", 0, 0, 0}},
    /* Slurm */
    {STEP NODES LIST, 0, {4, 7, 1, 3, "gpu03", DERIVED, "Slurm", 0, 0, 0}},
    {STEP NODES "SLURM_JOB_NODELIST=a,b,c", 0, {4, 7, 1, 3, "a", DERIVED, "Slurm", 0, 0, 0}},
    {STEP NODES "SLURM_STEP_NODELIST=rack[1-2]n[09,11]-ib,x",
     0,
     {4, 7, 1, 3, "rack1n09-ib", DERIVED, "Slurm", 0, 0, 0}},
    {STEP NODES "SLURM_STEP_NODELIST=solo.cluster.org",
     0,
     {4, 7, 1, 3, "solo.cluster.org", DERIVED, "Slurm", 0, 0, 0}},
    {STEP NODES "MASTER_ADDR=m MASTER_PORT=8", 0, {4, 7, 1, 3, "m", 8, "Slurm", 0, 0, 0}},
    {STEP "SLURM_NNODES=1", 0, {4, 7, 1, 7, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}},
    {STEP, 0, {4, 7, 1, 7, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}},
    {STEP "SLURM_STEP_NUM_TASKS=5 SLURM_STEP_NUM_NODES=1 SLURM_NNODES=9",
     0,
     {4, 5, 1, 5, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}},
    {"SLURM_JOB_ID=1 SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_NTASKS=1",
     0,
     {0, 1, 0, 1, "", 0, "Slurm", 0, 0, 0}},
    {TORCH STEP, 0, {2, 4, 0, 2, "n0", 29500, "torchrun", 0, 0, 0}},
    /* not inside an srun step: a batch script, an interactive step, an allocation's shell */
    {"SLURM_JOB_ID=77 SLURM_PROCID=0 SLURM_NTASKS=8", 0, {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_PROCID=0 SLURM_NTASKS=8",
     0,
     {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
    {"SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=8",
     0,
     {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
    {"SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_NTASKS=8", 0, {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}},
};

static void launchers_are_understood(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(GOOD); i++) {
        const struct good_case *row = &GOOD[i];
        struct launch_info place;
        struct fault fault = {.reason = ""};
        enum status status = launch_detect_from(
            row->flag, words_variable, (void *)(uintptr_t)row->environment, &place, &fault);
        if (status != OK) {
            fail_msg("case %zu (%s): %s: %s", i, row->environment, fault.subject, fault.reason);
        }
        bool port = row->wanted.port == DERIVED
                        ? place.port >= LAUNCH_PORT_FIRST &&
                              place.port < LAUNCH_PORT_FIRST + LAUNCH_PORT_COUNT
                        : place.port == row->wanted.port;
        bool job = row->wanted.job == 0 || place.job == row->wanted.job;
        if (place.rank != row->wanted.rank || place.world != row->wanted.world ||
            place.local_rank != row->wanted.local_rank ||
            place.local_world != row->wanted.local_world || !port || !job ||
            place.listener != row->wanted.listener || place.join_timeout_ms != 0 ||
            strcmp(place.address, row->wanted.address) != 0 ||
            strcmp(place.source, row->wanted.source) != 0) {
            fail_msg("case %zu (%s): rank %d of %d, local %d of %d, at %s:%d by %s", i,
                     row->environment, place.rank, place.world, place.local_rank, place.local_world,
                     place.address, place.port, place.source);
        }
    }
}

struct bad_case {
    const char *environment;
    const char *place;  /* the variable that is blamed */
    const char *reason; /* a part of what is said */
};

static const struct bad_case BAD[] = {
    {"WORLD_SIZE=4", "RANK", "is not set"},
    {"RANK=0", "WORLD_SIZE", "is not set"},
    {"RANK=0 WORLD_SIZE=2", "MASTER_ADDR", "is not set"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "MASTER_PORT", "is not set"},
    {"RANK=2 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", "\"2\" is not a whole number"},
    {"RANK=-1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", "from 0 to 1"},
    {"RANK=+1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", "\"+1\""},
    {"RANK=1x WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK", "\"1x\""},
    {"RANK=0 WORLD_SIZE=0", "WORLD_SIZE", "from 1 to 1024"},
    {"RANK=0 WORLD_SIZE=1025", "WORLD_SIZE", "\"1025\""},
    {"RANK=0 WORLD_SIZE=99999999999999999999", "WORLD_SIZE", "9999"},
    {"RANK=0 WORLD_SIZE=two", "WORLD_SIZE", "\"two\""},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=0", "MASTER_PORT", "from 1 to 65535"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=65536", "MASTER_PORT", "\"65536\""},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=http", "MASTER_PORT", "\"http\""},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 LOCAL_RANK=0", "LOCAL_WORLD_SIZE", "not set"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 LOCAL_WORLD_SIZE=2", "LOCAL_RANK", "not set"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2",
     "LOCAL_RANK", "from 0 to 1"},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3",
     "LOCAL_WORLD_SIZE", "from 1 to 2"},
    {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE", "is not set"},
    {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK", "is not set"},
    {MPI_TWO, "MASTER_ADDR", "is not set"},
    {MPI_TWO "MASTER_ADDR=a", "MASTER_PORT", "is not set"},
    {MPI, "MASTER_PORT", "is not set"}, /* nothing to derive it from */
    {"SLURM_STEP_ID=0 SLURM_PROCID=0", "SLURM_NTASKS", "is not set"},
    {"SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_NTASKS=7", "SLURM_PROCID", "from 0 to 6"},
    {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=7", "SLURM_LOCALID", "is not set"},
    {"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=7 SLURM_LOCALID=0", "SLURM_JOB_ID", "not set"},
    {STEP "SLURM_NNODES=2", "SLURM_TASKS_PER_NODE", "is not set"},
    {STEP "SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4,3", "SLURM_NODEID", "is not set"},
    {STEP "SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4 SLURM_NODEID=1", "SLURM_TASKS_PER_NODE",
     "does not give a valid number"},
    {STEP "SLURM_NNODES=2 SLURM_TASKS_PER_NODE=junk SLURM_NODEID=1", "SLURM_TASKS_PER_NODE",
     "does not give a valid number"},
    {STEP "SLURM_NNODES=2 SLURM_TASKS_PER_NODE=999999999999(x999999999999) SLURM_NODEID=1",
     "SLURM_TASKS_PER_NODE", "does not give a valid number"},
    {STEP NODES, "SLURM_JOB_NODELIST", "is not set"},
    {STEP NODES "SLURM_JOB_NODELIST=gpu[03-05", "SLURM_JOB_NODELIST", "does not begin"},
    {STEP NODES "SLURM_JOB_NODELIST=gpu[]", "SLURM_JOB_NODELIST", "does not begin"},
    {STEP NODES "SLURM_JOB_NODELIST=,a", "SLURM_JOB_NODELIST", "does not begin"},
    {STEP NODES "SLURM_JOB_NODELIST=a;b", "SLURM_JOB_NODELIST", "does not begin"},
    {"SKEP_LAUNCHED=1 RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 SKEP_LISTENER=x",
     "SKEP_LISTENER", "\"x\""},
    {"SKEP_LAUNCHED=1 RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 SKEP_JOB=-3", "SKEP_JOB",
     "\"-3\""},
};

static void broken_environments_are_named_and_leave_the_place_untouched(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        struct launch_info place;
        struct launch_info before;
        memset(&place, 0x5a, sizeof place);
        memcpy(&before, &place, sizeof place);
        struct fault fault = {.subject = "", .reason = ""};
        enum status status = launch_detect_from(
            0, words_variable, (void *)(uintptr_t)BAD[i].environment, &place, &fault);
        if (status != STATUS_INPUT || strcmp(fault.subject, BAD[i].place) != 0 ||
            strstr(fault.reason, BAD[i].reason) == NULL) {
            fail_msg("case %zu (%s): status %d, %s: %s", i, BAD[i].environment, (int)status,
                     fault.subject, fault.reason);
        }
        assert_memory_equal(&place, &before, sizeof place);
    }
}

/* All ranks of a step must derive one port, and two jobs mostly other ones. */
static void derived_ports_are_equal_in_a_job_and_differ_between_jobs(void **state) {
    (void)state;
    static const char *const STEPS[] = {
        "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0",
        "SLURM_JOB_ID=5 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1",
        "SLURM_JOB_ID=5 SLURM_STEP_ID=1 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0",
        "SLURM_JOB_ID=6 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0"};
    struct launch_info places[ARRAY_COUNT(STEPS)];
    for (size_t i = 0; i < ARRAY_COUNT(STEPS); i++) {
        struct fault fault;
        assert_int_equal(
            launch_detect_from(0, words_variable, (void *)(uintptr_t)STEPS[i], &places[i], &fault),
            OK);
    }
    assert_int_equal(places[0].port, places[1].port);
    assert_true(places[0].job == places[1].job);
    assert_int_not_equal(places[0].port, places[2].port);
    assert_int_not_equal(places[0].port, places[3].port);
    /* a byte-exact truth: BLAKE2b-256 of "job.step", its first eight bytes little-endian */
    struct hash hash = hash_of("5.0", 3);
    uint64_t first = 0;
    for (int i = 7; i >= 0; i--) {
        first = first << 8 | hash.bytes[i];
    }
    assert_int_equal(places[0].port, LAUNCH_PORT_FIRST + (int)(first % LAUNCH_PORT_COUNT));
}

static void addresses_too_long_for_a_place_are_refused(void **state) {
    (void)state;
    char environment[512];
    char name[300];
    struct launch_info place;
    struct fault fault;
    memset(name, 'a', sizeof name);
    for (int length = 255; length <= 256; length++) {
        snprintf(environment, sizeof environment,
                 "RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=%.*s", length, name);
        enum status status = launch_detect_from(0, words_variable, environment, &place, &fault);
        assert_int_equal(status, length == 255 ? OK : STATUS_INPUT);
        assert_string_equal(length == 255 ? "MASTER_ADDR" : fault.subject, "MASTER_ADDR");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_understood),
        cmocka_unit_test(broken_environments_are_named_and_leave_the_place_untouched),
        cmocka_unit_test(derived_ports_are_equal_in_a_job_and_differ_between_jobs),
        cmocka_unit_test(addresses_too_long_for_a_place_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
