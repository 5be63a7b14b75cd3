#include "runtime/swarm/ledger/ledger_file.h"

#include "base/json.h"
#include "base/json_write.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/line_fields.h"

#include <string.h>

static const char *const KINDS[] = {"genesis", "open", "commit", "abort", "rollback", "suspend"};

static const char *const REASONS[] = {[SUSPENSION_NONE] = "",
                                      [SUSPENSION_DECLARATION] = "declaration",
                                      [SUSPENSION_CONTRIBUTIONS] = "contributions",
                                      [SUSPENSION_RESULTS] = "results",
                                      [SUSPENSION_LARGE_NORM] = "large_norm",
                                      [SUSPENSION_NO_EFFECT] = "no_effect",
                                      [SUSPENSION_REPETITION] = "repetition",
                                      [SUSPENSION_WRONG_SUM] = "wrong_sum",
                                      [SUSPENSION_WRONG_SKETCH] = "wrong_sketch",
                                      [SUSPENSION_INVALID] = "invalid_values",
                                      [SUSPENSION_WITHHELD] = "withheld",
                                      [SUSPENSION_OPPOSED] = "opposed"};
_Static_assert(ARRAY_COUNT(REASONS) == SUSPENSION_REASONS, "a reason has no name");

const char *ledger_suspension_name(uint32_t reason) {
    ASSERT(reason < ARRAY_COUNT(REASONS));
    return REASONS[reason];
}

const char *ledger_suspension_cause(uint32_t reason) {
    static const char *const CAUSES[] = {
        [SUSPENSION_NONE] = "it did not violate the protocol",
        [SUSPENSION_DECLARATION] = "twice in three rounds, it did not declare its training",
        [SUSPENSION_CONTRIBUTIONS] =
            "twice in three rounds, its contributions or their sketches did not arrive",
        [SUSPENSION_RESULTS] = "twice in three rounds, the results of its slices did not arrive",
        [SUSPENSION_LARGE_NORM] = "twice in three rounds, its contribution was far too large",
        [SUSPENSION_NO_EFFECT] = "twice in three rounds, its contribution had no effect",
        [SUSPENSION_REPETITION] = "twice in three rounds, its contribution was an earlier one",
        [SUSPENSION_WRONG_SUM] = "it signed an incorrect sum",
        [SUSPENSION_WRONG_SKETCH] = "it signed sketches that do not match its contribution",
        [SUSPENSION_INVALID] = "twice in three rounds, its contributions were not valid",
        [SUSPENSION_WITHHELD] = "it signed a sum without sending its own contribution for a check",
        [SUSPENSION_OPPOSED] =
            "four of eight contributions opposed the others: check its data, settings and build"};
    _Static_assert(ARRAY_COUNT(CAUSES) == SUSPENSION_REASONS, "a reason has no sentence");
    ASSERT(reason < SUSPENSION_REASONS);
    return CAUSES[reason];
}

static const struct line_field ENTRY_FIELDS[] = {
    FIELD(entry, round, FIELD_U32),       FIELD(entry, commits, FIELD_U32),
    FIELD(entry, prev, FIELD_HEX),        FIELD(entry, hash, FIELD_HEX),
    FIELD(entry, incarnation, FIELD_U32), FIELD(entry, reference_norm, FIELD_F64),
    FIELD(entry, root, FIELD_HEX),
};
static const struct line_field SLICE_FIELDS[] = {
    FIELD(entry_slice, begin, FIELD_U64),  FIELD(entry_slice, end, FIELD_U64),
    FIELD(entry_slice, owner, FIELD_U32),  FIELD(entry_slice, epoch, FIELD_U32),
    FIELD(entry_slice, weight, FIELD_U64), FIELD(entry_slice, hash, FIELD_HEX),
};
enum { ENTRY_FIELDS_BEFORE_ROOT = 6, SLICE_FIELDS_BEFORE_CONTRIBUTORS = 4 }; /* numbers of fields */
static const struct line_field MEMBER_FIELDS[] = {
    FIELD(entry_member, tokens, FIELD_U64),      FIELD(entry_member, weight, FIELD_U64),
    FIELD(entry_member, samples, FIELD_U64),     FIELD(entry_member, norm, FIELD_F64),
    FIELD(entry_member, contributed, FIELD_U32), FIELD(entry_member, owned, FIELD_U32),
};

