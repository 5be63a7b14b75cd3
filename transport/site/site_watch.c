/* site_watch: heartbeats, and the detection of lost ranks.
 *
 *   rank 1 ─heartbeat─►        ─heartbeat─► rank 2      every SITE_HEARTBEAT_MS
 *          ◄─heartbeat─ rank 0   ◄─heartbeat─
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

enum {
    /* stack of the heartbeat thread, on which the site_lost callback prints a message */
    WATCH_STACK_BYTES = 256 * 1024,
    /* A longer time between two updates means that this process was stopped or its machine
     * slept. */
    STOPPED_GAP_MS = 2 * SITE_HEARTBEAT_MS,
    /* Longest time until the cause of a broken connection is known. */
    VERDICT_TIMEOUT_MS = SITE_SILENCE_MS + 2 * SITE_HEARTBEAT_MS + SITE_LAST_MESSAGE_MS,
};

/* The first lost rank that was detected. */
struct loss {
    bool is_found;      /* a rank was lost */
    int rank;           /* the lost rank */
    struct fault fault; /* why the rank was lost */
};

static void record_loss(struct loss *loss, int rank, const struct fault *fault) {
    if (!loss->is_found) {
        loss->is_found = true;
        loss->rank = rank;
        loss->fault = *fault;
    }
}

static void update_clock(struct site_watch *watch) {
    int64_t now_ns = clock_monotonic_ns();
    int64_t passed_ns = now_ns - watch->last_tick_ns;
    watch->awake_ns +=
        passed_ns < STOPPED_GAP_MS * NS_PER_MS ? passed_ns : STOPPED_GAP_MS * NS_PER_MS;
    watch->last_tick_ns = now_ns;
}

static void send_health(struct site_peer *peer, enum site_health_kind kind,
                        const struct site_verdict *verdict) {
    uint8_t message[sizeof(struct site_health) + sizeof(struct site_verdict)];
    struct site_health health = {.kind = kind,
                                 .payload_bytes = verdict != NULL ? sizeof *verdict : 0};
    memcpy(message, &health, sizeof health);
    if (verdict != NULL) {
        memcpy(message + sizeof health, verdict, sizeof *verdict);
    }
    if (peer->health_fd >= 0) {
        /* A full or broken connection is detected when it is read, or by silence. */
        (void)site_send(peer->health_fd, message, sizeof health + health.payload_bytes,
                        MSG_DONTWAIT);
    }
}

static void send_heartbeats(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        send_health(&site->peers[i], SITE_HEARTBEAT, NULL);
    }
    site->watch.next_heartbeat_ns = clock_monotonic_ns() + SITE_HEARTBEAT_MS * NS_PER_MS;
}

/* A rank may report itself or rank 0. Rank 0 may report any rank. */
static bool may_report(const struct site *site, const struct site_peer *peer, int rank) {
    if (site->launch.rank == 0) {
        return rank == peer->rank || rank == 0;
    }
    return rank >= 0 && rank < site->launch.world;
}

static void handle_verdict(const struct site *site, const struct site_peer *peer,
                           struct loss *loss) {
    struct site_verdict verdict;
    struct fault fault;
    memcpy(&verdict, peer->inbox + sizeof(struct site_health), sizeof verdict);
    if (!may_report(site, peer, verdict.rank)) {
        (void)site_set_lost_fault(peer, &fault);
        record_loss(loss, peer->rank, &fault);
        return;
    }
    site_read_verdict(&verdict, &fault);
    if (verdict.rank == site->launch.rank) {
        char reason[sizeof fault.reason];
        struct text text = text_over(reason, sizeof reason);
        text_add(&text, "was declared lost by rank %d: %s", peer->rank, fault.reason);
        memcpy(fault.reason, reason, sizeof reason);
    }
    fault.status = STATUS_LOST;
    record_loss(loss, verdict.rank, &fault);
}

/* Handle the complete message in the inbox. False: it is invalid. */
static bool handle_message(const struct site *site, struct site_peer *peer,
                           const struct site_health *health, struct loss *loss) {
    peer->last_received_ns = site->watch.awake_ns;
    if (health->kind == SITE_LEFT) {
        atomic_store(&peer->has_left, true);
    } else if (health->kind == SITE_VERDICT) {
        handle_verdict(site, peer, loss);
    }
    peer->inbox_bytes = 0;
    return health->kind >= SITE_HEARTBEAT && health->kind <= SITE_VERDICT;
}

/* Bytes that the message in the inbox lacks; 0: it is complete; -1: it is invalid. */
static int missing_bytes(const struct site_peer *peer, struct site_health *health) {
    if (peer->inbox_bytes < sizeof *health) {
        return (int)(sizeof *health - peer->inbox_bytes);
    }
    memcpy(health, peer->inbox, sizeof *health);
    if (health->payload_bytes != (health->kind == SITE_VERDICT ? sizeof(struct site_verdict) : 0)) {
        return -1;
    }
    return (int)(sizeof *health + health->payload_bytes - peer->inbox_bytes);
}

/* Receive all pending messages from one rank. A connection that ends without a last message is a
 * loss. */
