/* site_join: connects a rank other than 0 to rank 0. */
#include "transport/site/site_state.h"

#include "base/clock.h"
#include "base/text.h"
#include "transport/site/site_socket.h"

#include <string.h>
#include <sys/random.h>

enum {
    CONNECT_TIMEOUT_MS = 2000, /* timeout of one attempt, if the network drops packets */
    RETRY_DELAY_MS = 50,       /* delay between two attempts */
    /* Time to wait for an answer after the join timeout of this rank. Rank 0 answers by the end of
     * its own join timeout, which may be later. */
    ANSWER_MARGIN_MS = 5000,
};

static struct site_hello make_hello(const struct site *site, uint64_t nonce, enum site_link link) {
    struct site_hello hello = {.magic = SITE_MAGIC,
                               .version = SITE_VERSION,
                               .job_id = site->launch.job,
                               .nonce = nonce,
                               .link = (int32_t)link,
                               .rank = site->launch.rank,
                               .world = site->launch.world,
                               .process = site->process};
    return hello;
}

/* One attempt to connect to rank 0. */
struct join_attempt {
    const struct site *site;
    uint64_t nonce;        /* identifies this process to rank 0 */
    int answer_timeout_ms; /* timeout of the answer of rank 0 */
    bool is_final;         /* the failure is final: another attempt would fail in the same way */
};

static enum status check_answer(struct join_attempt *attempt, struct site_join_answer *answer,
                                struct fault *fault) {
    const struct launch_info *launch = &attempt->site->launch;
    char self[32];
    struct text text = text_over(self, sizeof self);
    text_add(&text, "rank %d", launch->rank);
    site_clean_text(answer->process.host_name, sizeof answer->process.host_name);
    site_clean_text(answer->text, sizeof answer->text);
    if (answer->magic == SITE_MAGIC &&
        (answer->outcome == SITE_JOIN_ACCEPTED || answer->outcome == SITE_JOIN_WELCOME)) {
        return OK;
    }
    attempt->is_final = true;
    if (answer->magic != SITE_MAGIC) {
        return fault_set(fault, STATUS_INPUT, "rank 0", "set MASTER_PORT to an unused port",
                         "another program listens at %s, port %d", launch->address, launch->port);
    }
    if (answer->outcome == SITE_JOIN_ABANDONED) {
        return fault_set(fault, STATUS_FAILED, "site",
                         "start all ranks within a minute of each other", "%s", answer->text);
    }
    return fault_set(fault, STATUS_INPUT, self,
                     "start every rank once, with the same version and world size",
                     "rank 0 rejected this process: %s", answer->text);
}

/* Open one connection: send the hello, receive the answer. */
static enum status open_connection(struct join_attempt *attempt, enum site_link link, int *fd,
                                   struct site_join_answer *answer, struct fault *fault) {
    const struct launch_info *launch = &attempt->site->launch;
    enum status status = socket_connect(launch, CONNECT_TIMEOUT_MS, fd, fault);
    if (status != OK) {
        attempt->is_final = status == STATUS_INPUT;
        return status;
    }
    struct site_hello hello = make_hello(attempt->site, attempt->nonce, link);
    /* Even if this send fails, rank 0 may have sent an answer. */
    (void)site_send(*fd, &hello, sizeof hello, 0);
    if (!site_receive_within(*fd, answer, sizeof *answer, attempt->answer_timeout_ms)) {
        return fault_set(fault, STATUS_FAILED, "rank 0",
                         "check the output of rank 0, and whether another program uses this port",
                         "the process at %s, port %d accepted the connection, but did not answer",
                         launch->address, launch->port);
    }
    return check_answer(attempt, answer, fault);
}

static enum status attempt_join(struct join_attempt *attempt, struct site_peer *rank_0,
                                struct fault *fault) {
    struct site_join_answer answer;
    enum status status =
        open_connection(attempt, SITE_LINK_EXCHANGE, &rank_0->exchange_fd, &answer, fault);
    if (status == OK) {
        status = open_connection(attempt, SITE_LINK_HEALTH, &rank_0->health_fd, &answer, fault);
    }
    if (status == OK) {
        rank_0->process = answer.process;
    } else {
        site_close_fd(&rank_0->exchange_fd);
        site_close_fd(&rank_0->health_fd);
    }
    return status;
}

enum status site_join(struct site *site, struct fault *fault) {
    int join_timeout_ms =
        site->launch.join_timeout_ms > 0 ? site->launch.join_timeout_ms : SITE_JOIN_S * 1000;
    int64_t deadline_ns = clock_monotonic_ns() + join_timeout_ms * NS_PER_MS;
    struct join_attempt attempt = {.site = site,
                                   .answer_timeout_ms = join_timeout_ms + ANSWER_MARGIN_MS};
    if (getrandom(&attempt.nonce, sizeof attempt.nonce, 0) != (ssize_t)sizeof attempt.nonce) {
        attempt.nonce = (uint64_t)clock_monotonic_ns() ^ (uint64_t)site->process.pid << 32;
    }
    struct fault newest;
    enum status status = attempt_join(&attempt, &site->peers[0], &newest);
    while (status != OK && !attempt.is_final && clock_monotonic_ns() < deadline_ns) {
        /* No event reports that another process has started to listen. */
        (void)poll(NULL, 0, RETRY_DELAY_MS);
        status = attempt_join(&attempt, &site->peers[0], &newest);
    }
    if (status != OK) {
        *fault = newest;
    }
    return status;
}
