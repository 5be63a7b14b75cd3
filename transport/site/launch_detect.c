/* launch_detect: determines the rank of this process from the variables of its launcher. */
#include "transport/site/launch.h"

#include "base/hash.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The variables in which one launcher passes rank, world size, local rank and local world size. */
struct launcher {
    const char *source;                                  /* name of the launcher */
    const char *rank, *world, *local_rank, *local_world; /* names of variables; NULL: none */
    const char *remedy; /* remedy of the fault if a variable is missing */
};

struct environment {
    launch_variable *lookup; /* returns the value of a variable */
    void *context;           /* context of `lookup` */
};

enum { PORT_MAX = 65535 };

/* The lowest step id of steps that srun did not start: batch scripts, external and interactive
 * steps. */
static const int64_t SLURM_STEP_SPECIAL = 0xfffffff0;
static const char LOOPBACK[] = "127.0.0.1";

static const struct launcher TORCHRUN = {
    "torchrun",         "RANK",
    "WORLD_SIZE",       "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT together"};
static const struct launcher OPENMPI = {
    "OpenMPI",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "mpirun sets all OMPI_COMM_WORLD variables; start the ranks with mpirun or with --ranks"};
static const struct launcher SLURM = {
    "Slurm",        "SLURM_PROCID",
    "SLURM_NTASKS", "SLURM_LOCALID",
    NULL,           "srun sets all of these variables; start the ranks with srun or with --ranks"};

/* An empty variable counts as not set. */
static const char *read_variable(const struct environment *environment, const char *name) {
    const char *value = environment->lookup(environment->context, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static enum status set_missing_fault(const struct launcher *launcher, const char *name,
                                     struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, name, launcher->remedy,
                     "is not set, but other variables of %s are", launcher->source);
}

/* Launchers write digits only, without sign or blanks. */
static enum status read_number(const struct environment *environment, const char *name,
                               const int64_t range[2], int64_t *number, struct fault *fault) {
    const char *value = read_variable(environment, name);
    ASSERT(value != NULL);
    if (!isdigit((unsigned char)value[0]) || !text_parse_i64(value, number) || *number < range[0] ||
        *number > range[1]) {
        return fault_set(fault, STATUS_INPUT, name, NULL,
                         "\"%.80s\" is not a whole number from %lld to %lld", value,
                         (long long)range[0], (long long)range[1]);
    }
    return OK;
}

static enum status read_required(const struct environment *environment,
                                 const struct launcher *launcher, const char *name,
                                 const int64_t range[2], int *number, struct fault *fault) {
    if (read_variable(environment, name) == NULL) {
        return set_missing_fault(launcher, name, fault);
    }
    int64_t wide = 0;
    TRY(read_number(environment, name, range, &wide, fault));
    *number = (int)wide;
    return OK;
}

static enum status read_rank(const struct environment *environment, const struct launcher *launcher,
                             struct launch_info *launch, struct fault *fault) {
    launch->source = launcher->source;
    enum status status = read_required(environment, launcher, launcher->world,
                                       (const int64_t[]){1, RANKS_MAX}, &launch->world, fault);
    return status != OK
               ? status
               : read_required(environment, launcher, launcher->rank,
                               (const int64_t[]){0, launch->world - 1}, &launch->rank, fault);
}

static bool is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
           strcmp(address, "::1") == 0;
}

/* Without local ranks, a loopback address means that all ranks are on this machine. Any other
 * address, as container platforms set it, means that each rank has its own machine. */
static enum status read_local_rank(const struct environment *environment,
                                   const struct launcher *launcher, struct launch_info *launch,
                                   struct fault *fault) {
    bool has_rank = read_variable(environment, launcher->local_rank) != NULL;
    bool has_world = read_variable(environment, launcher->local_world) != NULL;
    bool is_one_machine = launch->world == 1 || is_loopback(launch->address);
    if (!has_world && (is_one_machine || !has_rank)) {
        launch->local_world = is_one_machine ? launch->world : 1;
        launch->local_rank = is_one_machine ? launch->rank : 0;
        return OK;
    }
    enum status status =
        read_required(environment, launcher, launcher->local_world,
                      (const int64_t[]){1, launch->world}, &launch->local_world, fault);
    return status != OK ? status
                        : read_required(environment, launcher, launcher->local_rank,
                                        (const int64_t[]){0, launch->local_world - 1},
                                        &launch->local_rank, fault);
}

