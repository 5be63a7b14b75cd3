#include "runtime/swarm/ledger/line_fields.h"

#include "base/hex.h"

#include <string.h>

enum { FP64_DIGITS = 17 }; /* decimal digits that determine an fp64 number exactly */

void line_add_fields(struct json_writer *json, const struct line_field *fields, size_t field_count,
                     const void *from) {
    for (size_t i = 0; i < field_count; i++) {
        const struct line_field *field = &fields[i];
        const void *value = (const uint8_t *)from + field->offset;
        if (field->form == FIELD_HEX) {
            json_add_hex(json, field->key, value, field->bytes);
        } else if (field->form == FIELD_F64) {
            json_add_f64(json, field->key, *(const double *)value, FP64_DIGITS);
        } else {
            json_add_u64(json, field->key,
                         field->form == FIELD_U32 ? *(const uint32_t *)value
                                                  : *(const uint64_t *)value);
        }
    }
}

enum status line_read_u64(const struct json_node *object, const char *key, uint64_t max,
                          uint64_t *value, struct fault *fault) {
    struct json_node node;
    int64_t found;
    TRY(json_require(object, key, &node, fault));
    TRY(json_as_i64(&node, &found, fault));
    if (found < 0 || (uint64_t)found > max) {
        return json_fault(&node, fault, NULL, "is not from 0 to %llu", (unsigned long long)max);
    }
    *value = (uint64_t)found;
    return OK;
}

enum status line_read_u32(const struct json_node *object, const char *key, uint32_t *value,
                          struct fault *fault) {
    uint64_t wide = 0;
    TRY(line_read_u64(object, key, UINT32_MAX, &wide, fault));
    *value = (uint32_t)wide;
    return OK;
}

static enum status read_f64(const struct json_node *object, const char *key, double *value,
                            struct fault *fault) {
    struct json_node node;
    TRY(json_require(object, key, &node, fault));
    return json_as_f64(&node, value, fault);
}

enum status line_read_fields(const struct json_node *object, const struct line_field *fields,
                             size_t field_count, void *out, struct fault *fault) {
    for (size_t i = 0; i < field_count; i++) {
        const struct line_field *field = &fields[i];
        void *value = (uint8_t *)out + field->offset;
        switch (field->form) {
        case FIELD_U32:
            TRY(line_read_u32(object, field->key, value, fault));
            break;
        case FIELD_U64:
            TRY(line_read_u64(object, field->key, INT64_MAX, value, fault));
            break;
        case FIELD_F64:
            TRY(read_f64(object, field->key, value, fault));
            break;
        case FIELD_HEX:
            TRY(json_require_hex(object, field->key, value, field->bytes, fault));
            break;
        }
    }
    return OK;
}

void line_add_mask(struct json_writer *json, const char *name, uint64_t mask) {
    json_begin_array(json, name);
    for (uint32_t bit = 0; bit < SWARM_MEMBERS_MAX; bit++) {
        if ((mask >> bit & 1) != 0) {
            json_add_u64(json, NULL, bit);
        }
    }
    json_end(json);
}

enum status line_read_mask(const struct json_node *object, const char *name, uint64_t *mask,
                           struct fault *fault) {
    struct json_node array;
    int64_t least = 0;
    TRY(json_require(object, name, &array, fault));
    TRY(json_as_array(&array, fault));
    for (size_t i = 0; i < json_child_count(&array); i++) {
        const struct json_node one = json_element(&array, i);
        int64_t bit = -1;
        TRY(json_as_i64(&one, &bit, fault));
        if (bit < least || bit >= SWARM_MEMBERS_MAX) {
            return json_fault(&one, fault, NULL,
                              "is not a seat number, or is not above the seat number before it");
        }
        *mask |= UINT64_C(1) << bit;
        least = bit + 1;
    }
    return OK;
}

/* ---- documents of the operator ---- */

