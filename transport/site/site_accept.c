/* site_accept: rank 0 accepts the connections of all other ranks. A new connection is pending until
 * it has sent its hello. */
#include "transport/site/site_state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "transport/site/site_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PENDING_MAX = 64,         /* connections that sent no hello; a new one replaces the oldest */
    PENDING_MS = 5000,        /* timeout for the hello */
    DROPS_PER_LOG_LINE = 100, /* dropped connections per log line, after the first */
    ABSENT_LISTED_MAX = 16,   /* missing ranks that a message lists */
};

/* A connection whose hello is incomplete. */
struct pending_connection {
    int fd;                  /* socket of the connection */
    int64_t accepted_ns;     /* when the connection was accepted */
    size_t received_bytes;   /* bytes of `hello` received so far */
    struct site_hello hello; /* what has arrived of the hello */
};

struct acceptor {
    struct site *site;
    int listener;     /* listening socket of rank 0 */
    uint64_t *nonces; /* [peers], nonce of the process connected as that rank */
    struct pending_connection pending[PENDING_MAX];
    int pending_count; /* number of connections in `pending` */
    /* poll entries: the listener, pending connections, then two for each peer */
    struct pollfd *polls;
    int64_t drop_count;       /* number of dropped connections */
    int accept_errno;         /* errno of accept() if no more connections can be accepted; else 0 */
    char last_rejection[256]; /* reason for the last rejection, which may explain a missing rank */
};

static struct site_join_answer make_answer(const struct site *site,
                                           enum site_join_outcome outcome) {
    struct site_join_answer answer = {.magic = SITE_MAGIC,
                                      .version = SITE_VERSION,
                                      .outcome = (int32_t)outcome,
                                      .process = site->process};
    return answer;
}

static void write_peer_address(int fd, char name[static 80]) {
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof peer;
    struct text text = text_over(name, 80);
    char host[64];
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
        getnameinfo((struct sockaddr *)&peer, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST) ==
            0) {
        text_add(&text, "%s", host);
    } else {
        text_add(&text, "an unknown address");
    }
}

/* Only the first dropped connection and then every hundredth is logged, so that a port scanner does
 * not fill the log. */
static void log_dropped(struct acceptor *acceptor, int fd, const char *why) {
    char address[80];
    acceptor->drop_count++;
    if (acceptor->drop_count != 1 && acceptor->drop_count % DROPS_PER_LOG_LINE != 0) {
        return;
    }
    write_peer_address(fd, address);
    if (acceptor->drop_count == 1) {
        log_line(LOG_WARNING, "rank 0: dropped a connection from %s: %s", address, why);
    } else {
        log_line(LOG_WARNING, "rank 0: dropped %lld connections so far, the last from %s: %s",
                 (long long)acceptor->drop_count, address, why);
    }
}

static void drop_pending(struct acceptor *acceptor, int index, const char *why) {
    struct pending_connection *pending = &acceptor->pending[index];
    if (why != NULL) {
        log_dropped(acceptor, pending->fd, why);
        site_close_fd(&pending->fd);
    }
    acceptor->pending_count--;
    memmove(pending, pending + 1,
            (size_t)(acceptor->pending_count - index) * sizeof acceptor->pending[0]);
}

static void accept_connection(struct acceptor *acceptor) {
    int fd = accept4(acceptor->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        /* Any other error means that the connection was closed before it was accepted. */
        bool is_exhausted =
            errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        acceptor->accept_errno = is_exhausted ? errno : 0;
        return;
    }
    socket_disable_delay(fd);
    if (acceptor->pending_count == PENDING_MAX) {
        drop_pending(acceptor, 0, "too many connections without a hello");
    }
    struct pending_connection *pending = &acceptor->pending[acceptor->pending_count++];
    *pending = (struct pending_connection){.fd = fd, .accepted_ns = clock_monotonic_ns()};
}

