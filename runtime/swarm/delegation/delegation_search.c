#include "runtime/swarm/delegation/delegation_search.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/delegation/delegation_fetch.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS = 100,      /* longest time between two calls of should_continue */
    RETRY_MS = 500,     /* time between two fetches */
    NAME_HASH_BYTES = 8 /* bytes of the hash from which the file name is made */
};

/* A search in progress. */
struct delegation_search_state {
    const struct join_string *join;            /* the tracker's address and the operator's key */
    const struct delegation_search_args *args; /* arguments of the search */
    char numeric[MESSAGE_ADDRESS_BYTES]; /* address of the tracker, with its host name resolved */
    char path[PATH_BYTES]; /* path of the file with the newest known delegation; "": no such file */
    struct known_delegation known;    /* delegation in the file at `path`; serial 0: none */
    struct known_delegation received; /* valid delegation from the tracker; serial 0: none */
    const char *error;             /* why the received delegation is invalid; NULL: it is valid */
    struct delegation_fetch fetch; /* the current attempt to fetch the delegation */
};

/* ---- the file ---- */

bool delegation_cache_path(const struct join_string *join, char path[static PATH_BYTES]) {
    const char *systemd = getenv("STATE_DIRECTORY");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    struct hash_state hashing;
    struct text text = text_over(path, PATH_BYTES);
    if (systemd != NULL && systemd[0] == '/') {
        text_add(&text, "%.*s", (int)strcspn(systemd, ":"), systemd);
    } else if (state != NULL && state[0] == '/') {
        text_add(&text, "%s/skep", state);
    } else if (home != NULL && home[0] == '/') {
        text_add(&text, "%s/.local/state/skep", home);
    } else {
        return false;
    }
    hash_begin(&hashing);
    hash_add(&hashing, join->operator_keys.sign, KEY_BYTES);
    hash_add(&hashing, join->address, strlen(join->address));
    const struct hash name = hash_end(&hashing);
    text_add(&text, "/delegations/");
    hex_add(&text, name.bytes, NAME_HASH_BYTES);
    return !text.truncated;
}

void delegation_cache_store(const char *path, const struct known_delegation *known) {
    char folder[PATH_BYTES];
    struct fault fault;
    file_parent_folder(path, folder, sizeof folder);
    enum status status = file_make_folders(folder, &fault);
    if (status == OK) {
        status = delegation_file_write(path, known, &fault);
    }
    if (status != OK) {
        log_line(LOG_WARNING,
                 "%s: %s; continuing without a stored copy of the tracker's delegation",
                 fault.subject, fault.reason);
    }
}

static void read_stored_delegation(struct delegation_search_state *search) {
    struct fault fault;
    if (!delegation_cache_path(search->join, search->path)) {
        search->path[0] = '\0';
    } else if (file_exists(search->path) &&
               delegation_file_read(search->path, search->join->operator_keys.sign, &search->known,
                                    &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; ignoring this delegation, and fetching it from the tracker",
                 fault.subject, fault.reason);
    }
}

/* ---- the fetch ---- */

static void wait_for_bytes(const struct delegation_fetch *fetch) {
    struct pollfd wait = {.fd = fetch->state == DOWNLOAD_PENDING ? fetch->fd : -1,
                          .events = POLLIN};
    (void)poll(&wait, 1, WAIT_MS);
}

/* Retries the fetch until a delegation has arrived or the timeout has passed. If a delegation is
 * already known, makes only one attempt. Returns STATUS_STOPPED if should_continue returned
 * false. */