void line_add_delegation(struct json_writer *json, const struct delegation *delegation) {
    char key[KEYS_TEXT_BYTES];
    if (delegation->serial == 0) {
        return;
    }
    json_begin_object(json, "delegation");
    json_add_u64(json, "serial", delegation->serial);
    json_add_u64(json, "expires_s", delegation->expires_s);
    json_add_text(json, "tracker", public_keys_write(&delegation->tracker, key));
    json_add_hex(json, "signature", delegation->signature, sizeof delegation->signature);
    json_end(json);
}

void line_add_roster_epoch(struct json_writer *json, const struct roster_epoch *roster) {
    if (roster->serial == 0) {
        return;
    }
    json_begin_object(json, "roster");
    json_add_u64(json, "serial", roster->serial);
    json_add_bool(json, "open", roster->is_open == 1);
    json_begin_array(json, "members");
    for (uint32_t i = 0; i < roster->count; i++) {
        json_add_hex(json, NULL, roster->members[i], KEY_BYTES);
    }
    json_end(json);
    json_add_hex(json, "signature", roster->signature, sizeof roster->signature);
    json_end(json);
}

/* Finds a document of the operator, which the line may lack. If it is there, its serial must be
 * above 0. */
static enum status find_document(const struct json_node *object, const char *key,
                                 struct json_node *node, bool *is_found, uint64_t *serial,
                                 struct fault *fault) {
    enum { DOCUMENT_FIELD_COUNT = 4 };
    *is_found = false;
    TRY(json_get_object(object, key, node, is_found, fault));
    if (!*is_found) {
        return OK;
    }
    TRY(line_read_u64(node, "serial", INT64_MAX, serial, fault));
    return json_child_count(node) == DOCUMENT_FIELD_COUNT && *serial > 0
               ? OK
               : json_fault(node, fault, NULL, "has unknown fields or a serial of 0");
}

enum status line_read_delegation(const struct json_node *object, struct delegation *delegation,
                                 struct fault *fault) {
    struct json_node node;
    const char *text = "";
    bool is_found;
    TRY(find_document(object, "delegation", &node, &is_found, &delegation->serial, fault));
    if (!is_found) {
        return OK;
    }
    TRY(line_read_u64(&node, "expires_s", INT64_MAX, &delegation->expires_s, fault));
    TRY(json_get_text(&node, "tracker", &text, NULL, fault));
    const char *error = public_keys_read(text, &delegation->tracker);
    if (error != NULL) {
        return json_fault_member(&node, "tracker", fault, "%s", error);
    }
    return json_require_hex(&node, "signature", delegation->signature, sizeof delegation->signature,
                            fault);
}

/* Reads an array of at most `max` values of `bytes` bytes each. */
static enum status read_hex_array(const struct json_node *node, const char *name, size_t bytes,
                                  uint32_t max, void *values, uint32_t *count,
                                  struct fault *fault) {
    struct json_node array;
    TRY(json_require(node, name, &array, fault));
    TRY(json_as_array(&array, fault));
    if (json_child_count(&array) > max) {
        return json_fault(&array, fault, NULL, "has more elements than its key allows");
    }
    *count = (uint32_t)json_child_count(&array);
    for (uint32_t i = 0; i < *count; i++) {
        const struct json_node value = json_element(&array, i);
        const char *text = "";
        TRY(json_as_text(&value, &text, fault));
        if (strlen(text) != 2 * bytes || !hex_read(text, bytes, (uint8_t *)values + i * bytes)) {
            return json_fault(&value, fault, NULL, "is not %zu bytes in lower-case hexadecimal",
                              bytes);
        }
    }
    return OK;
}

enum status line_read_roster_epoch(const struct json_node *object, struct roster_epoch *roster,
                                   struct fault *fault) {
    struct json_node node;
    bool is_found, is_open = false;
    TRY(find_document(object, "roster", &node, &is_found, &roster->serial, fault));
    if (!is_found) {
        return OK;
    }
    TRY(json_get_bool(&node, "open", &is_open, NULL, fault));
    roster->is_open = is_open;
    TRY(read_hex_array(&node, "members", KEY_BYTES, ROSTER_KEYS_MAX, roster->members,
                       &roster->count, fault));
    return json_require_hex(&node, "signature", roster->signature, sizeof roster->signature, fault);
}

