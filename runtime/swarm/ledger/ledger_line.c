#include "runtime/swarm/ledger/ledger_line.h"

#include "base/json.h"
#include "runtime/swarm/ledger/entry_bytes.h"

#include <string.h>

static const char *const KINDS[] = {"genesis", "open", "commit", "abort", "rollback"};

static void add_hex(struct text *text, const char *key, const void *bytes, size_t count) {
    text_add(text, "\"%s\": \"", key);
    for (size_t i = 0; i < count; i++) {
        text_add(text, "%02x", ((const uint8_t *)bytes)[i]);
    }
    text_add(text, "\"");
}

static void add_u64(struct text *text, const char *key, uint64_t value) {
    text_add(text, "\"%s\": %llu", key, (unsigned long long)value);
}

static void add_ranges(struct text *text, const char *key, const struct sample_range *ranges,
                       uint32_t count) {
    text_add(text, "\"%s\": [", key);
    for (uint32_t i = 0; i < count; i++) {
        text_add(text, "%s[%llu, %llu]", i > 0 ? ", " : "", (unsigned long long)ranges[i].begin,
                 (unsigned long long)ranges[i].end);
    }
    text_add(text, "]");
}

static void add_members(struct text *text, const struct entry *entry) {
    text_add(text, ", \"members\": [");
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        text_add(text, i > 0 ? ", {" : "{");
        add_hex(text, "id", &seat->id, sizeof seat->id);
        if (entry->kind == ENTRY_COMMIT) {
            text_add(text, ", ");
            add_u64(text, "tokens", entry->members[i].tokens);
            text_add(text, ", ");
            add_u64(text, "weight", entry->members[i].weight);
        }
        text_add(text, ", \"session\": %u, ", seat->session);
        add_ranges(text, "ranges", seat->ranges, seat->range_count);
        text_add(text, "}");
    }
    text_add(text, "]");
}

static void add_slice(struct text *text, const struct entry *entry, uint32_t index) {
    const struct entry_slice *slice = &entry->slices[index];
    bool first = true;
    text_add(text, "%s{\"index\": %u, ", index > 0 ? ", " : "", index);
    add_u64(text, "begin", slice->begin);
    text_add(text, ", ");
    add_u64(text, "end", slice->end);
    text_add(text, ", \"owner\": %u, \"epoch\": %u, \"contributors\": [", slice->owner,
             slice->epoch);
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        if ((slice->contributors >> i & 1) != 0) {
            text_add(text, first ? "%u" : ", %u", i);
            first = false;
        }
    }
    text_add(text, "], ");
    add_u64(text, "weight", slice->weight);
    text_add(text, ", ");
    add_hex(text, "hash", &slice->hash, sizeof slice->hash);
    text_add(text, "}");
}

static void add_signatures(struct text *text, const struct entry *entry) {
    text_add(text, ", \"signatures\": [");
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        const struct entry_signature *one = &entry->signatures[i];
        text_add(text, i > 0 ? ", {" : "{");
        if (entry->kind == ENTRY_COMMIT) {
            add_hex(text, "id", &entry->seats[one->seat].id, sizeof(struct identity));
            text_add(text, ", ");
        }
        add_hex(text, "signature", &one->signature, sizeof one->signature);
        text_add(text, "}");
    }
    text_add(text, "]");
}

void ledger_line_write(const struct entry *entry, struct text *text) {
    text_add(text, "{\"kind\": \"%s\", \"round\": %u, \"commits\": %u, ", KINDS[entry->kind],
             entry->round, entry->commits);
    add_hex(text, "prev", &entry->prev, sizeof entry->prev);
    text_add(text, ", ");
    add_hex(text, "hash", &entry->hash, sizeof entry->hash);
    text_add(text, ", \"incarnation\": %u, ", entry->incarnation);
    if (entry->kind == ENTRY_GENESIS) {
        add_hex(text, "manifest", &entry->manifest, sizeof entry->manifest);
        text_add(text, ", ");
    } else if (entry->kind == ENTRY_OPEN) {
        text_add(text, "\"deadline_ms\": %u, ", entry->deadline_ms);
    }
    add_hex(text, "root", &entry->root, sizeof entry->root);
    text_add(text, ", \"cursor\": {");
    add_u64(text, "position", entry->cursor.position);
    text_add(text, ", ");
    add_ranges(text, "returned", entry->cursor.returned, entry->cursor.returned_count);
    text_add(text, "}");
    if (entry->kind != ENTRY_GENESIS) {
        add_members(text, entry);
    }
    if (entry->kind == ENTRY_COMMIT) {
        text_add(text, ", \"slices\": [");
        for (uint32_t i = 0; i < entry->slice_count; i++) {
            add_slice(text, entry, i);
        }
        text_add(text, "]");
    }
    add_signatures(text, entry);
    text_add(text, "}");
}