static const struct line_field EVIDENCE_FIELDS[] = {
    FIELD(entry_evidence, slice, FIELD_U32),     FIELD(entry_evidence, epoch, FIELD_U32),
    FIELD(entry_evidence, hash, FIELD_HEX),      FIELD(entry_evidence, seed, FIELD_HEX),
    FIELD(entry_evidence, signature, FIELD_HEX),
};

static void add_ranges(struct json_writer *json, const char *key, const struct sample_range *ranges,
                       uint32_t count) {
    json_begin_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        json_begin_array(json, NULL);
        json_add_u64(json, NULL, ranges[i].begin);
        json_add_u64(json, NULL, ranges[i].end);
        json_end(json);
    }
    json_end(json);
}

static void add_members(struct json_writer *json, const struct entry *entry) {
    json_begin_array(json, "members");
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        json_begin_object(json, NULL);
        json_add_hex(json, "id", &seat->id, sizeof seat->id);
        if (entry->kind == ENTRY_COMMIT) {
            line_add_fields(json, MEMBER_FIELDS, ARRAY_COUNT(MEMBER_FIELDS), &entry->members[i]);
        }
        json_add_u64(json, "session", seat->session);
        if (seat->is_guest == 1) {
            json_add_bool(json, "guest", true);
        }
        add_ranges(json, "ranges", seat->ranges, seat->range_count);
        json_end(json);
    }
    json_end(json);
}

static void add_slice(struct json_writer *json, const struct entry *entry, uint32_t index) {
    const struct entry_slice *slice = &entry->slices[index];
    json_begin_object(json, NULL);
    json_add_u64(json, "index", index);
    line_add_fields(json, SLICE_FIELDS, SLICE_FIELDS_BEFORE_CONTRIBUTORS, slice);
    line_add_mask(json, "contributors", slice->contributors);
    line_add_fields(json, SLICE_FIELDS + SLICE_FIELDS_BEFORE_CONTRIBUTORS,
                    ARRAY_COUNT(SLICE_FIELDS) - SLICE_FIELDS_BEFORE_CONTRIBUTORS, slice);
    json_end(json);
}

static void add_signatures(struct json_writer *json, const struct entry *entry) {
    json_begin_array(json, "signatures");
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        const struct entry_signature *one = &entry->signatures[i];
        json_begin_object(json, NULL);
        if (entry->kind == ENTRY_COMMIT) {
            json_add_hex(json, "id", &entry->seats[one->seat].id, sizeof(struct identity));
        }
        json_add_hex(json, "signature", &one->signature, sizeof one->signature);
        json_end(json);
    }
    json_end(json);
}

static void add_suspension(struct json_writer *json, const struct entry_suspension *suspension) {
    json_add_hex(json, "suspended", &suspension->id, sizeof suspension->id);
    json_add_text(json, "reason", ledger_suspension_name(suspension->reason));
    json_add_u64(json, "until_round", suspension->until_round);
    if (entry_has_evidence(suspension)) {
        json_begin_object(json, "evidence");
        line_add_fields(json, EVIDENCE_FIELDS, ARRAY_COUNT(EVIDENCE_FIELDS), &suspension->evidence);
        line_add_mask(json, "contributors", suspension->evidence.contributors);
        json_end(json);
    }
}

static bool has_rollback_order(const struct entry *entry) {
    return !hash_is_zero(&entry->order.newest);
}

static void add_rollback_order(struct json_writer *json, const struct rollback_order *order) {
    json_begin_object(json, "order");
    json_add_hex(json, "newest", &order->newest, sizeof order->newest);
    json_add_hex(json, "signature", &order->signature, sizeof order->signature);
    json_end(json);
}

