/* dump_batch: the rows that `skep dump` computes on, from a safetensors file: input_ids, and where
 * there are any labels and the ends of documents (cu_seqlens). */
#ifndef SKEP_DIAGNOSE_DUMP_BATCH_H
#define SKEP_DIAGNOSE_DUMP_BATCH_H

#include "base/fault.h"
#include "base/region.h"

#include <stdint.h>

struct dump_batch {
    const char *path;
    int64_t rows, time;       /* of input_ids */
    int64_t longest_document; /* tokens; 0: the file names none */
    int32_t *ids, *positions; /* [rows, time] */
    int32_t *labels;          /* [rows, time], each what its token must predict */
    int64_t valid;            /* labels that count, above 0 */
};

/* dump_batch_shape: what the program must have room for: rows, time, longest_document.
 * errors  STATUS_INPUT: no input_ids, or one of another type or shape; those of safetensors_open.
 *         *batch is then undefined */
MUST_CHECK enum status dump_batch_shape(const char *path, struct region *region,
                                        struct dump_batch *batch, struct fault *fault);

/* dump_batch_read: the rest of it, of a batch whose shape has been read. Without labels the ids are
 * the labels.
 * memory  arrays in `region`
 * errors  STATUS_INPUT: a type or number of elements, documents that do not fill one row, an id or
 *         label that `vocab` does not have, no label that counts; those of safetensors_open */
MUST_CHECK enum status dump_batch_read(struct dump_batch *batch, int64_t vocab,
                                       struct region *region, struct fault *fault);

#endif
