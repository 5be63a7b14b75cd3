/* launch_children: ranks that this program starts of itself. Here it is this test that is started:
 * with SKEP_LAUNCHED it is a rank, and its arguments say what it does. */
#include "transport/site/launch.h"

#include "base/clock.h"

#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 3 };

/* What a run's processes tell the test, in a file without a name that they inherit. */
struct board {
    _Atomic int ready;   /* ranks that have met */
    _Atomic int left;    /* rank 2 has left */
    _Atomic int asked;   /* to end well */
    _Atomic int foreign; /* other launchers' variables that a rank saw */
    _Atomic int pids[RANKS];
    _Atomic int direct[RANKS], forwarded[RANKS]; /* signals */
};

static struct board *board;
static int own_rank;

static void wait_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void count_signal(int number, siginfo_t *signal, void *context) {
    (void)number;
    (void)context;
    _Atomic int *counts = launch_is_forwarded(signal) ? board->forwarded : board->direct;
    counts[own_rank]++;
}

static void watch_signals(void) {
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_sigaction = count_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    for (size_t i = 0; i < ARRAY_COUNT(SIGNALS); i++) {
        sigaction(SIGNALS[i], &action, NULL);
    }
}

static void exit_rank_lost(void *context, const struct fault *fault) {
    (void)context;
    (void)fault;
    _exit(4);
}

/* A rank: argv is {program, what, board's descriptor}. */
static int rank_work(char **argv, struct region *region) {
    struct launch_info place;
    struct site *site = NULL;
    struct fault fault;
    int sum[RANKS];
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[2]), 0);
    if (strcmp(argv[1], "meet") == 0 && strcmp(getenv("RANK"), "1") == 0) {
        board->pids[1] = getpid();
        raise(SIGSTOP); /* before it has met anybody */
    }
    if (launch_detect(RANKS, &place, &fault) != OK || place.world != RANKS ||
        strcmp(place.source, "--ranks") != 0 || place.local_rank != place.rank) {
        return 90;
    }
    own_rank = place.rank;
    board->foreign += getenv("OMPI_COMM_WORLD_RANK") != NULL || getenv("SLURM_PROCID") != NULL;
    board->pids[own_rank] = getpid();
    watch_signals();
    if (site_open(&place, region, &site, &fault) != OK ||
        site_start_watch(site, exit_rank_lost, NULL, &fault) != OK ||
        site_exchange(site, &own_rank, sizeof own_rank, sum, &fault) != OK) {
        return 91;
    }
    board->ready++;
    while (board->ready < RANKS) {
        wait_ms(1);
    }
    if (strcmp(argv[1], "fail") == 0 && own_rank == 1) {
        (void)fault_set(&fault, STATUS_FIT, "arena", NULL, "does not fit");
        site_report_failure(site, &fault);
        return 3;
    }
    if (strcmp(argv[1], "hang") == 0 && own_rank == 2) {
        site_leave(site); /* so that nothing tells it to end */
        board->left = 1;
    }
    if (strcmp(argv[1], "hang") == 0 && own_rank == 1) {
        while (!board->left) {
            wait_ms(1);
        }
        _exit(1); /* without a word, and while its watching thread runs */
    }
    while (!board->asked) {
        wait_ms(1);
    }
    site_leave(site);
    return 0;
}

static int rank_main(char **argv) {
    struct region region = {.newest = NULL};
    int code = rank_work(argv, &region);
    region_finish(&region);
    return code;
}

/* One run of RANKS ranks under a parent process. */
struct run {
    pid_t parent;
    int terminal; /* of the parent, -1 without */
    int errors;   /* its standard error, -1 with a terminal */
    struct board *board;
};

static _Noreturn void parent_main(const char *what, int board_fd) {
    char number[16];
    char name[] = "test_launch_children";
    char task[16];
    int code = 0;
    struct fault fault;
    snprintf(number, sizeof number, "%d", board_fd);
    snprintf(task, sizeof task, "%s", what);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("SLURM_PROCID", "5", 1);
    setenv("WORLD_SIZE", "77", 1);
    char *arguments[] = {name, task, number, NULL};
    enum status status = launch_children(RANKS, arguments, &code, &fault);
    _exit(status == OK ? code : 99);
}

