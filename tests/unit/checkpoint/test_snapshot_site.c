/* Several ranks save one snapshot: a failure or the death of any of them, at any point, leaves the
 * old or the new state to be found, and is the same on every rank. */
#include "tests/unit/checkpoint/disk_double.h"
#include "tests/unit/checkpoint/run_fixture.h"
#include "tests/unit/checkpoint/site_fixture.h"

#include "base/file.h"
#include "runtime/checkpoint/folder.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORLD = 3, CALLS_MAX = 200, OLD_STEP = 2, NEW_STEP = 3 };

/* One save by all ranks; `rank` has a bad disk. */
struct save_work {
    struct run_fixture *run;
    int rank; /* SITE_ANY: none */
    enum disk_mode mode;
    int at;                /* the file call at which the disk acts */
    rlim_t file_bytes;     /* the most that a file of `rank` may have; 0: no limit */
    bool leader_is_idle;   /* rank 0 holds nothing, the others all */
    int *calls;            /* not NULL: shared; the calls of `rank` */
    const char *elsewhere; /* not NULL: where rank 1 looks for the folder */
};

static void limit_file_bytes(rlim_t bytes) {
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
    signal(SIGXFSZ, SIG_IGN);
    int outcome = setrlimit(RLIMIT_FSIZE, &limit);
    ASSERT(outcome == 0);
}

/* Once a rank knows of the failure nothing is left, unless rank 0 could not remove it. */
static void check_cleared(const struct save_work *work, const struct checkpoint_ranks *site,
                          enum status status) {
    static char path[PATH_BYTES];
    snapshot_path(work->run->folder, SNAPSHOT_INCOMPLETE, NEW_STEP, path);
    ASSERT(status == OK || work->rank == 0 || site->rank == 0 || !file_exists(path));
}

static enum status save(void *context, const struct checkpoint_ranks *site, struct fault *fault) {
    struct save_work *work = context;
    struct run_fixture *run = work->run;
    struct snapshot_writer writer;
    run->args.ranks = *site;
    if (work->elsewhere != NULL && site->rank == 1) {
        run->args.folder = work->elsewhere;
    }
    if (!work->leader_is_idle) {
        run_take_part(run, site->rank, site->world);
    } else {
        int holders = site->world - 1;
        run_take_part(run, site->rank == 0 ? holders : site->rank - 1, holders);
    }
    enum status status = snapshot_writer_init(&run->args, &run->region, &writer, fault);
    if (status != OK) {
        return status;
    }
    bool bad = site->rank == work->rank;
    if (bad && work->file_bytes > 0) {
        limit_file_bytes(work->file_bytes);
    }
    disk_begin(bad ? work->mode : DISK_PASS, bad ? work->at : 0, true);
    status = run_save(run, &writer, NEW_STEP);
    ASSERT(disk_allocations() == 0);
    int calls = disk_end();
    if (bad && work->calls != NULL) {
        *work->calls = calls;
    }
    *fault = run->fault;
    check_cleared(work, site, status);
    return status;
}

/* Steps 1 and 2 are there, saved by one rank. */
static struct run_fixture *prepare(void) {
    struct run_fixture *run = run_start(2);
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    assert_int_equal(run_save(run, &writer, 1), OK);
    assert_int_equal(run_save(run, &writer, OLD_STEP), OK);
    return run;
}

static void assert_nothing_beside(struct run_fixture *run) {
    struct folder_walk walk;
    assert_int_equal(folder_walk_begin(run->folder, &walk, &run->fault), OK);
    while (folder_walk_next(&walk)) {
        if (strncmp(walk.name, "step-", 5) != 0) {
            fail_msg("%s is left", walk.name);
        }
    }
    folder_walk_end(&walk);
}

/* Then one rank opens the folder, and all save on. */
static void assert_goes_on(struct run_fixture *run) {
    struct snapshot_writer writer;
    run_fixture_open(run, &writer);
    assert_nothing_beside(run);
    assert_int_equal(run_save(run, &writer, 7), OK);
    assert_int_equal(run_newest(run), 7);
}

