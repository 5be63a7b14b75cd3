/* site_watch: signs of life, and what follows from their end.
 *
 *   rank 1 ──beat──►          ──beat──► rank 2      every SITE_HEARTBEAT_MS
 *          ◄──beat── rank 0   ◄──beat──
 *                    rank 0 ◄──end of file, silence, or a verdict── rank 2
 *   rank 1 ◄─verdict─ rank 0                        before rank 0 itself reports it
 */
#include "transport/site/site_state.h"

#include "base/clock.h"
#include "base/text.h"
#include "targets/os/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t MS = 1000000;

enum {
    WATCH_STACK_BYTES = 256 * 1024, /* the callback prints; nothing is deep */
    /* more between two looks at the clock: this process was stopped, or its machine slept */
    OWN_GAP_MS = 2 * SITE_HEARTBEAT_MS,
    /* for a broken connection to be explained: silence, and all the ways there */
    VERDICT_MS = SITE_SILENCE_MS + 2 * SITE_HEARTBEAT_MS + SITE_LAST_MESSAGE_MS,
};

/* How far the search for a lost rank has come in one round. */
struct finding {
    bool found;
    int rank;
    struct fault fault;
};

static void find(struct finding *finding, int rank, const struct fault *fault) {
    if (!finding->found) {
        finding->found = true;
        finding->rank = rank;
        finding->fault = *fault;
    }
}

static void look_at_clock(struct site_watch *watch) {
    int64_t now_ns = clock_monotonic_ns();
    int64_t passed_ns = now_ns - watch->seen_ns;
    watch->awake_ns += passed_ns < OWN_GAP_MS * MS ? passed_ns : OWN_GAP_MS * MS;
    watch->seen_ns = now_ns;
}

static void send_sign(struct site_peer *peer, enum site_health_kind sign,
                      const struct site_verdict *verdict) {
    uint8_t message[sizeof(struct site_health) + sizeof(struct site_verdict)];
    struct site_health health = {.sign = sign, .bytes = verdict != NULL ? sizeof *verdict : 0};
    memcpy(message, &health, sizeof health);
    if (verdict != NULL) {
        memcpy(message + sizeof health, verdict, sizeof *verdict);
    }
    if (peer->health_fd >= 0) {
        /* a full or broken connection shows when it is read, or by silence */
        (void)site_send(peer->health_fd, message, sizeof health + health.bytes, MSG_DONTWAIT);
    }
}

static void beat(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        send_sign(&site->peers[i], SITE_HEARTBEAT, NULL);
    }
    site->watch.beat_ns = clock_monotonic_ns() + SITE_HEARTBEAT_MS * MS;
}

/* A rank may speak of itself or take rank 0 for lost; rank 0 may speak of all. */
static bool is_entitled(const struct site *site, const struct site_peer *peer, int rank) {
    if (site->place.rank == 0) {
        return rank == peer->rank || rank == 0;
    }
    return rank >= 0 && rank < site->place.world;
}

static void hear_verdict(const struct site *site, const struct site_peer *peer,
                         struct finding *finding) {
    struct site_verdict verdict;
    struct fault fault;
    memcpy(&verdict, peer->inbox + sizeof(struct site_health), sizeof verdict);
    if (!is_entitled(site, peer, verdict.rank)) {
        (void)site_fault_lost(peer, &fault);
        find(finding, peer->rank, &fault);
        return;
    }
    site_fault_of(&verdict, &fault);
    if (verdict.rank == site->place.rank) {
        char reason[sizeof fault.reason];
        struct text text = text_over(reason, sizeof reason);
        text_add(&text, "was taken for lost by rank %d: %s", peer->rank, fault.reason);
        memcpy(fault.reason, reason, sizeof reason);
    }
    fault.status = STATUS_LOST;
    find(finding, verdict.rank, &fault);
}

/* The message that is complete in the inbox. False: it is none. */
static bool hear_message(const struct site *site, struct site_peer *peer,
                         const struct site_health *health, struct finding *finding) {
    peer->heard_ns = site->watch.awake_ns;
    if (health->sign == SITE_ENDED) {
        atomic_store(&peer->left, true);
    } else if (health->sign == SITE_VERDICT) {
        hear_verdict(site, peer, finding);
    }
    peer->inbox_bytes = 0;
    return health->sign >= SITE_HEARTBEAT && health->sign <= SITE_VERDICT;
}

/* Bytes that the message in the inbox still needs; 0: it is complete; -1: it is none. */
static int bytes_wanted(const struct site_peer *peer, struct site_health *health) {
    if (peer->inbox_bytes < sizeof *health) {
        return (int)(sizeof *health - peer->inbox_bytes);
    }
    memcpy(health, peer->inbox, sizeof *health);
    if (health->bytes != (health->sign == SITE_VERDICT ? sizeof(struct site_verdict) : 0)) {
        return -1;
    }
    return (int)(sizeof *health + health->bytes - peer->inbox_bytes);
}

