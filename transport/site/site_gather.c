/* site_gather: rank 0's side of the meeting. */
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
    VISITORS_MAX = 64,    /* connections that have not said who they are; the oldest makes room */
    VISITOR_MS = 5000,    /* for them to say it */
    DROPPED_A_LINE = 100, /* dropped connections that are logged together, behind the first */
    ABSENT_NAMED_MAX = 16,
};

/* A connection that is still to say who it is. */
struct visitor {
    int fd;
    int64_t since_ns;
    size_t bytes;
    struct site_hello hello;
};

struct meeting {
    struct site *site;
    int listener;
    uint64_t *nonces; /* [peers], of the process that holds the place */
    struct visitor visitors[VISITORS_MAX];
    int visitor_count;
    struct pollfd *polls; /* the listener, visitors, then two for each peer */
    int64_t dropped;
    int failure;       /* errno when no further connection can be taken */
    char refused[256]; /* the newest refusal, for the one who wonders where a rank is */
};

static struct site_join_answer answer_of(const struct site *site, enum site_join_outcome outcome) {
    struct site_join_answer answer = {.magic = WIRE_MAGIC,
                                      .version = WIRE_VERSION,
                                      .outcome = (int32_t)outcome,
                                      .name = site->name};
    return answer;
}

static void name_stranger(int fd, char name[static 80]) {
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

/* Whoever knocks without end does not fill the log: the first is named, then every hundredth. */
static void note_dropped(struct meeting *meeting, int fd, const char *why) {
    char stranger[80];
    meeting->dropped++;
    if (meeting->dropped != 1 && meeting->dropped % DROPPED_A_LINE != 0) {
        return;
    }
    name_stranger(fd, stranger);
    if (meeting->dropped == 1) {
        log_line(LOG_WARNING, "rank 0: dropped a connection from %s: %s", stranger, why);
    } else {
        log_line(LOG_WARNING, "rank 0: dropped %lld connections so far, now one from %s: %s",
                 (long long)meeting->dropped, stranger, why);
    }
}

static void drop_visitor(struct meeting *meeting, int index, const char *why) {
    struct visitor *visitor = &meeting->visitors[index];
    if (why != NULL) {
        note_dropped(meeting, visitor->fd, why);
        site_close(&visitor->fd);
    }
    meeting->visitor_count--;
    memmove(visitor, visitor + 1,
            (size_t)(meeting->visitor_count - index) * sizeof meeting->visitors[0]);
}

static void let_in(struct meeting *meeting) {
    int fd = accept4(meeting->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        /* else it is gone again */
        bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        meeting->failure = exhausted ? errno : 0;
        return;
    }
    socket_disable_delay(fd);
    if (meeting->visitor_count == VISITORS_MAX) {
        drop_visitor(meeting, 0, "others came meanwhile");
    }
    struct visitor *visitor = &meeting->visitors[meeting->visitor_count++];
    *visitor = (struct visitor){.fd = fd, .since_ns = clock_monotonic_ns()};
}

static void refuse(struct meeting *meeting, int index, const char *reason) {
    struct visitor *visitor = &meeting->visitors[index];
    struct site_join_answer answer = answer_of(meeting->site, WIRE_REFUSED);
    struct text text = text_over(answer.text, sizeof answer.text);
    text_add(&text, "%s", reason);
    text = text_over(meeting->refused, sizeof meeting->refused);
    text_add(&text, "%s", reason);
    (void)site_send(visitor->fd, &answer, sizeof answer, MSG_DONTWAIT);
    (void)shutdown(visitor->fd, SHUT_WR);
    drop_visitor(meeting, index, reason);
}

/* Why this hello is none of ours; false: it is. */
static bool is_unlike(const struct site *site, const struct site_hello *hello,
                      struct text *reason) {
    const struct launch_info *place = &site->place;
    const struct site_run_name *who = &hello->name;
    if (hello->version != WIRE_VERSION) {
        text_add(reason,
                 "it speaks version %u of the ranks' protocol, rank 0 (process %lld on %s)"
                 " version %d",
                 hello->version, (long long)site->name.pid, site->name.host, WIRE_VERSION);
    } else if (hello->job != place->job) {
        text_add(reason,
                 "process %lld on %s belongs to another run than rank 0 (process %lld on"
                 " %s)",
                 (long long)who->pid, who->host, (long long)site->name.pid, site->name.host);
    } else if (hello->world != place->world) {
        text_add(reason,
                 "rank %d (process %lld on %s) is one of %d ranks, rank 0 (process %lld on"
                 " %s) one of %d",
                 hello->rank, (long long)who->pid, who->host, hello->world,
                 (long long)site->name.pid, site->name.host, place->world);
    } else if (hello->rank < 0 || hello->rank >= place->world || hello->link < 0 ||
               hello->link >= WIRE_LINK_COUNT) {
        text_add(reason, "process %lld on %s says that it is rank %d of %d", (long long)who->pid,
                 who->host, hello->rank, place->world);
    }
    return reason->length > 0;
}

/* Another process holds the place, or this one's first connection is missing. */
static bool is_taken(const struct meeting *meeting, const struct site_hello *hello,
                     struct text *reason) {
    const struct site *site = meeting->site;
    const struct site_run_name *holder = &site->name;
    if (hello->rank > 0) {
        const struct site_peer *peer = &site->peers[hello->rank - 1];
        bool same = peer->exchange_fd >= 0 && meeting->nonces[hello->rank - 1] == hello->nonce;
        if (same || (peer->exchange_fd < 0 && hello->link == WIRE_EXCHANGE)) {
            return false;
        }
        if (peer->exchange_fd < 0) {
            text_add(reason, "rank %d came with its second connection first", hello->rank);
            return true;
        }
        holder = &peer->name;
    }
    text_add(reason, "rank %d is process %lld on %s and also process %lld on %s", hello->rank,
             (long long)holder->pid, holder->host, (long long)hello->name.pid, hello->name.host);
    return true;
}

static void seat(struct meeting *meeting, int index) {
    const struct visitor *visitor = &meeting->visitors[index];
    int place = visitor->hello.rank - 1;
    struct site_peer *peer = &meeting->site->peers[place];
    if (visitor->hello.link == WIRE_EXCHANGE) {
        struct site_join_answer answer = answer_of(meeting->site, SITE_JOIN_ACCEPTED);
        site_close(&peer->exchange_fd);
        site_close(&peer->health_fd);
        peer->exchange_fd = visitor->fd;
        peer->name = visitor->hello.name;
        meeting->nonces[place] = visitor->hello.nonce;
        (void)site_send(visitor->fd, &answer, sizeof answer, MSG_DONTWAIT);
    } else {
        site_close(&peer->health_fd);
        peer->health_fd = visitor->fd;
    }
    drop_visitor(meeting, index, NULL);
}

static void hear(struct meeting *meeting, int index) {
    struct visitor *visitor = &meeting->visitors[index];
    struct site_hello *hello = &visitor->hello;
    char reason[400];
    struct text text = text_over(reason, sizeof reason);
    ssize_t got = recv(visitor->fd, (uint8_t *)hello + visitor->bytes,
                       sizeof *hello - visitor->bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    visitor->bytes += got > 0 ? (size_t)got : 0;
    if (visitor->bytes >= sizeof hello->magic && hello->magic != WIRE_MAGIC) {
        drop_visitor(meeting, index, "it is no rank");
    } else if (got <= 0) {
        drop_visitor(meeting, index, "it closed before it said who it is");
    } else if (visitor->bytes == sizeof *hello) {
        site_clean_text(hello->name.host, sizeof hello->name.host);
        if (is_unlike(meeting->site, hello, &text) || is_taken(meeting, hello, &text)) {
            refuse(meeting, index, reason);
        } else {
            seat(meeting, index);
        }
    }
}

/* A rank says nothing more before the welcome: what can be read is its end. */
static void notice_departure(struct site_peer *peer, const struct pollfd polls[2]) {
    if ((polls[0].revents | polls[1].revents) != 0) {
        log_line(LOG_WARNING, "rank 0: rank %d (process %lld on %s) went away before all were here",
                 peer->rank, (long long)peer->name.pid, peer->name.host);
        site_close(&peer->exchange_fd);
        site_close(&peer->health_fd);
    }
}

static void poll_all(struct meeting *meeting, int64_t deadline_ns) {
    const struct site *site = meeting->site;
    struct pollfd *at = meeting->polls;
    *at++ = (struct pollfd){.fd = meeting->listener, .events = POLLIN};
    for (int i = 0; i < meeting->visitor_count; i++) {
        *at++ = (struct pollfd){.fd = meeting->visitors[i].fd, .events = POLLIN};
    }
    for (int i = 0; i < site->peer_count; i++) {
        *at++ = (struct pollfd){.fd = site->peers[i].exchange_fd, .events = POLLIN};
        *at++ = (struct pollfd){.fd = site->peers[i].health_fd, .events = POLLIN};
    }
    int64_t left_ms = (deadline_ns - clock_monotonic_ns()) / 1000000 + 1;
    int wait_ms = left_ms < 0 ? 0 : left_ms > VISITOR_MS ? VISITOR_MS : (int)left_ms;
    if (poll(meeting->polls, (nfds_t)(at - meeting->polls), wait_ms) < 0 && errno == EINVAL) {
        meeting->failure = EMFILE; /* more places than this process may have open files */
    }
}

/* Those who left go first: a rank that comes again finds its place free. */
static void attend(struct meeting *meeting) {
    int visitors = meeting->visitor_count;
    for (int i = 0; i < meeting->site->peer_count; i++) {
        notice_departure(&meeting->site->peers[i], &meeting->polls[1 + visitors + 2 * i]);
    }
    for (int i = visitors - 1; i >= 0; i--) {
        int64_t age_ns = clock_monotonic_ns() - meeting->visitors[i].since_ns;
        if (meeting->polls[1 + i].revents != 0) {
            hear(meeting, i);
        } else if (age_ns > (int64_t)VISITOR_MS * 1000000) {
            drop_visitor(meeting, i, "it did not say who it is");
        }
    }
    if (meeting->polls[0].revents != 0) {
        let_in(meeting);
    }
}

static int absent_ranks(const struct site *site, struct text *names) {
    int absent = 0;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd < 0) {
            absent++;
            if (absent <= ABSENT_NAMED_MAX) {
                text_add(names, "%s%d", absent > 1 ? ", " : "", site->peers[i].rank);
            }
        }
    }
    if (absent > ABSENT_NAMED_MAX) {
        text_add(names, " and %d more", absent - ABSENT_NAMED_MAX);
    }
    return absent;
}

