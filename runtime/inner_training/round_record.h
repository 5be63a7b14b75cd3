/* round_record: writes a member's contribution and the outer state of each round as files, so that
 * a round can be recomputed (swarm.record).
 *
 *     FOLDER/round-12/declared.safetensors   contribution F32 [P]: encoded, then decoded
 *                     outer.safetensors      params, momentum F32 [P]: after the round
 *                     commit.json            the commit as a line of the ledger, with its slices
 *
 * Each file is written as NAME.new and renamed when it is durable. */
#ifndef SKEP_INNER_TRAINING_ROUND_RECORD_H
#define SKEP_INNER_TRAINING_ROUND_RECORD_H

#include "runtime/checkpoint/tensor_file.h"
#include "runtime/inner_training/member_replica.h"

struct round_record {
    const char *folder; /* folder of the recorded rounds; NULL: rounds are not recorded */
    const struct replica *replica;
    float *decoded; /* [parameters]: resident buffer for the decoded contribution */
    struct tensor_file contribution, outer_state; /* layouts of the two files of a round */
    char *line;        /* [line_bytes]: buffer for a line of the ledger */
    size_t line_bytes; /* capacity of `line` */
    char *path;        /* [PATH_BYTES]: buffer for the path of a file */
};

/* round_record_plan: computes the layout of the files. Must be called before the seal.
 * memory  headers in the session's region */
void round_record_plan(struct session *session, const struct replica *replica,
                       struct round_record *record);

/* round_record_write_contribution: writes the contribution, encoded and then decoded.
 * round_record_write_commit: writes a commit with its slices.
 * round_record_write_outer_state: writes the outer state. All do nothing unless rounds are
 * recorded, and allocate nothing.
 * errors  STATUS_FIT, STATUS_FAILED for disk errors */
MUST_CHECK enum status round_record_write_contribution(const struct round_record *record,
                                                       uint32_t round,
                                                       const struct staging *staging,
                                                       struct fault *fault);
MUST_CHECK enum status round_record_write_commit(const struct round_record *record,
                                                 const struct entry *entry, struct fault *fault);
MUST_CHECK enum status round_record_write_outer_state(const struct round_record *record,
                                                      uint32_t round, const struct staging *staging,
                                                      struct fault *fault);

#endif
