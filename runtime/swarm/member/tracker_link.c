#include "runtime/swarm/member/tracker_link.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/delegation/delegation_search.h"
#include "transport/identity/address.h"

#include <string.h>

enum {
    DISCONNECTED_FETCH_MS = 2000,   /* fetch interval while the tracker does not answer */
    CONNECTED_FETCH_MS = 60 * 1000, /* fetch interval while the tracker is connected */
};

void tracker_link_init(struct tracker_link *link, const struct member_loop_options *options,
                       struct admission *admission) {
    struct fault fault;
    *link = (struct tracker_link){.options = options,
                                  .admission = admission,
                                  .keys = options->tracker,
                                  .next_fetch_ms = clock_monotonic_ms() + DISCONNECTED_FETCH_MS};
    if (options->delegation == NULL) {
        return;
    }
    link->known = *options->delegation;
    if (resolve_host(options->tracker_address, link->numeric, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; a newer delegation cannot be fetched", fault.subject,
                 fault.reason);
        link->numeric[0] = '\0';
    }
}

enum status tracker_link_open(struct tracker_link *link, struct messenger *messenger,
                              struct fault *fault) {
    link->messenger = messenger;
    return messenger_register_peer(messenger, link->keys.curve, link->options->tracker_address,
                                   fault);
}

static void close_connection(struct tracker_link *link) {
    messenger_ban_peer(link->messenger, link->keys.curve);
    admission_on_disconnect(link->admission);
}

/* Uses a newer delegation. If it has the same keys with a later expiry, the connection stays
 * open, unless the old delegation has expired. */
static void use_newer_delegation(struct tracker_link *link, const struct known_delegation *newer) {
    struct fault fault;
    const bool is_other = !public_keys_equal(&newer->delegation.tracker, &link->keys);
    log_line(LOG_INFO, "%s: the operator's newest delegation has serial %llu%s",
             link->options->tracker_address, (unsigned long long)newer->delegation.serial,
             is_other ? ", and is for another tracker" : "");
    if (is_other) {
        close_connection(link);
    }
    link->known = *newer;
    link->keys = newer->delegation.tracker;
    if ((is_other || link->has_expired) &&
        messenger_register_peer(link->messenger, link->keys.curve, link->options->tracker_address,
                                &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s", fault.subject, fault.reason);
    }
    link->has_expired = false;
    if (link->options->delegation_path != NULL) {
        delegation_cache_store(link->options->delegation_path, newer);
    }
}

static void log_delegation_error(struct tracker_link *link, const char *error) {
    if (error != NULL && error != link->logged_error) {
        log_line(LOG_WARNING, "%s: the delegation that the tracker serves %s; using the known one",
                 link->options->tracker_address, error);
    }
    link->logged_error = error;
}

static void receive_delegation(struct tracker_link *link) {
    struct known_delegation received;
    const char *error = delegation_read_verified(link->fetch.bytes, link->fetch.count,
                                                 link->options->operator_key, &received);
    if (error == NULL && !hash_equal(&received.swarm, &link->known.swarm)) {
        error = "is for a different swarm";
    } else if (error == NULL && received.delegation.serial < link->known.delegation.serial) {
        error = "is older than the newest known one";
    } else if (error == NULL && received.delegation.serial > link->known.delegation.serial) {
        use_newer_delegation(link, &received);
    }
    log_delegation_error(link, error);
}

static void close_if_delegation_expired(struct tracker_link *link) {
    if (!link->has_expired &&
        delegation_is_expired(&link->known.delegation, (uint64_t)clock_unix_s())) {
        link->has_expired = true;
        close_connection(link);
        log_line(LOG_WARNING,
                 "%s: the operator's delegation to the tracker has expired; waiting for a new one "
                 "(`skep track RUN.yaml --delegate KEY`); if it is valid, correct this machine's "
                 "clock",
                 link->options->tracker_address);
    }
}

void tracker_link_step(struct tracker_link *link, int64_t now_ms) {
    const bool is_connected = link->admission->is_connected;
    if (link->known.delegation.serial == 0 || link->admission->is_replaced ||
        link->numeric[0] == '\0') {
        return;
    }
    close_if_delegation_expired(link);
    if (link->fetch.state == DOWNLOAD_PENDING) {
        if (delegation_fetch_step(&link->fetch, now_ms) == DOWNLOAD_DONE) {
            receive_delegation(link);
        }
    } else if (now_ms >= link->next_fetch_ms) {
        link->next_fetch_ms = now_ms + (is_connected ? CONNECTED_FETCH_MS : DISCONNECTED_FETCH_MS);
        delegation_fetch_begin(&link->fetch, link->numeric, now_ms);
    } else if (!is_connected && link->next_fetch_ms > now_ms + DISCONNECTED_FETCH_MS) {
        link->next_fetch_ms = now_ms + DISCONNECTED_FETCH_MS;
    }
}

void tracker_link_on_connect(struct tracker_link *link, int64_t now_ms) {
    link->next_fetch_ms = now_ms + CONNECTED_FETCH_MS;
}

void tracker_link_cancel_fetch(struct tracker_link *link) {
    delegation_fetch_end(&link->fetch);
}
