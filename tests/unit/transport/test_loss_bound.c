/* How long a loss takes to be reported, on a clock that moves only while the watching thread waits:
 * a wait that nothing ends takes as long as it may, and how busy the machine is changes nothing. */
#include "base/check.h"
#include "transport/site/site_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    PEERS_MAX = 2,
    ROUNDING_MS = 10, /* waits are of whole milliseconds, a beat is one wait */
    STEPS_MAX = 100000,
};

static const int64_t MS = 1000000;
static const int64_t NEVER_NS = INT64_MAX;

/* The other end of a connection: signs of life until an end of some kind. */
struct far_end {
    int fd;
    int64_t next_heartbeat_ns; /* the next one */
    int64_t last_ns;           /* none after that */
    bool dies;                 /* the connection breaks then; else it is silent */
};

/* What the watching thread and the test share: one runs while the other waits for its end. */
static struct {
    _Atomic int64_t now_ns;
    struct far_end ends[PEERS_MAX];
    int end_count, steps;
    int64_t lost_ns;
    struct fault lost;
} scene;

int64_t __wrap_clock_monotonic_ns(void);
int __real_poll(struct pollfd *polls, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *polls, nfds_t count, int timeout_ms);

int64_t __wrap_clock_monotonic_ns(void) {
    return atomic_load(&scene.now_ns);
}

static int64_t next_of(const struct far_end *end) {
    return end->fd < 0                              ? NEVER_NS
           : end->next_heartbeat_ns <= end->last_ns ? end->next_heartbeat_ns
           : end->dies                              ? end->last_ns
                                                    : NEVER_NS;
}

/* What the far end does next; nobody there closes, whatever was said. */
static void act(struct far_end *end) {
    if (end->next_heartbeat_ns <= end->last_ns) {
        const struct site_health health = {.kind = SITE_HEARTBEAT};
        ssize_t sent = send(end->fd, &health, sizeof health, MSG_NOSIGNAL);
        (void)sent; /* the watching thread may have closed */
        end->next_heartbeat_ns += SITE_HEARTBEAT_MS * MS;
    } else {
        close(end->fd);
        end->fd = -1;
    }
}

/* Time goes on to what happens next, or to the end of the wait. */
int __wrap_poll(struct pollfd *polls, nfds_t count, int timeout_ms) {
    int ready = __real_poll(polls, count, 0);
    int64_t until_ns = atomic_load(&scene.now_ns) + timeout_ms * MS;
    struct far_end *first = NULL;
    ASSERT(scene.steps++ < STEPS_MAX);
    if (ready != 0 || timeout_ms <= 0) {
        return ready;
    }
    for (int i = 0; i < scene.end_count; i++) {
        bool sooner = first == NULL || next_of(&scene.ends[i]) < next_of(first);
        first = sooner ? &scene.ends[i] : first;
    }
    if (first == NULL || next_of(first) > until_ns) {
        atomic_store(&scene.now_ns, until_ns);
        return 0;
    }
    atomic_store(&scene.now_ns, next_of(first));
    act(first);
    return __real_poll(polls, count, 0);
}

static void note_lost(void *context, const struct fault *fault) {
    (void)context;
    scene.lost = *fault;
    scene.lost_ns = atomic_load(&scene.now_ns);
}

/* Rank `rank` watches until it has reported a loss. */
static void watch_until_lost(int rank) {
    struct site site = {.launch = {.rank = rank, .world = 3}, .peer_count = scene.end_count};
    struct site_peer peers[PEERS_MAX + 1] = {{0}};
    struct pollfd polls[PEERS_MAX + 1];
    struct fault fault;
    site.peers = peers;
    site.watch.polls = polls;
    for (int i = 0; i < scene.end_count; i++) {
        int both[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
        peers[i].rank = rank == 0 ? i + 1 : 0;
        peers[i].exchange_fd = -1;
        peers[i].health_fd = both[0];
        scene.ends[i].fd = both[1];
    }
    assert_int_equal(site_start_watch(&site, note_lost, NULL, &fault), OK);
    pthread_join(site.watch.thread, NULL);
    site_close_fd(&site.watch.wake_fd);
    for (int i = 0; i < scene.end_count; i++) {
        site_close_fd(&scene.ends[i].fd);
    }
}

/* One peer ends at some time; the other, if any, lives on. Gives how late the report was. */
static int64_t late_ms(int rank, bool dies, int64_t last_ms) {
    const int64_t begin_ns = 1000 * MS;
    memset(&scene, 0, sizeof scene);
    scene.now_ns = begin_ns;
    scene.end_count = rank == 0 ? 2 : 1;
    scene.ends[0] =
        (struct far_end){.next_heartbeat_ns = begin_ns + last_ms % SITE_HEARTBEAT_MS * MS,
                         .last_ns = begin_ns + last_ms * MS,
                         .dies = dies};
    scene.ends[1] = (struct far_end){.next_heartbeat_ns = begin_ns + 77 * MS, .last_ns = NEVER_NS};
    watch_until_lost(rank);
    assert_string_equal(scene.lost.subject, rank == 0 ? "rank 1" : "rank 0");
    assert_int_equal(scene.lost.status, STATUS_LOST);
    return (scene.lost_ns - begin_ns) / MS - last_ms;
}

static const int64_t LAST_MS[] = {0, 1, 250, 499, 500, 4321};

static void a_silent_rank_is_reported_within_its_silence_a_beat_and_a_parting(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof LAST_MS / sizeof LAST_MS[0]; i++) {
        int64_t by_others = late_ms(2, false, LAST_MS[i]);
        int64_t by_rank_0 = late_ms(0, false, LAST_MS[i]);
        assert_true(by_others >= SITE_SILENCE_MS);
        assert_true(by_others <= SITE_SILENCE_MS + SITE_HEARTBEAT_MS + ROUNDING_MS);
        /* the other rank never closes its connection: it is waited for, and no longer */
        assert_true(by_rank_0 >= SITE_SILENCE_MS + SITE_LAST_MESSAGE_MS);
        assert_true(by_rank_0 <=
                    SITE_SILENCE_MS + SITE_HEARTBEAT_MS + SITE_LAST_MESSAGE_MS + ROUNDING_MS);
    }
}

static void a_broken_connection_is_reported_without_waiting_for_silence(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof LAST_MS / sizeof LAST_MS[0]; i++) {
        assert_true(late_ms(2, true, LAST_MS[i]) <= ROUNDING_MS);
        assert_true(late_ms(0, true, LAST_MS[i]) <= SITE_LAST_MESSAGE_MS + ROUNDING_MS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_rank_is_reported_within_its_silence_a_beat_and_a_parting),
        cmocka_unit_test(a_broken_connection_is_reported_without_waiting_for_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
