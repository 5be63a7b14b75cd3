/* scripted_member: a member that neither trains nor sums. It sends the messages that a tracker
 * expects over a real messenger, so that a test can lead a tracker through rounds. */
#ifndef SKEP_TESTS_UNIT_SWARM_SCRIPTED_MEMBER_H
#define SKEP_TESTS_UNIT_SWARM_SCRIPTED_MEMBER_H

#include "runtime/swarm/wire/wire.h"
#include "transport/messages/messages.h"

#include <stdbool.h>
#include <stdint.h>

enum { SCRIPTED_SLICES = 3 };

struct scripted_member {
    struct key_pairs keys;
    struct public_keys tracker;
    const char *address;
    struct hash manifest;
    struct wire_shape shape;
    struct messenger *messenger;
    struct region region;
    struct wire_arrays arrays;
    struct wire_chunks pieces;
    uint8_t *payload;

    bool is_connected, is_admitted, has_left, is_replaced;
    uint32_t opened;                       /* connections with the tracker so far */
    char reason[WIRE_REJECT_REASON_BYTES]; /* of a rejection; "": none */
    uint32_t roster_version, roster_count;
    struct swarm_timing timing;
    uint64_t start_number, report_number;
    uint32_t incarnation, session;
    int64_t due_ms; /* the next heartbeat */

    struct hash root; /* of its state */
    uint32_t commits, aborts;
    struct entry open; /* the newest OPEN */
    bool has_table;
    uint32_t version, poll;
    uint32_t version_min;     /* tables of lower versions do not reach it */
    uint32_t idle_seats;      /* in rounds of so many seats it has no results; 0: in none */
    uint32_t trained_samples; /* that it declares, of four; 0: all */
    struct slice_report reports[SCRIPTED_SLICES];
    const char *wrong; /* a message that no tracker may send; NULL: none */
};

/* scripted_open: a member whose keys are derived from `number`; it dials the tracker. */
void scripted_open(struct scripted_member *member, uint8_t number,
                   const struct public_keys *tracker, const char *address,
                   const struct hash *manifest, const struct hash *root);

/* scripted_run: receive, and send what is due, for at most `timeout_ms`. */
void scripted_run(struct scripted_member *member, int timeout_ms);

void scripted_close(struct scripted_member *member);

/* scripted_keys: the keys of member `number`; 0 is the tracker. */
void scripted_keys(uint8_t number, struct key_pairs *keys);

#endif