static void assert_old_or_new(struct run_fixture *run, const struct save_work *work) {
    int64_t newest = run_newest(run);
    if (newest != OLD_STEP && newest != NEW_STEP) {
        fail_msg("rank %d, call %d: newest is %lld", work->rank, work->at, (long long)newest);
    }
}

/* As on machines whose disks are their own. */
static void a_rank_that_sees_another_folder_is_told_that_all_need_the_same(void **state) {
    (void)state;
    struct run_fixture *run = prepare();
    struct save_work work = {.run = run, .rank = SITE_ANY, .elsewhere = "/nowhere"};
    const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
    struct site_outcome outcomes[SITE_RANKS_MAX];
    site_run(&site, outcomes);
    site_assert_same(&site, outcomes, STATUS_FAILED);
    assert_non_null(strstr(outcomes[0].fault.subject, "/nowhere/"));
    assert_non_null(strstr(outcomes[0].fault.remedy, "every rank"));
    assert_nothing_beside(run);
    run_finish(run);
}

static void a_failure_before_any_agreement_is_every_ranks(void **state) {
    (void)state;
    enum { ROUNDS = 4 }; /* one to open the folder, three to save */
    for (int rank = 0; rank < WORLD; rank++) {
        for (int round = 1; round <= ROUNDS; round++) {
            struct run_fixture *run = prepare();
            struct save_work work = {.run = run, .rank = SITE_ANY};
            const struct site_work site = {WORLD, save, &work, rank, round};
            struct site_outcome outcomes[SITE_RANKS_MAX];
            site_run(&site, outcomes);
            site_assert_same(&site, outcomes, STATUS_FAILED);
            assert_string_equal(outcomes[0].fault.subject, "planted");
            assert_nothing_beside(run);
            assert_int_equal(run_newest(run), round == ROUNDS ? NEW_STEP : OLD_STEP);
            assert_string_equal(run_steps(run), round == ROUNDS ? "2 3" : "1 2");
            assert_goes_on(run);
            run_finish(run);
        }
    }
}

static int count_calls(int rank) {
    int *calls =
        mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(calls != MAP_FAILED);
    struct run_fixture *run = prepare();
    struct save_work work = {.run = run, .rank = rank, .mode = DISK_PASS, .calls = calls};
    const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
    struct site_outcome outcomes[SITE_RANKS_MAX];
    site_run(&site, outcomes);
    site_assert_same(&site, outcomes, OK);
    run_finish(run);
    int counted = *calls;
    munmap(calls, sizeof *calls);
    assert_in_range(counted, 6, CALLS_MAX); /* two files: open, write, sync */
    return counted;
}

static void a_bad_disk_of_any_rank_leaves_the_old_or_the_new_state(void **state) {
    (void)state;
    for (int rank = 0; rank < WORLD; rank++) {
        int calls = count_calls(rank);
        for (int at = 1; at <= calls; at++) {
            struct run_fixture *run = prepare();
            struct save_work work = {.run = run, .rank = rank, .mode = DISK_ERROR, .at = at};
            const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
            struct site_outcome outcomes[SITE_RANKS_MAX];
            site_run(&site, outcomes);
            site_assert_same(&site, outcomes, outcomes[0].status);
            assert_old_or_new(run, &work);
            if (rank > 0) {
                assert_true(outcomes[0].status != OK);
                assert_nothing_beside(run);
                assert_int_equal(run_newest(run), OLD_STEP);
            }
            assert_goes_on(run);
            run_finish(run);
        }
    }
}

static void the_death_of_any_rank_leaves_the_old_or_the_new_state(void **state) {
    (void)state;
    for (int rank = 0; rank < WORLD; rank++) {
        int calls = count_calls(rank);
        for (int at = 1; at <= calls; at++) {
            struct run_fixture *run = prepare();
            struct save_work work = {.run = run, .rank = rank, .mode = DISK_TEAR, .at = at};
            const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
            struct site_outcome outcomes[SITE_RANKS_MAX];
            site_run(&site, outcomes);
            for (int other = 0; other < WORLD; other++) {
                assert_int_equal(outcomes[other].exit_code,
                                 other == rank ? DISK_KILLED : SITE_LOST);
            }
            assert_old_or_new(run, &work);
            assert_goes_on(run);
            run_finish(run);
        }
    }
}

