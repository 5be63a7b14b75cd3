/* Tests of how calls end when ranks do not come: aborted by any thread, or their peer killed. */
#include "base/clock.h"
#include "tests/contract/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 1 << 16, CALLS_BEFORE_KILL = 200, KILLS = 10 };

static const int64_t END_NS = 1000000000; /* from abort to return; 0.2 s are promised */
static const struct layout THREE = {"3 shards", 3, 3};

/* A second thread of a rank, which ends the rank's calls. */
struct ender {
    struct communicator *communicator;
    int fd; /* aborts when it can be read to its end; -1: after a while */
    _Atomic bool ended;
    _Atomic int64_t aborted_ns;
};

static void *end_calls(void *argument) {
    struct ender *ender = argument;
    char byte;
    if (ender->fd >= 0) {
        while (read(ender->fd, &byte, 1) > 0) {
        }
    } else {
        /* Only makes it likely that the call sleeps by now; what must hold, holds either way. */
        nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    }
    atomic_store(&ender->aborted_ns, clock_monotonic_ns());
    atomic_store(&ender->ended, true);
    communicator_abort(ender->communicator);
    return NULL;
}

static pthread_t start_ender(struct ender *ender) {
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, end_calls, ender);
    ASSERT(failed == 0);
    return thread;
}

static void check_end_time(struct member *member, const struct ender *ender) {
    int64_t late_ns = clock_monotonic_ns() - atomic_load(&ender->aborted_ns);
    if (!atomic_load(&ender->ended) || late_ns > END_NS) {
        outcome_fail(member->outcome, "returned %.3f s after abort", (double)late_ns * 1e-9);
    }
}

/* Rank 0 makes no call, so that nobody else's can end by itself. */
static void wait_for_absent_rank(struct member *member, void *context) {
    const struct collective_call *call = context;
    struct ender ender = {.communicator = &member->communicator, .fd = -1};
    if (member->rank != 0) {
        pthread_t thread = start_ender(&ender);
        collective_run(&member->communicator, call);
        pthread_join(thread, NULL);
        check_end_time(member, &ender);
        collective_run(&member->communicator, call);
        check_end_time(member, &ender);
    }
}

static void abort_ends_calls_of_every_kind_that_wait(void **state) {
    (void)state;
    for (int i = 0; i < IMPLEMENTATION_COUNT; i++) {
        for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
            struct collective_call call = {.kind = (enum collective_kind)kind,
                                           .group = GROUP_WORLD,
                                           .wire = DTYPE_F32,
                                           .slot_bytes = 64};
            call.from = kind == COLLECTIVE_ALL_TO_ALL ? 1024 : 0;
            world_run(&IMPLEMENTATIONS[i], &THREE, BYTES, wait_for_absent_rank, &call);
        }
    }
}

/* What the test process and its ranks have between them while one is killed. */
struct kill_scene {
    const struct implementation *implementation;
    int ready[2]; /* rank 2 writes when it is in the middle of its calls */
    int lost[2];  /* closed by the test when rank 2 is dead */
    int victim_calls;
};

static void call_until_ended(struct member *member, const struct ender *ender,
                             const struct kill_scene *scene) {
    struct collective_call call = {
        .kind = COLLECTIVE_ALL_REDUCE, .group = GROUP_WORLD, .wire = DTYPE_F32, .slot_bytes = 4096};
    for (int i = 0; !atomic_load(&ender->ended); i++) {
        if (member->rank == 2 && i == scene->victim_calls) {
            ssize_t written = write(scene->ready[1], "", 1);
            ASSERT(written == 1);
        }
        collective_run(&member->communicator, &call);
    }
}

static void survive(struct member *member, void *context) {
    const struct kill_scene *scene = context;
    struct ender ender = {.communicator = &member->communicator, .fd = scene->lost[0]};
    pthread_t thread = start_ender(&ender);
    call_until_ended(member, &ender, scene);
    check_end_time(member, &ender);
    pthread_join(thread, NULL);
}

/* Memory of the ranks that this process still maps or has open. */
static bool has_traces(void) {
    static char maps[1 << 18];
    char link[64];
    char target[256];
    int fd = open("/proc/self/maps", O_RDONLY);
    size_t length = 0;
    ssize_t got = read(fd, maps, sizeof maps - 1);
    while (got > 0) {
        length += (size_t)got;
        got = read(fd, maps + length, sizeof maps - 1 - length);
    }
    close(fd);
    maps[length] = '\0';
    bool found = length == 0 || strstr(maps, "memfd:skep") != NULL;
    for (fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(link, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = '\0';
        found = found || strstr(target, "memfd:skep") != NULL;
    }
    return found;
}

static void run_survivor(struct processes *processes, int rank, void *context) {
    static struct member member;
    struct kill_scene *scene = context;
    close(scene->lost[1]);
    member = (struct member){.rank = rank,
                             .layout = &THREE,
                             .bytes = BYTES,
                             .outcome = &processes->board->outcomes[rank]};
    layout_groups_of(&THREE, rank, &member.groups);
    scene->implementation->run_member(processes, &member, survive, scene);
    if (has_traces()) {
        outcome_fail(member.outcome, "shared memory is left after closing");
    }
}

static int files_in_shm(void) {
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

static void kill_rank_two(struct processes *processes, const struct kill_scene *scene) {
    char byte;
    ssize_t got = read(scene->ready[0], &byte, 1);
    assert_int_equal(got, 1);
    kill(processes->ids[2], SIGKILL);
    waitpid(processes->ids[2], NULL, 0);
    processes->ids[2] = 0;
    close(scene->lost[1]);
}

static void kill_one(const struct implementation *implementation, int victim_calls) {
    struct processes processes;
    struct kill_scene scene = {.implementation = implementation, .victim_calls = victim_calls};
    assert_int_equal(pipe(scene.ready), 0);
    assert_int_equal(pipe(scene.lost), 0);
    processes_start(&processes, THREE.world, run_survivor, &scene);
    kill_rank_two(&processes, &scene);
    processes_wait(&processes);
    for (int rank = 0; rank < 2; rank++) {
        assert_string_equal(processes.board->outcomes[rank].failure, "");
        assert_true(processes.board->outcomes[rank].ended);
    }
    assert_false(processes.board->outcomes[2].ended);
    processes_finish(&processes);
    close(scene.ready[0]);
    close(scene.ready[1]);
    close(scene.lost[0]);
}

static void a_killed_rank_leaves_nothing_and_the_others_return(void **state) {
    (void)state;
    int files = files_in_shm();
    for (int i = 0; i < IMPLEMENTATION_COUNT * KILLS; i++) {
        const struct implementation *implementation = &IMPLEMENTATIONS[i / KILLS];
        if (implementation->run_member != NULL) { /* no thread can be killed */
            kill_one(implementation, i % KILLS * CALLS_BEFORE_KILL / KILLS);
        }
    }
    assert_int_equal(files_in_shm(), files);
}

int main(void) {
    if (!implementations_can_run()) {
        return 77; /* a test that was skipped */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(abort_ends_calls_of_every_kind_that_wait),
        cmocka_unit_test(a_killed_rank_leaves_nothing_and_the_others_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
