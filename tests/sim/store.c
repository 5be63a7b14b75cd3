/* store: the disks of trackers: what is durable, who may still write, when one is full, and a copy
 * of one; and which members follow it. */
#include "tests/sim/parts.h"

#include <stdlib.h>
#include <string.h>

static void make_arrays(struct tracker_record *record, uint32_t slice_count) {
    memset(record, 0, sizeof(*record));
    record->head.slices = calloc(slice_count, sizeof(struct entry_slice));
    record->commit.slices = calloc(slice_count, sizeof(struct entry_slice));
    record->table.slices = calloc(slice_count, sizeof(struct slice_plan));
}

static void free_arrays(struct tracker_record *record) {
    free(record->head.slices);
    free(record->commit.slices);
    free(record->table.slices);
}

static void copy(struct tracker_record *to, const struct tracker_record *from,
                 uint32_t slice_count) {
    struct tracker_record arrays = *to;
    *to = *from;
    to->head.slices = arrays.head.slices;
    to->commit.slices = arrays.commit.slices;
    to->table.slices = arrays.table.slices;
    memcpy(to->head.slices, from->head.slices, slice_count * sizeof(struct entry_slice));
    memcpy(to->commit.slices, from->commit.slices, slice_count * sizeof(struct entry_slice));
    memcpy(to->table.slices, from->table.slices, slice_count * sizeof(struct slice_plan));
}

struct tracker_store *store_of(struct world *world, uint32_t node) {
    return &world->stores[world->nodes[node].store];
}

void store_copy(struct world *world) {
    const struct tracker_store *from = &world->stores[0];
    struct tracker_store *to = &world->stores[1];
    ASSERT(world->copied_count == 0);
    make_arrays(&to->record, world->slice_count);
    copy(&to->record, &from->record, world->slice_count);
    for (uint32_t i = 0; i < from->ledger_count; i++) {
        to->ledger[i].slices = to->ledger_slices[i];
        entry_copy(&to->ledger[i], &from->ledger[i]);
        to->is_undone[i] = from->is_undone[i];
    }
    to->ledger_count = from->ledger_count;
    to->chain = from->chain;
    to->place = from->place + 1;
    world->copied_count = from->ledger_count;
    world->nodes[1].store = 1;
}

/* The operator's statement of the tracker's key. */
static void delegate(struct delegation *delegation) {
    const struct key_pairs operator_keys = keys_of(&OPERATOR_ID);
    const struct hash swarm = {{0}};
    *delegation = (struct delegation){.serial = 1, .tracker = keys_of(&TRACKER_ID).public_keys};
    delegation_sign(&operator_keys, &swarm, delegation);
}

void store_begin(struct world *world) {
    struct tracker_store *store = &world->stores[0];
    struct tracker_record *record = &store->record;
    make_arrays(record, world->slice_count);
    record->next_session = 1;
    store->place = 1;
    record->head.kind = ENTRY_GENESIS;
    record->head.root = plane_root(world, &world->nodes[0].outer);
    record->head.leases.are_needed = world->needs_leases;
    delegate(&record->head.documents.delegation);
    record->head.hash = plane_entry_hash(&record->head, &record->head.root);
    record->head.signature_count = 1;
    record->head.signatures[0].signature = post_sign(&TRACKER_ID, &record->head.hash);
    memset(&store->chain, 0, sizeof(store->chain));
    ledger_set_operator_key(&store->chain, OPERATOR_ID.bytes);
    const char *error = ledger_append(&store->chain, &record->head);
    ASSERT(error == NULL);
    record->chain = ledger_chain_hash(&store->chain);
    entry_copy(&record->commit, &record->head);
    store->ledger[0] = record->head;
    store->is_undone[0] = 0;
    store->ledger_count = 1;
}

void store_finish(struct world *world) {
    free_arrays(&world->stores[0].record);
    if (world->copied_count > 0) {
        free_arrays(&world->stores[1].record);
    }
}

void store_free(struct tracker_record *record) {
    free_arrays(record);
    free(record);
}

void store_transaction(struct world *world, uint32_t node, const struct action *action) {
    struct happening *write = world_add(world, HAPPEN_WRITTEN, node, 1 + world_draw(world, 5));
    write->record = malloc(sizeof(struct tracker_record));
    make_arrays(write->record, world->slice_count);
    copy(write->record, action->record, world->slice_count);
    write->is_appending = action->entry != NULL;
}

/* How a write ends: a killed tracker's may or may not be durable. */
static enum write_outcome ends(struct world *world, const struct happening *happening,
                               int is_alive) {
    const struct node *node = &world->nodes[happening->node];
    const struct tracker_record *record = &store_of(world, happening->node)->record;
    if (happening->record->incarnation < record->incarnation && world->mistake != MISTAKE_FENCE) {
        return WRITE_FENCED;
    }
    int is_full =
        node->disk_full_until > world->now || (!world->is_steady && world_draw(world, 50) == 0);
    return is_full || (!is_alive && world_draw(world, 2) == 0) ? WRITE_FAILED : WRITE_OK;
}

static void keep(struct world *world, struct happening *happening, const struct hash *hash) {
    struct tracker_store *store = store_of(world, happening->node);
    struct tracker_record *written = happening->record;
    struct hash base = store->record.commit.root;
    written->head.hash = *hash;
    int has_state = written->head.kind == ENTRY_COMMIT || written->head.kind == ENTRY_ROLLBACK;
    if (happening->is_appending) {
        oracle_append(world, store, &written->head);
    } else if (!hash_equal(&written->head.hash, &store->record.head.hash)) {
        world_fail(world, "round %u is taken back by a write without an entry",
                   store->record.head.round);
    }
    if (happening->is_appending && has_state) {
        entry_copy(&written->commit, &written->head);
        written->base_root = base;
    }
    written->chain = ledger_chain_hash(&store->chain);
    copy(&store->record, written, world->slice_count);
}

void store_written(struct world *world, struct happening *happening) {
    struct node *node = &world->nodes[happening->node];
    struct tracker_record *written = happening->record;
    int is_alive = node->machine != NULL && node->start == happening->start;
    struct event event = {.kind = EVENT_WRITTEN, .write_outcome = ends(world, happening, is_alive)};
    event.hash = written->head.hash;
    if (happening->is_appending && written->head.kind != ENTRY_COMMIT) {
        event.hash = plane_entry_hash(&written->head, &written->head.root);
        event.signature = post_sign(&TRACKER_ID, &event.hash);
        written->head.signature_count = 1;
        written->head.signatures[0].signature = event.signature;
    }
    if (event.write_outcome == WRITE_OK) {
        keep(world, happening, &event.hash);
        event.chain = ledger_chain_hash(&store_of(world, happening->node)->chain);
    } else if (event.write_outcome == WRITE_FAILED && world->mistake == MISTAKE_UNDURABLE) {
        event.write_outcome = WRITE_OK;
    }
    if (is_alive) {
        world_step(world, happening->node, &event, NULL);
    }
}
