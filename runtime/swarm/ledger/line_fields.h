/* line_fields: the fields of a line of the ledger that are copied between JSON and a struct. */
#ifndef SKEP_SWARM_LEDGER_LINE_FIELDS_H
#define SKEP_SWARM_LEDGER_LINE_FIELDS_H

#include "base/json.h"
#include "base/json_write.h"
#include "runtime/swarm/ledger/entry.h"

#include <stddef.h>
#include <stdint.h>

/* A JSON field that is copied to or from a struct without further checks: its key, and its position
 * in the struct. */
struct line_field {
    const char *key; /* key of the field in the JSON object */
    enum {
        FIELD_U32, /* a number up to 2^32 - 1 */
        FIELD_U64, /* a number up to 2^64 - 1 */
        FIELD_F64, /* a finite fp64 number, with all its digits */
        FIELD_HEX, /* bytes as hex text */
    } form;
    size_t offset, bytes; /* position and size of the member in the struct */
};

#define FIELD(type, member, form)                                                                  \
    { #member, form, offsetof(struct type, member), sizeof((struct type *)NULL)->member }

/* line_add_fields: write `field_count` fields of the struct `from`.
 * line_read_fields: read them into the struct `out`.
 * errors  STATUS_INPUT when a field is missing, has another type or is out of bounds */
void line_add_fields(struct json_writer *json, const struct line_field *fields, size_t field_count,
                     const void *from);
enum status line_read_fields(const struct json_node *object, const struct line_field *fields,
                             size_t field_count, void *out, struct fault *fault);

/* line_read_u64: read a required number from 0 to `max`.
 * line_read_u32: read a required number up to 2^32 - 1. */
enum status line_read_u64(const struct json_node *object, const char *key, uint64_t max,
                          uint64_t *value, struct fault *fault);
enum status line_read_u32(const struct json_node *object, const char *key, uint32_t *value,
                          struct fault *fault);

/* line_add_mask, line_read_mask: write and read a mask as the ascending array of the indices of
 * its set bits. */
void line_add_mask(struct json_writer *json, const char *name, uint64_t mask);
enum status line_read_mask(const struct json_node *object, const char *name, uint64_t *mask,
                           struct fault *fault);

/* line_add_delegation, line_add_roster_epoch: write a document of the operator, unless its serial
 * is 0.
 * line_add_leases: write the leases of an OPEN, unless it has no start.
 * line_read_delegation, line_read_roster_epoch, line_read_leases: read the document or the
 * leases, if the object has them. */
void line_add_delegation(struct json_writer *json, const struct delegation *delegation);
void line_add_roster_epoch(struct json_writer *json, const struct roster_epoch *roster);
void line_add_leases(struct json_writer *json, const struct entry_leases *leases);
enum status line_read_delegation(const struct json_node *object, struct delegation *delegation,
                                 struct fault *fault);
enum status line_read_roster_epoch(const struct json_node *object, struct roster_epoch *roster,
                                   struct fault *fault);
enum status line_read_leases(const struct json_node *object, struct entry_leases *leases,
                             struct fault *fault);

#endif