static enum status read_address(const struct environment *environment,
                                const struct launcher *launcher, struct launch_info *launch,
                                struct fault *fault) {
    const char *address = read_variable(environment, "MASTER_ADDR");
    if (address == NULL) {
        return set_missing_fault(launcher, "MASTER_ADDR", fault);
    }
    if (strlen(address) >= sizeof launch->address) {
        return fault_set(fault, STATUS_INPUT, "MASTER_ADDR", NULL,
                         "\"%.40s...\" is longer than the limit of %zu characters", address,
                         sizeof launch->address - 1);
    }
    memcpy(launch->address, address, strlen(address) + 1);
    return OK;
}

static enum status read_port(const struct environment *environment, const struct launcher *launcher,
                             struct launch_info *launch, struct fault *fault) {
    return read_required(environment, launcher, "MASTER_PORT", (const int64_t[]){1, PORT_MAX},
                         &launch->port, fault);
}

static void set_job_id(struct launch_info *launch, const char *text) {
    struct hash hash = hash_of(text, strlen(text));
    memcpy(&launch->job, hash.bytes, sizeof launch->job);
}

/* Every rank derives the same port from the id of the job. */
static void derive_port(struct launch_info *launch) {
    launch->port = LAUNCH_PORT_FIRST + (int)(launch->job % LAUNCH_PORT_COUNT);
}

/* If torchrun's agent itself listens at MASTER_PORT, as a variable shows, uses the next port. */
static void avoid_agent_port(const struct environment *environment, struct launch_info *launch) {
    const char *agent = read_variable(environment, "TORCHELASTIC_USE_AGENT_STORE");
    if (agent != NULL && strcmp(agent, "True") == 0) {
        launch->port += launch->port < PORT_MAX ? 1 : -1;
    }
}

static enum status detect_torchrun(const struct environment *environment,
                                   struct launch_info *launch, struct fault *fault) {
    TRY(read_rank(environment, &TORCHRUN, launch, fault));
    if (launch->world > 1) {
        TRY(read_address(environment, &TORCHRUN, launch, fault));
    }
    if (launch->world > 1) {
        TRY(read_port(environment, &TORCHRUN, launch, fault));
    }
    TRY(read_local_rank(environment, &TORCHRUN, launch, fault));
    if (launch->world > 1) {
        const char *run = read_variable(environment, "TORCHELASTIC_RUN_ID");
        set_job_id(launch, run != NULL ? run : "");
        avoid_agent_port(environment, launch);
    }
    return OK;
}

/* Detects a rank that launch_children started. It has torchrun's variables, a job id and, for
 * rank 0, a socket. */
static enum status detect_child_rank(const struct environment *environment,
                                     struct launch_info *launch, struct fault *fault) {
    static const int64_t JOBS[] = {0, INT64_MAX};
    static const int64_t SOCKETS[] = {3, 1 << 20};
    enum status status = detect_torchrun(environment, launch, fault);
    int64_t number = 0;
    if (status == OK && read_variable(environment, "SKEP_JOB") != NULL) {
        status = read_number(environment, "SKEP_JOB", JOBS, &number, fault);
        launch->job = (uint64_t)number;
    }
    if (status == OK && launch->rank == 0 && read_variable(environment, "SKEP_LISTENER") != NULL) {
        status = read_number(environment, "SKEP_LISTENER", SOCKETS, &number, fault);
        launch->listener = (int)number;
    }
    launch->source = "--ranks";
    return status;
}

static enum status detect_openmpi(const struct environment *environment, struct launch_info *launch,
                                  struct fault *fault) {
    enum status status = read_rank(environment, &OPENMPI, launch, fault);
    if (status == OK) {
        status = read_local_rank(environment, &OPENMPI, launch, fault);
    }
    if (status != OK || launch->world == 1) {
        return status;
    }
    const char *job = read_variable(environment, "OMPI_MCA_ess_base_jobid");
    job = job != NULL ? job : read_variable(environment, "PMIX_NAMESPACE");
    bool is_one_machine = launch->local_world == launch->world;
    static const struct launcher FORWARDED = {
        .source = "OpenMPI",
        .remedy =
            "on several machines, pass both to all ranks: mpirun -x MASTER_ADDR -x MASTER_PORT"};
    set_job_id(launch, job != NULL ? job : "");
    if (is_one_machine && read_variable(environment, "MASTER_ADDR") == NULL) {
        memcpy(launch->address, LOOPBACK, sizeof LOOPBACK);
    } else {
        status = read_address(environment, &FORWARDED, launch, fault);
    }
    if (status == OK && is_one_machine && job != NULL &&
        read_variable(environment, "MASTER_PORT") == NULL) {
        derive_port(launch);
        return OK;
    }
    return status != OK ? status : read_port(environment, &FORWARDED, launch, fault);
}