/* All that has come from one rank. A connection that ended without a parting is a loss. */
static void hear_peer(const struct site *site, struct site_peer *peer, struct finding *finding) {
    bool open = true;
    ssize_t got = 1;
    while (open && got > 0 && !atomic_load(&peer->left) && !finding->found) {
        struct site_health health = {.sign = 0};
        int wanted = bytes_wanted(peer, &health);
        if (wanted == 0) {
            open = hear_message(site, peer, &health, finding);
            continue;
        }
        if (wanted < 0) {
            open = false;
            continue;
        }
        got = recv(peer->health_fd, peer->inbox + peer->inbox_bytes, (size_t)wanted, MSG_DONTWAIT);
        peer->inbox_bytes += got > 0 ? (size_t)got : 0;
        open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    }
    if (atomic_load(&peer->left)) {
        site_close(&peer->health_fd); /* it waits for that */
    } else if (!open && !finding->found) {
        struct fault fault;
        (void)site_fault_lost(peer, &fault);
        find(finding, peer->rank, &fault);
        site_close(&peer->health_fd);
    }
}

static void judge_silence(const struct site *site, const struct site_peer *peer,
                          struct finding *finding) {
    int64_t silent_ns = site->watch.awake_ns - peer->heard_ns;
    if (peer->health_fd < 0 || silent_ns < SITE_SILENCE_MS * MS) {
        return;
    }
    char place[32];
    struct fault fault;
    struct text text = text_over(place, sizeof place);
    text_add(&text, "rank %d", peer->rank);
    (void)fault_set(&fault, STATUS_LOST, place, SITE_RESTART,
                    "gives no sign of life for %.1f s (process %lld on %s; stopped, or its machine "
                    "is cut off)",
                    (double)silent_ns / 1e9, (long long)peer->name.pid, peer->name.host);
    find(finding, peer->rank, &fault);
}

static bool any_open(const struct site *site, int but_rank) {
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd >= 0 && site->peers[i].rank != but_rank) {
            return true;
        }
    }
    return false;
}

/* Also for the owner's wish to part, when wake_fd is not -1. */
static void poll_peers(struct site *site, int wake_fd, int wait_ms) {
    struct pollfd *polls = site->watch.polls;
    for (int i = 0; i < site->peer_count; i++) {
        polls[i] = (struct pollfd){.fd = site->peers[i].health_fd, .events = POLLIN};
    }
    polls[site->peer_count] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    (void)poll(polls, (nfds_t)site->peer_count + 1, wait_ms); /* interrupted: a look too many */
}

/* Until the others have read the last words and closed, which also keeps a reset of the connection
 * from overtaking them. Whoever is lost is not waited for. */
static void await_closing(struct site *site, int lost_rank) {
    int64_t deadline_ns = clock_monotonic_ns() + SITE_LAST_MESSAGE_MS * MS;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd >= 0) {
            (void)shutdown(site->peers[i].health_fd, SHUT_WR);
        }
    }
    while (any_open(site, lost_rank) && clock_monotonic_ns() < deadline_ns) {
        poll_peers(site, -1, (int)((deadline_ns - clock_monotonic_ns()) / MS) + 1);
        for (int i = 0; i < site->peer_count; i++) {
            struct site_peer *peer = &site->peers[i];
            if (site->watch.polls[i].revents == 0) {
                continue;
            }
            ssize_t got = recv(peer->health_fd, peer->inbox, sizeof peer->inbox, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                site_close(&peer->health_fd);
            }
        }
    }
}

static void close_all(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        site_close(&site->peers[i].health_fd);
    }
}

/* The last message of a rank that ends by itself. */
static void say_last_words(struct site *site, enum site_ending parting) {
    struct fault fault;
    char place[32];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "rank %d", site->place.rank);
    const struct fault *words = &site->watch.last_words;
    (void)fault_set(&fault, STATUS_LOST, place, words->remedy, "failed: %s: %s", words->place,
                    words->reason);
    struct site_verdict verdict = site_verdict_of(site->place.rank, &fault);
    for (int i = 0; i < site->peer_count; i++) {
        if (parting == SITE_FAILS) {
            send_sign(&site->peers[i], SITE_VERDICT, &verdict);
        } else {
            send_sign(&site->peers[i], SITE_ENDED, NULL);
        }
    }
}

/* A rank is lost: rank 0 tells all, the lost one too, for when it wakes; the others tell rank 0
 * only when it is the one. */
