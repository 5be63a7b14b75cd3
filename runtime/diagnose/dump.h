/* dump: computes logits, losses, gradients and weights after some steps, all on one batch, and
 * writes them to a safetensors file, for comparison with other training software. */
#ifndef SKEP_DIAGNOSE_DUMP_H
#define SKEP_DIAGNOSE_DUMP_H

#include "runtime/diagnose/dump_batch.h"
#include "runtime/session/session.h"

struct dump_request {
    const char *out_path; /* file to write */
    int64_t steps;        /* Number of optimizer steps on the batch. 0: no weights are written. */
    bool gradients;       /* Whether to write the gradients of the first step. */
};

/* dump_check: check that the settings allow the request.
 * errors  STATUS_USAGE when gradients are requested and strategy.reduce_at is not microbatch */
MUST_CHECK enum status dump_check(const struct session *session, const struct dump_request *request,
                                  struct fault *fault);

/* dump_run: compile and bind the session, whose settings have been read, load the weights, compute,
 * and write the file. Every rank calls it and receives the same status.
 * memory  in the session's region
 * errors  those of the session and of tensor_file; the file is then removed */
MUST_CHECK enum status dump_run(struct session *session, const struct dump_request *request,
                                const struct dump_batch *batch, struct fault *fault);

#endif
