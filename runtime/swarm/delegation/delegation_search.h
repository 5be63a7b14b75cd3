/* delegation_search: finds the keys of a swarm's tracker from its join string. A file of this user
 * stores the newest delegation that was ever received. So an older delegation is never followed
 * again, and a tracker whose delegation port is unreachable is still found. */
#ifndef SKEP_SWARM_DELEGATION_DELEGATION_SEARCH_H
#define SKEP_SWARM_DELEGATION_DELEGATION_SEARCH_H

#include "base/limits.h"
#include "runtime/swarm/delegation/delegation.h"
#include "transport/identity/join_string.h"

/* How to connect to a tracker. */
struct tracker_contact {
    char address[MESSAGE_ADDRESS_BYTES]; /* "tcp://HOST:PORT" */
    struct public_keys keys;             /* public keys of the tracker, from the delegation */
    struct known_delegation delegation;  /* the delegation with the tracker's keys */
};

/* How a search waits for the tracker, and whether it stores what it receives. */
struct delegation_search_args {
    int timeout_ms; /* time to wait for an answer */
    bool may_store; /* store a newer delegation that arrives in the user's file */
    bool (*should_continue)(void *context); /* called several times a second; NULL: always true */
    void *context;                          /* argument of should_continue */
};

/* delegation_search: fetch the delegation, compare it with the newest known one, and keep the newer
 * of the two. Blocks while it fetches, and allocates only through the resolver of host names.
 * errors  STATUS_FAILED: no answer in time and no delegation is known, or the newest one has
 *         expired; STATUS_INPUT: the operator of the join string did not sign the delegation that
 *         is served at this address, and none is known; STATUS_STOPPED: should_continue returned
 *         false; those of resolve_host */
MUST_CHECK enum status delegation_search(const struct join_string *join,
                                         const struct delegation_search_args *args,
                                         struct tracker_contact *contact, struct fault *fault);

/* delegation_choose: returns the delegation to use: `known` if nothing was received, or if `known`
 * is of the same swarm and newer; else `received`. */
const struct known_delegation *delegation_choose(const struct known_delegation *known,
                                                 const struct known_delegation *received);

/* delegation_cache_path: the path of the file with the newest known delegation for a join
 * string: delegations/DIGITS in this user's state folder. Returns false if there is no such
 * folder. delegation_cache_store: replace that file. A failure is only logged, because only
 * later starts need the file. */
MUST_CHECK bool delegation_cache_path(const struct join_string *join, char path[static PATH_BYTES]);
void delegation_cache_store(const char *path, const struct known_delegation *known);

#endif