static void a_file_that_may_not_grow_is_a_full_disk_on_every_rank(void **state) {
    (void)state;
    for (int rank = 0; rank < WORLD; rank++) {
        struct run_fixture *run = prepare();
        struct save_work work = {.run = run, .rank = rank, .file_bytes = 100};
        const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
        struct site_outcome outcomes[SITE_RANKS_MAX];
        site_run(&site, outcomes);
        site_assert_same(&site, outcomes, STATUS_FIT);
        assert_nothing_beside(run);
        assert_string_equal(run_steps(run), "1 2");
        assert_int_equal(run_newest(run), OLD_STEP);
        run_finish(run);
    }
}

static bool tell_kernel(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    bool told = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) {
        close(fd);
    }
    return told;
}

/* From here the process has mounts of its own; false where that is not allowed. */
static bool leave_the_mounts(void) {
    char user[32];
    char group[32];
    snprintf(user, sizeof user, "0 %u 1", (unsigned)getuid());
    snprintf(group, sizeof group, "0 %u 1", (unsigned)getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           tell_kernel("/proc/self/setgroups", "deny") && tell_kernel("/proc/self/uid_map", user) &&
           tell_kernel("/proc/self/gid_map", group);
}

/* A file system of so many pages, two snapshots of four small files, and a third. False when it
 * cannot be had. */
static bool fill_disk(int pages) {
    struct run_fixture *run = run_start(2);
    static char place[PATH_BYTES];
    char size[32];
    file_parent_folder(run->folder, place, sizeof place);
    snprintf(size, sizeof size, "size=%dk", pages * 4);
    bool mounted = mount("tmpfs", place, "tmpfs", 0, size) == 0;
    if (mounted) {
        struct snapshot_writer writer;
        struct save_work work = {.run = run, .rank = SITE_ANY};
        const struct site_work site = {WORLD, save, &work, SITE_ANY, 0};
        struct site_outcome outcomes[SITE_RANKS_MAX];
        run_fixture_open(run, &writer);
        assert_int_equal(run_save(run, &writer, 1), OK);
        assert_int_equal(run_save(run, &writer, OLD_STEP), OK);
        site_run(&site, outcomes);
        site_assert_same(&site, outcomes, pages < 12 ? STATUS_FIT : OK);
        assert_nothing_beside(run);
        assert_int_equal(run_newest(run), pages < 12 ? OLD_STEP : NEW_STEP);
        assert_int_equal(umount2(place, MNT_DETACH), 0);
    }
    assert_int_equal(mkdir(run->folder, 0755), 0);
    run_finish(run);
    return mounted;
}

/* It must be the last test: its process keeps mounts of its own. */
static void a_full_disk_is_one_on_every_rank(void **state) {
    (void)state;
    if (sysconf(_SC_PAGESIZE) != 4096 || !leave_the_mounts()) {
        skip();
    }
    for (int pages = 8; pages <= 12; pages++) {
        if (!fill_disk(pages)) {
            skip();
        }
    }
}

static void a_leader_that_holds_nothing_leads(void **state) {
    (void)state;
    for (int world = 2; world <= SITE_RANKS_MAX; world += 3) {
        struct run_fixture *run = prepare();
        struct save_work work = {.run = run, .rank = SITE_ANY, .leader_is_idle = true};
        const struct site_work site = {world, save, &work, SITE_ANY, 0};
        struct site_outcome outcomes[SITE_RANKS_MAX];
        site_run(&site, outcomes);
        site_assert_same(&site, outcomes, OK);
        assert_string_equal(run_steps(run), "2 3");
        assert_int_equal(run_newest(run), NEW_STEP);
        run_finish(run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_sees_another_folder_is_told_that_all_need_the_same),
        cmocka_unit_test(a_failure_before_any_agreement_is_every_ranks),
        cmocka_unit_test(a_bad_disk_of_any_rank_leaves_the_old_or_the_new_state),
        cmocka_unit_test(the_death_of_any_rank_leaves_the_old_or_the_new_state),
        cmocka_unit_test(a_file_that_may_not_grow_is_a_full_disk_on_every_rank),
        cmocka_unit_test(a_leader_that_holds_nothing_leads),
        cmocka_unit_test(a_full_disk_is_one_on_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
