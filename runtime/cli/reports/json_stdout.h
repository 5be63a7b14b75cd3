/* json_stdout: a JSON document that is written to standard output in pieces. */
#ifndef SKEP_CLI_REPORTS_JSON_STDOUT_H
#define SKEP_CLI_REPORTS_JSON_STDOUT_H

#include "base/json_write.h"

enum {
    JSON_STDOUT_BYTES = 4096, /* size of the writer's buffer */
    JSON_ONE_LINE = -1        /* value of `indent` for a document on one line */
};

/* The struct must not be moved or copied between json_stdout_begin and json_stdout_end. */
struct json_stdout {
    char buffer[JSON_STDOUT_BYTES];
    struct text text;
    struct json_writer json;
};

/* json_stdout_begin: begins the document's outer object with "format": 1, and returns the writer.
 * indent  number of blanks before "format" on a new line; JSON_ONE_LINE: no new line */
struct json_writer *json_stdout_begin(struct json_stdout *out, int indent);

/* json_stdout_end: closes the outer object, and ends the line. */
void json_stdout_end(struct json_stdout *out);

#endif
