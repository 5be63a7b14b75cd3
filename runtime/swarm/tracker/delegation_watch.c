#include "runtime/swarm/tracker/delegation_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"

void delegation_watch_open(struct tracker_loop *loop) {
    if (loop->options.delegation != NULL) {
        loop->delegation.known = *loop->options.delegation;
    }
}

static void adopt_delegation(struct tracker_loop *loop, const struct known_delegation *newer) {
    const struct public_keys *own = &loop->options.keys->public_keys;
    loop->delegation.known = *newer;
    loop->delegation.warn_s = 0;
    loop->delegation.is_revoked = !public_keys_equal(&newer->delegation.tracker, own);
    if (!loop->delegation.is_revoked) {
        delegation_server_set_delegation(loop->delegation_server, newer);
        tracker_queue_delegation(loop->driver->tracker, &newer->delegation);
        log_line(LOG_INFO, "the operator's newest delegation has serial %llu",
                 (unsigned long long)newer->delegation.serial);
    }
}

static void read_delegation_file(struct tracker_loop *loop) {
    const struct delegation_watch *watch = &loop->delegation;
    struct known_delegation read;
    struct fault fault;
    if (delegation_file_read(watch->file.path, loop->options.operator_keys.sign, &read, &fault) !=
        OK) {
        log_line(LOG_WARNING, "%s: %s; this delegation is ignored", fault.subject, fault.reason);
    } else if (!hash_equal(&read.swarm, &loop->options.manifest_hash)) {
        log_line(LOG_WARNING, "%s: the delegation is for a different swarm; it is ignored",
                 watch->file.path);
    } else if (read.delegation.serial < watch->known.delegation.serial) {
        log_line(LOG_WARNING, "%s: the delegation is older than the one in use; it is ignored",
                 watch->file.path);
    } else if (read.delegation.serial > watch->known.delegation.serial) {
        adopt_delegation(loop, &read);
    }
}

/* Warns if the delegation expires soon. A new delegation has another expiry, so its warnings begin
 * anew. */
static void warn_of_expiry(struct tracker_loop *loop, uint64_t now_s) {
    struct delegation_watch *watch = &loop->delegation;
    char left[24], key[KEYS_TEXT_BYTES];
    if (delegation_poll_warning(&watch->known.delegation, now_s, &watch->warn_s)) {
        log_line(LOG_WARNING,
                 "the operator's delegation to this tracker expires in %s, and then the tracker "
                 "exits; sign a new one where the operator's key is: skep track RUN.yaml "
                 "--delegate %s --operator-key FILE --days D",
                 delegation_time_left(&watch->known.delegation, now_s, left),
                 public_keys_write(&loop->options.keys->public_keys, key));
    }
}

void delegation_watch_run(struct tracker_loop *loop, int64_t now_ms) {
    struct delegation_watch *watch = &loop->delegation;
    if (loop->delegation_server == NULL) {
        return;
    }
    delegation_server_serve(loop->delegation_server, now_ms);
    if (watch->file.path != NULL && file_watch_poll(&watch->file, now_ms)) {
        read_delegation_file(loop);
    }
    const uint64_t now_s = (uint64_t)clock_unix_s();
    warn_of_expiry(loop, now_s);
    watch->has_expired = delegation_is_expired(&watch->known.delegation, now_s);
}

bool delegation_watch_requires_exit(const struct tracker_loop *loop) {
    return loop->delegation.is_revoked || loop->delegation.has_expired;
}

enum status delegation_watch_set_fault(const struct tracker_loop *loop, struct fault *fault) {
    const char *path = loop->delegation.file.path;
    return loop->delegation.is_revoked
               ? fault_set(fault, STATUS_INPUT, path,
                           "start the tracker that has this key, or the operator signs a new "
                           "delegation with `skep track RUN.yaml --delegate KEY`",
                           "the operator has delegated the swarm to a tracker with another key")
               : fault_set(fault, STATUS_INPUT, path,
                           "sign a new one with `skep track RUN.yaml --delegate KEY`",
                           "the operator's delegation to this tracker has expired");
}
