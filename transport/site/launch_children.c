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
    OWN_VARIABLES = 9,
    VARIABLE_BYTES = 48,   /* the longest: "SKEP_JOB=" and 19 digits */
    FORWARD_MARK = 0x534b, /* with a forwarded signal, to know it from one that others queue */
    EXIT_LOST = 4,
    NAMED_MAX = 16,
    LOOK_MS = 500, /* between looks at a stopped rank */
    LOOKS_MAX = SITE_SILENCE_MS / LOOK_MS,
    STOPPED_GRACE_MS = 1000, /* the others have noticed by then, or have not met yet */
};

extern char **environ;

/* What other launchers say of this process does not hold for its children. */
static const char *const FOREIGN[] = {
    "RANK=",        "WORLD_SIZE=",    "LOCAL_RANK=",    "LOCAL_WORLD_SIZE=",
    "MASTER_ADDR=", "MASTER_PORT=",   "TORCHELASTIC_",  "OMPI_",
    "PMIX_",        "SLURM_PROCID=",  "SLURM_LOCALID=", "SLURM_STEP_ID=",
    "SKEP_JOB=",    "SKEP_LAUNCHED=", "SKEP_LISTENER=",
};

struct children {
    int count;
    int started, ended;
    pid_t parent;
    char **arguments;
    char **environment; /* own variables first, then what is passed on */
    char (*own)[VARIABLE_BYTES];
    int listener, port;
    uint64_t job;
    sigset_t signals; /* that the parent waits for */
    sigset_t before;
    pid_t *pids;     /* 0: has ended */
    int *looks;      /* at which the rank was stopped, 0: it runs */
    int64_t look_ns; /* when to look again */
    int forwarded;   /* the newest signal passed on, 0 without */
    int64_t kill_ns; /* when those that are left are killed, 0: nobody ended badly */
    int grace_ms;    /* that they have until then */
    bool killing;
    int exit_code;  /* of the first that failed by itself, 0 without */
    bool lost_some; /* a rank ended because another was lost */
};

