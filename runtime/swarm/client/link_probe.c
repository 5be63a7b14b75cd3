#include "base/clock.h"
#include "base/statistics.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum {
    QUEUED_FRAMES = 2, /* frames that each queue of the connection can hold */
    WAIT_MS = 50,      /* longest wait for one event */
};

struct probe {                              /* measures the round trip to a tracker with pings */
    const struct tracker_contact *tracker;  /* the tracker that gets the pings */
    struct messenger *messenger;            /* has the connection to the tracker */
    int64_t deadline_ns;                    /* when the probe ends */
    int64_t sent_ns;                        /* when the unanswered ping was sent; 0: none */
    double round_trips_s[LINK_PROBE_PINGS]; /* measured round-trip times in seconds */
    int round_trip_count;                   /* number of measured round trips */
};

/* Sends a ping whose number is the time. The pong has the same number, which identifies the
 * ping. */
static void send_ping(struct probe *probe) {
    const int64_t now_ns = clock_monotonic_ns();
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame frame = {.kind = WIRE_PING};
    frame.length = (uint32_t)wire_write_ping((uint64_t)now_ns, payload);
    if (messenger_send(probe->messenger, probe->tracker->keys.curve, CHANNEL_CONTROL, &frame,
                       payload) == SEND_OK) {
        probe->sent_ns = now_ns;
    }
}

static void record_round_trip(struct probe *probe, const struct messenger_event *event) {
    uint64_t number = 0;
    bool is_answer = event->kind == MESSENGER_FRAME && event->frame.kind == WIRE_PONG &&
                     wire_read_ping(event->payload, event->frame.length, &number) == NULL &&
                     probe->sent_ns != 0 && number == (uint64_t)probe->sent_ns;
    if (is_answer) {
        probe->round_trips_s[probe->round_trip_count++] = clock_seconds_since(probe->sent_ns);
        probe->sent_ns = 0;
    }
}

static void run_probe(struct probe *probe) {
    struct messenger_event event;
    while (probe->round_trip_count < LINK_PROBE_PINGS &&
           clock_monotonic_ns() < probe->deadline_ns) {
        if (probe->sent_ns == 0) {
            send_ping(probe);
        }
        messenger_wait(probe->messenger, -1, WAIT_MS);
        while (probe->round_trip_count < LINK_PROBE_PINGS &&
               messenger_next_event(probe->messenger, &event)) {
            record_round_trip(probe, &event);
        }
    }
}

bool link_probe(const struct tracker_contact *tracker, double *round_trip_s) {
    struct region scratch = {0};
    struct key_pairs keys;
    struct fault fault;
    struct probe probe = {.tracker = tracker,
                          .deadline_ns = clock_monotonic_ns() + LINK_PROBE_MS * NS_PER_MS};
    struct messenger_options options = {
        .keys = &keys, .peers_max = 1, .queued_frames = QUEUED_FRAMES};
    keys_generate(&keys);
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    if (messenger_open(&options, &scratch, &probe.messenger, &fault) == OK) {
        if (messenger_register_peer(probe.messenger, tracker->keys.curve, tracker->address,
                                    &fault) == OK) {
            run_probe(&probe);
        }
        messenger_close(probe.messenger, 0);
    }
    keys_wipe(&keys);
    region_finish(&scratch);
    if (probe.round_trip_count < LINK_PROBE_PINGS) {
        return false;
    }
    *round_trip_s = median_f64(probe.round_trips_s, probe.round_trip_count);
    return true;
}