/* Adds the slices of a commit if the form has them, and in either case their number and root. */
static void add_results(struct json_writer *json, const struct entry *entry, enum entry_form form) {
    json_add_u64(json, "slice_count", entry->result_count);
    json_add_hex(json, "results", &entry->results, sizeof entry->results);
    json_add_hex(json, "chain", &entry->chain, sizeof entry->chain);
    json_begin_array(json, "slices");
    for (uint32_t i = 0; form == ENTRY_WITH_SLICES && i < entry->slice_count; i++) {
        add_slice(json, entry, i);
    }
    json_end(json);
}

void ledger_line_write(const struct entry *entry, enum entry_form form, struct text *text) {
    struct json_writer json = json_writer_over(text);
    json_begin_object(&json, NULL);
    json_add_text(&json, "kind", KINDS[entry->kind]);
    line_add_fields(&json, ENTRY_FIELDS, ENTRY_FIELDS_BEFORE_ROOT, entry);
    if (entry->kind == ENTRY_GENESIS) {
        json_add_u64(&json, "protocol", SWARM_PROTOCOL_VERSION);
        json_add_hex(&json, "manifest", &entry->manifest, sizeof entry->manifest);
        json_add_u64(&json, "needs_leases", entry->leases.are_needed);
    } else if (entry->kind == ENTRY_OPEN) {
        json_add_u64(&json, "deadline_ms", entry->train_ms);
    } else if (entry->kind == ENTRY_SUSPEND) {
        add_suspension(&json, &entry->suspension);
    }
    json_add_hex(&json, "root", &entry->root, sizeof entry->root);
    json_begin_object(&json, "cursor");
    json_add_u64(&json, "position", entry->cursor.position);
    add_ranges(&json, "returned", entry->cursor.returned, entry->cursor.returned_count);
    json_end(&json);
    if (entry->kind != ENTRY_GENESIS) {
        add_members(&json, entry);
    }
    line_add_delegation(&json, &entry->documents.delegation);
    line_add_roster_epoch(&json, &entry->documents.roster);
    line_add_leases(&json, &entry->leases);
    if (has_rollback_order(entry)) {
        add_rollback_order(&json, &entry->order);
    }
    if (entry->kind == ENTRY_COMMIT) {
        add_results(&json, entry, form);
    }
    add_signatures(&json, entry);
    json_end(&json);
}

/* Reads a required array of at most `max` elements. */
static enum status read_array(const struct json_node *object, const char *key, uint32_t max,
                              struct json_node *array, uint32_t *count, struct fault *fault) {
    TRY(json_require(object, key, array, fault));
    TRY(json_as_array(array, fault));
    if (json_child_count(array) > max) {
        return json_fault(array, fault, NULL, "has more elements than its key allows");
    }
    *count = (uint32_t)json_child_count(array);
    return OK;
}

static enum status read_range(const struct json_node *pair, struct sample_range *range,
                              struct fault *fault) {
    int64_t ends[2] = {0, 0};
    TRY(json_as_array(pair, fault));
    if (json_child_count(pair) != 2) {
        return json_fault(pair, fault, NULL, "is not a pair [begin, end]");
    }
    for (size_t i = 0; i < 2; i++) {
        const struct json_node node = json_element(pair, i);
        TRY(json_as_i64(&node, &ends[i], fault));
        if (ends[i] < 0) {
            return json_fault(&node, fault, NULL, "is below 0");
        }
    }
    *range = (struct sample_range){(uint64_t)ends[0], (uint64_t)ends[1]};
    return OK;
}

static enum status read_ranges(const struct json_node *object, const char *key, uint32_t max,
                               struct sample_range *ranges, uint32_t *count, struct fault *fault) {
    struct json_node array;
    TRY(read_array(object, key, max, &array, count, fault));
    for (uint32_t i = 0; i < *count; i++) {
        const struct json_node pair = json_element(&array, i);
        TRY(read_range(&pair, &ranges[i], fault));
    }
    return OK;
}