static void reject_rank(struct acceptor *acceptor, int index, const char *reason) {
    struct pending_connection *pending = &acceptor->pending[index];
    struct site_join_answer answer = make_answer(acceptor->site, SITE_JOIN_REJECTED);
    struct text text = text_over(answer.text, sizeof answer.text);
    text_add(&text, "%s", reason);
    text = text_over(acceptor->last_rejection, sizeof acceptor->last_rejection);
    text_add(&text, "%s", reason);
    (void)site_send(pending->fd, &answer, sizeof answer, MSG_DONTWAIT);
    (void)shutdown(pending->fd, SHUT_WR);
    drop_pending(acceptor, index, reason);
}

/* Whether the hello comes from a process that is not a rank of this run. If so, appends why to
 * *reason. */
static bool is_mismatched(const struct site *site, const struct site_hello *hello,
                          struct text *reason) {
    const struct launch_info *launch = &site->launch;
    const struct site_process *process = &hello->process;
    if (hello->version != SITE_VERSION) {
        text_add(reason,
                 "it uses version %u of the protocol between ranks, but rank 0 (process %lld on %s)"
                 " uses version %d",
                 hello->version, (long long)site->process.pid, site->process.host_name,
                 SITE_VERSION);
    } else if (hello->job_id != launch->job) {
        text_add(reason,
                 "process %lld on %s belongs to another run than rank 0 (process %lld on"
                 " %s)",
                 (long long)process->pid, process->host_name, (long long)site->process.pid,
                 site->process.host_name);
    } else if (hello->world != launch->world) {
        text_add(reason,
                 "rank %d (process %lld on %s) expects %d ranks, but rank 0 (process %lld on"
                 " %s) expects %d",
                 hello->rank, (long long)process->pid, process->host_name, hello->world,
                 (long long)site->process.pid, site->process.host_name, launch->world);
    } else if (hello->rank < 0 || hello->rank >= launch->world || hello->link < 0 ||
               hello->link >= SITE_LINK_COUNT) {
        text_add(reason, "process %lld on %s claims to be rank %d of %d", (long long)process->pid,
                 process->host_name, hello->rank, launch->world);
    }
    return reason->length > 0;
}

/* Whether a different process is connected as this rank, or the first connection of this process is
 * missing. If so, appends why to *reason. */
static bool is_rank_taken(const struct acceptor *acceptor, const struct site_hello *hello,
                          struct text *reason) {
    const struct site *site = acceptor->site;
    const struct site_process *holder = &site->process;
    if (hello->rank > 0) {
        const struct site_peer *peer = &site->peers[hello->rank - 1];
        bool same = peer->exchange_fd >= 0 && acceptor->nonces[hello->rank - 1] == hello->nonce;
        if (same || (peer->exchange_fd < 0 && hello->link == SITE_LINK_EXCHANGE)) {
            return false;
        }
        if (peer->exchange_fd < 0) {
            text_add(reason, "rank %d opened its second connection first", hello->rank);
            return true;
        }
        holder = &peer->process;
    }
    text_add(reason, "rank %d is claimed by process %lld on %s and by process %lld on %s",
             hello->rank, (long long)holder->pid, holder->host_name, (long long)hello->process.pid,
             hello->process.host_name);
    return true;
}

static void admit_rank(struct acceptor *acceptor, int index) {
    const struct pending_connection *pending = &acceptor->pending[index];
    int slot = pending->hello.rank - 1;
    struct site_peer *peer = &acceptor->site->peers[slot];
    if (pending->hello.link == SITE_LINK_EXCHANGE) {
        struct site_join_answer answer = make_answer(acceptor->site, SITE_JOIN_ACCEPTED);
        site_close_fd(&peer->exchange_fd);
        site_close_fd(&peer->health_fd);
        peer->exchange_fd = pending->fd;
        peer->process = pending->hello.process;
        acceptor->nonces[slot] = pending->hello.nonce;
        (void)site_send(pending->fd, &answer, sizeof answer, MSG_DONTWAIT);
    } else {
        site_close_fd(&peer->health_fd);
        peer->health_fd = pending->fd;
    }
    drop_pending(acceptor, index, NULL);
}

