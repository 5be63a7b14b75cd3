/* launch_children: starts the ranks of one machine as child processes and waits for them. */
#include "transport/site/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "transport/site/site_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHILD_VARIABLES = 9,    /* environment variables that the parent sets for a rank */
    VARIABLE_BYTES = 48,    /* size of such a variable; the longest is "SKEP_JOB=" and 19 digits */
    FORWARD_MARK = 0x534b,  /* sigqueue value that marks a signal as forwarded */
    EXIT_LOST = 4,          /* exit code of a rank that ended because another rank was lost */
    RANKS_LISTED_MAX = 16,  /* ranks that a message lists */
    STOPPED_CHECK_MS = 500, /* interval between checks for stopped ranks */
    /* checks that find a rank stopped before it counts as lost */
    STOPPED_CHECKS_MAX = SITE_SILENCE_MS / STOPPED_CHECK_MS,
    STOPPED_GRACE_MS = 1000, /* time for the other ranks to detect the loss of a stopped rank */
};

extern char **environ;

/* Variables that other launchers set for this process and that do not apply to its children. */
static const char *const LAUNCHER_VARIABLES[] = {
    "RANK=",        "WORLD_SIZE=",    "LOCAL_RANK=",    "LOCAL_WORLD_SIZE=",
    "MASTER_ADDR=", "MASTER_PORT=",   "TORCHELASTIC_",  "OMPI_",
    "PMIX_",        "SLURM_PROCID=",  "SLURM_LOCALID=", "SLURM_STEP_ID=",
    "SKEP_JOB=",    "SKEP_LAUNCHED=", "SKEP_LISTENER=",
};

struct launched_ranks {
    int count;                      /* number of ranks */
    int started_count, ended_count; /* number of ranks started and ended so far */
    pid_t parent;                   /* process id of the parent */
    char **arguments;               /* argument list of this process, for the ranks */
    char **environment; /* the variables for the child, then the variables of this process */
    char (*child_variables)[VARIABLE_BYTES];
    int listener, port;        /* socket of rank 0, and its TCP port */
    uint64_t job_id;           /* random id of the run, the same for all ranks */
    sigset_t awaited_signals;  /* signals that the parent waits for */
    sigset_t previous_mask;    /* signal mask before the parent blocked signals */
    pid_t *pids;               /* [rank]; 0: the rank has ended */
    int *stopped_check_counts; /* [rank], number of checks that found it stopped */
    int64_t next_check_ns;     /* when to check stopped ranks again */
    int last_forwarded;        /* number of the newest forwarded signal, 0: none */
    int64_t kill_ns;           /* when to kill the remaining ranks, 0: no rank failed */
    int grace_ms;              /* time between the failure and kill_ns */
    bool is_killing;           /* the remaining ranks were killed */
    int exit_code;             /* exit code of the first rank that failed by itself; 0: none */
    bool has_lost_rank;        /* a rank ended because another rank was lost */
};

