/* validation_split: which documents of a corpus are kept for validation. */
#ifndef SKEP_CORPUS_VALIDATION_SPLIT_H
#define SKEP_CORPUS_VALIDATION_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum { VALIDATION_MILLION = 1000000 }; /* number of units in the whole: shares are in millionths */

/* validation_split_has: whether document number `index` of a corpus, counted from 0, is kept for
 * validation. Of each group of 1 / share consecutive documents, one is kept. A hash of the group's
 * number determines which, so that every machine chooses the same documents, and periodic data
 * cause no bias.
 * share_ppm  share of the documents, in millionths, 0 to VALIDATION_MILLION / 2
 * limits     index < 2^43 */
bool validation_split_has(uint64_t index, uint64_t share_ppm);

/* validation_split_documents_min: the smallest number of documents of which at least one is kept
 * for validation. */
uint64_t validation_split_documents_min(uint64_t share_ppm);

#endif
