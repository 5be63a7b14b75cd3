/* wire_body: the parts of messages that grow with the swarm, as walks over their forms. */
#ifndef SKEP_SWARM_WIRE_WIRE_BODY_H
#define SKEP_SWARM_WIRE_WIRE_BODY_H

#include "runtime/swarm/ledger/packer.h"
#include "runtime/swarm/wire/wire.h"

/* Each form is drawn in wire.h. A walk that reads fills all of what it is given, arrays included;
 * any other walk changes nothing. */
void wire_body_entry(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                     struct hash *base);
void wire_body_proposal(struct packer *pack, const struct wire_shape *shape, struct entry *entry,
                        uint64_t *holders);
void wire_body_table(struct packer *pack, const struct wire_shape *shape,
                     struct round_table *table);
void wire_body_reports(struct packer *pack, const struct wire_shape *shape,
                       struct slice_report *reports);

/* wire_has_unknown_seats: whether there are seats among these that the swarm cannot have. */
bool wire_has_unknown_seats(const struct wire_shape *shape, uint64_t seats);

/* wire_body_max: the longest of them all. */
size_t wire_body_max(const struct wire_shape *shape);

#endif