/* Rejects unknown fields, which are not part of the entry and so not covered by its hash. */
static enum status check_field_count(const struct json_node *object, size_t expected,
                                     struct fault *fault) {
    return json_child_count(object) == expected
               ? OK
               : json_fault(object, fault, NULL, "has %zu fields; this kind of entry has %zu",
                            json_child_count(object), expected);
}

/* Reads the field `guest`, which only guests have. Sets *fields to the number of fields read. */
static enum status read_role(const struct json_node *node, uint32_t *is_guest, size_t *fields,
                             struct fault *fault) {
    bool has_role = false, is_set = false;
    TRY(json_get_bool(node, "guest", &is_set, &has_role, fault));
    *is_guest = is_set;
    *fields = has_role;
    return OK;
}

static enum status read_member(const struct json_node *node, struct entry *entry, uint32_t index,
                               struct fault *fault) {
    struct entry_seat *seat = &entry->seats[index];
    const bool is_commit = entry->kind == ENTRY_COMMIT;
    size_t role_fields = 0;
    TRY(json_as_object(node, fault));
    TRY(read_role(node, &seat->is_guest, &role_fields, fault));
    TRY(check_field_count(node, (is_commit ? 9U : 3U) + role_fields, fault));
    TRY(json_require_hex(node, "id", &seat->id, sizeof seat->id, fault));
    if (is_commit) {
        TRY(line_read_fields(node, MEMBER_FIELDS, ARRAY_COUNT(MEMBER_FIELDS),
                             &entry->members[index], fault));
    }
    TRY(line_read_u32(node, "session", &seat->session, fault));
    return read_ranges(node, "ranges", SWARM_SEAT_RANGES_MAX, seat->ranges, &seat->range_count,
                       fault);
}

static enum status read_members(const struct json_node *root, struct entry *entry,
                                struct fault *fault) {
    struct json_node array;
    TRY(read_array(root, "members", SWARM_MEMBERS_MAX, &array, &entry->seat_count, fault));
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct json_node node = json_element(&array, i);
        TRY(read_member(&node, entry, i, fault));
    }
    return OK;
}

static enum status read_slice(const struct json_node *node, uint32_t index,
                              struct entry_slice *slice, struct fault *fault) {
    uint64_t found = 0;
    memset(slice, 0, sizeof *slice);
    TRY(json_as_object(node, fault));
    TRY(check_field_count(node, 8, fault));
    TRY(line_read_u64(node, "index", index, &found, fault));
    if (found != index) {
        return json_fault_member(node, "index", fault,
                                 "is not %u, the position of this slice in the list", index);
    }
    TRY(line_read_fields(node, SLICE_FIELDS, ARRAY_COUNT(SLICE_FIELDS), slice, fault));
    return line_read_mask(node, "contributors", &slice->contributors, fault);
}

static enum status read_slices(const struct json_node *root, uint32_t slice_capacity,
                               struct entry *entry, struct fault *fault) {
    struct json_node array;
    const uint32_t max = slice_capacity < SWARM_SLICES_MAX ? slice_capacity : SWARM_SLICES_MAX;
    TRY(line_read_u32(root, "slice_count", &entry->result_count, fault));
    TRY(json_require_hex(root, "results", &entry->results, sizeof entry->results, fault));
    TRY(json_require_hex(root, "chain", &entry->chain, sizeof entry->chain, fault));
    TRY(read_array(root, "slices", max, &array, &entry->slice_count, fault));
    for (uint32_t i = 0; i < entry->slice_count; i++) {
        const struct json_node node = json_element(&array, i);
        TRY(read_slice(&node, i, &entry->slices[i], fault));
    }
    return OK;
}

static enum status read_signer_seat(const struct json_node *node, const struct entry *entry,
                                    uint32_t *seat, struct fault *fault) {
    struct identity id;
    TRY(json_require_hex(node, "id", &id, sizeof id, fault));
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        if (memcmp(&id, &entry->seats[i].id, sizeof id) == 0) {
            *seat = i;
            return OK;
        }
    }
    return json_fault_member(node, "id", fault,
                             "is the key of a process that is not in the roster");
}

