/* dump_batch: reads the batch of `skep dump` from a safetensors file: input_ids, and optionally
 * labels and the ends of documents (cu_seqlens). */
#ifndef SKEP_DIAGNOSE_DUMP_BATCH_H
#define SKEP_DIAGNOSE_DUMP_BATCH_H

#include "base/fault.h"
#include "base/region.h"

#include <stdint.h>

struct dump_batch {
    const char *path;   /* path of the batch file */
    int64_t rows, time; /* Shape of input_ids. */
    /* Number of tokens in the longest document; 0: the file has no cu_seqlens. */
    int64_t longest_document;
    int32_t *ids, *positions; /* [rows, time] */
    int32_t *labels;          /* [rows, time]: label that each token must predict. */
    int64_t valid;            /* Number of labels that contribute to the loss; above 0. */
};

/* dump_batch_shape: read rows, time and longest_document, which the compiled program must support.
 * errors  STATUS_INPUT: input_ids is missing or has another type or shape; those of
 *         safetensors_open. *batch is then undefined */
MUST_CHECK enum status dump_batch_shape(const char *path, struct region *region,
                                        struct dump_batch *batch, struct fault *fault);

/* dump_batch_read: read the data of a batch after dump_batch_shape. Without labels, the ids are the
 * labels.
 * memory  arrays in `region`
 * errors  STATUS_INPUT: an invalid type or number of elements, documents that do not fill one row,
 *         an id or label outside the vocabulary, no valid label; those of safetensors_open */
MUST_CHECK enum status dump_batch_read(struct dump_batch *batch, int64_t vocab,
                                       struct region *region, struct fault *fault);

#endif
