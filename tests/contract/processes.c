#include "tests/contract/processes.h"

#include "base/region.h"
#include "transport/collectives/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void processes_start(struct processes *processes, int world, process_body *body, void *context) {
    *processes = (struct processes){.world = world};
    processes->board = mmap(NULL, sizeof *processes->board, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(processes->board != MAP_FAILED);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&processes->board->barrier, &attributes, (unsigned)world);
    pid_t parent = getpid();
    for (int rank = 0; rank < world; rank++) {
        pid_t id = fork();
        ASSERT(id >= 0);
        if (id == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) {
                body(processes, rank, context);
            }
            _exit(0);
        }
        processes->ids[rank] = id;
    }
}

static void kill_all(struct processes *processes) {
    for (int rank = 0; rank < processes->world; rank++) {
        if (processes->ids[rank] != 0) {
            kill(processes->ids[rank], SIGKILL);
        }
    }
}

void processes_wait(struct processes *processes) {
    int status;
    pid_t id = waitpid(-1, &status, 0);
    while (id > 0 || errno == EINTR) {
        bool bad = false;
        for (int rank = 0; rank < processes->world; rank++) {
            if (id > 0 && processes->ids[rank] == id) {
                processes->ids[rank] = 0;
                bad = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
            }
        }
        if (bad) {
            kill_all(processes);
        }
        id = waitpid(-1, &status, 0);
    }
}

void processes_finish(struct processes *processes) {
    munmap(processes->board, sizeof *processes->board);
}

enum status processes_exchange(void *context, const void *mine, size_t bytes, void *all,
                               struct fault *fault) {
    (void)fault;
    struct processes_seat *seat = context;
    struct processes_board *board = seat->processes->board;
    ASSERT(bytes <= BLOB_BYTES);
    memcpy(board->blobs[seat->rank], mine, bytes);
    pthread_barrier_wait(&board->barrier);
    for (int rank = 0; rank < seat->processes->world; rank++) {
        memcpy((unsigned char *)all + (size_t)rank * bytes, board->blobs[rank], bytes);
    }
    pthread_barrier_wait(&board->barrier);
    return OK;
}

int shared_memory(uint64_t bytes, unsigned char **address) {
    int fd = memfd_create("skep test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    ASSERT(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT(*address != MAP_FAILED);
    return fd;
}

void run_shm_member(struct processes *processes, struct member *member, member_body *body,
                    void *context) {
    struct fault fault;
    struct region region = {0};
    struct processes_seat seat = {processes, member->rank};
    struct shm_args args = {.rank = member->rank,
                            .world = member->layout->world,
                            .groups = member->groups.groups,
                            .group_count = LAYOUT_GROUPS,
                            .exchange = processes_exchange,
                            .context = &seat};
    enum status status = shm_open_communicator(&args, &region, &member->communicator, &fault);
    const enum space spaces[] = {SPACE_DEVICE, SPACE_HOST};
    for (size_t i = 0; i < ARRAY_COUNT(spaces) && status == OK; i++) {
        int fd = shared_memory(member->bytes, &member->memory[spaces[i]]);
        status = shm_register(&member->communicator, spaces[i], fd, member->memory[spaces[i]],
                              member->bytes, &fault);
        close(fd);
    }
    if (status != OK) {
        outcome_fail(member->outcome, "%s: %s", fault.subject, fault.reason);
        return;
    }
    body(member, context);
    communicator_close(&member->communicator);
    munmap(member->memory[SPACE_DEVICE], member->bytes);
    munmap(member->memory[SPACE_HOST], member->bytes);
    region_finish(&region);
    member->outcome->ended = true;
}
