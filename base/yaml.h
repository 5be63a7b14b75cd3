/* yaml: the parser of run files, profiles and manifests. It reads a bounded subset of YAML into a
 * flat list of nodes, each with its dotted path, line and column.
 *
 *     memory:                        path "memory"                     YAML_MAP
 *       device:                      path "memory.device"              YAML_MAP
 *         declared:                  path "memory.device.declared"     YAML_LIST
 *           - name: CUDA context     path "memory.device.declared[0]"  YAML_MAP
 */
#ifndef SKEP_BASE_YAML_H
#define SKEP_BASE_YAML_H

#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum yaml_kind { YAML_SCALAR, YAML_MAP, YAML_LIST };

/* One key with its value, or one item of a list. */
struct yaml_node {
    const char *path; /* dotted path from the root, such as "a.b[2].c"; "" for the root */
    const char *key;  /* the last part of `path`; "" for list items and the root */
    const char *text; /* a scalar's characters, without quotes; "" for maps and lists */
    enum yaml_kind kind;
    /* the node is a scalar without quotes; if `text` is also empty, the key has no value */
    bool is_plain;
    int line, column; /* position of the key, or of a list item's value, from 1 */
    int child_count;
    const struct yaml_node *parent;  /* NULL for the root */
    const struct yaml_node *child;   /* first child, in the order of the file */
    const struct yaml_node *sibling; /* next child of the same parent */
    const struct yaml_node *next;    /* next node of the whole file: children before siblings */
};

struct yaml_document {
    const char *source_name;      /* name of the file, for faults */
    const struct yaml_node *root; /* a YAML_MAP */
    const struct yaml_node
        *first;            /* first node below the root; loop: for (n = first; n; n = n->next) */
    int node_count;        /* number of nodes, without the root */
    struct region *region; /* contains all nodes and texts */
};

/* yaml_open: parse `length` bytes of `text`, one document whose root is a map.
 * limits  YAML_BYTES_MAX bytes, YAML_DEPTH_MAX levels, YAML_NODES_MAX nodes, paths below
 *         YAML_PATH_BYTES. Rejected: anchors, aliases, tags, merge keys, directives, a second
 *         document, keys that are not scalars, a path that occurs twice (also once nested and
 *         once dotted: "a: {b: 1}" and "a.b: 2"), control characters and malformed UTF-8
 * memory  the document is in `region`, without references to `text` and `source_name`
 * errors  STATUS_INPUT at "source_name:line:column"; *document is then unchanged */
MUST_CHECK enum status yaml_open(const char *text, size_t length, const char *source_name,
                                 struct region *region, struct yaml_document *document,
                                 struct fault *fault);

/* yaml_open_file: yaml_open for the contents of the file at `path`. */
MUST_CHECK enum status yaml_open_file(const char *path, struct region *region,
                                      struct yaml_document *document, struct fault *fault);

/* yaml_find: the node with the path `path`, or NULL. */
const struct yaml_node *yaml_find(const struct yaml_document *document, const char *path);

/* yaml_fault: fill *fault with STATUS_INPUT at the node's file:line:column; the reason starts with
 * its path. `remedy` may be NULL. Returns STATUS_INPUT. */
enum status yaml_fault(const struct yaml_document *document, const struct yaml_node *node,
                       struct fault *fault, const char *remedy, const char *reason_format, ...)
    PRINTF_LIKE(5, 6);

/* yaml_reject_unknown_keys: reject the first node that no name covers. A name covers the node with
 * its path, all maps above that node and, if the node is a list of scalars, its items.
 * "overrides.*" covers all nodes below "overrides", and "declared[].bytes" covers that key of each
 * item.
 * errors  STATUS_INPUT at the unknown key; the remedy is the nearest name */
MUST_CHECK enum status yaml_reject_unknown_keys(const struct yaml_document *document,
                                                const char *const *names, int name_count,
                                                struct fault *fault);

/* yaml_read_X: read the value of a scalar node as type X.
 * errors      STATUS_INPUT for a map, a list, or a scalar that is not an X; *value is then
 *             unchanged
 * yaml_read_text   not empty
 * yaml_read_i64    minimum <= value <= maximum
 * yaml_read_f64    minimum <= value <= maximum; "312e12" as well as "0.9"
 * yaml_read_bool   true or false
 * yaml_read_bytes  a size as in text_parse_bytes */
MUST_CHECK enum status yaml_read_text(const struct yaml_document *document,
                                      const struct yaml_node *node, const char **value,
                                      struct fault *fault);
/* A range of allowed numbers, both ends included. */
struct yaml_range {
    double minimum, maximum;
};
MUST_CHECK enum status yaml_read_i64(const struct yaml_document *document,
                                     const struct yaml_node *node, struct yaml_range range,
                                     int64_t *value, struct fault *fault);
MUST_CHECK enum status yaml_read_f64(const struct yaml_document *document,
                                     const struct yaml_node *node, struct yaml_range range,
                                     double *value, struct fault *fault);
MUST_CHECK enum status yaml_read_bool(const struct yaml_document *document,
                                      const struct yaml_node *node, bool *value,
                                      struct fault *fault);
MUST_CHECK enum status yaml_read_bytes(const struct yaml_document *document,
                                       const struct yaml_node *node, uint64_t *value,
                                       struct fault *fault);

#endif
