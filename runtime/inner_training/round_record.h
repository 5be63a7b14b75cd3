/* round_record: a member's contribution and the outer state of each round, as files, so that a
 * round can be recomputed (swarm.record).
 *
 *     FOLDER/round-12/declared.safetensors   contribution F32 [P]: encoded, then decoded
 *                     outer.safetensors      params, momentum F32 [P]: after the round */
#ifndef SKEP_INNER_TRAINING_ROUND_RECORD_H
#define SKEP_INNER_TRAINING_ROUND_RECORD_H

#include "runtime/checkpoint/tensor_file.h"
#include "runtime/inner_training/member_replica.h"

struct round_record {
    const char *folder; /* NULL: nothing is recorded */
    const struct replica *replica;
    float *decoded; /* [P], in the plan */
    struct tensor_file declared, outer;
    char *path; /* [PATH_BYTES] */
};

/* round_record_plan: plans the files of the session's run. Before seal.
 * memory  headers in the session's region */
void round_record_plan(struct session *session, const struct replica *replica,
                       struct round_record *record);

/* round_record_declared: writes the encoded contribution. round_record_outer: the outer state. Both
 * do nothing unless rounds are recorded, and allocate nothing.
 * errors  STATUS_FIT, STATUS_FAILED of the disk */
MUST_CHECK enum status round_record_declared(const struct round_record *record, uint32_t round,
                                             const struct staging *staging, struct fault *fault);
MUST_CHECK enum status round_record_outer(const struct round_record *record, uint32_t round,
                                          const struct staging *staging, struct fault *fault);

#endif