static bool is_foreign(const char *variable) {
    for (size_t i = 0; i < ARRAY_COUNT(FOREIGN); i++) {
        if (strncmp(variable, FOREIGN[i], strlen(FOREIGN[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void take_environment(struct children *children, struct region *region) {
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    children->own = region_alloc(region, OWN_VARIABLES, sizeof *children->own);
    children->environment =
        region_alloc(region, OWN_VARIABLES + count + 1, sizeof *children->environment);
    char **next = children->environment + OWN_VARIABLES;
    for (size_t i = 0; i < count; i++) {
        if (!is_foreign(environ[i])) {
            *next++ = environ[i];
        }
    }
}

/* Rank 0 alone is told of the socket that it inherits. */
static void write_own_variables(struct children *children, int rank) {
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
        {"SKEP_JOB", (long long)children->job},
        {rank == 0 ? "SKEP_LISTENER" : "SKEP_LAUNCHED", rank == 0 ? children->listener : 1},
    };
    _Static_assert(ARRAY_COUNT(NUMBERS) == OWN_VARIABLES - 1, "and the address");
    for (int i = 0; i < OWN_VARIABLES; i++) {
        struct text text = text_over(children->own[i], VARIABLE_BYTES);
        if (i < OWN_VARIABLES - 1) {
            text_add(&text, "%s=%lld", NUMBERS[i].name, NUMBERS[i].value);
        } else {
            text_add(&text, "MASTER_ADDR=127.0.0.1");
        }
        ASSERT(!text.cut);
        children->environment[i] = children->own[i];
    }
}

/* In the child. A parent that is already gone would never send the signal of its death. */
static _Noreturn void become_rank(const struct children *children, int rank) {
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != children->parent) {
        _exit(1);
    }
    if (rank == 0) {
        (void)fcntl(children->listener, F_SETFD, 0);
    }
    (void)sigprocmask(SIG_SETMASK, &children->before, NULL);
    (void)execve("/proc/self/exe", children->arguments, children->environment);
    log_line(LOG_ERROR, "skep: rank %d: cannot start /proc/self/exe: %s", rank, strerror(errno));
    _exit(1);
}

static enum status start(struct children *children, int rank, struct fault *fault) {
    write_own_variables(children, rank);
    pid_t pid = fork();
    if (pid < 0) {
        return fault_set(fault, STATUS_FAILED, "--ranks", "start fewer ranks",
                         "cannot start rank %d of %d: %s", rank, children->count, strerror(errno));
    }
    if (pid == 0) {
        become_rank(children, rank);
    }
    children->pids[rank] = pid;
    children->started++;
    return OK;
}

static void signal_all(const struct children *children, int signal_number) {
    for (int rank = 0; rank < children->started; rank++) {
        if (children->pids[rank] != 0) {
            (void)kill(children->pids[rank], signal_number);
        }
    }
}

/* A terminal sends its signals to the whole foreground group, children included. */
static void forward(struct children *children, const siginfo_t *signal) {
    children->forwarded = signal->si_signo;
    if (signal->si_code == SI_KERNEL) {
        return;
    }
    for (int rank = 0; rank < children->started; rank++) {
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

static void end_within(struct children *children, int grace_ms) {
    if (children->kill_ns == 0) {
        children->kill_ns = clock_monotonic_ns() + (int64_t)grace_ms * 1000000;
        children->grace_ms = grace_ms;
    }
}

/* A rank that ends with EXIT_LOST did so because of another one. */
static void judge(struct children *children, int rank, int status) {
    int code = 0;
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        if (children->killing && number == SIGKILL) {
            return;
        }
        log_line(LOG_ERROR, "skep: rank %d: killed by signal %d (%s)", rank, number,
                 strsignal(number));
        code = number == children->forwarded ? 128 + number : EXIT_LOST;
    } else {
        code = WEXITSTATUS(status);
        children->lost_some = children->lost_some || code == EXIT_LOST;
        if (code != 0) {
            log_line(LOG_DEBUG, "rank %d: ended with exit code %d", rank, code);
        }
        code = code == EXIT_LOST ? 0 : code;
    }
    children->exit_code = children->exit_code != 0 ? children->exit_code : code;
    if (status != 0) {
        end_within(children, LAUNCH_GRACE_MS);
    }
}

static void reap(struct children *children) {
    for (int rank = 0; rank < children->started; rank++) {
        int status = 0;
        pid_t pid = children->pids[rank];
        if (pid == 0 || waitpid(pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid) {
            continue;
        }
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            children->looks[rank] = WIFSTOPPED(status);
            continue;
        }
        children->pids[rank] = 0;
        children->ended++;
        judge(children, rank, status);
    }
}

static bool has_stopped(const struct children *children) {
    bool stopped = false;
    for (int rank = 0; rank < children->started; rank++) {
        stopped = stopped || (children->pids[rank] != 0 && children->looks[rank] > 0);
    }
    return stopped;
}

/* A rank that is stopped while the ranks still meet is nobody's loss but ours. Looks are counted,
 * not time: this process may have been stopped along with it. */
static void look_at_stopped(struct children *children) {
    int64_t now_ns = clock_monotonic_ns();
    if (now_ns < children->look_ns) {
        return;
    }
    children->look_ns = now_ns + (int64_t)LOOK_MS * 1000000;
    for (int rank = 0; rank < children->started; rank++) {
        if (children->pids[rank] == 0 || children->looks[rank] == 0 ||
            ++children->looks[rank] != LOOKS_MAX + 1) {
            continue;
        }
        log_line(LOG_ERROR, "skep: rank %d: was stopped for %d s, and is taken for lost", rank,
                 SITE_SILENCE_MS / 1000);
        children->lost_some = true;
        end_within(children, STOPPED_GRACE_MS);
    }
}

/* One line for all; of a stopped rank it is known already. */
static void kill_the_rest(struct children *children) {
    char names[200];
    struct text text = text_over(names, sizeof names);
    int count = 0;
    for (int rank = 0; rank < children->started; rank++) {
        if (children->pids[rank] != 0 && children->looks[rank] <= LOOKS_MAX) {
            count++;
            if (count <= NAMED_MAX) {
                text_add(&text, "%s%d", count > 1 ? ", " : "", rank);
            }
        }
    }
    if (count > NAMED_MAX) {
        text_add(&text, " and %d more", count - NAMED_MAX);
    }
    if (count > 0) {
        log_line(LOG_ERROR, "skep: %s %s: did not end by %s within %d s, and %s killed",
                 count == 1 ? "rank" : "ranks", names, count == 1 ? "itself" : "themselves",
                 children->grace_ms / 1000, count == 1 ? "was" : "were");
    }
    children->killing = true;
    signal_all(children, SIGKILL);
}

/* The next signal, or the time to kill. */
static void await_signal(struct children *children) {
    siginfo_t signal;
    int64_t left_ns = INT64_C(3600000000000); /* nothing to do: look again in an hour */
    if (children->kill_ns != 0 && !children->killing) {
        left_ns = children->kill_ns - clock_monotonic_ns();
        left_ns = left_ns < 0 ? 0 : left_ns;
    }
    int64_t look_ns = (int64_t)LOOK_MS * 1000000;
    left_ns = has_stopped(children) && left_ns > look_ns ? look_ns : left_ns;
    struct timespec wait = {.tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000};
    int number = sigtimedwait(&children->signals, &signal, &wait);
    if (number > 0 && number != SIGCHLD) {
        forward(children, &signal);
    }
    if (children->kill_ns != 0 && !children->killing && clock_monotonic_ns() >= children->kill_ns) {
        kill_the_rest(children);
    }
}

/* Blocked, they wait to be taken one by one. Whoever started this process may ignore the end of
 * children, and then none of them could be waited for. */
static void take_signals(struct children *children) {
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &usual, NULL);
    static const int SIGNALS[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&children->signals);
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaddset(&children->signals, SIGNALS[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &children->signals, &children->before);
}

/* A key that no other run has; the sign bit stays free, as the variable is read as a number. */
static uint64_t random_job(void) {
    uint64_t job = 0;
    if (getrandom(&job, sizeof job, 0) != (ssize_t)sizeof job) {
        job = (uint64_t)clock_monotonic_ns() ^ (uint64_t)getpid() << 40;
    }
    return job >> 1;
}

/* A socket that can be told from "none" and from the standard streams. */
static enum status open_listener(struct children *children, struct fault *fault) {
    int fd = -1;
    enum status status = socket_loopback(&fd, &children->port, fault);
    if (status != OK) {
        return status;
    }
    children->listener = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int failure = errno;
    close(fd);
    if (children->listener < 0) {
        return fault_set_errno(fault, STATUS_FAILED, "--ranks", "cannot keep a socket", failure);
    }
    return OK;
}

enum status launch_children(int ranks, char **arguments, int *exit_code, struct fault *fault) {
    ASSERT(ranks >= 2 && ranks <= RANKS_MAX);
    struct region region = {.newest = NULL};
    struct children children = {
        .count = ranks, .parent = getpid(), .arguments = arguments, .job = random_job()};
    enum status status = open_listener(&children, fault);
    if (status != OK) {
        return status;
    }
    children.pids = region_alloc(&region, (size_t)ranks, sizeof *children.pids);
    children.looks = region_alloc(&region, (size_t)ranks, sizeof *children.looks);
    take_environment(&children, &region);
    take_signals(&children);
    for (int rank = 0; rank < ranks && status == OK; rank++) {
        status = start(&children, rank, fault);
    }
    if (status != OK) {
        children.killing = true;
        signal_all(&children, SIGKILL);
    }
    close(children.listener);
    while (children.ended < children.started) {
        await_signal(&children);
        reap(&children);
        look_at_stopped(&children);
    }
    (void)sigprocmask(SIG_SETMASK, &children.before, NULL);
    region_finish(&region);
    if (status == OK) {
        *exit_code =
            children.exit_code != 0 ? children.exit_code : (children.lost_some ? EXIT_LOST : 0);
    }
    return status;
}