/* ---- leases ---- */

static void add_hex_array(struct json_writer *json, const char *name, const void *values,
                          size_t bytes, uint32_t count) {
    json_begin_array(json, name);
    for (uint32_t i = 0; i < count; i++) {
        json_add_hex(json, NULL, (const uint8_t *)values + i * bytes, bytes);
    }
    json_end(json);
}

void line_add_leases(struct json_writer *json, const struct entry_leases *leases) {
    if (leases->start == 0) {
        return;
    }
    json_begin_object(json, "leases");
    json_add_hex(json, "state", leases->state.bytes, HASH_BYTES);
    json_add_u64(json, "start", leases->start);
    line_add_mask(json, "resigned", leases->resigned);
    json_begin_array(json, "signatures");
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX; i++) {
        if ((leases->resigned >> i & 1) != 0) {
            json_add_hex(json, NULL, leases->signatures[i].bytes, SWARM_SIGNATURE_BYTES);
        }
    }
    json_end(json);
    if (leases->order.count > 0) {
        json_begin_object(json, "order");
        add_hex_array(json, "members", leases->order.members, KEY_BYTES, leases->order.count);
        json_add_hex(json, "signature", leases->order.signature, SIGNATURE_BYTES);
        json_end(json);
    }
    json_end(json);
}

static enum status read_lease_signatures(const struct json_node *node, struct entry_leases *leases,
                                         struct fault *fault) {
    struct signature found[SWARM_MEMBERS_MAX];
    const uint64_t electors = leases->resigned;
    uint32_t count = 0, next = 0;
    TRY(read_hex_array(node, "signatures", SWARM_SIGNATURE_BYTES, SWARM_MEMBERS_MAX, found, &count,
                       fault));
    if (count != (uint32_t)__builtin_popcountll(electors)) {
        return json_fault_member(node, "signatures", fault,
                                 "does not have one signature for each elector that has resigned");
    }
    for (uint32_t i = 0; i < SWARM_MEMBERS_MAX; i++) {
        if ((electors >> i & 1) != 0) {
            leases->signatures[i] = found[next++];
        }
    }
    return OK;
}

enum status line_read_leases(const struct json_node *object, struct entry_leases *leases,
                             struct fault *fault) {
    /* number of JSON fields of leases, and of an order */
    enum { LEASE_FIELD_COUNT = 4, ORDER_FIELD_COUNT = 2 };
    struct json_node node, order;
    bool is_found = false, has_order = false;
    TRY(json_get_object(object, "leases", &node, &is_found, fault));
    if (!is_found) {
        return OK;
    }
    TRY(json_get_object(&node, "order", &order, &has_order, fault));
    if (json_child_count(&node) != LEASE_FIELD_COUNT + (size_t)has_order) {
        return json_fault(&node, fault, NULL, "has missing or unknown fields");
    }
    TRY(json_require_hex(&node, "state", leases->state.bytes, HASH_BYTES, fault));
    TRY(line_read_u64(&node, "start", INT64_MAX, &leases->start, fault));
    TRY(line_read_mask(&node, "resigned", &leases->resigned, fault));
    TRY(read_lease_signatures(&node, leases, fault));
    if (leases->start == 0 || (has_order && json_child_count(&order) != ORDER_FIELD_COUNT)) {
        return json_fault(&node, fault, NULL,
                          "has a start of 0, or an order with missing or unknown fields");
    }
    if (!has_order) {
        return OK;
    }
    TRY(read_hex_array(&order, "members", KEY_BYTES, ORDER_MEMBERS_MAX, leases->order.members,
                       &leases->order.count, fault));
    return json_require_hex(&order, "signature", leases->order.signature, SIGNATURE_BYTES, fault);
}
