/* Tests of transport/shm: what cannot be shared is refused, on every rank, and nothing is kept. */
#include "base/region.h"
#include "tests/contract/processes.h"
#include "transport/collectives/shm.h"
#include "transport/collectives/shm_ticket.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 3 << 20 };

static struct fault fault;

static void own_memory_is_mapped_by_its_ticket(void **state) {
    (void)state;
    unsigned char *own;
    void *seen = NULL;
    struct shm_ticket ticket;
    int fd = shared_memory(BYTES, &own);
    assert_int_equal(shm_ticket_make(fd, BYTES - 5, &ticket, &fault), OK);
    assert_int_equal(shm_ticket_map(&ticket, 0, 0, &seen, &fault), OK);
    close(fd);
    memset(own, 0x5a, BYTES);
    assert_memory_equal(seen, own, BYTES - 5);
    assert_int_equal((uintptr_t)seen % (2 << 20), 0);
    shm_ticket_unmap(seen, ticket.bytes);
    munmap(own, BYTES);
}

static void a_file_with_a_name_is_refused(void **state) {
    (void)state;
    struct shm_ticket ticket = {0};
    int fd = open("/proc/self/exe", O_RDONLY);
    assert_int_equal(shm_ticket_make(fd, 16, &ticket, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.reason, "anonymous memory file"));
    assert_int_equal(ticket.pid, 0);
    struct stat stat;
    assert_int_equal(fstat(fd, &stat), 0);
    ticket = (struct shm_ticket){
        .pid = getpid(), .fd = fd, .bytes = 16, .device = stat.st_dev, .inode = stat.st_ino};
    void *seen = NULL;
    assert_int_equal(shm_ticket_map(&ticket, 1, 0, &seen, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.subject, "rank 1"));
    assert_non_null(strstr(fault.reason, "anonymous memory file"));
    assert_null(seen);
    close(fd);
}

static void memory_that_can_shrink_is_refused(void **state) {
    (void)state;
    struct shm_ticket ticket;
    int fd = memfd_create("skep test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(shm_ticket_make(fd, 4096, &ticket, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.reason, "sealed"));
    close(fd);
}

/* A ticket with one thing changed: the fault says what is wrong. */
static void assert_refused(struct shm_ticket ticket, const char *reason) {
    void *seen = NULL;
    assert_int_equal(shm_ticket_map(&ticket, 3, 0, &seen, &fault), STATUS_FAILED);
    assert_non_null(strstr(fault.subject, "rank 3"));
    assert_non_null(strstr(fault.reason, reason));
    assert_null(seen);
}

static void a_ticket_that_does_not_fit_its_memory_is_refused(void **state) {
    (void)state;
    unsigned char *own;
    struct shm_ticket ticket;
    int fd = shared_memory(BYTES, &own);
    assert_int_equal(shm_ticket_make(fd, BYTES, &ticket, &fault), OK);
    struct shm_ticket changed = ticket;
    changed.bytes++;
    assert_refused(changed, "instead of");
    changed = ticket;
    changed.inode++;
    assert_refused(changed, "is not the memory");
    changed = ticket;
    changed.fd = 4000;
    assert_refused(changed, "cannot be opened");
    close(fd);
    munmap(own, BYTES);
}

/* A rank of three that opens with groups, then registers memory, as the scene says. */
struct scene {
    int odd_rank;        /* the one that differs */
    bool other_groups;   /* takes part in other groups */
    uint64_t more_bytes; /* has more memory */
    bool no_memory;      /* registers what cannot be shared */
};

struct verdict {
    enum status opened, registered;
};

static struct verdict join(struct processes *processes, int rank, const struct scene *scene) {
    struct region region = {0};
    struct communicator communicator;
    struct processes_seat seat = {processes, rank};
    bool odd = rank == scene->odd_rank;
    int straight[] = {0, 1, 2};
    int swapped[] = {0, 2, 1};
    bool swap = odd && scene->other_groups;
    struct collective_group group = {.ranks = swap ? swapped : straight, .size = 3};
    group.index = swap && rank > 0 ? 3 - rank : rank;
    struct shm_args args = {.rank = rank,
                            .world = 3,
                            .groups = &group,
                            .group_count = 1,
                            .exchange = processes_exchange,
                            .context = &seat};
    struct verdict verdict = {0};
    verdict.opened = shm_open_communicator(&args, &region, &communicator, &fault);
    if (verdict.opened == OK) {
        unsigned char *memory;
        uint64_t bytes = BYTES + (odd ? scene->more_bytes : 0);
        int fd = shared_memory(bytes, &memory);
        int given = odd && scene->no_memory ? STDIN_FILENO : fd;
        verdict.registered =
            shm_register(&communicator, SPACE_DEVICE, given, memory, bytes, &fault);
        ASSERT(verdict.registered == OK || communicator.space_bytes[SPACE_DEVICE] == 0);
        communicator_close(&communicator);
    }
    region_finish(&region);
    return verdict;
}

static void run_rank(struct processes *processes, int rank, void *context) {
    struct verdict verdict = join(processes, rank, context);
    outcome_fail(&processes->board->outcomes[rank], "%d %d %.120s: %.120s", verdict.opened,
                 verdict.registered, fault.subject, fault.reason);
    processes->board->outcomes[rank].ended = true;
}

/* Every rank's statuses and, somewhere in its message, `reason` where there is one. */
static void assert_all_refuse(struct scene scene, const char *statuses, const char *reason) {
    struct processes processes;
    processes_start(&processes, 3, run_rank, &scene);
    processes_wait(&processes);
    for (int rank = 0; rank < 3; rank++) {
        const struct outcome *outcome = &processes.board->outcomes[rank];
        assert_true(outcome->ended);
        if (strncmp(outcome->failure, statuses, strlen(statuses)) != 0 ||
            strstr(outcome->failure, reason) == NULL) {
            print_error("rank %d: %s\n", rank, outcome->failure);
            fail();
        }
    }
    processes_finish(&processes);
}

static void ranks_that_disagree_on_groups_are_refused_everywhere(void **state) {
    (void)state;
    assert_all_refuse((struct scene){.odd_rank = 2, .other_groups = true}, "2 0",
                      "disagree about the ranks that group 0 contains");
}

static void ranks_with_unequal_memory_are_refused_everywhere(void **state) {
    (void)state;
    assert_all_refuse((struct scene){.odd_rank = 1, .more_bytes = 4096}, "0 2", "bytes, but rank");
}

static void a_rank_without_memory_is_refused_everywhere(void **state) {
    (void)state;
    assert_all_refuse((struct scene){.odd_rank = 0, .no_memory = true}, "0 4", "shared memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_memory_is_mapped_by_its_ticket),
        cmocka_unit_test(a_file_with_a_name_is_refused),
        cmocka_unit_test(memory_that_can_shrink_is_refused),
        cmocka_unit_test(a_ticket_that_does_not_fit_its_memory_is_refused),
        cmocka_unit_test(ranks_that_disagree_on_groups_are_refused_everywhere),
        cmocka_unit_test(ranks_with_unequal_memory_are_refused_everywhere),
        cmocka_unit_test(a_rank_without_memory_is_refused_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
