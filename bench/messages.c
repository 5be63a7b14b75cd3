/* messages: measure the rate of encrypted bulk frames between two processes of this machine.
 *
 *   messages [FRAMES] [BULK_CONNECTIONS]
 *
 * Sends FRAMES frames of 1 MiB in one direction, then in the other. Prints MB/s of payload for each
 * direction, and the longest round trip of a small control frame that was sent meanwhile. */
#include "transport/messages/messages.h"

#include "base/clock.h"
#include "base/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIND_BULK = 1, KIND_PING = 2, KIND_DONE = 3, PING_EVERY = 16 };

struct side {
    struct key_pairs keys;
    struct region region;
    struct messenger *messenger;
    const uint8_t *peer;
};

static uint8_t payload[FRAME_PAYLOAD_MAX];

static void open_side(struct side *side, const char *listen, uint32_t bulk) {
    const struct messenger_options options = {.keys = &side->keys,
                                              .listen = listen,
                                              .peers_max = 2,
                                              .bulk_connections = bulk,
                                              .queued_frames = 8,
                                              .accepted_kinds = {0xe}};
    struct fault fault;
    if (messenger_open(&options, &side->region, &side->messenger, &fault) != OK) {
        fault_print(&fault, STDERR_FILENO);
        _exit(1);
    }
}

static void register_peer(struct side *side, const char *address) {
    struct fault fault;
    if (messenger_register_peer(side->messenger, side->peer, address, &fault) != OK) {
        fault_print(&fault, STDERR_FILENO);
        _exit(1);
    }
}

/* Wait without a time limit for the next event. */
static struct messenger_event next_event(struct side *side) {
    struct messenger_event event;
    while (!messenger_next_event(side->messenger, &event)) {
        (void)messenger_wait(side->messenger, -1, -1);
    }
    return event;
}

static void send_surely(struct side *side, enum channel channel, const struct frame *frame) {
    while (messenger_send(side->messenger, side->peer, channel, frame, payload) != SEND_OK) {
        (void)messenger_wait(side->messenger, -1, 1000);
    }
}

/* Receive all bulk frames, return each ping, and send KIND_DONE at the end. */
static void take(struct side *side, uint32_t frames) {
    const struct frame done = {.kind = KIND_DONE};
    for (uint32_t count = 0; count < frames;) {
        const struct messenger_event event = next_event(side);
        if (event.kind == MESSENGER_FRAME && event.frame.kind == KIND_PING) {
            const struct frame pong = event.frame;
            send_surely(side, CHANNEL_CONTROL, &pong);
        }
        count += event.kind == MESSENGER_FRAME && event.frame.kind == KIND_BULK ? 1 : 0;
    }
    send_surely(side, CHANNEL_CONTROL, &done);
}

struct figures {
    double rate, ping_max_ms;
};

/* Handle returned pings. True when the peer has received all frames. */
static bool receive_answers(struct side *side, struct figures *figures) {
    struct messenger_event event;
    bool done = false;
    while (!done && messenger_next_event(side->messenger, &event)) {
        if (event.kind == MESSENGER_FRAME && event.frame.kind == KIND_PING) {
            const double ms = (double)(clock_monotonic_ns() - (int64_t)event.frame.offset) / 1e6;
            figures->ping_max_ms = ms > figures->ping_max_ms ? ms : figures->ping_max_ms;
        }
        done = event.kind == MESSENGER_FRAME && event.frame.kind == KIND_DONE;
    }
    return done;
}

static struct figures give(struct side *side, uint32_t frames) {
    struct figures figures = {0};
    const struct frame bulk = {.kind = KIND_BULK, .length = FRAME_PAYLOAD_MAX};
    const int64_t start_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < frames; i++) {
        if (i % PING_EVERY == 0) {
            const struct frame ping = {.kind = KIND_PING, .offset = (uint64_t)clock_monotonic_ns()};
            send_surely(side, CHANNEL_CONTROL, &ping);
        }
        while (messenger_send(side->messenger, side->peer, CHANNEL_BULK, &bulk, payload) !=
               SEND_OK) {
            (void)messenger_wait(side->messenger, -1, 1000);
            (void)receive_answers(side, &figures);
        }
    }
    while (!receive_answers(side, &figures)) {
        (void)messenger_wait(side->messenger, -1, -1);
    }
    const double seconds = (double)(clock_monotonic_ns() - start_ns) / 1e9;
    figures.rate = (double)frames * FRAME_PAYLOAD_MAX / 1e6 / seconds;
    return figures;
}

static void await_peer(struct side *side) {
    while (next_event(side).kind != MESSENGER_OPENED) {
    }
}

static void print(const char *label, struct figures figures) {
    printf("%-12s %7.0f MB/s, control round trip at most %.1f ms\n", label, figures.rate,
           figures.ping_max_ms);
}

int main(int argc, char **argv) {
    static struct side listener, dialer;
    int64_t frames = 2000;
    int64_t bulk = 2;
    int port[2];
    uint16_t number = 0;
    if ((argc > 1 && !text_parse_i64(argv[1], &frames)) ||
        (argc > 2 && !text_parse_i64(argv[2], &bulk)) || frames < 1 || bulk < 0 ||
        bulk > MESSAGE_BULK_MAX || pipe(port) != 0) {
        fprintf(stderr, "usage: messages [FRAMES] [BULK_CONNECTIONS]\n");
        return 2;
    }
    keys_generate(&listener.keys);
    keys_generate(&dialer.keys);
    listener.peer = dialer.keys.public_keys.curve;
    dialer.peer = listener.keys.public_keys.curve;
    const pid_t child = fork();
    if (child == 0) {
        open_side(&listener, "tcp://127.0.0.1:*", (uint32_t)bulk);
        register_peer(&listener, NULL);
        number = messenger_port(listener.messenger);
        (void)!write(port[1], &number, sizeof number);
        await_peer(&listener);
        take(&listener, (uint32_t)frames);
        print("by listener", give(&listener, (uint32_t)frames));
        messenger_close(listener.messenger, 1000);
        return 0;
    }
    char address[MESSAGE_ADDRESS_BYTES];
    (void)!read(port[0], &number, sizeof number);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", number);
    open_side(&dialer, NULL, (uint32_t)bulk);
    register_peer(&dialer, address);
    await_peer(&dialer);
    print("by dialer", give(&dialer, (uint32_t)frames));
    take(&dialer, (uint32_t)frames);
    messenger_close(dialer.messenger, 1000);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
