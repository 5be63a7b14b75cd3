/* tun_relay: carries packets between TUN devices over emulated links (relay_core).
 *
 *     tun_relay SEED FD...        FD n is the TUN device of node n, whose address ends in n + 1
 *
 * Commands come on standard input, one a line, and each is answered by a line:
 *     link NODE up|down BITS_PER_S QUEUE_US DELAY_US JITTER_US LOSS OVERTAKE
 *     cut FROM TO | heal FROM TO          one direction; silently
 *     counts NODE up|down                 packets bytes lost dropped
 * It ends with its standard input. */
#include "base/check.h"
#include "base/clock.h"
#include "tests/support/relay_core.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    COMMAND_BYTES = 256,
    BURST_PACKETS = 64, /* from one device before the others get their turn */
    IPV4_HEADER_BYTES = 20,
    IPV4_TO_LAST_BYTE = 19, /* where a header has the last byte of its destination */
};

struct relay {
    struct relay_core *core;
    int devices[RELAY_NODES_MAX];
    char command[COMMAND_BYTES];
    size_t command_bytes;
};

static bool destination(const struct relay_core *core, const uint8_t *packet, size_t bytes,
                        uint32_t *to) {
    if (bytes < IPV4_HEADER_BYTES || packet[0] >> 4 != 4) {
        return false;
    }
    *to = (uint32_t)packet[IPV4_TO_LAST_BYTE] - 1;
    return *to < core->node_count;
}

static void take_packets(struct relay *relay, uint32_t from) {
    uint8_t packet[RELAY_PACKET_BYTES];
    for (int i = 0; i < BURST_PACKETS; i++) {
        ssize_t bytes = read(relay->devices[from], packet, sizeof packet);
        if (bytes <= 0) {
            return;
        }
        uint32_t to;
        if (destination(relay->core, packet, (size_t)bytes, &to)) {
            relay_core_take(relay->core, clock_monotonic_ns(), from, to, packet, (size_t)bytes);
        }
    }
}

/* A device that is down, or whose queue is full, drops what is written to it, as a link would. */
static void give_packets(struct relay *relay) {
    uint32_t to;
    const uint8_t *packet;
    size_t bytes;
    while (relay_core_next(relay->core, clock_monotonic_ns(), &to, &packet, &bytes)) {
        ssize_t written = write(relay->devices[to], packet, bytes);
        (void)written;
    }
}

static bool parse_way(const char *word, enum relay_way *way) {
    *way = strcmp(word, "down") == 0 ? RELAY_DOWN : RELAY_UP;
    return *way == RELAY_DOWN || strcmp(word, "up") == 0;
}

static bool set_link(struct relay_core *core, const char *line) {
    uint32_t node;
    char word[8];
    enum relay_way way;
    struct relay_link link;
    int64_t queue_us, delay_us, jitter_us;
    if (sscanf(line, "link %" SCNu32 " %7s %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf %lf",
               &node, word, &link.bits_per_s, &queue_us, &delay_us, &jitter_us, &link.loss,
               &link.overtake) != 8 ||
        node >= core->node_count || !parse_way(word, &way)) {
        return false;
    }
    link.queue_ns = queue_us * NS_PER_US;
    link.delay_ns = delay_us * NS_PER_US;
    link.jitter_ns = jitter_us * NS_PER_US;
    core->ways[node][way].link = link;
    return true;
}

static bool set_cut(struct relay_core *core, const char *line) {
    char word[8];
    uint32_t from, to;
    if (sscanf(line, "%7s %" SCNu32 " %" SCNu32, word, &from, &to) != 3 ||
        (strcmp(word, "cut") != 0 && strcmp(word, "heal") != 0) || from >= core->node_count ||
        to >= core->node_count) {
        return false;
    }
    core->cut[from][to] = word[0] == 'c';
    return true;
}

static bool show_counts(const struct relay_core *core, const char *line) {
    char word[8];
    uint32_t node;
    enum relay_way way;
    if (sscanf(line, "counts %" SCNu32 " %7s", &node, word) != 2 || node >= core->node_count ||
        !parse_way(word, &way)) {
        return false;
    }
    const struct relay_counts *counts = &core->ways[node][way].counts;
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", counts->packets, counts->bytes,
           counts->lost, counts->dropped);
    return true;
}

static void obey(struct relay_core *core, const char *line) {
    if (!show_counts(core, line)) {
        puts(set_link(core, line) || set_cut(core, line) ? "ok" : "not understood");
    }
    fflush(stdout);
}

/* False at the end of the input. */
static bool read_commands(struct relay *relay) {
    ssize_t got = read(STDIN_FILENO, relay->command + relay->command_bytes,
                       COMMAND_BYTES - 1 - relay->command_bytes);
    if (got <= 0) {
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }
    relay->command_bytes += (size_t)got;
    relay->command[relay->command_bytes] = '\0';
    char *line = relay->command, *end;
    while ((end = strchr(line, '\n')) != NULL) {
        *end = '\0';
        obey(relay->core, line);
        line = end + 1;
    }
    relay->command_bytes = strlen(line);
    memmove(relay->command, line, relay->command_bytes);
    return relay->command_bytes < COMMAND_BYTES - 1;
}

static void sleep_until_something(const struct relay_core *core, struct pollfd *polled) {
    struct timespec wait, *timeout = NULL;
    int64_t due = relay_core_due(core);
    if (due != INT64_MAX) {
        int64_t left = due - clock_monotonic_ns();
        left = left < 0 ? 0 : left;
        wait = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        timeout = &wait;
    }
    ppoll(polled, core->node_count + 1, timeout, NULL);
}

static void carry(struct relay *relay) {
    struct pollfd polled[RELAY_NODES_MAX + 1];
    uint32_t count = relay->core->node_count;
    for (uint32_t node = 0; node < count; node++) {
        polled[node] = (struct pollfd){.fd = relay->devices[node], .events = POLLIN};
    }
    polled[count] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        sleep_until_something(relay->core, polled);
        for (uint32_t node = 0; node < count; node++) {
            if ((polled[node].revents & POLLIN) != 0) {
                take_packets(relay, node);
            }
        }
        give_packets(relay);
        if (polled[count].revents != 0 && !read_commands(relay)) {
            return;
        }
    }
}

/* Before everything else on the machine, where that is allowed: a packet that is read late arrives
 * in a crowd, and the link drops more than it was asked to. */
static void be_punctual(void) {
    struct sched_param first = {.sched_priority = 1};
    int result = sched_setscheduler(0, SCHED_FIFO, &first);
    (void)result;
    prctl(PR_SET_TIMERSLACK, 1UL);
}

int main(int argument_count, char **arguments) {
    int nodes = argument_count - 2;
    if (nodes < 1 || nodes > RELAY_NODES_MAX) {
        fputs("usage: tun_relay SEED FD...\n", stderr);
        return 2;
    }
    void *memory = mmap(NULL, sizeof(struct relay_core), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("tun_relay");
        return 1;
    }
    static struct relay relay;
    relay.core = memory;
    relay_core_init(relay.core, (uint32_t)nodes, strtoull(arguments[1], NULL, 10));
    for (int node = 0; node < nodes; node++) {
        relay.devices[node] = atoi(arguments[node + 2]);
        ASSERT(fcntl(relay.devices[node], F_SETFL, O_NONBLOCK) == 0);
    }
    ASSERT(fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) == 0);
    be_punctual();
    carry(&relay);
    return 0;
}