static void receive_from(const struct site *site, struct site_peer *peer, struct loss *loss) {
    bool open = true;
    ssize_t got = 1;
    while (open && got > 0 && !atomic_load(&peer->has_left) && !loss->is_found) {
        struct site_health health = {.kind = 0};
        int missing = missing_bytes(peer, &health);
        if (missing == 0) {
            open = handle_message(site, peer, &health, loss);
            continue;
        }
        if (missing < 0) {
            open = false;
            continue;
        }
        got = recv(peer->health_fd, peer->inbox + peer->inbox_bytes, (size_t)missing, MSG_DONTWAIT);
        peer->inbox_bytes += got > 0 ? (size_t)got : 0;
        open = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    }
    if (atomic_load(&peer->has_left)) {
        site_close_fd(&peer->health_fd); /* the peer waits for this close */
    } else if (!open && !loss->is_found) {
        struct fault fault;
        (void)site_set_lost_fault(peer, &fault);
        record_loss(loss, peer->rank, &fault);
        site_close_fd(&peer->health_fd);
    }
}

static void check_silence(const struct site *site, const struct site_peer *peer,
                          struct loss *loss) {
    int64_t silent_ns = site->watch.awake_ns - peer->last_received_ns;
    if (peer->health_fd < 0 || silent_ns < SITE_SILENCE_MS * NS_PER_MS) {
        return;
    }
    char subject[32];
    struct fault fault;
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "rank %d", peer->rank);
    (void)fault_set(&fault, STATUS_LOST, subject, SITE_RESTART,
                    "sent no heartbeat for %.1f s (process %lld on %s; the process is suspended, "
                    "or its machine is disconnected)",
                    (double)silent_ns / 1e9, (long long)peer->process.pid, peer->process.host_name);
    record_loss(loss, peer->rank, &fault);
}

static bool is_any_connection_open(const struct site *site, int except_rank) {
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd >= 0 && site->peers[i].rank != except_rank) {
            return true;
        }
    }
    return false;
}

/* Wait for messages of the peers, and for wake_fd unless it is -1. */
static void poll_peers(struct site *site, int wake_fd, int wait_ms) {
    struct pollfd *polls = site->watch.polls;
    for (int i = 0; i < site->peer_count; i++) {
        polls[i] = (struct pollfd){.fd = site->peers[i].health_fd, .events = POLLIN};
    }
    polls[site->peer_count] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    (void)poll(polls, (nfds_t)site->peer_count + 1,
               wait_ms); /* a signal that interrupts poll is harmless */
}

/* Wait until the other ranks have read the last message and closed. Closing earlier could reset the
 * connection before the message is read. The lost rank may never close, so do not wait for it. */
static void await_close(struct site *site, int lost_rank) {
    int64_t deadline_ns = clock_monotonic_ns() + SITE_LAST_MESSAGE_MS * NS_PER_MS;
    for (int i = 0; i < site->peer_count; i++) {
        if (site->peers[i].health_fd >= 0) {
            (void)shutdown(site->peers[i].health_fd, SHUT_WR);
        }
    }
    while (is_any_connection_open(site, lost_rank) && clock_monotonic_ns() < deadline_ns) {
        poll_peers(site, -1, (int)((deadline_ns - clock_monotonic_ns()) / NS_PER_MS) + 1);
        for (int i = 0; i < site->peer_count; i++) {
            struct site_peer *peer = &site->peers[i];
            if (site->watch.polls[i].revents == 0) {
                continue;
            }
            ssize_t got = recv(peer->health_fd, peer->inbox, sizeof peer->inbox, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                site_close_fd(&peer->health_fd);
            }
        }
    }
}

static void close_heartbeats(struct site *site) {
    for (int i = 0; i < site->peer_count; i++) {
        site_close_fd(&site->peers[i].health_fd);
    }
}

/* Send the last message of a rank that leaves or fails. */
static void send_last_message(struct site *site, enum rank_departure departure) {
    struct fault fault;
    char subject[32];
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "rank %d", site->launch.rank);
    const struct fault *sent = &site->watch.failure_sent;
    (void)fault_set(&fault, STATUS_LOST, subject, sent->remedy, "failed: %s: %s", sent->subject,
                    sent->reason);
    struct site_verdict verdict = site_make_verdict(site->launch.rank, &fault);
    for (int i = 0; i < site->peer_count; i++) {
        if (departure == DEPARTURE_FAIL) {
            send_health(&site->peers[i], SITE_VERDICT, &verdict);
        } else {
            send_health(&site->peers[i], SITE_LEFT, NULL);
        }
    }
}

/* Report a lost rank. Rank 0 notifies all ranks, including the lost one, which may resume later.
 * Other ranks report only the loss of rank 0. */