static struct run run_start(const char *what, bool with_terminal) {
    struct run run = {.terminal = -1, .errors = -1};
    int errors[2];
    int board_fd = memfd_create("board", 0);
    assert_true(board_fd >= 0 && ftruncate(board_fd, sizeof *run.board) == 0);
    assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
    run.board = mmap(NULL, sizeof *run.board, PROT_READ | PROT_WRITE, MAP_SHARED, board_fd, 0);
    assert_true(run.board != MAP_FAILED);
    run.parent = with_terminal ? forkpty(&run.terminal, NULL, NULL, NULL) : fork();
    assert_true(run.parent >= 0);
    if (run.parent == 0) {
        if (!with_terminal) {
            setpgid(0, 0);
            dup2(errors[1], STDERR_FILENO);
        }
        parent_main(what, board_fd);
    }
    close(errors[1]);
    close(board_fd);
    run.errors = errors[0];
    return run;
}

static void run_await(const struct run *run, const _Atomic int *count, int wanted) {
    int64_t deadline_ns = clock_monotonic_ns() + INT64_C(5000000000);
    while (*count < wanted) {
        if (clock_monotonic_ns() > deadline_ns) {
            kill(-run->parent, SIGKILL);
            fail_msg("%d of %d after 5 s", *count, wanted);
        }
        wait_ms(1);
    }
}

/* The exit code, and what was written to standard error. */
static int run_end(struct run *run, char errors[static 2048]) {
    size_t bytes = 0;
    ssize_t got = 1;
    while (got > 0 && bytes < 2047) {
        got = read(run->errors, errors + bytes, 2047 - bytes);
        bytes += got > 0 ? (size_t)got : 0;
    }
    errors[bytes] = '\0';
    int status = 0;
    assert_int_equal(waitpid(run->parent, &status, 0), run->parent);
    close(run->errors);
    if (run->terminal >= 0) {
        close(run->terminal);
    }
    munmap(run->board, sizeof *run->board);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void ranks_that_end_well_give_0(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", false);
    run_await(&run, &run.board->ready, RANKS);
    assert_int_equal(run.board->foreign, 0);
    run.board->asked = 1;
    assert_int_equal(run_end(&run, errors), 0);
    assert_string_equal(errors, "");
}

static void the_rank_that_failed_by_itself_gives_the_exit_code(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("fail", false);
    assert_int_equal(run_end(&run, errors), 3);
}

static void a_killed_rank_gives_4_and_is_named(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", false);
    run_await(&run, &run.board->ready, RANKS);
    kill(run.board->pids[2], SIGKILL);
    assert_int_equal(run_end(&run, errors), 4);
    assert_string_equal(errors, "skep: rank 2: killed by signal 9 (Killed)\n");
}

static void a_rank_that_does_not_end_is_killed_after_the_grace(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("hang", false);
    run_await(&run, &run.board->ready, RANKS);
    int64_t since_ns = clock_monotonic_ns();
    assert_int_equal(run_end(&run, errors), 1);
    int64_t passed_ms = (clock_monotonic_ns() - since_ns) / 1000000;
    assert_in_range(passed_ms, LAUNCH_GRACE_MS - 500, LAUNCH_GRACE_MS + 2000);
    assert_string_equal(errors, "skep: rank 2: did not end within 4 s and was killed\n");
}

static void a_rank_that_is_stopped_before_it_has_met_the_others_is_lost(void **state) {
    (void)state;
    char errors[2048];
    int64_t since_ns = clock_monotonic_ns();
    struct run run = run_start("meet", false);
    assert_int_equal(run_end(&run, errors), 4);
    int64_t passed_ms = (clock_monotonic_ns() - since_ns) / 1000000;
    assert_in_range(passed_ms, SITE_SILENCE_MS - 500, 5000);
    assert_non_null(
        strstr(errors, "skep: rank 1: was suspended for 3 s, so the others treat it as lost\n"));
    assert_non_null(strstr(errors, "skep: ranks 0, 2: did not end within 1 s and were killed\n"));
}

static void a_rank_that_is_stopped_and_goes_on_is_not_lost(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", false);
    run_await(&run, &run.board->ready, RANKS);
    kill(run.board->pids[1], SIGSTOP);
    wait_ms(1000);
    kill(run.board->pids[1], SIGCONT);
    wait_ms(100);
    run.board->asked = 1;
    assert_int_equal(run_end(&run, errors), 0);
    assert_string_equal(errors, "");
}

/* The counts of every rank: of signals that came directly, and of those that the parent sent. */
static void assert_signals(const struct run *run, int direct, int forwarded) {
    for (int rank = 0; rank < RANKS; rank++) {
        run_await(run, &run->board->direct[rank], direct);
        run_await(run, &run->board->forwarded[rank], forwarded);
    }
    wait_ms(50); /* for one too many */
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(run->board->direct[rank], direct);
        assert_int_equal(run->board->forwarded[rank], forwarded);
    }
}

