#include "ranks.h"

#include "base/check.h"
#include "base/clock.h"
#include "transport/site/site_socket.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What all processes of one test share. */
struct shared {
    _Atomic int stop;
    struct record records[TEST_RANKS_MAX];
};

static struct shared *shared_now; /* for the bodies */

void ranks_init(struct ranks *ranks, int world, int join_timeout_ms) {
    struct fault fault;
    memset(ranks, 0, sizeof *ranks);
    ranks->world = world;
    ranks->join_timeout_ms = join_timeout_ms;
    ASSERT(socket_listen_on_loopback(&ranks->listener, &ranks->port, &fault) == OK);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(shared != MAP_FAILED);
    ranks->stop = &shared->stop;
    ranks->records = shared->records;
    for (int i = 0; i < TEST_RANKS_MAX; i++) {
        ranks->records[i].status = -1;
        ranks->exit_codes[i] = -1;
    }
}

static struct shared *shared_of(const struct ranks *ranks) {
    return (struct shared *)((char *)ranks->records - offsetof(struct shared, records));
}

struct launch_info ranks_place(const struct ranks *ranks, int rank) {
    struct launch_info place = {.rank = rank,
                                .world = ranks->world,
                                .local_rank = rank,
                                .local_world = ranks->world,
                                .address = "127.0.0.1",
                                .port = ranks->port,
                                .source = "test",
                                .job = 7,
                                .listener = rank == 0 ? ranks->listener : 0,
                                .join_timeout_ms = ranks->join_timeout_ms};
    return place;
}

int ranks_start_place(struct ranks *ranks, const struct launch_info *place, rank_body *body) {
    int index = ranks->count++;
    ASSERT(index < TEST_RANKS_MAX);
    pid_t pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        shared_now = shared_of(ranks);
        if (place->listener == 0) {
            close(ranks->listener);
        }
        body(place, &ranks->records[index]);
        _exit(0);
    }
    ranks->pids[index] = pid;
    return index;
}

int ranks_start(struct ranks *ranks, int rank, rank_body *body) {
    struct launch_info place = ranks_place(ranks, rank);
    return ranks_start_place(ranks, &place, body);
}

void ranks_start_all(struct ranks *ranks, rank_body *body) {
    for (int rank = 0; rank < ranks->world; rank++) {
        (void)ranks_start(ranks, rank, body);
    }
}

static void reap(struct ranks *ranks) {
    for (int i = 0; i < ranks->count; i++) {
        int status = 0;
        if (ranks->exit_codes[i] < 0 && waitpid(ranks->pids[i], &status, WNOHANG) > 0) {
            ranks->exit_codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
}

static bool all_done(const struct ranks *ranks, ranks_condition *done, int but) {
    for (int i = 0; i < ranks->count; i++) {
        if (i != but && !done(ranks, i)) {
            return false;
        }
    }
    return true;
}

bool ranks_await(struct ranks *ranks, ranks_condition *done, int but, int timeout_ms) {
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    for (;;) {
        reap(ranks);
        if (all_done(ranks, done, but)) {
            return true;
        }
        if (clock_monotonic_ns() > deadline_ns) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

bool ranks_have_met(const struct ranks *ranks, int index) {
    return ranks->records[index].phase >= 1;
}

bool ranks_lost_one(const struct ranks *ranks, int index) {
    return ranks->records[index].lost_calls >= 1;
}

bool ranks_have_ended(const struct ranks *ranks, int index) {
    return ranks->exit_codes[index] >= 0;
}

void ranks_finish(struct ranks *ranks) {
    for (int i = 0; i < ranks->count; i++) {
        if (ranks->exit_codes[i] < 0) {
            kill(ranks->pids[i], SIGKILL);
            waitpid(ranks->pids[i], NULL, 0);
        }
    }
    close(ranks->listener);
    munmap(shared_of(ranks), sizeof(struct shared));
}

void ranks_note_lost(void *context, const struct fault *fault) {
    struct record *record = context;
    record->lost = *fault;
    record->lost_ns = clock_monotonic_ns();
    record->lost_calls++;
}

void ranks_work(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = NULL;
    int stops[TEST_RANKS_MAX];
    enum status status = site_open(place, &region, &site, &record->fault);
    if (status == OK) {
        status = site_start_watch(site, ranks_note_lost, record, &record->fault);
    }
    bool stop = false;
    while (status == OK && !stop) {
        int mine = shared_now->stop;
        status = site_exchange(site, &mine, sizeof mine, stops, &record->fault);
        for (int i = 0; status == OK && i < place->world; i++) {
            stop = stop || stops[i] != 0;
        }
        record->phase = 1;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    site_leave(site);
    record->status = (int)status;
}

void ranks_meet(const struct launch_info *place, struct record *record) {
    struct region region = {.newest = NULL};
    struct site *site = NULL;
    record->status = (int)site_open(place, &region, &site, &record->fault);
    record->phase = 1;
    site_leave(site);
}
