/* chain: a member's copy of the ledger, by the code of the real member: it verifies each entry as
 * the next one of its chain, requests missing ones from its tracker, and gives the state machine
 * the commits that it missed in their order. */
#include "tests/sim/parts.h"

#include "base/clock.h"
#include "runtime/swarm/member/catch_up.h"
#include "runtime/swarm/member/ledger_follower.h"
#include "runtime/swarm/wire/wire_service.h"

#include <stdlib.h>
#include <string.h>

enum { REQUEST_BYTES = FRAME_HEADER_BYTES };

struct member_chain {
    struct world *world;
    uint32_t node;
    struct member_loop_options options;
    struct replica replica; /* only its shape is used */
    struct idle_reason reason;
    struct ledger_follower follower;
    struct catch_up catch_up;
    struct entry open;       /* the newest OPEN that the state machine has */
    uint32_t restored_count; /* entries of the copy on disk that were read at the start */
    uint32_t unwritten;      /* 1 + index of an entry that the disk had no room for; 0: none */
    void *follower_memory;
    void *catch_up_memory;
};

/* ---- the copy on a member's disk ---- */

/* The index of an entry among all that members received. Honest trackers send equal ones to all. */
static uint32_t find_or_add(struct world *world, const struct entry *entry) {
    for (uint32_t i = world->pool_count; i > 0; i--) {
        if (hash_equal(&world->pool[i - 1].hash, &entry->hash)) {
            return i - 1;
        }
    }
    ASSERT(world->pool_count < POOL_MOST);
    struct entry *added = &world->pool[world->pool_count];
    added->slices = world->pool_slices[world->pool_count];
    entry_copy(added, entry);
    return world->pool_count++;
}

static void write_entry(struct node *node, uint32_t index) {
    ASSERT(node->copy_count < LEDGER_MOST);
    node->copy[node->copy_count++] = (uint16_t)index;
}

static bool append_copy(void *context, const struct ledger_chain *checkpoint,
                        const struct entry *entry) {
    (void)checkpoint;
    struct member_chain *chain = context;
    struct node *node = &chain->world->nodes[chain->node];
    if (entry != NULL) {
        chain->unwritten = 1 + find_or_add(chain->world, entry);
    }
    if (chain->unwritten > 0 && node->disk_full_until <= chain->world->now) {
        write_entry(node, chain->unwritten - 1);
        chain->unwritten = 0;
    }
    return chain->unwritten == 0;
}

static enum status read_copy(void *context, const struct entry **entry, const char **location,
                             struct fault *fault) {
    struct member_chain *chain = context;
    const struct node *node = &chain->world->nodes[chain->node];
    bool is_end = chain->restored_count == node->copy_count;
    (void)fault;
    *location = "copy";
    *entry = is_end ? NULL : &chain->world->pool[node->copy[chain->restored_count++]];
    return OK;
}

/* ---- a running member ---- */

void chain_start(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct member_chain *chain = calloc(1, sizeof(*chain));
    struct fault fault;
    chain->world = world;
    chain->node = index;
    chain->replica.shape.slices =
        (struct slices){.parameter_count = (int64_t)world->settings.parameter_count,
                        .elements = SLICE_ELEMENTS,
                        .count = world->slice_count,
                        .bytes = world->settings.parameter_count};
    chain->options = (struct member_loop_options){.tracker_address = "tracker",
                                                  .replica = &chain->replica,
                                                  .state_round = node->outer.round,
                                                  .ledger_context = chain,
                                                  .read_ledger_entry = read_copy,
                                                  .append_ledger_entry = append_copy};
    memcpy(chain->options.operator_key, OPERATOR_ID.bytes, KEY_BYTES);
    memcpy(chain->options.tracker.sign, TRACKER_ID.bytes, KEY_BYTES);
    chain->follower_memory = malloc(ledger_follower_memory_bytes(world->slice_count));
    chain->catch_up_memory = malloc(catch_up_memory_bytes(world->slice_count));
    catch_up_init(&chain->catch_up, &chain->replica.shape.slices, chain->catch_up_memory);
    struct key_pairs keys = keys_of(&(struct identity){{(uint8_t)index}});
    world->node_keys[index] = keys;
    chain->options.keys = &world->node_keys[index];
    const struct ledger_follower_args args = {&chain->options, node->machine, &chain->catch_up,
                                              &chain->reason};
    ledger_follower_init(&chain->follower, &args, chain->follower_memory);
    bool is_restored = ledger_follower_restore(&chain->follower, &fault) == OK;
    ASSERT(is_restored);
    node->chain = chain;
}

void chain_stop(struct world *world, uint32_t index) {
    struct member_chain *chain = world->nodes[index].chain;
    if (chain != NULL) {
        free(chain->follower_memory);
        free(chain->catch_up_memory);
        free(chain);
        world->nodes[index].chain = NULL;
    }
}

void chain_connect(struct world *world, uint32_t index) {
    if (world->nodes[index].chain != NULL) {
        ledger_follower_on_connect(&world->nodes[index].chain->follower);
    }
}

bool chain_is_rejecting(const struct world *world, uint32_t index) {
    const struct member_chain *chain = world->nodes[index].chain;
    return chain != NULL && chain->follower.is_rejected;
}

bool chain_is_synced(const struct world *world, uint32_t index) {
    return ledger_follower_is_synced(&world->nodes[index].chain->follower);
}

/* ---- messages ---- */