/* All who wait are told the same. */
static void abandon(struct site *site, const char *reason) {
    struct site_join_answer answer = answer_of(site, SITE_JOIN_ABANDONED);
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

/* Not all are here: nobody comes any more, or no more can be let in. */
static enum status give_up(const struct meeting *meeting, int meet_ms, struct fault *fault) {
    struct site *site = meeting->site;
    char names[200];
    struct text text = text_over(names, sizeof names);
    int absent = absent_ranks(site, &text);
    if (meeting->failure != 0) {
        (void)fault_set(fault, STATUS_FAILED, "rank 0", "raise the limit of open files (ulimit -n)",
                        "cannot take the connections of %d ranks: %s", site->place.world,
                        strerror(meeting->failure));
    } else {
        (void)fault_set(fault, STATUS_FAILED, "site",
                        "start all ranks, within a minute of each other",
                        "%s %s of %d did not come within %.3g s%s%s",
                        absent == 1 ? "rank" : "ranks", names, site->place.world, meet_ms / 1000.0,
                        meeting->refused[0] != '\0' ? "; refused: " : "", meeting->refused);
    }
    abandon(site, fault->reason);
    return STATUS_FAILED;
}

static void welcome(struct site *site) {
    struct site_join_answer answer = answer_of(site, WIRE_WELCOME);
    for (int i = 0; i < site->peer_count; i++) {
        /* one that died just now is noticed by the watching, or by the first exchange */
        (void)site_send(site->peers[i].health_fd, &answer, sizeof answer, MSG_DONTWAIT);
    }
}

enum status site_gather(struct site *site, struct region *region, struct fault *fault) {
    struct meeting *meeting = region_alloc(region, 1, sizeof *meeting);
    int meet_ms = site->place.meet_ms > 0 ? site->place.meet_ms : SITE_JOIN_S * 1000;
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)meet_ms * 1000000;
    char names[200];
    meeting->site = site;
    meeting->nonces = region_alloc(region, (size_t)site->peer_count, sizeof *meeting->nonces);
    meeting->polls = region_alloc(region, (size_t)(1 + VISITORS_MAX + 2 * site->peer_count),
                                  sizeof *meeting->polls);
    enum status status = socket_listen(&site->place, &meeting->listener, fault);
    if (status != OK) {
        return status;
    }
    bool complete = false;
    while (!complete && meeting->failure == 0 && clock_monotonic_ns() < deadline_ns) {
        poll_all(meeting, deadline_ns); /* nothing happened: attend sees nothing */
        attend(meeting);
        struct text text = text_over(names, sizeof names);
        complete = absent_ranks(site, &text) == 0;
    }
    if (complete) {
        welcome(site);
    } else {
        status = give_up(meeting, meet_ms, fault);
    }
    for (int i = meeting->visitor_count - 1; i >= 0; i--) {
        site_close(&meeting->visitors[i].fd);
    }
    site_close(&meeting->listener);
    return status;
}
