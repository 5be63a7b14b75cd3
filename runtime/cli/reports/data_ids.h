/* data_ids: implements `skep data --ids` and `skep data --decode`: reads a file line by line, and
 * prints the ids or the text of each line. The path "-" is standard input. */
#ifndef SKEP_CLI_REPORTS_DATA_IDS_H
#define SKEP_CLI_REPORTS_DATA_IDS_H

#include "base/fault.h"
#include "runtime/tokenizer/tokenizer.h"

#include <stdbool.h>

/* data_print_ids: print one JSON array of ids for each line of the file. A line's end is not
 * encoded.
 * errors  STATUS_INPUT when the file cannot be read; those of tokenizer_encode */
MUST_CHECK enum status data_print_ids(const struct tokenizer *tokenizer, const char *path,
                                      const struct tokenizer_options *options, struct fault *fault);

/* data_print_text: print the text of the ids in each line of the file, and a line end. A line is a
 * list of ids (token_ids.h). A byte order mark at the start of the file is skipped.
 * errors  STATUS_INPUT with file and line when the line is no list of ids, or an id is above all
 *         ids of the tokenizer; nothing of the line is then printed; ids without a token are
 *         ignored */
MUST_CHECK enum status data_print_text(const struct tokenizer *tokenizer, const char *path,
                                       bool skips_special, struct fault *fault);

#endif
