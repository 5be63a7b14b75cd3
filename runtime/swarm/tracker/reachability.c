#include "runtime/swarm/tracker/reachability.h"

#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

struct member_probe make_idle_member_probe(void) {
    return (struct member_probe){.started_ms = 0};
}

void member_probe_end(struct member_probe *probe) {
    connect_probe_end(&probe->connection);
    *probe = make_idle_member_probe();
}

static void set_reachable(struct tracker_loop *loop, struct admitted_member *member,
                          bool is_reachable) {
    if ((member->is_reachable != 0) == is_reachable) {
        return;
    }
    member_set_reachable(member, is_reachable);
    member_table_mark_changed(loop->members);
    log_line(LOG_INFO, "%s is %s at %s", member->name, is_reachable ? "reachable" : "unreachable",
             member->address);
}

static void continue_probe(struct tracker_loop *loop, struct admitted_member *member,
                           int64_t now_ms) {
    struct member_probe *probe = &member->probe;
    enum connect_probe_state state = connect_probe_poll(&probe->connection);
    if (state == CONNECT_PROBE_PENDING && now_ms - probe->started_ms >= PROBE_TIMEOUT_MS) {
        connect_probe_end(&probe->connection);
        state = CONNECT_PROBE_FAILED;
    }
    if (state == CONNECT_PROBE_FAILED && !probe->failure_is_logged) {
        probe->failure_is_logged = true;
        log_line(
            LOG_WARNING,
            "%s: other members could not connect to %s for %d s: the user of that machine has to "
            "open the port, or correct --public; meanwhile the member uses the "
            "connections that it opens itself",
            member->name, member->address, PROBE_TIMEOUT_MS / 1000);
    }
    if (state != CONNECT_PROBE_PENDING) {
        set_reachable(loop, member, state == CONNECT_PROBE_OK);
    }
}

/* Whether a member's address should be probed now. A member that is not connected is not probed: it
 * is probably down, so that a failed probe would not show whether its address is reachable. */
static bool is_probe_due(const struct tracker_loop *loop, const struct admitted_member *member,
                         int64_t now_ms) {
    const int64_t started_ms = member->probe.started_ms;
    return member->address[0] != '\0' && member->is_reachable == 0 &&
           (started_ms == 0 || now_ms - started_ms >= PROBE_RETRY_MS) &&
           guest_find(loop->guests, member->keys.curve) != NULL;
}

/* ---- guests ---- */

static void send_outcome(struct tracker_loop *loop, const struct tracker_guest *guest,
                         const char *address, enum probe_outcome outcome) {
    struct wire_probe probe = {.outcome = outcome};
    uint8_t payload[WIRE_PROBE_BYTES_MAX];
    struct text text = text_over(probe.address, sizeof probe.address);
    text_add(&text, "%s", address);
    /* A guest repeats its request when the outcome is lost. */
    (void)tracker_loop_send_payload(loop, guest, WIRE_PROBE_ADDRESS, 0, payload,
                                    wire_write_probe(&probe, payload));
}

static bool is_testing(const struct tracker_loop *loop, const struct tracker_guest *guest) {
    for (uint32_t i = 0; i < GUEST_PROBES_MAX; i++) {
        const struct guest_probe *probe = &loop->guests->probes[i];
        if (probe->connection.socket != NULL &&
            memcmp(probe->curve, guest->curve, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static struct guest_probe *find_free_probe(struct tracker_loop *loop) {
    for (uint32_t i = 0; i < GUEST_PROBES_MAX; i++) {
        if (loop->guests->probes[i].connection.socket == NULL) {
            return &loop->guests->probes[i];
        }
    }
    return NULL;
}

void reachability_test_guest(struct tracker_loop *loop, struct tracker_guest *guest,
                             const char *advertised, int64_t now_ms) {
    char address[MESSAGE_ADDRESS_BYTES];
    struct guest_probe *probe = find_free_probe(loop);
    if (is_testing(loop, guest)) {
        return;
    }
    guest_complete_address(guest, advertised, address);
    if (address[0] == '\0') {
        send_outcome(loop, guest, "", PROBE_FOREIGN);
        return;
    }
    if (probe == NULL ||
        !connect_probe_start(loop->messenger, guest->curve, address, &probe->connection)) {
        send_outcome(loop, guest, address, PROBE_BUSY);
        return;
    }
    probe->started_ms = now_ms;
    memcpy(probe->curve, guest->curve, KEY_BYTES);
    memcpy(probe->address, address, sizeof address);
}

static void continue_guest_probe(struct tracker_loop *loop, struct guest_probe *probe,
                                 int64_t now_ms) {
    const struct tracker_guest *guest = guest_find(loop->guests, probe->curve);
    enum connect_probe_state state = connect_probe_poll(&probe->connection);
    if (state == CONNECT_PROBE_PENDING && now_ms - probe->started_ms >= PROBE_TIMEOUT_MS) {
        connect_probe_end(&probe->connection);
        state = CONNECT_PROBE_FAILED;
    }
    if (state != CONNECT_PROBE_PENDING && guest != NULL) {
        send_outcome(loop, guest, probe->address,
                     state == CONNECT_PROBE_OK ? PROBE_CONNECTED : PROBE_FAILED);
    }
}

void reachability_end_guests(struct tracker_loop *loop) {
    for (uint32_t i = 0; i < GUEST_PROBES_MAX; i++) {
        connect_probe_end(&loop->guests->probes[i].connection);
    }
}

void reachability_advance_probes(struct tracker_loop *loop, int64_t now_ms) {
    for (uint32_t i = 0; i < GUEST_PROBES_MAX; i++) {
        if (loop->guests->probes[i].connection.socket != NULL) {
            continue_guest_probe(loop, &loop->guests->probes[i], now_ms);
        }
    }
    for (uint32_t row = 0; row < loop->members->count; row++) {
        struct admitted_member *member = &loop->members->rows[row];
        if (member->probe.connection.socket != NULL) {
            continue_probe(loop, member, now_ms);
        } else if (is_probe_due(loop, member, now_ms)) {
            member->probe.started_ms = now_ms;
            if (!connect_probe_start(loop->messenger, member->keys.curve, member->address,
                                     &member->probe.connection)) {
                log_line(LOG_WARNING, "%s: cannot create a socket to probe %s", member->name,
                         member->address);
            }
        }
    }
}
