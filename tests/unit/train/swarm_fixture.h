/* swarm_fixture: a small swarm as its tracker makes it: model, data and manifest. */
#ifndef SKEP_TESTS_UNIT_TRAIN_SWARM_FIXTURE_H
#define SKEP_TESTS_UNIT_TRAIN_SWARM_FIXTURE_H

#include "runtime/swarm_setup/manifest_make.h"

/* swarm_fixture_make: in the working directory tracker/run.yaml with its model (a Llama of 0.3M
 * parameters, weights at random) and data, and heather.skep: 250 steps of 192 tokens, 40 a round,
 * int4, at most 5 members. State folders are below /state. Gives the manifest's text.
 * memory  in `region` */
const char *swarm_fixture_make(struct region *region, struct manifest_draft *offer,
                               struct manifest *manifest);

#endif