static bool is_host_character(char character) {
    return isalnum((unsigned char)character) || strchr(".-_:", character) != NULL;
}

/* Returns the first name of a list such as "rack[1-2]n[03-05,9]-ib,login": "rack1n03-ib". */
static bool find_first_host(const char *list, char *host, size_t capacity) {
    size_t length = 0;
    for (const char *at = list; *at != '\0' && *at != ','; at++) {
        if (*at != '[') {
            if (!is_host_character(*at) || length + 1 >= capacity) {
                return false;
            }
            host[length++] = *at;
            continue;
        }
        size_t digits = strspn(at + 1, "0123456789");
        size_t inside = strcspn(at, "]");
        if (digits == 0 || at[inside] != ']' || length + digits >= capacity) {
            return false;
        }
        memcpy(host + length, at + 1, digits);
        length += digits;
        at += inside;
    }
    host[length] = '\0';
    return length > 0;
}

/* Returns the entry of node `node` in "2(x3),1": two tasks on each of nodes 0 to 2, one on node 3.
 * */
static bool read_tasks_on_node(const char *list, int64_t node, int64_t *tasks) {
    const char *at = list;
    while (isdigit((unsigned char)*at)) {
        int64_t number[2] = {0, 1}; /* tasks, nodes */
        for (int part = 0; part < 2 && isdigit((unsigned char)*at); part++) {
            number[part] = 0;
            for (; isdigit((unsigned char)*at) && number[part] < RANKS_MAX * 16; at++) {
                number[part] = number[part] * 10 + (*at - '0');
            }
            at += part == 0 && strncmp(at, "(x", 2) == 0 ? 2 : part == 1 && *at == ')' ? 1 : 0;
        }
        if (node < number[1]) {
            *tasks = number[0];
            return true;
        }
        node -= number[1];
        at += *at == ',' ? 1 : 0;
    }
    return false;
}