static void report_loss(struct site *site, const struct loss *loss) {
    struct site_watch *watch = &site->watch;
    if (site->launch.rank == 0 || loss->rank == 0) {
        struct site_verdict verdict = site_make_verdict(loss->rank, &loss->fault);
        for (int i = 0; i < site->peer_count; i++) {
            send_health(&site->peers[i], SITE_VERDICT, &verdict);
        }
    }
    if (site->launch.rank == 0) {
        await_close(site, loss->rank);
    }
    close_heartbeats(site);
    if (atomic_load(&watch->departure) !=
        DEPARTURE_FAIL) { /* a failing rank reports its own fault */
        watch->on_lost(watch->context, &loss->fault);
    }
    pthread_mutex_lock(&watch->mutex);
    watch->has_verdict = true;
    watch->verdict = loss->fault;
    pthread_cond_broadcast(&watch->verdict_set);
    pthread_mutex_unlock(&watch->mutex);
    for (int i = 0; i < site->peer_count; i++) {
        (void)shutdown(site->peers[i].exchange_fd, SHUT_RDWR); /* ends a blocked exchange */
    }
}

/* Wait for the next event and handle everything that is due. */
static void watch_step(struct site *site, struct loss *loss) {
    int64_t wait_ms = (site->watch.next_heartbeat_ns - clock_monotonic_ns()) / NS_PER_MS + 1;
    poll_peers(site, site->watch.wake_fd, wait_ms > 0 ? (int)wait_ms : 0);
    update_clock(&site->watch);
    for (int i = 0; i < site->peer_count; i++) {
        if (site->watch.polls[i].revents != 0) {
            receive_from(site, &site->peers[i], loss);
        }
    }
    if (clock_monotonic_ns() >= site->watch.next_heartbeat_ns) {
        send_heartbeats(site);
    }
    for (int i = 0; i < site->peer_count; i++) {
        check_silence(site, &site->peers[i], loss);
    }
}

static void *watch_main(void *argument) {
    struct site *site = argument;
    struct loss loss = {.is_found = false};
    enum rank_departure departure = DEPARTURE_NONE;
    send_heartbeats(site);
    while (!loss.is_found && departure == DEPARTURE_NONE) {
        watch_step(site, &loss);
        departure = (enum rank_departure)atomic_load(&site->watch.departure);
    }
    if (loss.is_found) {
        report_loss(site, &loss);
    } else {
        send_last_message(site, departure);
        await_close(site, site->launch.rank);
    }
    return NULL;
}

enum status site_start_watch(struct site *site, site_lost *lost, void *context,
                             struct fault *fault) {
    struct site_watch *watch = &site->watch;
    ASSERT(!watch->is_running && watch->departure == DEPARTURE_NONE);
    if (site->launch.world == 1) {
        return OK;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->verdict_set, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->on_lost = lost;
    watch->context = context;
    watch->last_tick_ns = clock_monotonic_ns();
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failure = errno;
    if (watch->wake_fd >= 0) {
        failure = thread_start(&watch->thread, WATCH_STACK_BYTES, watch_main, site);
    }
    if (failure != 0) {
        site_close_fd(&watch->wake_fd);
        return fault_set_errno(fault, STATUS_FAILED, "site", "cannot start the heartbeat thread",
                               failure);
    }
    watch->is_running = true;
    return OK;
}

void site_stop_watch(struct site *site, enum rank_departure departure) {
    struct site_watch *watch = &site->watch;
    if (watch->is_running) {
        ASSERT(!pthread_equal(pthread_self(), watch->thread));
        atomic_store(&watch->departure, (int)departure);
        uint64_t one = 1;
        ssize_t ignored = write(watch->wake_fd, &one, sizeof one);
        (void)ignored;
        pthread_join(watch->thread, NULL);
        watch->is_running = false;
    } else {
        send_last_message(site, departure);
        if (departure == DEPARTURE_FAIL) {
            await_close(site, site->launch.rank);
        }
    }
    site_close_fd(&watch->wake_fd);
    close_heartbeats(site);
}

enum status site_await_verdict(struct site *site, const struct site_peer *peer,
                               struct fault *fault) {
    struct site_watch *watch = &site->watch;
    int64_t now_ns = clock_monotonic_ns();
    int64_t deadline_ns = now_ns + VERDICT_TIMEOUT_MS * NS_PER_MS;
    bool decided = false;
    while (!decided && !atomic_load(&peer->has_left) && now_ns < deadline_ns) {
        /* A peer that leaves does not signal the condition, so wake up regularly. */
        int64_t until_ns = now_ns + 20 * NS_PER_MS;
        struct timespec until = {.tv_sec = until_ns / (NS_PER_SECOND),
                                 .tv_nsec = until_ns % (NS_PER_SECOND)};
        pthread_mutex_lock(&watch->mutex);
        if (!watch->has_verdict) {
            (void)pthread_cond_timedwait(&watch->verdict_set, &watch->mutex, &until);
        }
        decided = watch->has_verdict;
        if (decided) {
            *fault = watch->verdict;
        }
        pthread_mutex_unlock(&watch->mutex);
        now_ns = clock_monotonic_ns();
    }
    if (decided) {
        return STATUS_LOST;
    }
    if (!atomic_load(&peer->has_left)) {
        return site_set_lost_fault(peer, fault);
    }
    char subject[32];
    struct text text = text_over(subject, sizeof subject);
    text_add(&text, "rank %d", peer->rank);
    return fault_set(fault, STATUS_FAILED, subject, SITE_RESTART,
                     "has left, but this exchange needs all ranks");
}