static enum status read_u64(const struct json_node *object, const char *key, uint64_t most,
                            uint64_t *value, struct fault *fault) {
    int64_t found = -1;
    bool present = false;
    enum status status = json_get_i64(object, key, &found, &present, fault);
    if (status != OK) {
        return status;
    }
    if (!present || found < 0 || (uint64_t)found > most) {
        return json_fault_member(object, key, fault, "%s",
                                 present ? "is out of bounds" : "missing");
    }
    *value = (uint64_t)found;
    return OK;
}

static enum status read_u32(const struct json_node *object, const char *key, uint32_t *value,
                            struct fault *fault) {
    uint64_t wide = 0;
    enum status status = read_u64(object, key, UINT32_MAX, &wide, fault);
    if (status == OK) {
        *value = (uint32_t)wide;
    }
    return status;
}

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static enum status read_hex(const struct json_node *object, const char *key, void *bytes,
                            size_t count, struct fault *fault) {
    const char *text = "";
    enum status status = json_get_text(object, key, &text, NULL, fault);
    if (status != OK) {
        return status;
    }
    bool right = strlen(text) == 2 * count;
    for (size_t i = 0; right && i < count; i++) {
        int high = hex_value(text[2 * i]);
        int low = hex_value(text[2 * i + 1]);
        right = high >= 0 && low >= 0;
        ((uint8_t *)bytes)[i] = (uint8_t)((high & 15) << 4 | (low & 15));
    }
    return right ? OK
                 : json_fault_member(object, key, fault,
                                     "is not %zu bytes in lower-case hexadecimal", count);
}

/* An array of at most `most`; all of them are required. */
static enum status read_array(const struct json_node *object, const char *key, uint32_t most,
                              struct json_node *array, uint32_t *count, struct fault *fault) {
    bool present = false;
    enum status status = json_get_array(object, key, array, &present, fault);
    if (status != OK) {
        return status;
    }
    if (!present || json_count(array) > most) {
        return json_fault_member(object, key, fault, "%s",
                                 present ? "holds more than its limit" : "missing");
    }
    *count = (uint32_t)json_count(array);
    return OK;
}

static enum status read_range(const struct json_node *pair, struct sample_range *range,
                              struct fault *fault) {
    int64_t ends[2] = {0, 0};
    enum status status = json_as_array(pair, fault);
    if (status == OK && json_count(pair) != 2) {
        status = json_fault(pair, fault, NULL, "is not [begin, end]");
    }
    for (size_t i = 0; i < 2 && status == OK; i++) {
        const struct json_node node = json_element(pair, i);
        status = json_as_i64(&node, &ends[i], fault);
        if (status == OK && ends[i] < 0) {
            status = json_fault(&node, fault, NULL, "is below 0");
        }
    }
    range->begin = (uint64_t)ends[0];
    range->end = (uint64_t)ends[1];
    return status;
}

static enum status read_ranges(const struct json_node *object, const char *key, uint32_t most,
                               struct sample_range *ranges, uint32_t *count, struct fault *fault) {
    struct json_node array;
    enum status status = read_array(object, key, most, &array, count, fault);
    for (uint32_t i = 0; status == OK && i < *count; i++) {
        const struct json_node pair = json_element(&array, i);
        status = read_range(&pair, &ranges[i], fault);
    }
    return status;
}

/* Whatever is not read would not be covered by the hash either. */
static enum status no_more_than(const struct json_node *object, size_t fields,
                                struct fault *fault) {
    return json_count(object) == fields
               ? OK
               : json_fault(object, fault, NULL, "has %zu fields, an entry of its kind %zu",
                            json_count(object), fields);
}

static enum status read_member(const struct json_node *node, struct entry *entry, uint32_t index,
                               struct fault *fault) {
    struct entry_seat *seat = &entry->seats[index];
    bool commit = entry->kind == ENTRY_COMMIT;
    enum status status = json_as_object(node, fault);
    if (status == OK) {
        status = no_more_than(node, commit ? 5 : 3, fault);
    }
    if (status == OK) {
        status = read_hex(node, "id", &seat->id, sizeof seat->id, fault);
    }
    if (status == OK && commit) {
        status = read_u64(node, "tokens", INT64_MAX, &entry->members[index].tokens, fault);
    }
    if (status == OK && commit) {
        status = read_u64(node, "weight", INT64_MAX, &entry->members[index].weight, fault);
    }
    if (status == OK) {
        status = read_u32(node, "session", &seat->session, fault);
    }
    if (status == OK) {
        status = read_ranges(node, "ranges", SWARM_SEAT_RANGES_MAX, seat->ranges,
                             &seat->range_count, fault);
    }
    return status;
}