static void report(struct site *site, const struct finding *finding) {
    struct site_watch *watch = &site->watch;
    if (site->place.rank == 0 || finding->rank == 0) {
        struct site_verdict verdict = site_verdict_of(finding->rank, &finding->fault);
        for (int i = 0; i < site->peer_count; i++) {
            send_sign(&site->peers[i], SITE_VERDICT, &verdict);
        }
    }
    if (site->place.rank == 0) {
        await_closing(site, finding->rank);
    }
    close_all(site);
    if (atomic_load(&watch->parting) != SITE_FAILS) { /* it has its own reason to end by now */
        watch->lost(watch->context, &finding->fault);
    }
    pthread_mutex_lock(&watch->mutex);
    watch->decided = true;
    watch->verdict = finding->fault;
    pthread_cond_broadcast(&watch->reported);
    pthread_mutex_unlock(&watch->mutex);
    for (int i = 0; i < site->peer_count; i++) {
        (void)shutdown(site->peers[i].exchange_fd, SHUT_RDWR); /* ends an exchange that waits */
    }
}

/* One look at everything. */
static void look_around(struct site *site, struct finding *finding) {
    int64_t wait_ms = (site->watch.beat_ns - clock_monotonic_ns()) / MS + 1;
    poll_peers(site, site->watch.wake_fd, wait_ms > 0 ? (int)wait_ms : 0);
    look_at_clock(&site->watch);
    for (int i = 0; i < site->peer_count; i++) {
        if (site->watch.polls[i].revents != 0) {
            hear_peer(site, &site->peers[i], finding);
        }
    }
    if (clock_monotonic_ns() >= site->watch.beat_ns) {
        beat(site);
    }
    for (int i = 0; i < site->peer_count; i++) {
        judge_silence(site, &site->peers[i], finding);
    }
}

static void *watch_main(void *argument) {
    struct site *site = argument;
    struct finding finding = {.found = false};
    enum site_ending parting = SITE_STAYS;
    beat(site);
    while (!finding.found && parting == SITE_STAYS) {
        look_around(site, &finding);
        parting = (enum site_ending)atomic_load(&site->watch.parting);
    }
    if (finding.found) {
        report(site, &finding);
    } else {
        say_last_words(site, parting);
        await_closing(site, site->place.rank);
    }
    return NULL;
}

enum status site_watch(struct site *site, site_lost *lost, void *context, struct fault *fault) {
    struct site_watch *watch = &site->watch;
    ASSERT(!watch->running && watch->parting == SITE_STAYS);
    if (site->place.world == 1) {
        return OK;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->reported, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->lost = lost;
    watch->context = context;
    watch->seen_ns = clock_monotonic_ns();
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failure = errno;
    if (watch->wake_fd >= 0) {
        failure = thread_start(&watch->thread, WATCH_STACK_BYTES, watch_main, site);
    }
    if (failure != 0) {
        site_close(&watch->wake_fd);
        return fault_set_errno(fault, STATUS_FAILED, "site", "cannot start the watching thread",
                               failure);
    }
    watch->running = true;
    return OK;
}

void site_end(struct site *site, enum site_ending parting) {
    struct site_watch *watch = &site->watch;
    if (watch->running) {
        ASSERT(!pthread_equal(pthread_self(), watch->thread));
        atomic_store(&watch->parting, (int)parting);
        uint64_t one = 1;
        ssize_t ignored = write(watch->wake_fd, &one, sizeof one);
        (void)ignored;
        pthread_join(watch->thread, NULL);
        watch->running = false;
    } else {
        say_last_words(site, parting);
        if (parting == SITE_FAILS) {
            await_closing(site, site->place.rank);
        }
    }
    site_close(&watch->wake_fd);
    close_all(site);
}

enum status site_await_verdict(struct site *site, const struct site_peer *peer,
                               struct fault *fault) {
    struct site_watch *watch = &site->watch;
    int64_t now_ns = clock_monotonic_ns();
    int64_t deadline_ns = now_ns + VERDICT_MS * MS;
    bool decided = false;
    while (!decided && !atomic_load(&peer->left) && now_ns < deadline_ns) {
        /* a parting wakes nobody here: look for it now and then */
        int64_t until_ns = now_ns + 20 * MS;
        struct timespec until = {.tv_sec = until_ns / (1000 * MS),
                                 .tv_nsec = until_ns % (1000 * MS)};
        pthread_mutex_lock(&watch->mutex);
        if (!watch->decided) {
            (void)pthread_cond_timedwait(&watch->reported, &watch->mutex, &until);
        }
        decided = watch->decided;
        if (decided) {
            *fault = watch->verdict;
        }
        pthread_mutex_unlock(&watch->mutex);
        now_ns = clock_monotonic_ns();
    }
    if (decided) {
        return STATUS_LOST;
    }
    if (!atomic_load(&peer->left)) {
        return site_fault_lost(peer, fault);
    }
    char place[32];
    struct text text = text_over(place, sizeof place);
    text_add(&text, "rank %d", peer->rank);
    return fault_set(fault, STATUS_FAILED, place, SITE_RESTART,
                     "has left, this exchange needs all ranks");
}