static void receive_hello(struct acceptor *acceptor, int index) {
    struct pending_connection *pending = &acceptor->pending[index];
    struct site_hello *hello = &pending->hello;
    char reason[400];
    struct text text = text_over(reason, sizeof reason);
    ssize_t got = recv(pending->fd, (uint8_t *)hello + pending->received_bytes,
                       sizeof *hello - pending->received_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    pending->received_bytes += got > 0 ? (size_t)got : 0;
    if (pending->received_bytes >= sizeof hello->magic && hello->magic != SITE_MAGIC) {
        drop_pending(acceptor, index, "it is not a rank of a site");
    } else if (got <= 0) {
        drop_pending(acceptor, index, "it disconnected before its hello was complete");
    } else if (pending->received_bytes == sizeof *hello) {
        site_clean_text(hello->process.host_name, sizeof hello->process.host_name);
        if (is_mismatched(acceptor->site, hello, &text) || is_rank_taken(acceptor, hello, &text)) {
            reject_rank(acceptor, index, reason);
        } else {
            admit_rank(acceptor, index);
        }
    }
}

/* A rank sends nothing until it gets the welcome, so any event means that it disconnected. */
static void check_disconnected(struct site_peer *peer, const struct pollfd polls[2]) {
    if ((polls[0].revents | polls[1].revents) != 0) {
        log_line(LOG_WARNING,
                 "rank 0: rank %d (process %lld on %s) disconnected before all ranks had connected",
                 peer->rank, (long long)peer->process.pid, peer->process.host_name);
        site_close_fd(&peer->exchange_fd);
        site_close_fd(&peer->health_fd);
    }
}

static void poll_connections(struct acceptor *acceptor, int64_t deadline_ns) {
    const struct site *site = acceptor->site;
    struct pollfd *at = acceptor->polls;
    *at++ = (struct pollfd){.fd = acceptor->listener, .events = POLLIN};
    for (int i = 0; i < acceptor->pending_count; i++) {
        *at++ = (struct pollfd){.fd = acceptor->pending[i].fd, .events = POLLIN};
    }
    for (int i = 0; i < site->peer_count; i++) {
        *at++ = (struct pollfd){.fd = site->peers[i].exchange_fd, .events = POLLIN};
        *at++ = (struct pollfd){.fd = site->peers[i].health_fd, .events = POLLIN};
    }
    int64_t left_ms = (deadline_ns - clock_monotonic_ns()) / NS_PER_MS + 1;
    int wait_ms = left_ms < 0 ? 0 : left_ms > PENDING_MS ? PENDING_MS : (int)left_ms;
    if (poll(acceptor->polls, (nfds_t)(at - acceptor->polls), wait_ms) < 0 && errno == EINVAL) {
        /* there are more poll entries than the process may open files */
        acceptor->accept_errno = EMFILE;
    }
}

/* Disconnected ranks are handled first, so that a rank that reconnects is not rejected. */
static void handle_connections(struct acceptor *acceptor) {
    int pending = acceptor->pending_count;
    for (int i = 0; i < acceptor->site->peer_count; i++) {
        check_disconnected(&acceptor->site->peers[i], &acceptor->polls[1 + pending + 2 * i]);
    }
    for (int i = pending - 1; i >= 0; i--) {
        int64_t age_ns = clock_monotonic_ns() - acceptor->pending[i].accepted_ns;
        if (acceptor->polls[1 + i].revents != 0) {
            receive_hello(acceptor, i);
        } else if (age_ns > PENDING_MS * NS_PER_MS) {
            drop_pending(acceptor, i, "it sent no complete hello in time");
        }
    }
    if (acceptor->polls[0].revents != 0) {
        accept_connection(acceptor);
    }
}

static int list_absent_ranks(const struct site *site, struct text *names) {
    int absent = 0;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd < 0) {
            absent++;
            if (absent <= ABSENT_LISTED_MAX) {
                text_add(names, "%s%d", absent > 1 ? ", " : "", site->peers[i].rank);
            }
        }
    }
    if (absent > ABSENT_LISTED_MAX) {
        text_add(names, " and %d more", absent - ABSENT_LISTED_MAX);
    }
    return absent;
}