static bool is_verified(struct member_chain *chain, struct parcel *parcel) {
    const struct entry *open = chain->open.round > 0 ? &chain->open : NULL;
    return post_accept(chain->world, open, parcel) ||
           (parcel->message.kind == MESSAGE_RESULT &&
            catch_up_verify_result(&chain->catch_up, &parcel->message,
                                   (const uint8_t *)&parcel->coded, sizeof(parcel->coded)));
}

static const struct message *deliver(struct member_chain *chain, const struct message *message) {
    if (message->kind == MESSAGE_ENTRY && message->entry->kind == ENTRY_OPEN) {
        chain->open = *message->entry;
        chain->open.slices = NULL;
    }
    const struct message *given = catch_up_replace_message(&chain->catch_up, message);
    chain->world->replays += given != message && given->entry->round != message->entry->round;
    return given;
}

const struct message *chain_receive(struct world *world, uint32_t index, struct parcel *parcel) {
    struct member_chain *chain = world->nodes[index].chain;
    struct message *message = &parcel->message;
    const uint32_t from = message->from.bytes[0];
    bool is_tracker = from < TRACKERS;
    bool is_closed = is_tracker && world->nodes[from].store != world->nodes[index].store;
    if (is_closed || !is_verified(chain, parcel)) {
        return NULL;
    }
    bool is_untrusted = is_tracker && message->kind != MESSAGE_ENTRY &&
                        !ledger_follower_is_synced(&chain->follower);
    bool is_held_back = (message->kind == MESSAGE_ENTRY &&
                         !ledger_follower_accept_entry(&chain->follower, message)) ||
                        (message->kind == MESSAGE_GOODBYE &&
                         !ledger_follower_may_resign(&chain->follower, message)) ||
                        (message->kind == MESSAGE_PROPOSE &&
                         !ledger_follower_extends_chain(&chain->follower, message->entry));
    return is_untrusted || is_held_back ? NULL : deliver(chain, message);
}

const struct message *chain_next_message(struct world *world, uint32_t index) {
    return catch_up_next_message(&world->nodes[index].chain->catch_up);
}

const struct message *chain_on_applied(struct world *world, uint32_t index) {
    const struct node *node = &world->nodes[index];
    return catch_up_on_applied(&node->chain->catch_up, member_current_root(node->machine));
}

void chain_on_fetch(struct world *world, uint32_t index, const struct entry *target) {
    catch_up_on_state_fetch(&world->nodes[index].chain->catch_up, target);
}

/* ---- pages of the ledger ---- */

/* The trackers of the simulation have no checkpoints: they answer that at once. */
static void answer_without_checkpoint(struct ledger_follower *follower) {
    uint8_t payload[WIRE_DOCUMENT_OFFSET];
    size_t count = wire_write_document(WIRE_CHECKPOINT, 0, payload);
    ledger_follower_on_checkpoint(follower, payload + WIRE_LENGTH_BYTES, count - WIRE_LENGTH_BYTES);
}

void chain_request(struct world *world, uint32_t index) {
    struct node *node = &world->nodes[index];
    struct frame frame;
    int64_t now_ns = (world->now + 1) * NS_PER_MS; /* 0 stands for no request */
    if (!ledger_follower_fill_request(&node->chain->follower, now_ns, &frame)) {
        return;
    }
    if (frame.kind == WIRE_CHECKPOINT_REQUEST) {
        answer_without_checkpoint(&node->chain->follower);
        (void)ledger_follower_fill_request(&node->chain->follower, now_ns, &frame);
    }
    ledger_follower_record_request(&node->chain->follower, now_ns);
    for (uint32_t tracker = 0; tracker < TRACKERS; tracker++) {
        if (net_is_connected(world, index, tracker) && world->nodes[tracker].machine != NULL) {
            int64_t wait_ms = net_send_control(world, index, REQUEST_BYTES);
            struct happening *request = world_add(world, HAPPEN_REQUEST, tracker, wait_ms);
            request->other = index;
            request->lasts = (int64_t)frame.offset;
            return;
        }
    }
}

void chain_answer(struct world *world, const struct happening *request) {
    const struct tracker_store *store = store_of(world, request->node);
    if (!net_is_connected(world, request->node, request->other)) {
        return;
    }
    struct wire_ledger_page page =
        wire_begin_ledger_page((uint64_t)request->lasts, store->ledger_count);
    uint8_t *payload = malloc(wire_ledger_page_bytes_max(world->slice_count));
    uint64_t at = page.first;
    while (at < store->ledger_count &&
           wire_add_ledger_entry(&page, &store->ledger[at], payload, world->slice_count)) {
        at++;
    }
    size_t count = wire_write_ledger_page(&page, payload);
    int64_t wait_ms = net_send_control(world, request->node, count);
    struct happening *answer = world_add(world, HAPPEN_PAGE, request->other, wait_ms);
    answer->other = request->node;
    answer->page = payload;
    answer->page_bytes = count;
}

const struct message *chain_on_page(struct world *world, const struct happening *page) {
    struct member_chain *chain = world->nodes[page->node].chain;
    if (world->nodes[page->other].store != world->nodes[page->node].store) {
        return NULL; /* of a closed connection */
    }
    const struct message *deferred = ledger_follower_on_page(
        &chain->follower, page->page + WIRE_LENGTH_BYTES, page->page_bytes - WIRE_LENGTH_BYTES);
    return deferred != NULL ? deliver(chain, deferred) : NULL;
}