static enum status read_signature(const struct json_node *node, const struct entry *entry,
                                  struct entry_signature *one, struct fault *fault) {
    const bool is_commit = entry->kind == ENTRY_COMMIT;
    TRY(json_as_object(node, fault));
    TRY(check_field_count(node, is_commit ? 2 : 1, fault));
    if (is_commit) {
        TRY(read_signer_seat(node, entry, &one->seat, fault));
    }
    return json_require_hex(node, "signature", &one->signature, sizeof one->signature, fault);
}

static enum status read_signatures(const struct json_node *root, struct entry *entry,
                                   struct fault *fault) {
    struct json_node array;
    TRY(read_array(root, "signatures", SWARM_MEMBERS_MAX, &array, &entry->signature_count, fault));
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        const struct json_node node = json_element(&array, i);
        TRY(read_signature(&node, entry, &entry->signatures[i], fault));
    }
    return OK;
}

static enum status read_kind(const struct json_node *root, struct entry *entry,
                             struct fault *fault) {
    const char *kind = "";
    TRY(json_get_text(root, "kind", &kind, NULL, fault));
    for (size_t i = 0; i < ARRAY_COUNT(KINDS); i++) {
        if (strcmp(kind, KINDS[i]) == 0) {
            entry->kind = (enum entry_kind)i;
            return OK;
        }
    }
    return json_fault_member(root, "kind", fault, "is not a known kind of entry");
}

static enum status read_cursor(const struct json_node *root, struct data_cursor *cursor,
                               struct fault *fault) {
    struct json_node node;
    TRY(json_require(root, "cursor", &node, fault));
    TRY(json_as_object(&node, fault));
    TRY(check_field_count(&node, 2, fault));
    TRY(line_read_u64(&node, "position", INT64_MAX, &cursor->position, fault));
    return read_ranges(&node, "returned", SWARM_RETURNED_RANGES_MAX, cursor->returned,
                       &cursor->returned_count, fault);
}

static enum status read_reason(const struct json_node *root, uint32_t *reason,
                               struct fault *fault) {
    const char *name = "";
    TRY(json_get_text(root, "reason", &name, NULL, fault));
    for (uint32_t i = SUSPENSION_NONE + 1; i < ARRAY_COUNT(REASONS); i++) {
        if (strcmp(name, REASONS[i]) == 0) {
            *reason = i;
            return OK;
        }
    }
    return json_fault_member(root, "reason", fault, "is not a known reason for a suspension");
}

static enum status read_suspension(const struct json_node *root,
                                   struct entry_suspension *suspension, struct fault *fault) {
    struct json_node node;
    TRY(json_require_hex(root, "suspended", &suspension->id, sizeof suspension->id, fault));
    TRY(line_read_u32(root, "until_round", &suspension->until_round, fault));
    TRY(read_reason(root, &suspension->reason, fault));
    if (!entry_has_evidence(suspension)) {
        return OK;
    }
    TRY(json_require(root, "evidence", &node, fault));
    TRY(json_as_object(&node, fault));
    TRY(check_field_count(&node, ARRAY_COUNT(EVIDENCE_FIELDS) + 1, fault));
    TRY(line_read_fields(&node, EVIDENCE_FIELDS, ARRAY_COUNT(EVIDENCE_FIELDS),
                         &suspension->evidence, fault));
    return line_read_mask(&node, "contributors", &suspension->evidence.contributors, fault);
}

/* Rejects the genesis of another protocol. That of protocol 1 has no field `protocol`. */
static enum status check_protocol(const struct json_node *genesis, struct fault *fault) {
    struct json_node node;
    uint64_t protocol = 0;
    if (!json_find(genesis, "protocol", &node)) {
        return old_protocol_fault(fault, genesis->source_name);
    }
    TRY(line_read_u64(genesis, "protocol", UINT32_MAX, &protocol, fault));
    return protocol == SWARM_PROTOCOL_VERSION
               ? OK
               : json_fault(&node, fault, NULL, "is not a protocol of this version of Skep");
}

