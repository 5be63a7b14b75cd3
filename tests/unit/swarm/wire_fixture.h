/* wire_fixture: messages of every kind as a swarm says them, random and signed. */
#ifndef SKEP_TESTS_UNIT_SWARM_WIRE_FIXTURE_H
#define SKEP_TESTS_UNIT_SWARM_WIRE_FIXTURE_H

#include "entry_fixture.h"
#include "runtime/swarm/wire/wire.h"
#include "runtime/swarm/wire/wire_service.h"

enum {
    WIRE_FIXTURE_SLICES = 256, /* the most */
    WIRE_FIXTURE_BULK = 40,
};

/* How much of what can be zero or absent is there. */
enum wire_fill { WIRE_EMPTY, WIRE_SOME, WIRE_FULL, WIRE_FILLS };

struct wire_fixture {
    struct wire_shape shape;
    struct entry_fixture swarm; /* members_max members; its round 1 is open */
    struct entry open;
    struct wire_introduction introduction;
    struct wire_address_book roster;
    uint64_t key, drawn; /* of everything random */

    struct message message;
    size_t bulk_bytes; /* 0 where the kind has none */
    uint8_t bulk[WIRE_FIXTURE_BULK];
    struct entry entry;
    struct round_table table;
    struct entry_slice entry_slices[WIRE_FIXTURE_SLICES];
    struct slice_plan plans[WIRE_FIXTURE_SLICES];
    struct slice_report reports[WIRE_FIXTURE_SLICES];
    uint32_t awaited_ms[SWARM_MEMBERS_MAX];
    struct slice_proof proof;
    uint64_t holders[WIRE_FIXTURE_SLICES];
};

/* wire_fixture_init: a swarm of so many members and slices. */
void wire_fixture_init(struct wire_fixture *fixture, uint32_t members, uint32_t slices);

/* wire_fixture_is: whether machines say this kind over the wire. */
bool wire_fixture_is(uint32_t kind);

/* wire_fixture_make: message, bulk and what the message points to, from `key` alone;
 * wire_verify_message holds for it with `open`. */
void wire_fixture_make(struct wire_fixture *fixture, enum message_kind kind, enum wire_fill fill,
                       uint64_t key);

/* wire_fixture_hosts: introduction and roster likewise. */
void wire_fixture_hosts(struct wire_fixture *fixture, enum wire_fill fill, uint64_t key);

/* Kinds of frames whose payloads belong to no state machine (wire_service.h). */
enum { WIRE_FIXTURE_SERVICES = 10, WIRE_FIXTURE_SERVICE_BYTES = 1 << 14 };
extern const enum wire_kind WIRE_FIXTURE_SERVICE_KINDS[WIRE_FIXTURE_SERVICES];

/* wire_fixture_service: the map of such a payload, without its length field. Gives its length.
 * wire_fixture_repeat_service: reads a map, and writes what it has read into `again`; 0 if the map
 * is rejected.
 * limits  payload and again have WIRE_FIXTURE_SERVICE_BYTES, of which the map takes at most half */
size_t wire_fixture_service(struct wire_fixture *fixture, enum wire_kind kind, enum wire_fill fill,
                            uint64_t key, uint8_t *payload);
size_t wire_fixture_repeat_service(enum wire_kind kind, const uint8_t *bytes, size_t count,
                                   uint8_t *again);

/* wire_fixture_write: header, payload and bulk bytes behind each other, as they go over the wire
 * (but for pieces); gives how many. */
size_t wire_fixture_write(const struct wire_fixture *fixture, const struct message *message,
                          const uint8_t *bulk, size_t bulk_bytes, uint8_t *bytes, size_t capacity);

/* wire_fixture_find: the position of the value of the first field with this name in MessagePack
 * bytes. */
size_t wire_fixture_find(const uint8_t *bytes, size_t count, const char *name);

#endif
