/* launch_detect: environments as programs found them under OpenMPI 4.1.4, Slurm 22.05.8 and
 * torchrun of PyTorch 2.15: every variable of theirs with a number, a node or a name of the job. */
#include "transport/site/launch.h"

#include "words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DERIVED = -1, VARIABLES_BYTES = 4096 };

/* What all ranks of a job see, and what each sees besides. */
struct captured_rank {
    const char *variables;
    struct launch_info wanted;
};

struct captured_job {
    const char *command;
    const char *variables;
    struct captured_rank ranks[4]; /* up to the first without variables */
};

#define BATCH_THREE                                                                                \
    "ENVIRONMENT=BATCH SLURMD_NODENAME=vm SLURM_CPUS_ON_NODE=1 SLURM_JOBID=2 SLURM_JOB_ID=2 "      \
    "SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_NODELIST=vm SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1 "        \
    "SLURM_NODEID=0 SLURM_NODELIST=vm SLURM_NODE_ALIASES=(null) SLURM_OVERCOMMIT=1 "
#define BATCH_THREE_TASK                                                                           \
    "SLURM_GTIDS=0 SLURM_LOCALID=0 SLURM_NPROCS=3 SLURM_NTASKS=3 SLURM_PROCID=0 "                  \
    "SLURM_TASKS_PER_NODE=3 "