static enum status fetch_delegation(struct delegation_search_state *search, struct fault *fault) {
    struct delegation_fetch *fetch = &search->fetch;
    const struct delegation_search_args *args = search->args;
    const int64_t until_ms = clock_monotonic_ms() + args->timeout_ms;
    int64_t retry_ms = 0;
    while (fetch->state != DOWNLOAD_DONE && clock_monotonic_ms() < until_ms) {
        if (args->should_continue != NULL && !args->should_continue(args->context)) {
            delegation_fetch_end(fetch);
            return fault_set(fault, STATUS_STOPPED, search->join->address, NULL,
                             "stopped by request");
        }
        if (fetch->state != DOWNLOAD_PENDING && clock_monotonic_ms() >= retry_ms) {
            delegation_fetch_begin(fetch, search->numeric, clock_monotonic_ms());
            retry_ms = clock_monotonic_ms() + RETRY_MS;
        }
        wait_for_bytes(fetch);
        if (delegation_fetch_step(fetch, clock_monotonic_ms()) == DOWNLOAD_FAILED &&
            search->known.delegation.serial != 0) {
            break;
        }
    }
    if (fetch->state == DOWNLOAD_DONE) {
        search->error = delegation_read_verified(
            fetch->bytes, fetch->count, search->join->operator_keys.sign, &search->received);
    }
    delegation_fetch_end(fetch);
    return OK;
}

/* ---- the choice ---- */

const struct known_delegation *delegation_choose(const struct known_delegation *known,
                                                 const struct known_delegation *received) {
    const bool is_older = hash_equal(&known->swarm, &received->swarm) &&
                          received->delegation.serial < known->delegation.serial;
    return received->delegation.serial != 0 && !is_older ? received : known;
}

static enum status set_no_delegation_fault(const struct delegation_search_state *search,
                                           struct fault *fault) {
    const char *address = search->join->address;
    if (search->error != NULL) {
        return fault_set(fault, STATUS_INPUT, address,
                         "ask the swarm's operator for its current join string",
                         "the delegation that the tracker serves %s", search->error);
    }
    return fault_set(fault, STATUS_FAILED, address,
                     "check that the tracker is running, that its port and the port after it are "
                     "open, and that the join string is current",
                     "busy or unreachable: no answer within %d s", search->args->timeout_ms / 1000);
}

static void log_ignored_delegation(const struct delegation_search_state *search) {
    if (search->error != NULL) {
        log_line(LOG_WARNING, "%s: the delegation that the tracker serves %s; using the known one",
                 search->join->address, search->error);
    } else if (search->received.delegation.serial != 0) {
        log_line(LOG_WARNING,
                 "%s: the delegation that the tracker serves is older than the newest known one: "
                 "its serial is %llu, not %llu; using the known one",
                 search->join->address, (unsigned long long)search->received.delegation.serial,
                 (unsigned long long)search->known.delegation.serial);
    }
}

/* Chooses the newer of the known and the received delegation, stores a received one if it is new,
 * and sets *contact to the tracker that the chosen delegation names. */
static enum status choose_contact(struct delegation_search_state *search,
                                  struct tracker_contact *contact, struct fault *fault) {
    const struct known_delegation *chosen = delegation_choose(&search->known, &search->received);
    if (chosen->delegation.serial == 0) {
        return set_no_delegation_fault(search, fault);
    }
    if (chosen == &search->known) {
        log_ignored_delegation(search);
    } else if (search->args->may_store && search->path[0] != '\0' &&
               memcmp(chosen, &search->known, sizeof *chosen) != 0) {
        delegation_cache_store(search->path, chosen);
    }
    if (delegation_is_expired(&chosen->delegation, (uint64_t)clock_unix_s())) {
        return fault_set(fault, STATUS_FAILED, search->join->address,
                         "check this machine's clock; else the operator renews it with `skep track "
                         "RUN.yaml --delegate KEY`",
                         "the operator's delegation to the tracker, which permits it to lead the "
                         "swarm, has expired");
    }
    *contact = (struct tracker_contact){.keys = chosen->delegation.tracker, .delegation = *chosen};
    memcpy(contact->address, search->join->address, sizeof contact->address);
    return OK;
}

enum status delegation_search(const struct join_string *join,
                              const struct delegation_search_args *args,
                              struct tracker_contact *contact, struct fault *fault) {
    struct delegation_search_state search = {.join = join, .args = args};
    read_stored_delegation(&search);
    TRY(resolve_host(join->address, search.numeric, fault));
    TRY(fetch_delegation(&search, fault));
    return choose_contact(&search, contact, fault);
}