static enum status read_members(const struct json_node *root, struct entry *entry,
                                struct fault *fault) {
    struct json_node array;
    enum status status =
        read_array(root, "members", SWARM_MEMBERS_MAX, &array, &entry->seat_count, fault);
    for (uint32_t i = 0; status == OK && i < entry->seat_count; i++) {
        const struct json_node node = json_element(&array, i);
        status = read_member(&node, entry, i, fault);
    }
    return status;
}

static enum status read_contributors(const struct json_node *node, struct entry_slice *slice,
                                     struct fault *fault) {
    struct json_node array;
    uint32_t count = 0;
    int64_t least = 0;
    enum status status = read_array(node, "contributors", SWARM_MEMBERS_MAX, &array, &count, fault);
    for (uint32_t i = 0; status == OK && i < count; i++) {
        const struct json_node one = json_element(&array, i);
        int64_t seat = -1;
        status = json_as_i64(&one, &seat, fault);
        if (status == OK && (seat < least || seat >= SWARM_MEMBERS_MAX)) {
            status = json_fault(&one, fault, NULL, "is no further place in the roster");
        }
        if (status == OK) {
            slice->contributors |= (uint64_t)1 << seat;
            least = seat + 1;
        }
    }
    return status;
}

static enum status read_slice(const struct json_node *node, uint32_t index,
                              struct entry_slice *slice, struct fault *fault) {
    uint64_t named = 0;
    memset(slice, 0, sizeof *slice);
    enum status status = json_as_object(node, fault);
    if (status == OK) {
        status = no_more_than(node, 8, fault);
    }
    if (status == OK) {
        status = read_u64(node, "index", index, &named, fault);
    }
    if (status == OK && named != index) {
        status = json_fault_member(node, "index", fault, "is not %u, its place", index);
    }
    if (status == OK) {
        status = read_u64(node, "begin", INT64_MAX, &slice->begin, fault);
    }
    if (status == OK) {
        status = read_u64(node, "end", INT64_MAX, &slice->end, fault);
    }
    if (status == OK) {
        status = read_u32(node, "owner", &slice->owner, fault);
    }
    if (status == OK) {
        status = read_u32(node, "epoch", &slice->epoch, fault);
    }
    if (status == OK) {
        status = read_contributors(node, slice, fault);
    }
    if (status == OK) {
        status = read_u64(node, "weight", INT64_MAX, &slice->weight, fault);
    }
    return status == OK ? read_hex(node, "hash", &slice->hash, sizeof slice->hash, fault) : status;
}

static enum status read_slices(const struct json_node *root, uint32_t slice_max,
                               struct entry *entry, struct fault *fault) {
    struct json_node array;
    uint32_t most = slice_max < SWARM_SLICES_MAX ? slice_max : SWARM_SLICES_MAX;
    enum status status = read_array(root, "slices", most, &array, &entry->slice_count, fault);
    for (uint32_t i = 0; status == OK && i < entry->slice_count; i++) {
        const struct json_node node = json_element(&array, i);
        status = read_slice(&node, i, &entry->slices[i], fault);
    }
    return status;
}

static enum status seat_of(const struct json_node *node, const struct entry *entry, uint32_t *seat,
                           struct fault *fault) {
    struct identity id;
    enum status status = read_hex(node, "id", &id, sizeof id, fault);
    for (uint32_t i = 0; status == OK && i < entry->seat_count; i++) {
        if (memcmp(&id, &entry->seats[i].id, sizeof id) == 0) {
            *seat = i;
            return OK;
        }
    }
    return status != OK ? status : json_fault_member(node, "id", fault, "is not in the roster");
}

static enum status read_signature(const struct json_node *node, const struct entry *entry,
                                  struct entry_signature *one, struct fault *fault) {
    bool commit = entry->kind == ENTRY_COMMIT;
    enum status status = json_as_object(node, fault);
    if (status == OK) {
        status = no_more_than(node, commit ? 2 : 1, fault);
    }
    if (status == OK && commit) {
        status = seat_of(node, entry, &one->seat, fault);
    }
    return status == OK ? read_hex(node, "signature", &one->signature, sizeof one->signature, fault)
                        : status;
}

