/* run_fixture: the state of a small run whose every element follows from the step. */
#ifndef SKEP_TESTS_UNIT_CHECKPOINT_RUN_FIXTURE_H
#define SKEP_TESTS_UNIT_CHECKPOINT_RUN_FIXTURE_H

#include "runtime/checkpoint/snapshot.h"

enum { RUN_TENSORS = 3, RUN_GROUPS = 3, RUN_STAGING = STAGING_BYTES_MIN };

struct run_fixture {
    char folder[96];
    struct tensor_spec tensors[RUN_GROUPS][RUN_TENSORS];
    struct tensor_piece pieces[RUN_GROUPS][RUN_TENSORS]; /* whole */
    struct tensor_piece parts[RUN_GROUPS][RUN_TENSORS];  /* of run_take_part */
    struct snapshot_group groups[RUN_GROUPS];
    struct snapshot_args args;
    struct region region;
    struct staging staging;
    struct fault fault;
};

/* A new folder, with `keep` snapshots to be kept. */
struct run_fixture *run_start(int keep);
void run_finish(struct run_fixture *run);

/* The tensors after `step` steps; whether they are that, bit for bit. */
void run_set(struct run_fixture *run, int64_t step);
bool run_is(const struct run_fixture *run, int64_t step);
void run_clear(struct run_fixture *run);

/* Leaves to the groups what one of several ranks holds: a group's tensors stand one behind the
 * other, cut into equal slots. What is outside stays in `pieces`. */
void run_take_part(struct run_fixture *run, int rank, int world);

void run_fixture_open(struct run_fixture *run, struct snapshot_writer *writer);
/* Sets the tensors and saves them; the process is sealed meanwhile. */
enum status run_save(struct run_fixture *run, struct snapshot_writer *writer, int64_t step);

/* The step of the newest good snapshot, whose tensors it loads and checks; -1 for none. */
int64_t run_newest(struct run_fixture *run);

/* The steps of the folder's snapshots in the order of saving, as "1 2 3". */
const char *run_steps(struct run_fixture *run);

#endif