static const struct captured_job JOBS[] = {
    {"mpirun -n 3 --oversubscribe",
     "OMPI_APP_CTX_NUM_PROCS=3 OMPI_COMMAND=sh OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_COMM_WORLD_SIZE=3 "
     "OMPI_FIRST_RANKS=0 OMPI_MCA_ess=^singleton OMPI_MCA_ess_base_jobid=551223297 "
     "OMPI_MCA_mpi_oversubscribe=0 OMPI_MCA_orte_app_num=0 OMPI_MCA_orte_ess_num_procs=3 "
     "OMPI_MCA_orte_launch=1 OMPI_MCA_orte_num_nodes=1 OMPI_NUM_APP_CTX=1 OMPI_UNIVERSE_SIZE=2 "
     "PMIX_HOSTNAME=vm PMIX_NAMESPACE=551223297 PMIX_VERSION=4.2.2rc2 ",
     {{"OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_NODE_RANK=0 OMPI_COMM_WORLD_RANK=0 "
       "OMPI_MCA_ess_base_vpid=0 PMIX_ID=551223297.0 PMIX_RANK=0",
       {0, 3, 0, 3, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}},
      {"OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_NODE_RANK=2 OMPI_COMM_WORLD_RANK=2 "
       "OMPI_MCA_ess_base_vpid=2 PMIX_ID=551223297.2 PMIX_RANK=2",
       {2, 3, 2, 3, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}}}},
    {"srun -n 3 --overcommit",
     "SLURMD_NODENAME=vm SLURM_CPUS_ON_NODE=1 SLURM_GTIDS=0,1,2 SLURM_JOBID=1 SLURM_JOB_ID=1 "
     "SLURM_JOB_CPUS_PER_NODE=1 SLURM_JOB_NODELIST=vm SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1 "
     "SLURM_NODEID=0 SLURM_NODELIST=vm SLURM_NPROCS=3 SLURM_NTASKS=3 SLURM_OVERCOMMIT=1 "
     "SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=vm SLURM_STEP_NUM_NODES=1 "
     "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=3 SLURM_TASKS_PER_NODE=3 ",
     {{"SLURM_LOCALID=0 SLURM_PROCID=0", {0, 3, 0, 3, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}},
      {"SLURM_LOCALID=2 SLURM_PROCID=2", {2, 3, 2, 3, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}}}},
    {"srun -N 3 -n 7 --overcommit",
     "SLURM_CPUS_ON_NODE=1 SLURM_JOBID=1 SLURM_JOB_CPUS_PER_NODE=1(x3) SLURM_JOB_ID=1 "
     "SLURM_JOB_NODELIST=n[1-3] SLURM_JOB_NUM_NODES=3 SLURM_NNODES=3 SLURM_NODELIST=n[1-3] "
     "SLURM_NPROCS=7 SLURM_NTASKS=7 SLURM_OVERCOMMIT=1 SLURM_STEPID=0 SLURM_STEP_ID=0 "
     "SLURM_STEP_NODELIST=n[1-3] SLURM_STEP_NUM_NODES=3 SLURM_STEP_NUM_TASKS=7 "
     "SLURM_STEP_TASKS_PER_NODE=3,2(x2) SLURM_TASKS_PER_NODE=3,2(x2) ",
     {{"SLURMD_NODENAME=n1 SLURM_GTIDS=0,1,2 SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_PROCID=2",
       {2, 7, 2, 3, "n1", DERIVED, "Slurm", 0, 0, 0}},
      {"SLURMD_NODENAME=n2 SLURM_GTIDS=3,4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_PROCID=4",
       {4, 7, 1, 2, "n1", DERIVED, "Slurm", 0, 0, 0}},
      {"SLURMD_NODENAME=n3 SLURM_GTIDS=5,6 SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_PROCID=5",
       {5, 7, 0, 2, "n1", DERIVED, "Slurm", 0, 0, 0}}}},
    {"srun -N 2 -n 3 -w n2,n3 --overcommit -m cyclic, in an allocation of n[1-3]",
     "SLURM_CPUS_ON_NODE=1 SLURM_DISTRIBUTION=cyclic SLURM_JOBID=2 SLURM_JOB_ID=2 "
     "SLURM_JOB_CPUS_PER_NODE=1(x3) SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0=1(x3) "
     "SLURM_JOB_NODELIST=n[1-3] SLURM_JOB_NUM_NODES=3 SLURM_NNODES=2 SLURM_NODELIST=n[1-3] "
     "SLURM_NODE_ALIASES=(null) SLURM_NPROCS=3 SLURM_NTASKS=3 SLURM_STEPID=0 SLURM_STEP_ID=0 "
     "SLURM_STEP_NODELIST=n[2-3] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=3 "
     "SLURM_STEP_TASKS_PER_NODE=2,1 SLURM_TASKS_PER_NODE=2,1 ",
     {{"SLURMD_NODENAME=n2 SLURM_GTIDS=0,2 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_PROCID=0",
       {0, 3, 0, 2, "n2", DERIVED, "Slurm", 0, 0, 0}},
      {"SLURMD_NODENAME=n3 SLURM_GTIDS=1 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_PROCID=1",
       {1, 3, 0, 1, "n2", DERIVED, "Slurm", 0, 0, 0}},
      {"SLURMD_NODENAME=n2 SLURM_GTIDS=0,2 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_PROCID=2",
       {2, 3, 1, 2, "n2", DERIVED, "Slurm", 0, 0, 0}}}},
    {"sbatch -n 3 --overcommit, in the script",
     BATCH_THREE BATCH_THREE_TASK,
     {{"SLURM_TASK_PID=23901", {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}}}},
    {"the same, srun in the script",
     BATCH_THREE "SLURM_DISTRIBUTION=block SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0=1 SLURM_NPROCS=3 "
                 "SLURM_NTASKS=3 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=vm "
                 "SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=3 "
                 "SLURM_TASKS_PER_NODE=3 SLURM_GTIDS=0,1,2 ",
     {{"SLURM_LOCALID=1 SLURM_PROCID=1", {1, 3, 1, 3, "127.0.0.1", DERIVED, "Slurm", 0, 0, 0}}}},
    {"the same, mpirun in the script",
     BATCH_THREE BATCH_THREE_TASK
     "OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_COMM_WORLD_SIZE=3 OMPI_MCA_ess_base_jobid=829620225 "
     "OMPI_MCA_orte_ess_num_procs=3 PMIX_HOSTNAME=vm PMIX_NAMESPACE=829620225 ",
     {{"OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_RANK=2 PMIX_RANK=2",
       {2, 3, 2, 3, "127.0.0.1", DERIVED, "OpenMPI", 0, 0, 0}}}},
    {"sbatch -n 3 --overcommit from inside a step of another job's three tasks, in the script",
     BATCH_THREE BATCH_THREE_TASK
     "SLURM_STEPID=1 SLURM_STEP_ID=1 SLURM_STEP_NODELIST=vm SLURM_STEP_NUM_NODES=1 "
     "SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=3 SLURM_STEP_LAUNCHER_PORT=36967 ",
     {{"SLURM_TASK_PID=26781", {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}}}},
    {"salloc -N 3 -n 7 --overcommit, in its shell",
     "SLURM_JOBID=2 SLURM_JOB_CPUS_PER_NODE=1(x3) SLURM_JOB_ID=2 SLURM_JOB_NODELIST=n[1-3] "
     "SLURM_JOB_NUM_NODES=3 SLURM_NNODES=3 SLURM_NODELIST=n[1-3] SLURM_NODE_ALIASES=(null) "
     "SLURM_NPROCS=7 SLURM_NTASKS=7 SLURM_OVERCOMMIT=1 ",
     {{"SLURM_TASKS_PER_NODE=3,2(x2)", {0, 1, 0, 1, "", 0, "alone", 0, 0, 0}}}},
    {"torchrun --nproc-per-node 2",
     "GROUP_RANK=0 GROUP_WORLD_SIZE=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=46073 "
     "OMP_NUM_THREADS=1 ROLE_NAME=default ROLE_WORLD_SIZE=2 TORCHELASTIC_MAX_RESTARTS=0 "
     "TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_RUN_ID=f42999dc-eec4-41ac-9aa5-27ee67615f62 "
     "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT "
     "TORCHELASTIC_USE_AGENT_STORE=True TORCH_NCCL_ASYNC_ERROR_HANDLING=1 WORLD_SIZE=2 ",
     {{"LOCAL_RANK=0 RANK=0 ROLE_RANK=0", {0, 2, 0, 2, "localhost", 46074, "torchrun", 0, 0, 0}},
      {"LOCAL_RANK=1 RANK=1 ROLE_RANK=1", {1, 2, 1, 2, "localhost", 46074, "torchrun", 0, 0, 0}}}},
};

