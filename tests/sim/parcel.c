/* parcel: copies of messages with all that they point to, and their size on the wire. */
#include "tests/sim/parts.h"

#include "runtime/swarm/wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_BYTES_MAX = 1 << 22 };

static void *copy_array(struct parcel *parcel, const void *array, size_t bytes) {
    ASSERT(parcel->array == NULL);
    parcel->array = malloc(bytes);
    memcpy(parcel->array, array, bytes);
    return parcel->array;
}

static void copy_entry(struct parcel *parcel, const struct entry *entry) {
    parcel->array = malloc((entry->slice_count + 1) * sizeof(struct entry_slice));
    parcel->entry = malloc(sizeof(struct entry));
    parcel->entry->slices = parcel->array;
    entry_copy(parcel->entry, entry);
    parcel->message.entry = parcel->entry;
}

/* A table with a base arrives without declarations, and without the plans of the base. */
static void copy_table(struct parcel *parcel, const struct round_table *table, uint32_t count) {
    const uint32_t base = parcel->message.version;
    parcel->table = malloc(sizeof(struct round_table));
    *parcel->table = (struct round_table){.round = table->round, .version = table->version};
    if (base == 0) {
        *parcel->table = *table;
    }
    parcel->plans = calloc(count, sizeof(struct slice_plan));
    for (uint32_t s = 0; s < count; s++) {
        if (base == 0 || table->slices[s].version > base) {
            parcel->plans[s] = table->slices[s];
        }
    }
    parcel->table->slices = parcel->plans;
    parcel->message.table = parcel->table;
}

struct parcel *parcel_copy(const struct world *world, const struct message *message) {
    uint32_t count = world->slice_count;
    struct parcel *parcel = calloc(1, sizeof(*parcel));
    parcel->message = *message;
    if (message->entry != NULL) {
        copy_entry(parcel, message->entry);
    }
    if (message->table != NULL) {
        copy_table(parcel, message->table, count);
    }
    if (message->report.rows != NULL) {
        memcpy(parcel->awaited_ms, message->links.awaited_ms, sizeof(parcel->awaited_ms));
        parcel->message.links.awaited_ms = parcel->awaited_ms;
        parcel->message.report.rows =
            copy_array(parcel, message->report.rows, count * sizeof(struct slice_report));
    }
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->message.proof = &parcel->proof;
    }
    if (message->ballot.holders != NULL) {
        parcel->holders = malloc(count * sizeof(uint64_t));
        memcpy(parcel->holders, message->ballot.holders, count * sizeof(uint64_t));
        parcel->message.ballot.holders = parcel->holders;
    }
    return parcel;
}

void parcel_free(struct parcel *parcel) {
    free(parcel->entry);
    free(parcel->table);
    free(parcel->plans);
    free(parcel->holders);
    free(parcel->array);
    free(parcel->sketches);
    free(parcel);
}

/* Whether the values are those that a reader accepts. A writer asserts the same. */
static bool has_valid_values(const struct world *world, const struct message *message) {
    bool is_valid = message->trained.tokens <= INT64_MAX && message->trained.samples <= INT64_MAX;
    is_valid &= message->kind != MESSAGE_REPORT ||
                (message->report.parts <= REPORT_ALL && message->report.base < message->number);
    is_valid &= message->proof == NULL || message->proof->path_count <= CONTRIBUTION_PATH_MAX;
    is_valid &= message->ballot.refusal.reason < REFUSAL_REASONS;
    for (uint32_t s = 0; message->report.rows != NULL && s < world->slice_count; s++) {
        const struct slice_report *row = &message->report.rows[s];
        is_valid &= row->has_result == 1 || (row->has_result == 0 && row->contributors == 0);
    }
    return is_valid;
}

bool parcel_pass_wire(const struct world *world, struct parcel *parcel) {
    static uint8_t payload[WIRE_BYTES_MAX];
    static _Alignas(64) uint8_t memory[WIRE_BYTES_MAX];
    struct wire_shape shape = {.slice_count = world->slice_count,
                               .members_max = SWARM_MEMBERS_MAX,
                               .is_sparse = world->sparse.keep > 0};
    const struct message *message = &parcel->message;
    bool has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT ||
                     message->kind == MESSAGE_SKETCHES;
    static struct wire_arrays arrays;
    struct frame frame;
    struct message read;
    const uint8_t *bulk;
    size_t bulk_bytes;
    ASSERT(wire_arrays_size(&shape) <= sizeof(memory));
    if (!has_valid_values(world, message)) {
        return false;
    }
    wire_arrays_carve(&shape, memory, &arrays);
    size_t count = wire_write_message(&shape, message, has_bytes, &frame, payload, sizeof(payload));
    if (wire_read_message(&shape, &frame, payload, count + has_bytes, &arrays, &read, &bulk,
                          &bulk_bytes) != NULL) {
        return false;
    }
    if (message->kind == MESSAGE_CONTRIBUTION) {
        parcel->proof = *read.proof;
    }
    if (message->kind == MESSAGE_REPORT) {
        memcpy(parcel->array, read.report.rows, world->slice_count * sizeof(struct slice_report));
        memcpy(parcel->awaited_ms, read.links.awaited_ms, sizeof(parcel->awaited_ms));
    }
    read.from = message->from;
    read.links.awaited_ms = message->links.awaited_ms;
    read.report.rows = message->report.rows;
    read.proof = message->proof;
    parcel->message = read;
    return true;
}

uint64_t parcel_bytes(const struct world *world, const struct message *message) {
    static uint8_t payload[WIRE_BYTES_MAX];
    struct wire_shape shape = {.slice_count = world->slice_count,
                               .members_max = SWARM_MEMBERS_MAX,
                               .is_sparse = world->sparse.keep > 0};
    bool has_bytes = message->kind == MESSAGE_CONTRIBUTION || message->kind == MESSAGE_RESULT;
    bool is_page = message->kind == MESSAGE_SKETCHES;
    uint64_t bulk = has_bytes ? world->slice_bytes : is_page ? 132 * world->slice_count : 0;
    struct frame frame;
    return FRAME_HEADER_BYTES + bulk +
           wire_write_message(&shape, message, bulk, &frame, payload, sizeof(payload));
}