/* Send the reason to all ranks that are waiting. */
static void notify_waiting_ranks(struct site *site, const char *reason) {
    struct site_join_answer answer = make_answer(site, SITE_JOIN_ABANDONED);
    struct text text = text_over(answer.text, sizeof answer.text);
    text_add(&text, "%s", reason);
    for (int i = 0; i < site->peer_count; i++) {
        int fd =
            site->peers[i].health_fd >= 0 ? site->peers[i].health_fd : site->peers[i].exchange_fd;
        if (fd >= 0) {
            (void)site_send(fd, &answer, sizeof answer, MSG_DONTWAIT);
            (void)shutdown(fd, SHUT_WR);
        }
    }
}

/* Fail because not all ranks connected in time, or no more connections can be accepted. */
static enum status abandon_join(const struct acceptor *acceptor, int join_timeout_ms,
                                struct fault *fault) {
    struct site *site = acceptor->site;
    char names[200];
    struct text text = text_over(names, sizeof names);
    int absent = list_absent_ranks(site, &text);
    if (acceptor->accept_errno != 0) {
        (void)fault_set(fault, STATUS_FAILED, "rank 0", "raise the limit of open files (ulimit -n)",
                        "cannot accept the connections of %d ranks: %s", site->launch.world,
                        strerror(acceptor->accept_errno));
    } else {
        (void)fault_set(
            fault, STATUS_FAILED, "site", "start all ranks within a minute of each other",
            "%s %s of %d did not connect within %.3g s%s%s", absent == 1 ? "rank" : "ranks", names,
            site->launch.world, join_timeout_ms / 1000.0,
            acceptor->last_rejection[0] != '\0' ? "; rejected: " : "", acceptor->last_rejection);
    }
    notify_waiting_ranks(site, fault->reason);
    return STATUS_FAILED;
}

static void welcome_ranks(struct site *site) {
    struct site_join_answer answer = make_answer(site, SITE_JOIN_WELCOME);
    for (int i = 0; i < site->peer_count; i++) {
        /* A rank that ends now is detected later, by its heartbeats or by the first exchange. */
        (void)site_send(site->peers[i].health_fd, &answer, sizeof answer, MSG_DONTWAIT);
    }
}

enum status site_accept_ranks(struct site *site, struct region *region, struct fault *fault) {
    struct acceptor *acceptor = region_alloc(region, 1, sizeof *acceptor);
    int join_timeout_ms =
        site->launch.join_timeout_ms > 0 ? site->launch.join_timeout_ms : SITE_JOIN_S * 1000;
    int64_t deadline_ns = clock_monotonic_ns() + join_timeout_ms * NS_PER_MS;
    char names[200];
    acceptor->site = site;
    acceptor->nonces = region_alloc(region, (size_t)site->peer_count, sizeof *acceptor->nonces);
    acceptor->polls = region_alloc(region, (size_t)(1 + PENDING_MAX + 2 * site->peer_count),
                                   sizeof *acceptor->polls);
    enum status status = socket_listen(&site->launch, &acceptor->listener, fault);
    if (status != OK) {
        return status;
    }
    bool complete = false;
    while (!complete && acceptor->accept_errno == 0 && clock_monotonic_ns() < deadline_ns) {
        poll_connections(acceptor, deadline_ns);
        handle_connections(acceptor);
        struct text text = text_over(names, sizeof names);
        complete = list_absent_ranks(site, &text) == 0;
    }
    if (complete) {
        welcome_ranks(site);
    } else {
        status = abandon_join(acceptor, join_timeout_ms, fault);
    }
    for (int i = acceptor->pending_count - 1; i >= 0; i--) {
        site_close_fd(&acceptor->pending[i].fd);
    }
    site_close_fd(&acceptor->listener);
    return status;
}
