/* wire_body: packs the parts of messages whose length depends on the numbers of slices and
 * members. */
#ifndef SKEP_SWARM_WIRE_WIRE_BODY_H
#define SKEP_SWARM_WIRE_WIRE_BODY_H

#include "runtime/swarm/packer/packer.h"
#include "runtime/swarm/wire/wire.h"

/* wire.h describes the layouts. A packer in reading mode fills the whole last argument, arrays
 * included; in any other mode nothing is changed. */
void wire_pack_entry(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                     struct hash *base);
void wire_pack_proposal(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                        uint64_t *holders);
void wire_pack_table(struct packer *pack, const struct wire_shape *shape, struct round_table *table,
                     uint32_t *base);
void wire_pack_report(struct packer *pack, const struct wire_shape *shape,
                      const struct message *message, uint32_t awaited_ms[static SWARM_MEMBERS_MAX],
                      struct slice_report *rows);

void wire_pack_proof(struct packer *pack, struct slice_proof *proof);

/* wire_has_unknown_seats: whether the seat mask `seats` contains a seat at or above members_max. */
bool wire_has_unknown_seats(const struct wire_shape *shape, uint64_t seats);

/* wire_body_bytes_max: size of the longest body of a message. */
size_t wire_body_bytes_max(const struct wire_shape *shape);

#endif
