/* validation_split: which documents of a corpus are kept for validation. */
#ifndef SKEP_CORPUS_VALIDATION_SPLIT_H
#define SKEP_CORPUS_VALIDATION_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum { VALIDATION_MILLION = 1000000 }; /* the unit of shares is a millionth */

/* validation_split_has: whether document number `index` of a corpus, counted from 0, is kept for
 * validation. Of each 1 / share consecutive documents one is, at a position that a hash of their
 * number determines, so that the same documents are chosen on every machine, and a period in the
 * data does not matter.
 * share_ppm  share of the documents, in millionths, 0 to VALIDATION_MILLION / 2
 * limits     index < 2^43 */
bool validation_split_has(uint64_t index, uint64_t share_ppm);

/* validation_split_documents_min: the smallest number of documents of which one is kept. */
uint64_t validation_split_documents_min(uint64_t share_ppm);

#endif