static enum status read_signatures(const struct json_node *root, struct entry *entry,
                                   struct fault *fault) {
    struct json_node array;
    enum status status =
        read_array(root, "signatures", SWARM_MEMBERS_MAX, &array, &entry->signature_count, fault);
    for (uint32_t i = 0; status == OK && i < entry->signature_count; i++) {
        const struct json_node node = json_element(&array, i);
        status = read_signature(&node, entry, &entry->signatures[i], fault);
    }
    return status;
}

static enum status read_kind(const struct json_node *root, struct entry *entry,
                             struct fault *fault) {
    const char *kind = "";
    enum status status = json_get_text(root, "kind", &kind, NULL, fault);
    for (size_t i = 0; status == OK && i < ARRAY_COUNT(KINDS); i++) {
        if (strcmp(kind, KINDS[i]) == 0) {
            entry->kind = (enum entry_kind)i;
            return OK;
        }
    }
    return status != OK ? status : json_fault_member(root, "kind", fault, "is no kind of an entry");
}

/* The fields that every kind has. */
static enum status read_head(const struct json_node *root, struct entry *entry,
                             struct fault *fault) {
    enum status status = read_u32(root, "round", &entry->round, fault);
    if (status == OK) {
        status = read_u32(root, "commits", &entry->commits, fault);
    }
    if (status == OK) {
        status = read_hex(root, "prev", &entry->prev, sizeof entry->prev, fault);
    }
    if (status == OK) {
        status = read_hex(root, "hash", &entry->hash, sizeof entry->hash, fault);
    }
    if (status == OK) {
        status = read_u32(root, "incarnation", &entry->incarnation, fault);
    }
    return status == OK ? read_hex(root, "root", &entry->root, sizeof entry->root, fault) : status;
}

static enum status read_cursor(const struct json_node *root, struct data_cursor *cursor,
                               struct fault *fault) {
    struct json_node node;
    bool present = false;
    enum status status = json_get_object(root, "cursor", &node, &present, fault);
    if (status == OK && !present) {
        status = json_fault_member(root, "cursor", fault, "missing");
    }
    if (status == OK) {
        status = no_more_than(&node, 2, fault);
    }
    if (status == OK) {
        status = read_u64(&node, "position", INT64_MAX, &cursor->position, fault);
    }
    return status == OK ? read_ranges(&node, "returned", SWARM_RETURNED_MAX, cursor->returned,
                                      &cursor->returned_count, fault)
                        : status;
}

/* The fields that only this kind has. */
static enum status read_body(const struct json_node *root, uint32_t slice_max, struct entry *entry,
                             struct fault *fault) {
    static const size_t FIELDS[] = {[ENTRY_GENESIS] = 10,
                                    [ENTRY_OPEN] = 11,
                                    [ENTRY_COMMIT] = 11,
                                    [ENTRY_ABORT] = 10,
                                    [ENTRY_ROLLBACK] = 10};
    enum status status = no_more_than(root, FIELDS[entry->kind], fault);
    if (status == OK && entry->kind == ENTRY_GENESIS) {
        status = read_hex(root, "manifest", &entry->manifest, sizeof entry->manifest, fault);
    }
    if (status == OK && entry->kind == ENTRY_OPEN) {
        status = read_u32(root, "deadline_ms", &entry->deadline_ms, fault);
    }
    if (status == OK && entry->kind != ENTRY_GENESIS) {
        status = read_members(root, entry, fault);
    }
    if (status == OK && entry->kind == ENTRY_COMMIT) {
        status = read_slices(root, slice_max, entry, fault);
    }
    return status;
}

enum status ledger_line_read(const char *line, size_t length, const char *place,
                             struct entry_slice *slices, uint32_t slice_max, struct entry *entry,
                             struct fault *fault) {
    struct json_document document;
    enum status status = json_parse(line, length, LEDGER_LINE_MAX, place, &document, fault);
    if (status != OK) {
        return status;
    }
    const struct json_node *root = &document.root;
    memset(entry, 0, sizeof *entry);
    entry->slices = slices;
    status = read_kind(root, entry, fault);
    if (status == OK) {
        status = read_head(root, entry, fault);
    }
    if (status == OK) {
        status = read_cursor(root, &entry->cursor, fault);
    }
    if (status == OK) {
        status = read_body(root, slice_max, entry, fault);
    }
    if (status == OK) {
        status = read_signatures(root, entry, fault);
    }
    const char *wrong = status == OK ? entry_error(entry) : NULL;
    if (wrong != NULL) {
        status = fault_set(fault, STATUS_INPUT, place, NULL, "the entry %s", wrong);
    }
    json_finish(&document);
    return status;
}
