/* json_field: the text in one field of a line of JSON. The scanner makes one pass, without memory
 * of its own and without recursion, because lines may be megabytes long and are untrusted. */
#ifndef SKEP_CORPUS_JSON_FIELD_H
#define SKEP_CORPUS_JSON_FIELD_H

#include <stddef.h>
#include <stdint.h>

enum { JSON_LINE_DEPTH_MAX = 60 }; /* maximum nesting of objects and lists in a line */

enum json_field_status {
    JSON_FIELD_FOUND,
    JSON_FIELD_MISSING,  /* the line is an object without the field */
    JSON_FIELD_NOT_TEXT, /* the value of the field is not a string */
    JSON_FIELD_INVALID,  /* the line is not an object in JSON */
};

struct json_field {
    char *text;            /* the decoded text, in the line's memory */
    size_t length;         /* number of bytes of the text, which may contain NUL */
    uint64_t replacements; /* number of escapes of lone surrogates, each decoded as U+FFFD */
    const char *reason;    /* JSON_FIELD_INVALID: why the line is invalid */
    size_t column;         /* JSON_FIELD_INVALID: offset of the invalid byte in the line */
};

/* json_field_find: find the member `name` of the object in `line` and decode it in place. A line
 * with two such members is invalid, and so is one with NaN or Infinity, which Python writes and
 * reads.
 * line  [length] well-formed UTF-8, followed by a readable NUL; the call changes the content of
 *       strings */
enum json_field_status json_field_find(char *line, size_t length, const char *name,
                                       struct json_field *field);

#endif
