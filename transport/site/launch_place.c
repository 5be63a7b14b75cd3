#include "transport/site/launch.h"

#include "base/hash.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A launcher's names for the same four numbers. */
struct launcher {
    const char *source;
    const char *rank, *world, *local_rank, *local_world;
    const char *remedy;
};

struct environment {
    launch_variable *variable;
    void *context;
};

enum { PORT_MAX = 65535 };

/* Slurm numbers batch scripts, external and interactive steps from here on: no srun began them. */
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
    "mpirun sets all OMPI_COMM_WORLD variables; start with it, or with --ranks"};
static const struct launcher SLURM = {
    "Slurm",         "SLURM_PROCID", "SLURM_NTASKS",
    "SLURM_LOCALID", NULL,           "srun sets them all; start with it, or with --ranks"};

/* An empty variable says as little as one that is not set. */
static const char *value_of(const struct environment *environment, const char *name) {
    const char *value = environment->variable(environment->context, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static enum status missing(const struct launcher *launcher, const char *name, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, name, launcher->remedy,
                     "is not set, but other variables of %s are", launcher->source);
}

/* Digits only: no sign, no blanks, as launchers write them. */
static enum status read_number(const struct environment *environment, const char *name,
                               const int64_t range[2], int64_t *number, struct fault *fault) {
    const char *value = value_of(environment, name);
    ASSERT(value != NULL);
    if (!isdigit((unsigned char)value[0]) || !text_parse_i64(value, number) || *number < range[0] ||
        *number > range[1]) {
        return fault_set(fault, STATUS_INPUT, name, NULL,
                         "\"%.80s\" is not a whole number from %lld to %lld", value,
                         (long long)range[0], (long long)range[1]);
    }
    return OK;
}

static enum status read_needed(const struct environment *environment,
                               const struct launcher *launcher, const char *name,
                               const int64_t range[2], int *number, struct fault *fault) {
    if (value_of(environment, name) == NULL) {
        return missing(launcher, name, fault);
    }
    int64_t wide = 0;
    enum status status = read_number(environment, name, range, &wide, fault);
    if (status == OK) {
        *number = (int)wide;
    }
    return status;
}

static enum status read_rank(const struct environment *environment, const struct launcher *launcher,
                             struct launch_info *place, struct fault *fault) {
    place->source = launcher->source;
    enum status status = read_needed(environment, launcher, launcher->world,
                                     (const int64_t[]){1, RANKS_MAX}, &place->world, fault);
    return status != OK ? status
                        : read_needed(environment, launcher, launcher->rank,
                                      (const int64_t[]){0, place->world - 1}, &place->rank, fault);
}

static bool is_loopback(const char *address) {
    return strcmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
           strcmp(address, "::1") == 0;
}

/* Without local numbers a loopback address says that all ranks are here; any other, as container
 * platforms set it, that each has a machine of its own. */
static enum status read_local(const struct environment *environment,
                              const struct launcher *launcher, struct launch_info *place,
                              struct fault *fault) {
    bool has_rank = value_of(environment, launcher->local_rank) != NULL;
    bool has_world = value_of(environment, launcher->local_world) != NULL;
    bool together = place->world == 1 || is_loopback(place->address);
    if (!has_world && (together || !has_rank)) {
        place->local_world = together ? place->world : 1;
        place->local_rank = together ? place->rank : 0;
        return OK;
    }
    enum status status =
        read_needed(environment, launcher, launcher->local_world,
                    (const int64_t[]){1, place->world}, &place->local_world, fault);
    return status != OK ? status
                        : read_needed(environment, launcher, launcher->local_rank,
                                      (const int64_t[]){0, place->local_world - 1},
                                      &place->local_rank, fault);
}

static enum status read_address(const struct environment *environment,
                                const struct launcher *launcher, struct launch_info *place,
                                struct fault *fault) {
    const char *address = value_of(environment, "MASTER_ADDR");
    if (address == NULL) {
        return missing(launcher, "MASTER_ADDR", fault);
    }
    if (strlen(address) >= sizeof place->address) {
        return fault_set(fault, STATUS_INPUT, "MASTER_ADDR", NULL,
                         "\"%.40s...\" has more than %zu characters", address,
                         sizeof place->address - 1);
    }
    memcpy(place->address, address, strlen(address) + 1);
    return OK;
}

static enum status read_port(const struct environment *environment, const struct launcher *launcher,
                             struct launch_info *place, struct fault *fault) {
    return read_needed(environment, launcher, "MASTER_PORT", (const int64_t[]){1, PORT_MAX},
                       &place->port, fault);
}

static void take_job(struct launch_info *place, const char *text) {
    struct hash hash = hash_of(text, strlen(text));
    memcpy(&place->job, hash.bytes, sizeof place->job);
}

/* Every rank derives the same port from what names the job. */
static void derive_port(struct launch_info *place) {
    place->port = LAUNCH_PORT_FIRST + (int)(place->job % LAUNCH_PORT_COUNT);
}

/* torchrun's agent itself listens at MASTER_PORT when it says so. */
static void step_aside(const struct environment *environment, struct launch_info *place) {
    const char *agent = value_of(environment, "TORCHELASTIC_USE_AGENT_STORE");
    if (agent != NULL && strcmp(agent, "True") == 0) {
        place->port += place->port < PORT_MAX ? 1 : -1;
    }
}

static enum status place_by_torchrun(const struct environment *environment,
                                     struct launch_info *place, struct fault *fault) {
    enum status status = read_rank(environment, &TORCHRUN, place, fault);
    if (status == OK && place->world > 1) {
        status = read_address(environment, &TORCHRUN, place, fault);
    }
    if (status == OK && place->world > 1) {
        status = read_port(environment, &TORCHRUN, place, fault);
    }
    if (status == OK) {
        status = read_local(environment, &TORCHRUN, place, fault);
    }
    if (status == OK && place->world > 1) {
        const char *run = value_of(environment, "TORCHELASTIC_RUN_ID");
        take_job(place, run != NULL ? run : "");
        step_aside(environment, place);
    }
    return status;
}

/* A child of launch_children: as torchrun's, with a key and, for rank 0, a socket. */
static enum status place_by_parent(const struct environment *environment, struct launch_info *place,
                                   struct fault *fault) {
    static const int64_t JOBS[] = {0, INT64_MAX};
    static const int64_t SOCKETS[] = {3, 1 << 20};
    enum status status = place_by_torchrun(environment, place, fault);
    int64_t number = 0;
    if (status == OK && value_of(environment, "SKEP_JOB") != NULL) {
        status = read_number(environment, "SKEP_JOB", JOBS, &number, fault);
        place->job = (uint64_t)number;
    }
    if (status == OK && place->rank == 0 && value_of(environment, "SKEP_LISTENER") != NULL) {
        status = read_number(environment, "SKEP_LISTENER", SOCKETS, &number, fault);
        place->listener = (int)number;
    }
    place->source = "--ranks";
    return status;
}

static enum status place_by_openmpi(const struct environment *environment,
                                    struct launch_info *place, struct fault *fault) {
    enum status status = read_rank(environment, &OPENMPI, place, fault);
    if (status == OK) {
        status = read_local(environment, &OPENMPI, place, fault);
    }
    if (status != OK || place->world == 1) {
        return status;
    }
    const char *job = value_of(environment, "OMPI_MCA_ess_base_jobid");
    job = job != NULL ? job : value_of(environment, "PMIX_NAMESPACE");
    bool here = place->local_world == place->world;
    static const struct launcher FORWARDED = {
        .source = "OpenMPI",
        .remedy = "on several machines give both to all: mpirun -x MASTER_ADDR -x MASTER_PORT"};
    take_job(place, job != NULL ? job : "");
    if (here && value_of(environment, "MASTER_ADDR") == NULL) {
        memcpy(place->address, LOOPBACK, sizeof LOOPBACK);
    } else {
        status = read_address(environment, &FORWARDED, place, fault);
    }
    if (status == OK && here && job != NULL && value_of(environment, "MASTER_PORT") == NULL) {
        derive_port(place);
        return OK;
    }
    return status != OK ? status : read_port(environment, &FORWARDED, place, fault);
}

static bool is_host_character(char character) {
    return isalnum((unsigned char)character) || strchr(".-_:", character) != NULL;
}

/* The first name of a list such as "rack[1-2]n[03-05,9]-ib,login": "rack1n03-ib". */
static bool first_host(const char *list, char *host, size_t capacity) {
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

/* The entry of node `node` in "2(x3),1": two tasks on each of nodes 0 to 2, one on node 3. */
static bool tasks_on_node(const char *list, int64_t node, int64_t *tasks) {
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
                                    struct launch_info *place, struct fault *fault) {
    static const char *const NODES[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"};
    static const char *const TASKS[] = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
    int which_nodes = value_of(environment, NODES[0]) != NULL ? 0 : 1;
    int which_tasks = value_of(environment, TASKS[0]) != NULL ? 0 : 1;
    const char *list = value_of(environment, TASKS[which_tasks]);
    int nodes = 1;
    int node = 0;
    enum status status = OK;
    if (value_of(environment, NODES[which_nodes]) != NULL) {
        status = read_needed(environment, &SLURM, NODES[which_nodes],
                             (const int64_t[]){1, RANKS_MAX}, &nodes, fault);
    }
    int64_t tasks = place->world;
    if (status == OK && nodes > 1 && list == NULL) {
        status = missing(&SLURM, TASKS[which_tasks], fault);
    }
    if (status == OK && nodes > 1) {
        status = read_needed(environment, &SLURM, "SLURM_NODEID", (const int64_t[]){0, nodes - 1},
                             &node, fault);
    }
    if (status == OK && nodes > 1 &&
        (!tasks_on_node(list, node, &tasks) || tasks < 1 || tasks > place->world)) {
        status = fault_set(fault, STATUS_INPUT, TASKS[which_tasks], SLURM.remedy,
                           "\"%.80s\" does not say how many of %d tasks node %d has", list,
                           place->world, node);
    }
    if (status == OK) {
        place->local_world = (int)tasks;
        status = read_needed(environment, &SLURM, SLURM.local_rank, (const int64_t[]){0, tasks - 1},
                             &place->local_rank, fault);
    }
    return status;
}

static enum status read_slurm_address(const struct environment *environment,
                                      struct launch_info *place, struct fault *fault) {
    if (value_of(environment, "MASTER_ADDR") != NULL) {
        return read_address(environment, &SLURM, place, fault);
    }
    if (place->local_world == place->world) {
        memcpy(place->address, LOOPBACK, sizeof LOOPBACK);
        return OK;
    }
    const char *name = "SLURM_STEP_NODELIST";
    if (value_of(environment, name) == NULL) {
        name = "SLURM_JOB_NODELIST";
    }
    const char *list = value_of(environment, name);
    if (list == NULL) {
        return missing(&SLURM, name, fault);
    }
    char host[sizeof place->address];
    if (!first_host(list, host, sizeof host)) {
        return fault_set(fault, STATUS_INPUT, name, "set MASTER_ADDR to rank 0's machine",
                         "\"%.80s\" does not begin with a host", list);
    }
    memcpy(place->address, host, sizeof host);
    return OK;
}

static enum status read_slurm_port(const struct environment *environment, struct launch_info *place,
                                   struct fault *fault) {
    const char *job = value_of(environment, "SLURM_JOB_ID");
    char name[128];
    struct text text = text_over(name, sizeof name);
    text_add(&text, "%s.%s", job != NULL ? job : "", value_of(environment, "SLURM_STEP_ID"));
    take_job(place, name);
    if (value_of(environment, "MASTER_PORT") != NULL) {
        return read_port(environment, &SLURM, place, fault);
    }
    if (job == NULL) {
        return missing(&SLURM, "SLURM_JOB_ID", fault);
    }
    derive_port(place);
    return OK;
}

static enum status place_by_slurm(const struct environment *environment, struct launch_info *place,
                                  struct fault *fault) {
    /* What the allocation has is not always what the step has. */
    struct launcher step = SLURM;
    if (value_of(environment, "SLURM_STEP_NUM_TASKS") != NULL) {
        step.world = "SLURM_STEP_NUM_TASKS";
    }
    enum status status = read_rank(environment, &step, place, fault);
    if (status == OK && place->world == 1) {
        place->local_world = 1;
        return OK;
    }
    if (status == OK) {
        status = read_slurm_tasks(environment, place, fault);
    }
    if (status == OK) {
        status = read_slurm_address(environment, place, fault);
    }
    return status != OK ? status : read_slurm_port(environment, place, fault);
}

/* A batch script that was submitted from inside a step inherits that step's variables; but those
 * that Slurm sets anew show a single task, where the step had several. */
static bool is_step_inherited(const struct environment *environment) {
    const char *here = value_of(environment, "SLURM_GTIDS"); /* "3,4": this node's tasks */
    const char *list = value_of(environment, "SLURM_STEP_TASKS_PER_NODE");
    const char *node = value_of(environment, "SLURM_NODEID");
    int64_t index = 0;
    int64_t tasks = 1;
    return here != NULL && strchr(here, ',') == NULL && list != NULL && node != NULL &&
           text_parse_i64(node, &index) && tasks_on_node(list, index, &tasks) && tasks > 1;
}

static bool is_srun_step(const struct environment *environment) {
    const char *step = value_of(environment, "SLURM_STEP_ID");
    int64_t number = 0;
    return step != NULL && value_of(environment, "SLURM_PROCID") != NULL &&
           !(text_parse_i64(step, &number) && number >= SLURM_STEP_SPECIAL) &&
           !is_step_inherited(environment);
}

static bool is_child(const struct environment *environment, int ranks) {
    const char *launched = value_of(environment, "SKEP_LAUNCHED");
    const char *world = value_of(environment, "WORLD_SIZE");
    int64_t number = 0;
    return launched != NULL && strcmp(launched, "1") == 0 && world != NULL &&
           (ranks == 0 || (text_parse_i64(world, &number) && number == ranks));
}

enum status launch_detect_from(int ranks, launch_variable *variable, void *context,
                               struct launch_info *place, struct fault *fault) {
    ASSERT(ranks >= 0 && ranks <= RANKS_MAX);
    const struct environment environment = {variable, context};
    struct launch_info found = {.world = 1, .local_world = 1, .source = "alone"};
    enum status status = OK;
    if (is_child(&environment, ranks)) {
        status = place_by_parent(&environment, &found, fault);
    } else if (ranks > 0) {
        found.rank = ranks > 1 ? LAUNCH_PARENT : 0;
        found.world = ranks;
        found.local_world = ranks;
        found.source = "--ranks";
    } else if (value_of(&environment, TORCHRUN.rank) != NULL ||
               value_of(&environment, TORCHRUN.world) != NULL) {
        status = place_by_torchrun(&environment, &found, fault);
    } else if (value_of(&environment, OPENMPI.rank) != NULL ||
               value_of(&environment, OPENMPI.world) != NULL) {
        status = place_by_openmpi(&environment, &found, fault);
    } else if (is_srun_step(&environment)) {
        status = place_by_slurm(&environment, &found, fault);
    }
    if (status == OK) {
        *place = found;
    }
    return status;
}

static const char *own_variable(void *context, const char *name) {
    (void)context;
    return getenv(name);
}

enum status launch_detect(int ranks, struct launch_info *place, struct fault *fault) {
    return launch_detect_from(ranks, own_variable, NULL, place, fault);
}
