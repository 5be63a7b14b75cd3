/* json: the one wrapper over jansson: bounded parsing of untrusted text, typed reads with faults
 * that name the field. */
#ifndef SKEP_BASE_JSON_H
#define SKEP_BASE_JSON_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t; /* jansson's; nobody else looks inside */

/* A value of a document and the way to it, so that faults can say `rope_scaling.factor`. Nodes are
 * small, live on the caller's stack, and are valid while their document and their parents are. */
struct json_node {
    struct json_t *value;
    const char *source_name;        /* of the text, for faults */
    const char *key;                /* NULL at the root and for elements of an array */
    size_t index;                   /* of an element of an array */
    const struct json_node *parent; /* NULL at the root */
};

/* A parsed text. `root` is an object. */
struct json_document {
    struct json_node root;
};

/* json_parse: a whole text whose root is an object.
 * place   names the file in faults and is kept by reference
 * limits  length <= length_max; nesting <= JSON_DEPTH_MAX; values <= JSON_VALUES_MAX; duplicate
 *         keys, NaN, infinities, integers beyond int64, invalid UTF-8, NUL and trailing text
 *         refused
 * memory  jansson allocates: before seal only; give back with json_finish
 * errors  STATUS_INPUT at `place:line:column`; *document untouched */
MUST_CHECK enum status json_parse(const char *text, size_t length, size_t length_max,
                                  const char *place, struct json_document *document,
                                  struct fault *fault);
void json_finish(struct json_document *document);

/* json_find: the member `key` of an object; false when it is absent or null. *node is filled only
 * when found. `object` must be an object. */
bool json_find(const struct json_node *object, const char *key, struct json_node *node);

/* json_has: whether `key` is there at all, null or not. */
bool json_has(const struct json_node *object, const char *key);

/* json_get_X: member `key` of `object` as an X.
 * absent  a missing or null member is OK: *present false (present may be NULL), *value untouched
 * errors  STATUS_INPUT naming the field, what it is and what was wanted; nothing is written
 * notes   f64 accepts integers; text points into the document; object and array give a node */
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

/* json_as_X: the node itself as an X; a null is an error here. */
MUST_CHECK enum status json_as_i64(const struct json_node *node, int64_t *value,
                                   struct fault *fault);
MUST_CHECK enum status json_as_f64(const struct json_node *node, double *value,
                                   struct fault *fault);
MUST_CHECK enum status json_as_bool(const struct json_node *node, bool *value, struct fault *fault);
MUST_CHECK enum status json_as_text(const struct json_node *node, const char **value,
                                    struct fault *fault);
MUST_CHECK enum status json_as_object(const struct json_node *node, struct fault *fault);
MUST_CHECK enum status json_as_array(const struct json_node *node, struct fault *fault);

/* json_is_X: a question that makes no fault. */
bool json_node_is_null(const struct json_node *node);
bool json_node_is_array(const struct json_node *node);
bool json_node_is_object(const struct json_node *node);

/* json_count: members of an object, elements of an array. */
size_t json_count(const struct json_node *node);

/* json_element: element `index` of an array, in constant time; index < json_count(array). */
struct json_node json_element(const struct json_node *array, size_t index);

/* Walks the members of an object in the file's order, in constant time a step:
 *     struct json_walk walk = json_walk_over(&object);
 *     while (json_walk_next(&walk)) { walk.member.key, walk.member ... } */
struct json_walk {
    const struct json_node *object;
    void *position;
    struct json_node member;
};

struct json_walk json_walk_over(const struct json_node *object);
bool json_walk_next(struct json_walk *walk);

/* json_fault: STATUS_INPUT at the document's place: "`way.to.field` " and the formatted words.
 * Control characters from the file are shown as '?'. `remedy` may be NULL. */
enum status json_fault(const struct json_node *node, struct fault *fault, const char *remedy,
                       const char *format, ...) PRINTF_LIKE(4, 5);

/* json_fault_member: the same for member `key` of `object`, there or not. */
enum status json_fault_member(const struct json_node *object, const char *key, struct fault *fault,
                              const char *format, ...) PRINTF_LIKE(4, 5);

#endif
