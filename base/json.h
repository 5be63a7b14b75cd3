/* json: parsing of untrusted JSON within limits, and typed reads with faults that name the field.
 * It is the only user of jansson. */
#ifndef SKEP_BASE_JSON_H
#define SKEP_BASE_JSON_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t; /* a value of jansson */

/* A value of a document with its path from the root, which faults print: `rope_scaling.factor`.
 * Callers keep nodes on their stack. A node is valid while its document and its parent nodes are
 * valid. */
struct json_node {
    struct json_t *value;           /* jansson's value */
    const char *source_name;        /* name of the file, for faults */
    const char *key;                /* NULL for the root and for elements of an array */
    size_t index;                   /* position in an array; unused otherwise */
    const struct json_node *parent; /* NULL for the root */
};

/* A parsed text. `root` is an object. */
struct json_document {
    struct json_node root;
};

/* json_parse: parse `text`, whose root is an object. Faults name `source_name`, which must live as
 * long as the document.
 * limits  length <= length_max; nesting <= JSON_DEPTH_MAX; values <= JSON_VALUES_MAX; no
 *         duplicate keys, NaN, infinities, integers beyond int64, invalid UTF-8, NUL or text
 *         after the root
 * memory  jansson allocates, so call it before process_seal; json_finish frees the memory
 * errors  STATUS_INPUT at `source_name:line:column`; *document is then unchanged */
MUST_CHECK enum status json_parse(const char *text, size_t length, size_t length_max,
                                  const char *source_name, struct json_document *document,
                                  struct fault *fault);
void json_finish(struct json_document *document);

/* json_find: the member `key` of `object`, which must be an object.
 * returns  false when the member is missing or null; *node is then unchanged */
bool json_find(const struct json_node *object, const char *key, struct json_node *node);

/* json_has: true if `object` has a member `key`, even when it is null. */
bool json_has(const struct json_node *object, const char *key);

/* json_require: find the required member `key` of `object`, whose value json_as_X reads.
 * errors  STATUS_INPUT naming the field when it is missing or null; *node is then unchanged */
MUST_CHECK enum status json_require(const struct json_node *object, const char *key,
                                    struct json_node *node, struct fault *fault);

/* json_get_X: read the member `key` of `object` as a value of type X.
 * absent  a missing or null member is OK: *value is unchanged, and *present is false. `present` may
 *         be NULL
 * errors  STATUS_INPUT naming the field, its type and the expected type; *value is then unchanged
 * notes   f64 accepts integers; text points into the document; object and array return a node */
MUST_CHECK enum status json_get_i64(const struct json_node *object, const char *key, int64_t *value,
                                    bool *present, struct fault *fault);
MUST_CHECK enum status json_get_f64(const struct json_node *object, const char *key, double *value,
                                    bool *present, struct fault *fault);
MUST_CHECK enum status json_get_bool(const struct json_node *object, const char *key, bool *value,
                                     bool *present, struct fault *fault);
MUST_CHECK enum status json_get_text(const struct json_node *object, const char *key,
                                     const char **value, bool *present, struct fault *fault);
MUST_CHECK enum status json_get_object(const struct json_node *object, const char *key,
                                       struct json_node *value, bool *present, struct fault *fault);
MUST_CHECK enum status json_get_array(const struct json_node *object, const char *key,
                                      struct json_node *value, bool *present, struct fault *fault);

/* json_require_hex: read the required member `key`, 2 x count lower-case hexadecimal digits, into
 * `count` bytes.
 * errors  STATUS_INPUT naming the field */
MUST_CHECK enum status json_require_hex(const struct json_node *object, const char *key,
                                        void *bytes, size_t count, struct fault *fault);

/* json_as_X: read the value of `node` as type X. The errors are those of json_get_X; a null value
 * is also an error.
 * */
MUST_CHECK enum status json_as_i64(const struct json_node *node, int64_t *value,
                                   struct fault *fault);
MUST_CHECK enum status json_as_f64(const struct json_node *node, double *value,
                                   struct fault *fault);
MUST_CHECK enum status json_as_bool(const struct json_node *node, bool *value, struct fault *fault);
MUST_CHECK enum status json_as_text(const struct json_node *node, const char **value,
                                    struct fault *fault);
MUST_CHECK enum status json_as_object(const struct json_node *node, struct fault *fault);
MUST_CHECK enum status json_as_array(const struct json_node *node, struct fault *fault);

/* json_node_is_X: tests the type; never sets a fault. */
bool json_node_is_null(const struct json_node *node);
bool json_node_is_array(const struct json_node *node);
bool json_node_is_object(const struct json_node *node);

/* json_child_count: the number of members of an object or of elements of an array. */
size_t json_child_count(const struct json_node *node);

/* json_element: element `index` of an array; it takes constant time.
 * limits  index < json_child_count(array) */
struct json_node json_element(const struct json_node *array, size_t index);

/* An iterator over the members of an object, in the file's order:
 *     struct json_walk walk = json_walk_over(&object);
 *     while (json_walk_next(&walk)) { walk.member.key, walk.member ... } */
struct json_walk {
    const struct json_node *object;
    void *position;          /* jansson's iterator: the next member; NULL at the end */
    struct json_node member; /* the current member, after json_walk_next returned true */
};

struct json_walk json_walk_over(const struct json_node *object);
bool json_walk_next(struct json_walk *walk);

/* json_fault: sets STATUS_INPUT for the document; the reason is "`path.to.field` " and the
 * formatted text. Control characters from the file are printed as '?'. `remedy` may be NULL. */
enum status json_fault(const struct json_node *node, struct fault *fault, const char *remedy,
                       const char *format, ...) PRINTF_LIKE(4, 5);

/* json_fault_member: json_fault for the member `key` of `object`, which may be missing. */
enum status json_fault_member(const struct json_node *object, const char *key, struct fault *fault,
                              const char *format, ...) PRINTF_LIKE(4, 5);

#endif
