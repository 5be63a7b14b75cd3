/* site_join: the side of ranks 1 and up at the meeting. */
#include "transport/site/site_state.h"

#include "base/clock.h"
#include "base/text.h"
#include "transport/site/site_socket.h"

#include <string.h>
#include <sys/random.h>

enum {
    CONNECT_MS = 2000, /* for one attempt, where the network swallows it */
    RETRY_MS = 50,
    /* rank 0 speaks at the end of its own waiting, which began before it took our connection */
    ANSWER_EXTRA_MS = 5000,
};

static struct site_hello hello_of(const struct site *site, uint64_t nonce, enum site_link link) {
    struct site_hello hello = {.magic = WIRE_MAGIC,
                               .version = WIRE_VERSION,
                               .job = site->place.job,
                               .nonce = nonce,
                               .link = (int32_t)link,
                               .rank = site->place.rank,
                               .world = site->place.world,
                               .name = site->name};
    return hello;
}

/* What one attempt needs and finds. */
struct attempt {
    const struct site *site;
    uint64_t nonce;
    int answer_ms;
    bool final; /* a further attempt cannot end otherwise */
};

static enum status weigh_answer(struct attempt *attempt, struct site_join_answer *answer,
                                struct fault *fault) {
    const struct launch_info *place = &attempt->site->place;
    char self[32];
    struct text text = text_over(self, sizeof self);
    text_add(&text, "rank %d", place->rank);
    site_clean_text(answer->name.host, sizeof answer->name.host);
    site_clean_text(answer->text, sizeof answer->text);
    if (answer->magic == WIRE_MAGIC &&
        (answer->outcome == SITE_JOIN_ACCEPTED || answer->outcome == WIRE_WELCOME)) {
        return OK;
    }
    attempt->final = true;
    if (answer->magic != WIRE_MAGIC) {
        return fault_set(fault, STATUS_INPUT, "rank 0", "set MASTER_PORT to one that is free",
                         "another program listens at %s, port %d", place->address, place->port);
    }
    if (answer->outcome == SITE_JOIN_ABANDONED) {
        return fault_set(fault, STATUS_FAILED, "site",
                         "start all ranks, within a minute of each other", "%s", answer->text);
    }
    return fault_set(fault, STATUS_INPUT, self,
                     "start every rank once, with the same version and world size",
                     "rank 0 refused this process: %s", answer->text);
}

/* One connection: say who we are, hear what rank 0 says. */
static enum status introduce(struct attempt *attempt, enum site_link link, int *fd,
                             struct site_join_answer *answer, struct fault *fault) {
    const struct launch_info *place = &attempt->site->place;
    enum status status = socket_connect(place, CONNECT_MS, fd, fault);
    if (status != OK) {
        attempt->final = status == STATUS_INPUT;
        return status;
    }
    struct site_hello hello = hello_of(attempt->site, attempt->nonce, link);
    (void)site_send(*fd, &hello, sizeof hello, 0); /* it may have answered before it closed */
    if (!site_receive_within(*fd, answer, sizeof *answer, attempt->answer_ms)) {
        return fault_set(fault, STATUS_FAILED, "rank 0",
                         "see what rank 0 says, or whether another program has this port",
                         "took the connection at %s, port %d, and closed it or said nothing",
                         place->address, place->port);
    }
    return weigh_answer(attempt, answer, fault);
}

static enum status attempt_both(struct attempt *attempt, struct site_peer *rank_0,
                                struct fault *fault) {
    struct site_join_answer answer;
    enum status status = introduce(attempt, WIRE_EXCHANGE, &rank_0->exchange_fd, &answer, fault);
    if (status == OK) {
        status = introduce(attempt, WIRE_HEALTH, &rank_0->health_fd, &answer, fault);
    }
    if (status == OK) {
        rank_0->name = answer.name;
    } else {
        site_close(&rank_0->exchange_fd);
        site_close(&rank_0->health_fd);
    }
    return status;
}

enum status site_join(struct site *site, struct fault *fault) {
    int meet_ms = site->place.meet_ms > 0 ? site->place.meet_ms : SITE_JOIN_S * 1000;
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)meet_ms * 1000000;
    struct attempt attempt = {.site = site, .answer_ms = meet_ms + ANSWER_EXTRA_MS};
    if (getrandom(&attempt.nonce, sizeof attempt.nonce, 0) != (ssize_t)sizeof attempt.nonce) {
        attempt.nonce = (uint64_t)clock_monotonic_ns() ^ (uint64_t)site->name.pid << 32;
    }
    struct fault newest;
    enum status status = attempt_both(&attempt, &site->peers[0], &newest);
    while (status != OK && !attempt.final && clock_monotonic_ns() < deadline_ns) {
        /* nothing tells when a port of another process begins to listen */
        (void)poll(NULL, 0, RETRY_MS);
        status = attempt_both(&attempt, &site->peers[0], &newest);
    }
    if (status != OK) {
        *fault = newest;
    }
    return status;
}