static void assert_placed(const struct captured_job *job, int index,
                          const struct launch_info *got) {
    const struct launch_info *wanted = &job->ranks[index].wanted;
    int low = wanted->port == DERIVED ? LAUNCH_PORT_FIRST : wanted->port;
    int high = wanted->port == DERIVED ? LAUNCH_PORT_FIRST + LAUNCH_PORT_COUNT - 1 : wanted->port;
    if (got->rank != wanted->rank || got->world != wanted->world ||
        got->local_rank != wanted->local_rank || got->local_world != wanted->local_world ||
        got->port < low || got->port > high || strcmp(got->address, wanted->address) != 0 ||
        strcmp(got->source, wanted->source) != 0) {
        fail_msg("%s, case %d: rank %d of %d, local %d of %d, at %s:%d by %s", job->command, index,
                 got->rank, got->world, got->local_rank, got->local_world, got->address, got->port,
                 got->source);
    }
}

static void captured_ranks_find_their_places_and_each_other(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(JOBS); i++) {
        const struct captured_job *job = &JOBS[i];
        struct launch_info first = {.port = 0};
        for (int k = 0; k < (int)ARRAY_COUNT(job->ranks) && job->ranks[k].variables != NULL; k++) {
            char variables[VARIABLES_BYTES];
            struct launch_info place;
            struct fault fault = {.reason = ""};
            int length = snprintf(variables, sizeof variables, "%s%s", job->variables,
                                  job->ranks[k].variables);
            assert_in_range(length, 1, sizeof variables - 1);
            if (launch_detect_from(0, words_variable, variables, &place, &fault) != OK) {
                fail_msg("%s, case %d: %s: %s", job->command, k, fault.subject, fault.reason);
            }
            assert_placed(job, k, &place);
            first = k == 0 ? place : first;
            assert_int_equal(place.port, first.port);
            assert_true(place.job == first.job);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captured_ranks_find_their_places_and_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