static void a_signal_to_the_parent_reaches_every_rank_once(void **state) {
    (void)state;
    static const int SIGNALS[] = {SIGTERM, SIGINT, SIGHUP};
    char errors[2048];
    struct run run = run_start("work", false);
    run_await(&run, &run.board->ready, RANKS);
    for (int i = 0; i < 3; i++) {
        kill(run.parent, SIGNALS[i]);
        assert_signals(&run, 0, i + 1);
    }
    run.board->asked = 1;
    assert_int_equal(run_end(&run, errors), 0);
}

static void a_signal_to_the_whole_group_counts_once(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", false);
    run_await(&run, &run.board->ready, RANKS);
    for (int signals = 1; signals <= 2; signals++) {
        kill(-run.parent, SIGTERM);
        wait_ms(100);
        for (int rank = 0; rank < RANKS; rank++) {
            /* the kernel may also make one of two that are pending together */
            int direct = run.board->direct[rank];
            int forwarded = run.board->forwarded[rank];
            assert_int_equal(direct > forwarded ? direct : forwarded, signals);
        }
    }
    run.board->asked = 1;
    assert_int_equal(run_end(&run, errors), 0);
}

static void a_terminals_interrupt_reaches_every_rank_once(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", true);
    run_await(&run, &run.board->ready, RANKS);
    assert_int_equal(write(run.terminal, "\003", 1), 1);
    assert_signals(&run, 1, 0);
    run.board->asked = 1;
    assert_int_equal(run_end(&run, errors), 0);
}

static void ranks_are_asked_to_end_when_their_parent_is_killed(void **state) {
    (void)state;
    char errors[2048];
    struct run run = run_start("work", false);
    struct board *shared = run.board;
    run_await(&run, &shared->ready, RANKS);
    kill(run.parent, SIGKILL);
    assert_signals(&run, 1, 0);
    shared->asked = 1;
    assert_int_equal(run_end(&run, errors), 128 + SIGKILL);
}

int main(int argc, char **argv) {
    if (argc == 3 && getenv("SKEP_LAUNCHED") != NULL) {
        return rank_main(argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_end_well_give_0),
        cmocka_unit_test(the_rank_that_failed_by_itself_gives_the_exit_code),
        cmocka_unit_test(a_killed_rank_gives_4_and_is_named),
        cmocka_unit_test(a_signal_to_the_parent_reaches_every_rank_once),
        cmocka_unit_test(a_signal_to_the_whole_group_counts_once),
        cmocka_unit_test(a_terminals_interrupt_reaches_every_rank_once),
        cmocka_unit_test(ranks_are_asked_to_end_when_their_parent_is_killed),
        cmocka_unit_test(a_rank_that_is_stopped_before_it_has_met_the_others_is_lost),
        cmocka_unit_test(a_rank_that_is_stopped_and_goes_on_is_not_lost),
        cmocka_unit_test(a_rank_that_does_not_end_is_killed_after_the_grace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
