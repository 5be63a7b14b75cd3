/* json_stdout: a JSON document that goes to standard output while it is written. */
#ifndef SKEP_CLI_REPORTS_JSON_STDOUT_H
#define SKEP_CLI_REPORTS_JSON_STDOUT_H

#include "base/json_write.h"

enum { JSON_STDOUT_BYTES = 4096 };

/* Must stay where it is between begin and end. */
struct json_stdout {
    char buffer[JSON_STDOUT_BYTES];
    struct text text;
    struct json_writer json;
};

/* json_stdout_begin: begin the document's outer object. Returns the writer. */
struct json_writer *json_stdout_begin(struct json_stdout *out);

/* json_stdout_end: close the outer object, and end the line. */
void json_stdout_end(struct json_stdout *out);

#endif
