/* guests: schedules of an open swarm. Members from world->first_guest on are guests. Any number of
 * them lie, in any way. */
#ifndef SKEP_TESTS_SIM_GUESTS_H
#define SKEP_TESTS_SIM_GUESTS_H

#include "tests/sim/world.h"

/* world_run_open: a schedule of faults with three or more voters and guests: rounds go on after the
 * faults, whatever the guests do. */
int world_run_open(struct world *world, uint64_t seed);

/* guests_sign_roster: sign the first roster epoch, which names the voters.
 * guests_voters: the voting seats of an entry, by the schedule and not by the entry. */
void guests_sign_roster(struct world *world, const struct hash *swarm);
uint64_t guests_voters(const struct world *world, const struct entry *entry);

/* guests_mishear: a guest that lies reads in an OPEN that it is a voter, so that it votes and
 * accuses. */
struct event guests_mishear(const struct world *world, uint32_t node, const struct event *event);

#endif