/* Reads the order of a rollback, if it has one. */
static enum status read_rollback_order(const struct json_node *root, struct entry *entry,
                                       struct fault *fault) {
    struct json_node node;
    bool is_ordered = false;
    TRY(json_get_object(root, "order", &node, &is_ordered, fault));
    if (!is_ordered) {
        return OK;
    }
    TRY(check_field_count(&node, 2, fault));
    TRY(json_require_hex(&node, "newest", &entry->order.newest, sizeof entry->order.newest, fault));
    return json_require_hex(&node, "signature", &entry->order.signature,
                            sizeof entry->order.signature, fault);
}

/* Reads the fields that only this kind of entry has, apart from the order and the documents,
 * which were read before. */
static enum status read_kind_fields(const struct json_node *root, uint32_t slice_capacity,
                                    struct entry *entry, struct fault *fault) {
    static const size_t FIELD_COUNTS[] = {
        [ENTRY_GENESIS] = 13, [ENTRY_OPEN] = 12,     [ENTRY_COMMIT] = 15,
        [ENTRY_ABORT] = 11,   [ENTRY_ROLLBACK] = 11, [ENTRY_SUSPEND] = 14};
    if (entry->kind == ENTRY_GENESIS) {
        TRY(check_protocol(root, fault));
    }
    struct json_node evidence;
    const bool has_evidence =
        entry->kind == ENTRY_SUSPEND && json_find(root, "evidence", &evidence);
    const size_t more =
        (size_t)has_rollback_order(entry) + (entry->documents.delegation.serial != 0) +
        (entry->documents.roster.serial != 0) + has_evidence + (entry->leases.start != 0);
    TRY(check_field_count(root, FIELD_COUNTS[entry->kind] + more, fault));
    if (entry->kind == ENTRY_GENESIS) {
        TRY(line_read_u32(root, "needs_leases", &entry->leases.are_needed, fault));
        return json_require_hex(root, "manifest", &entry->manifest, sizeof entry->manifest, fault);
    }
    if (entry->kind == ENTRY_OPEN) {
        TRY(line_read_u32(root, "deadline_ms", &entry->train_ms, fault));
    }
    if (entry->kind == ENTRY_SUSPEND) {
        TRY(read_suspension(root, &entry->suspension, fault));
        if (has_evidence != entry_has_evidence(&entry->suspension)) {
            return json_fault_member(
                root, "evidence", fault,
                "must be given for a false statement, and for no other reason");
        }
    }
    TRY(read_members(root, entry, fault));
    return entry->kind == ENTRY_COMMIT ? read_slices(root, slice_capacity, entry, fault) : OK;
}

static enum status read_entry(const struct json_node *root, uint32_t slice_capacity,
                              struct entry *entry, struct fault *fault) {
    TRY(read_kind(root, entry, fault));
    TRY(line_read_fields(root, ENTRY_FIELDS, ARRAY_COUNT(ENTRY_FIELDS), entry, fault));
    TRY(read_cursor(root, &entry->cursor, fault));
    TRY(read_rollback_order(root, entry, fault));
    TRY(line_read_delegation(root, &entry->documents.delegation, fault));
    TRY(line_read_roster_epoch(root, &entry->documents.roster, fault));
    TRY(line_read_leases(root, &entry->leases, fault));
    TRY(read_kind_fields(root, slice_capacity, entry, fault));
    return read_signatures(root, entry, fault);
}

enum status ledger_line_read(const char *line, size_t length, const char *location,
                             struct entry_slice *slices, uint32_t slice_capacity,
                             struct entry *entry, struct fault *fault) {
    struct json_document document;
    TRY(json_parse(line, length, LEDGER_LINE_MAX, location, &document, fault));
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    enum status status = read_entry(&document.root, slice_capacity, entry, fault);
    json_finish(&document);
    const char *error = status == OK ? entry_error(entry) : NULL;
    return error == NULL ? status
                         : fault_set(fault, STATUS_INPUT, location, NULL, "the entry %s", error);
}