static bool is_launcher_variable(const char *variable) {
    for (size_t i = 0; i < ARRAY_COUNT(LAUNCHER_VARIABLES); i++) {
        if (strncmp(variable, LAUNCHER_VARIABLES[i], strlen(LAUNCHER_VARIABLES[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void copy_environment(struct launched_ranks *children, struct region *region) {
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    children->child_variables =
        region_alloc(region, CHILD_VARIABLES, sizeof *children->child_variables);
    children->environment =
        region_alloc(region, CHILD_VARIABLES + count + 1, sizeof *children->environment);
    char **next = children->environment + CHILD_VARIABLES;
    for (size_t i = 0; i < count; i++) {
        if (!is_launcher_variable(environ[i])) {
            *next++ = environ[i];
        }
    }
}

/* Writes the environment variables of a child. Only rank 0 gets the number of the socket that it
 * inherits. */
static void write_child_variables(struct launched_ranks *children, int rank) {
    const struct {
        const char *name;
        long long value;
    } NUMBERS[] = {
        {"RANK", rank},
        {"WORLD_SIZE", children->count},
        {"LOCAL_RANK", rank},
        {"LOCAL_WORLD_SIZE", children->count},
        {"MASTER_PORT", children->port},
        {"SKEP_LAUNCHED", 1},
        {"SKEP_JOB", (long long)children->job_id},
        {rank == 0 ? "SKEP_LISTENER" : "SKEP_LAUNCHED", rank == 0 ? children->listener : 1},
    };
    _Static_assert(ARRAY_COUNT(NUMBERS) == CHILD_VARIABLES - 1,
                   "MASTER_ADDR follows the numeric variables");
    for (int i = 0; i < CHILD_VARIABLES; i++) {
        struct text text = text_over(children->child_variables[i], VARIABLE_BYTES);
        if (i < CHILD_VARIABLES - 1) {
            text_add(&text, "%s=%lld", NUMBERS[i].name, NUMBERS[i].value);
        } else {
            text_add(&text, "MASTER_ADDR=127.0.0.1");
        }
        ASSERT(!text.truncated);
        children->environment[i] = children->child_variables[i];
    }
}

/* Runs in the child. The death signal is not sent if the parent has already ended, so that is
 * checked. */
static _Noreturn void become_rank(const struct launched_ranks *children, int rank) {
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != children->parent) {
        _exit(1);
    }
    if (rank == 0) {
        (void)fcntl(children->listener, F_SETFD, 0);
    }
    (void)sigprocmask(SIG_SETMASK, &children->previous_mask, NULL);
    (void)execve("/proc/self/exe", children->arguments, children->environment);
    log_line(LOG_ERROR, "skep: rank %d: cannot start /proc/self/exe: %s", rank, strerror(errno));
    _exit(1);
}

static enum status start_rank(struct launched_ranks *children, int rank, struct fault *fault) {
    write_child_variables(children, rank);
    pid_t pid = fork();
    if (pid < 0) {
        return fault_set(fault, STATUS_FAILED, "--ranks", "start fewer ranks",
                         "cannot start rank %d of %d: %s", rank, children->count, strerror(errno));
    }
    if (pid == 0) {
        become_rank(children, rank);
    }
    children->pids[rank] = pid;
    children->started_count++;
    return OK;
}

static void signal_all(const struct launched_ranks *children, int signal_number) {
    for (int rank = 0; rank < children->started_count; rank++) {
        if (children->pids[rank] != 0) {
            (void)kill(children->pids[rank], signal_number);
        }
    }
}

/* A terminal sends its signals to the children directly. */
static void forward_signal(struct launched_ranks *children, const siginfo_t *signal) {
    children->last_forwarded = signal->si_signo;
    if (signal->si_code == SI_KERNEL) {
        return;
    }
    for (int rank = 0; rank < children->started_count; rank++) {
        if (children->pids[rank] != 0) {
            (void)sigqueue(children->pids[rank], signal->si_signo,
                           (union sigval){.sival_int = FORWARD_MARK});
        }
    }
}

bool launch_is_forwarded(const siginfo_t *signal) {
    return signal->si_code == SI_QUEUE && signal->si_value.sival_int == FORWARD_MARK &&
           signal->si_pid == getppid();
}

static void set_kill_deadline(struct launched_ranks *children, int grace_ms) {
    if (children->kill_ns == 0) {
        children->kill_ns = clock_monotonic_ns() + grace_ms * NS_PER_MS;
        children->grace_ms = grace_ms;
    }
}

/* Records how a rank ended. One that ends with EXIT_LOST ended because another rank was lost. */
static void record_exit(struct launched_ranks *children, int rank, int status) {
    int code = 0;
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        if (children->is_killing && number == SIGKILL) {
            return;
        }
        log_line(LOG_ERROR, "skep: rank %d: killed by signal %d (%s)", rank, number,
                 strsignal(number));
        code = number == children->last_forwarded ? 128 + number : EXIT_LOST;
    } else {
        code = WEXITSTATUS(status);
        children->has_lost_rank = children->has_lost_rank || code == EXIT_LOST;
        if (code != 0) {
            log_line(LOG_DEBUG, "rank %d: ended with exit code %d", rank, code);
        }
        code = code == EXIT_LOST ? 0 : code;
    }
    children->exit_code = children->exit_code != 0 ? children->exit_code : code;
    if (status != 0) {
        set_kill_deadline(children, LAUNCH_GRACE_MS);
    }
}

static void reap_children(struct launched_ranks *children) {
    for (int rank = 0; rank < children->started_count; rank++) {
        int status = 0;
        pid_t pid = children->pids[rank];
        if (pid == 0 || waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid) {
            continue;
        }
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            children->stopped_check_counts[rank] = WIFSTOPPED(status);
            continue;
        }
        children->pids[rank] = 0;
        children->ended_count++;
        record_exit(children, rank, status);
    }
}

static bool has_suspended_rank(const struct launched_ranks *children) {
    bool stopped = false;
    for (int rank = 0; rank < children->started_count; rank++) {
        stopped =
            stopped || (children->pids[rank] != 0 && children->stopped_check_counts[rank] > 0);
    }
    return stopped;
}

/* Detects stopped ranks, which only the parent can do before the ranks are connected. Counts
 * checks instead of time, because the parent may have been stopped together with the rank. */
static void check_stopped(struct launched_ranks *children) {
    int64_t now_ns = clock_monotonic_ns();
    if (now_ns < children->next_check_ns) {
        return;
    }
    children->next_check_ns = now_ns + STOPPED_CHECK_MS * NS_PER_MS;
    for (int rank = 0; rank < children->started_count; rank++) {
        if (children->pids[rank] == 0 || children->stopped_check_counts[rank] == 0 ||
            ++children->stopped_check_counts[rank] != STOPPED_CHECKS_MAX + 1) {
            continue;
        }
        log_line(LOG_ERROR, "skep: rank %d: was suspended for %d s, so the others treat it as lost",
                 rank, SITE_SILENCE_MS / 1000);
        children->has_lost_rank = true;
        set_kill_deadline(children, STOPPED_GRACE_MS);
    }
}

/* Report all killed ranks in one message, except stopped ones, which were reported before. */
static void kill_remaining(struct launched_ranks *children) {
    char names[200];
    struct text text = text_over(names, sizeof names);
    int count = 0;
    for (int rank = 0; rank < children->started_count; rank++) {
        if (children->pids[rank] != 0 &&
            children->stopped_check_counts[rank] <= STOPPED_CHECKS_MAX) {
            count++;
            if (count <= RANKS_LISTED_MAX) {
                text_add(&text, "%s%d", count > 1 ? ", " : "", rank);
            }
        }
    }
    if (count > RANKS_LISTED_MAX) {
        text_add(&text, " and %d more", count - RANKS_LISTED_MAX);
    }
    if (count > 0) {
        log_line(LOG_ERROR, "skep: %s %s: did not end within %d s and %s killed",
                 count == 1 ? "rank" : "ranks", names, children->grace_ms / 1000,
                 count == 1 ? "was" : "were");
    }
    children->is_killing = true;
    signal_all(children, SIGKILL);
}

/* Wait for the next signal or deadline. */
static void await_signal(struct launched_ranks *children) {
    siginfo_t signal;
    int64_t left_ns = INT64_C(3600000000000); /* wait at most an hour if there is no deadline */
    if (children->kill_ns != 0 && !children->is_killing) {
        left_ns = children->kill_ns - clock_monotonic_ns();
        left_ns = left_ns < 0 ? 0 : left_ns;
    }
    int64_t next_check_ns = STOPPED_CHECK_MS * NS_PER_MS;
    left_ns = has_suspended_rank(children) && left_ns > next_check_ns ? next_check_ns : left_ns;
    struct timespec wait = {.tv_sec = left_ns / NS_PER_SECOND, .tv_nsec = left_ns % NS_PER_SECOND};
    int number = sigtimedwait(&children->awaited_signals, &signal, &wait);
    if (number > 0 && number != SIGCHLD) {
        forward_signal(children, &signal);
    }
    if (children->kill_ns != 0 && !children->is_killing &&
        clock_monotonic_ns() >= children->kill_ns) {
        kill_remaining(children);
    }
}

/* Blocked signals are received one by one by sigtimedwait. SIGCHLD is reset to its default: if it
 * was inherited as ignored, waitpid would not work. */
static void block_child_signals(struct launched_ranks *children) {
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &usual, NULL);
    static const int SIGNALS[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&children->awaited_signals);
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaddset(&children->awaited_signals, SIGNALS[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &children->awaited_signals, &children->previous_mask);
}

/* Return an id that no other run has. The sign bit is 0, because the variable is read as a signed
 * number. */
static uint64_t random_job_id(void) {
    uint64_t job = 0;
    if (getrandom(&job, sizeof job, 0) != (ssize_t)sizeof job) {
        job = (uint64_t)clock_monotonic_ns() ^ (uint64_t)getpid() << 40;
    }
    return job >> 1;
}

/* Open a listening socket whose descriptor is above those of the standard streams; descriptor 0
 * means none. */
static enum status open_listener(struct launched_ranks *children, struct fault *fault) {
    int fd = -1;
    TRY(socket_listen_on_loopback(&fd, &children->port, fault));
    children->listener = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int failure = errno;
    close(fd);
    if (children->listener < 0) {
        return fault_set_errno(fault, STATUS_FAILED, "--ranks", "cannot duplicate a socket",
                               failure);
    }
    return OK;
}

enum status launch_children(int ranks, char **arguments, int *exit_code, struct fault *fault) {
    ASSERT(ranks >= 2 && ranks <= RANKS_MAX);
    struct region region = {.newest = NULL};
    struct launched_ranks children = {
        .count = ranks, .parent = getpid(), .arguments = arguments, .job_id = random_job_id()};
    enum status status = open_listener(&children, fault);
    if (status != OK) {
        return status;
    }
    children.pids = region_alloc(&region, (size_t)ranks, sizeof *children.pids);
    children.stopped_check_counts =
        region_alloc(&region, (size_t)ranks, sizeof *children.stopped_check_counts);
    copy_environment(&children, &region);
    block_child_signals(&children);
    for (int rank = 0; rank < ranks && status == OK; rank++) {
        status = start_rank(&children, rank, fault);
    }
    if (status != OK) {
        children.is_killing = true;
        signal_all(&children, SIGKILL);
    }
    close(children.listener);
    while (children.ended_count < children.started_count) {
        await_signal(&children);
        reap_children(&children);
        check_stopped(&children);
    }
    (void)sigprocmask(SIG_SETMASK, &children.previous_mask, NULL);
    region_finish(&region);
    if (status == OK) {
        *exit_code =
            children.exit_code != 0 ? children.exit_code : (children.has_lost_rank ? EXIT_LOST : 0);
    }
    return status;
}
