/* wire_body: the parts of messages whose length depends on the swarm. */
#ifndef SKEP_SWARM_WIRE_WIRE_BODY_H
#define SKEP_SWARM_WIRE_WIRE_BODY_H

#include "runtime/swarm/packer/packer.h"
#include "runtime/swarm/wire/wire.h"

/* wire.h defines the layouts. A packer that reads fills the whole argument, arrays included; any
 * other packer leaves it unchanged. */
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

/* wire_has_unknown_seats: whether the bits contain a seat at or above members_max. */
bool wire_has_unknown_seats(const struct wire_shape *shape, uint64_t seats);

/* wire_body_bytes_max: bytes of the longest body. */
size_t wire_body_bytes_max(const struct wire_shape *shape);

#endif
