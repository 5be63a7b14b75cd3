/* json_stdout: a JSON document that is written to standard output in pieces. */
#ifndef SKEP_CLI_REPORTS_JSON_STDOUT_H
#define SKEP_CLI_REPORTS_JSON_STDOUT_H

#include "base/json_write.h"

enum { JSON_STDOUT_BYTES = 4096, JSON_ONE_LINE = -1 };

/* Must not move between begin and end. */
struct json_stdout {
    char buffer[JSON_STDOUT_BYTES];
    struct text text;
    struct json_writer json;
};

/* json_stdout_begin: begin the document's outer object with "format": 1. Returns the writer.
 * indent  "format" is on a new line after this many blanks; JSON_ONE_LINE: on the first line */
struct json_writer *json_stdout_begin(struct json_stdout *out, int indent);

/* json_stdout_end: close the outer object, and end the line. */
void json_stdout_end(struct json_stdout *out);

#endif