static enum status read_slurm_tasks(const struct environment *environment,
                                    struct launch_info *launch, struct fault *fault) {
    static const char *const NODES[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"};
    static const char *const TASKS[] = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
    int which_nodes = read_variable(environment, NODES[0]) != NULL ? 0 : 1;
    int which_tasks = read_variable(environment, TASKS[0]) != NULL ? 0 : 1;
    const char *list = read_variable(environment, TASKS[which_tasks]);
    int nodes = 1;
    int node = 0;
    enum status status = OK;
    if (read_variable(environment, NODES[which_nodes]) != NULL) {
        status = read_required(environment, &SLURM, NODES[which_nodes],
                               (const int64_t[]){1, RANKS_MAX}, &nodes, fault);
    }
    int64_t tasks = launch->world;
    if (status == OK && nodes > 1 && list == NULL) {
        status = set_missing_fault(&SLURM, TASKS[which_tasks], fault);
    }
    if (status == OK && nodes > 1) {
        status = read_required(environment, &SLURM, "SLURM_NODEID", (const int64_t[]){0, nodes - 1},
                               &node, fault);
    }
    if (status == OK && nodes > 1 &&
        (!read_tasks_on_node(list, node, &tasks) || tasks < 1 || tasks > launch->world)) {
        status =
            fault_set(fault, STATUS_INPUT, TASKS[which_tasks], SLURM.remedy,
                      "\"%.80s\" does not give a valid number of tasks for node %d", list, node);
    }
    if (status == OK) {
        launch->local_world = (int)tasks;
        status = read_required(environment, &SLURM, SLURM.local_rank,
                               (const int64_t[]){0, tasks - 1}, &launch->local_rank, fault);
    }
    return status;
}

static enum status read_slurm_address(const struct environment *environment,
                                      struct launch_info *launch, struct fault *fault) {
    if (read_variable(environment, "MASTER_ADDR") != NULL) {
        return read_address(environment, &SLURM, launch, fault);
    }
    if (launch->local_world == launch->world) {
        memcpy(launch->address, LOOPBACK, sizeof LOOPBACK);
        return OK;
    }
    const char *name = "SLURM_STEP_NODELIST";
    if (read_variable(environment, name) == NULL) {
        name = "SLURM_JOB_NODELIST";
    }
    const char *list = read_variable(environment, name);
    if (list == NULL) {
        return set_missing_fault(&SLURM, name, fault);
    }
    char host[sizeof launch->address];
    if (!find_first_host(list, host, sizeof host)) {
        return fault_set(fault, STATUS_INPUT, name, "set MASTER_ADDR to rank 0's machine",
                         "\"%.80s\" does not begin with a host name", list);
    }
    memcpy(launch->address, host, sizeof host);
    return OK;
}

static enum status read_slurm_port(const struct environment *environment,
                                   struct launch_info *launch, struct fault *fault) {
    const char *job = read_variable(environment, "SLURM_JOB_ID");
    char name[128];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s.%s", job != NULL ? job : "", read_variable(environment, "SLURM_STEP_ID"));
    set_job_id(launch, name);
    if (read_variable(environment, "MASTER_PORT") != NULL) {
        return read_port(environment, &SLURM, launch, fault);
    }
    if (job == NULL) {
        return set_missing_fault(&SLURM, "SLURM_JOB_ID", fault);
    }
    derive_port(launch);
    return OK;
}

static enum status detect_slurm(const struct environment *environment, struct launch_info *launch,
                                struct fault *fault) {
    /* The step may have fewer tasks than the allocation, so its own variables are read. */
    struct launcher step = SLURM;
    if (read_variable(environment, "SLURM_STEP_NUM_TASKS") != NULL) {
        step.world = "SLURM_STEP_NUM_TASKS";
    }
    enum status status = read_rank(environment, &step, launch, fault);
    if (status == OK && launch->world == 1) {
        launch->local_world = 1;
        return OK;
    }
    if (status == OK) {
        status = read_slurm_tasks(environment, launch, fault);
    }
    if (status == OK) {
        status = read_slurm_address(environment, launch, fault);
    }
    return status != OK ? status : read_slurm_port(environment, launch, fault);
}

/* Whether the variables of a step were inherited by a batch script that was submitted from
 * inside the step. In that case, the variables that Slurm replaces show one task where the step
 * had several. */
static bool is_step_inherited(const struct environment *environment) {
    const char *ids = read_variable(environment, "SLURM_GTIDS"); /* "3,4": tasks on this node */
    const char *list = read_variable(environment, "SLURM_STEP_TASKS_PER_NODE");
    const char *node = read_variable(environment, "SLURM_NODEID");
    int64_t index = 0;
    int64_t tasks = 1;
    return ids != NULL && strchr(ids, ',') == NULL && list != NULL && node != NULL &&
           text_parse_i64(node, &index) && read_tasks_on_node(list, index, &tasks) && tasks > 1;
}

static bool is_srun_step(const struct environment *environment) {
    const char *step = read_variable(environment, "SLURM_STEP_ID");
    int64_t number = 0;
    return step != NULL && read_variable(environment, "SLURM_PROCID") != NULL &&
           !(text_parse_i64(step, &number) && number >= SLURM_STEP_SPECIAL) &&
           !is_step_inherited(environment);
}

static bool is_child_rank(const struct environment *environment, int ranks) {
    const char *launched = read_variable(environment, "SKEP_LAUNCHED");
    const char *world = read_variable(environment, "WORLD_SIZE");
    int64_t number = 0;
    return launched != NULL && strcmp(launched, "1") == 0 && world != NULL &&
           (ranks == 0 || (text_parse_i64(world, &number) && number == ranks));
}

enum status launch_detect_from(int ranks, launch_variable *variable, void *context,
                               struct launch_info *launch, struct fault *fault) {
    ASSERT(ranks >= 0 && ranks <= RANKS_MAX);
    const struct environment environment = {variable, context};
    struct launch_info found = {.world = 1, .local_world = 1, .source = "alone"};
    enum status status = OK;
    if (is_child_rank(&environment, ranks)) {
        status = detect_child_rank(&environment, &found, fault);
    } else if (ranks > 0) {
        found.rank = ranks > 1 ? LAUNCH_PARENT : 0;
        found.world = ranks;
        found.local_world = ranks;
        found.source = "--ranks";
    } else if (read_variable(&environment, TORCHRUN.rank) != NULL ||
               read_variable(&environment, TORCHRUN.world) != NULL) {
        status = detect_torchrun(&environment, &found, fault);
    } else if (read_variable(&environment, OPENMPI.rank) != NULL ||
               read_variable(&environment, OPENMPI.world) != NULL) {
        status = detect_openmpi(&environment, &found, fault);
    } else if (is_srun_step(&environment)) {
        status = detect_slurm(&environment, &found, fault);
    }
    if (status == OK) {
        *launch = found;
    }
    return status;
}

static const char *environment_variable(void *context, const char *name) {
    (void)context;
    return getenv(name);
}

enum status launch_detect(int ranks, struct launch_info *launch, struct fault *fault) {
    return launch_detect_from(ranks, environment_variable, NULL, launch, fault);
}
