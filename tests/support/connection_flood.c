/* connection_flood: an outsider without a key: opens TCP connections that send nothing.
 *
 *     connection_flood --seconds S [--from IP --rate N] [--hold N] --to IP:PORT...
 *
 * It opens N connections per second from one address, each closed after LIFE_MS, and holds other
 * connections open from many networks. A held connection that is closed by its listener is opened
 * again. The targets take turns. The last line has the counts as JSON. */
#include "base/check.h"
#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LIFE_MS = 50,     /* of a connection that is not held */
    ALIVE_MAX = 4096, /* of those; a power of two */
    HELD_MAX = 4096,
    HELD_NETWORKS = 250,        /* 127.1.N.0/24 */
    BATCH = 100,                /* connections offered before the held ones are looked at again */
    HOLD_MS = 100,              /* between two looks at the held connections */
    REOPENED_PER_SECOND = 1000, /* of them, at most */
    TARGETS_MAX = 64,
    TICK_NS = 1000 * 1000,
};

struct flood {
    struct sockaddr_in targets[TARGETS_MAX];
    uint32_t target_count, next_target;
    struct sockaddr_in from;
    int64_t rate, hold, seconds;
    int alive[ALIVE_MAX]; /* a ring, oldest first */
    int64_t opened_ns[ALIVE_MAX];
    uint64_t offered, closed; /* positions in the ring */
    int held[HELD_MAX];
    int64_t next_held; /* the one that is looked at next */
    uint64_t failed, established, reopened;
};

/* Close a connection at once, so that its port is free again. */
static void reset(int fd) {
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
}

static int open_connection(struct flood *flood, const struct sockaddr_in *from) {
    const int yes = 1;
    const struct sockaddr_in *to = &flood->targets[flood->next_target++ % flood->target_count];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    if (bind(fd, (const struct sockaddr *)from, sizeof *from) != 0 ||
        (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0 && errno != EINPROGRESS)) {
        reset(fd);
        return -1;
    }
    return fd;
}

static bool is_established(int fd) {
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0;
}

static void close_oldest(struct flood *flood) {
    const int fd = flood->alive[flood->closed++ % ALIVE_MAX];
    if (fd >= 0) {
        flood->established += is_established(fd);
        reset(fd);
    }
}

/* Offer the connections that are due since the start, a few at a time. Whether none is left. */
static bool offer(struct flood *flood, int64_t start_ns, int64_t now_ns) {
    const uint64_t due =
        (uint64_t)((double)flood->rate * (double)(now_ns - start_ns) / NS_PER_SECOND);
    while (flood->closed < flood->offered &&
           now_ns - flood->opened_ns[flood->closed % ALIVE_MAX] > LIFE_MS * NS_PER_MS) {
        close_oldest(flood);
    }
    for (int left = BATCH; left > 0 && flood->offered < due; left--) {
        if (flood->offered - flood->closed == ALIVE_MAX) {
            close_oldest(flood);
        }
        const uint64_t at = flood->offered++ % ALIVE_MAX;
        flood->alive[at] = open_connection(flood, &flood->from);
        flood->opened_ns[at] = now_ns;
        flood->failed += flood->alive[at] < 0;
    }
    return flood->offered >= due;
}

static void hold_one(struct flood *flood, int64_t index) {
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr =
                                         htonl(UINT32_C(127) << 24 | UINT32_C(1) << 16 |
                                               (uint32_t)(index % HELD_NETWORKS) << 8 |
                                               (uint32_t)(1 + index / HELD_NETWORKS))};
    flood->held[index] = open_connection(flood, &from);
}

/* Whether the listener has closed a held connection. */
static bool is_closed(int fd) {
    uint8_t bytes[256];
    ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    while (got > 0) {
        got = recv(fd, bytes, sizeof bytes, 0);
    }
    return got == 0 || (errno != EAGAIN && errno != EINPROGRESS);
}

/* Open the held connections again that were closed, as many as the rate allows. */
static void hold(struct flood *flood) {
    int left = REOPENED_PER_SECOND * HOLD_MS / 1000;
    for (int64_t i = 0; i < flood->hold && left > 0; i++) {
        const int64_t index = flood->next_held++ % flood->hold;
        if (flood->held[index] >= 0 && !is_closed(flood->held[index])) {
            continue;
        }
        if (flood->held[index] >= 0) {
            reset(flood->held[index]);
        }
        hold_one(flood, index);
        flood->reopened++;
        left--;
    }
}

static int64_t read_count(const char *text, int64_t max) {
    char *end = NULL;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > max) {
        fprintf(stderr, "connection_flood: %s: must be 0 .. %lld\n", text, (long long)max);
        exit(2);
    }
    return value;
}

static struct sockaddr_in read_address(const char *text, bool has_port) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    char ip[64] = "";
    const char *colon = strchr(text, ':');
    const size_t letters = has_port && colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (letters >= sizeof ip || has_port != (colon != NULL)) {
        fprintf(stderr, "connection_flood: %s: not an address\n", text);
        exit(2);
    }
    memcpy(ip, text, letters);
    address.sin_port = htons((uint16_t)(has_port ? read_count(colon + 1, UINT16_MAX) : 0));
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) {
        fprintf(stderr, "connection_flood: %s: not an address\n", text);
        exit(2);
    }
    return address;
}

static void read_arguments(struct flood *flood, int count, char **words) {
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--to") == 0 && flood->target_count < TARGETS_MAX) {
            flood->targets[flood->target_count++] = read_address(words[i + 1], true);
        } else if (strcmp(words[i], "--from") == 0) {
            flood->from = read_address(words[i + 1], false);
        } else if (strcmp(words[i], "--rate") == 0) {
            flood->rate = read_count(words[i + 1], 1000 * 1000);
        } else if (strcmp(words[i], "--hold") == 0) {
            flood->hold = read_count(words[i + 1], HELD_MAX);
        } else if (strcmp(words[i], "--seconds") == 0) {
            flood->seconds = read_count(words[i + 1], 24 * 3600);
        } else {
            fprintf(stderr, "connection_flood: %s: unknown\n", words[i]);
            exit(2);
        }
    }
    if (flood->target_count == 0 || flood->seconds == 0) {
        fprintf(stderr, "connection_flood: --to and --seconds are missing\n");
        exit(2);
    }
}

int main(int count, char **words) {
    static struct flood flood;
    struct rlimit files;
    read_arguments(&flood, count, words);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (int64_t i = 0; i < flood.hold; i++) {
        hold_one(&flood, i);
    }
    const int64_t start_ns = clock_monotonic_ns();
    const int64_t end_ns = start_ns + flood.seconds * NS_PER_SECOND;
    const struct timespec pause = {.tv_nsec = TICK_NS};
    int64_t hold_ns = start_ns;
    for (int64_t now_ns = start_ns; now_ns < end_ns; now_ns = clock_monotonic_ns()) {
        const bool is_done = offer(&flood, start_ns, now_ns);
        if (flood.hold > 0 && now_ns >= hold_ns) {
            hold_ns = now_ns + HOLD_MS * NS_PER_MS;
            hold(&flood);
        }
        if (is_done) {
            (void)nanosleep(&pause, NULL);
        }
    }
    const double seconds = (double)(clock_monotonic_ns() - start_ns) / NS_PER_SECOND;
    printf("{\"seconds\": %.2f, \"offered\": %llu, \"failed\": %llu, \"established\": %llu, "
           "\"reopened\": %llu}\n",
           seconds, (unsigned long long)flood.offered, (unsigned long long)flood.failed,
           (unsigned long long)flood.established, (unsigned long long)flood.reopened);
    return 0;
}
