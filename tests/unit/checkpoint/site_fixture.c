#include "tests/unit/checkpoint/site_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a rank says: its part of an agreement, or its end; and what it is answered. */
struct site_message {
    bool ends;
    int rounds;
    enum status status;
    struct fault fault;
};

struct site_rank {
    const struct site_work *work;
    int rank, fd, rounds;
};

static enum status agree(void *context, enum status mine, struct fault *fault) {
    struct site_rank *self = context;
    const struct site_work *work = self->work;
    struct site_message message = {.status = mine};
    self->rounds++;
    if (self->rank == work->failing_rank && self->rounds == work->failing_round && mine == OK) {
        message.status = fault_set(fault, STATUS_FAILED, "planted", NULL, "round %d", self->rounds);
    }
    if (message.status != OK) {
        message.fault = *fault;
    }
    ssize_t sent = send(self->fd, &message, sizeof message, MSG_NOSIGNAL);
    ssize_t got = recv(self->fd, &message, sizeof message, 0);
    ASSERT(sent == sizeof message && got == sizeof message);
    if (message.status == STATUS_LOST) {
        _exit(SITE_LOST);
    }
    if (message.status != OK) {
        *fault = message.fault;
    }
    return message.status;
}

static _Noreturn void be_rank(struct site_rank self) {
    const struct checkpoint_ranks site = {
        .rank = self.rank, .world = self.work->world, .agree = agree, .context = &self};
    struct site_message end = {.ends = true};
    end.status = self.work->run(self.work->context, &site, &end.fault);
    end.rounds = self.rounds;
    ssize_t sent = send(self.fd, &end, sizeof end, MSG_NOSIGNAL);
    ASSERT(sent == sizeof end);
    _exit(0);
}

static void start(const struct site_work *work, int rank, pid_t *child, int *fd) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *child = fork();
    assert_true(*child >= 0);
    if (*child == 0) {
        close(pair[0]);
        be_rank((struct site_rank){.work = work, .rank = rank, .fd = pair[1]});
    }
    close(pair[1]);
    *fd = pair[0];
}

/* One message of every rank, answered when all were for an agreement; false at the end. */
static bool take_round(int world, const int *fds, struct site_message *messages) {
    struct site_message answer = {.status = OK};
    int ended = 0;
    int lost = 0;
    for (int rank = 0; rank < world; rank++) {
        ssize_t got = recv(fds[rank], &messages[rank], sizeof messages[rank], 0);
        bool gone = got != sizeof messages[rank];
        lost += gone;
        ended += gone || messages[rank].ends;
        if (!gone && answer.status == OK && messages[rank].status != OK) {
            answer = messages[rank];
        }
    }
    if (ended == world) {
        return false;
    }
    if (ended > 0 && lost == 0) {
        fail_msg("%d ranks of %d ended while the others agree", ended, world);
    }
    answer.status = lost > 0 ? STATUS_LOST : answer.status;
    for (int rank = 0; rank < world; rank++) {
        ssize_t sent = send(fds[rank], &answer, sizeof answer, MSG_NOSIGNAL);
        (void)sent; /* the rank may have ended */
    }
    return lost == 0;
}

void site_run(const struct site_work *work, struct site_outcome outcomes[static SITE_RANKS_MAX]) {
    pid_t children[SITE_RANKS_MAX];
    int fds[SITE_RANKS_MAX];
    struct site_message messages[SITE_RANKS_MAX];
    memset(messages, 0, sizeof messages);
    for (int rank = 0; rank < work->world; rank++) {
        start(work, rank, &children[rank], &fds[rank]);
    }
    while (take_round(work->world, fds, messages)) {
    }
    for (int rank = 0; rank < work->world; rank++) {
        int ended = 0;
        assert_int_equal(waitpid(children[rank], &ended, 0), children[rank]);
        assert_true(WIFEXITED(ended));
        outcomes[rank] = (struct site_outcome){.exit_code = WEXITSTATUS(ended),
                                               .rounds = messages[rank].rounds,
                                               .status = messages[rank].status,
                                               .fault = messages[rank].fault};
        close(fds[rank]);
    }
}

void site_assert_same(const struct site_work *work, const struct site_outcome *outcomes,
                      enum status status) {
    for (int rank = 0; rank < work->world; rank++) {
        assert_int_equal(outcomes[rank].exit_code, 0);
        if (outcomes[rank].status != status) {
            fail_msg("rank %d: status %d (%s: %s)", rank, (int)outcomes[rank].status,
                     outcomes[rank].fault.subject, outcomes[rank].fault.reason);
        }
        assert_int_equal(outcomes[rank].rounds, outcomes[0].rounds);
        if (status != OK) {
            assert_string_equal(outcomes[rank].fault.subject, outcomes[0].fault.subject);
            assert_string_equal(outcomes[rank].fault.reason, outcomes[0].fault.reason);
        }
    }
}
