/* reachability: tests whether other processes can connect to the address that a member advertises.
 * The tracker connects to it, one attempt at a time for each member, and the member proves its key.
 * Only an address that the member connects from is tested, so that a member can direct neither the
 * tracker nor other members to a third party. A process that only asks whether it could be a member
 * (`skep join --check`) proves the channel key of the connection on which it asks. */
#ifndef SKEP_SWARM_TRACKER_REACHABILITY_H
#define SKEP_SWARM_TRACKER_REACHABILITY_H

#include "transport/messages/connect_probe.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PROBE_TIMEOUT_MS = 5000, /* time after which an attempt has failed */
    PROBE_RETRY_MS = 30000,  /* time between the starts of two attempts for one member */
    GUEST_PROBES_MAX = 8,    /* maximum number of tests at a time for guests that are not members */
};

/* The test of a member's address. */
struct member_probe {
    struct connect_probe connection; /* the connection attempt in progress */
    int64_t started_ms;              /* start of the last attempt; 0: none for this address */
    bool failure_is_logged;          /* a failed attempt for this address was logged */
};

/* make_idle_member_probe: returns a probe without an attempt.
 * member_probe_end: ends an attempt in progress, and resets the probe to idle. */
struct member_probe make_idle_member_probe(void);
void member_probe_end(struct member_probe *probe);

/* A test that a guest requested. */
struct guest_probe {
    struct connect_probe connection;     /* the attempt; its socket is NULL if the row is free */
    int64_t started_ms;                  /* start of the attempt */
    uint8_t curve[KEY_BYTES];            /* channel key of the guest's connection */
    char address[MESSAGE_ADDRESS_BYTES]; /* address that is tested */
};

struct tracker_loop;
struct tracker_guest;

/* reachability_advance_probes: continues the attempts in progress, and starts the ones that are
 * due. Only connected members whose address is not known to be reachable are tested. Does not
 * block. */
void reachability_advance_probes(struct tracker_loop *loop, int64_t now_ms);

/* reachability_test_guest: begins to test an address for a guest. The guest gets the outcome after
 * the test, or at once if the address cannot be tested. Does nothing while a test for this guest is
 * in progress.
 * reachability_end_guests: ends all tests for guests, before the messenger is closed. */
void reachability_test_guest(struct tracker_loop *loop, struct tracker_guest *guest,
                             const char *advertised, int64_t now_ms);
void reachability_end_guests(struct tracker_loop *loop);

#endif
