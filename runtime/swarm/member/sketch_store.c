/* sketch_store: stores the sketches of a proposal, this member's own and received ones, with
 * their signatures. */
#include "runtime/swarm/member/slice_store.h"

#include "base/bytes.h"
#include "runtime/swarm/member/uplink.h"

#include <string.h>

/* Returns the size of one row: the sketches of a seat for all slices. */
static size_t seat_sketch_bytes(const struct slices *slices) {
    return (size_t)slices->count * SKETCH_BYTES;
}

/* Returns the number of rows of sketches: 0 for codecs without sketches, such as int4. */
static uint32_t sketch_row_count(const struct member_loop_options *options) {
    const struct slices *slices = &options->replica->shape.slices;
    return sum_check_has_sketches(slices) ? 1 + options->members_max : 0;
}

size_t sketch_store_memory_bytes(const struct member_loop_options *options) {
    return sketch_row_count(options) *
           carve_padded_bytes(seat_sketch_bytes(&options->replica->shape.slices));
}

void sketch_store_init(struct sketch_store *store, const struct member_loop_options *options,
                       const struct wire_shape *shape, void *memory) {
    memset(store, 0, sizeof *store);
    store->options = options;
    store->shape = shape;
    store->own = memory;
    store->received =
        (uint8_t *)memory + carve_padded_bytes(seat_sketch_bytes(&options->replica->shape.slices));
}

static uint8_t *received_sketches_of_seat(const struct sketch_store *store, uint32_t seat) {
    ASSERT(seat < store->options->members_max);
    return store->received +
           seat * carve_padded_bytes(seat_sketch_bytes(&store->options->replica->shape.slices));
}

void sketch_store_add_to_job(struct sketch_store *store, struct member_job *job) {
    if (sketch_row_count(store->options) == 0) {
        return;
    }
    if (job->kind == ACTION_SKETCH) {
        memset(&store->own_seed, 0, sizeof store->own_seed);
    }
    job->own_sketches = store->own;
    for (uint32_t seat = 0; seat < store->options->members_max; seat++) {
        job->sketches[seat] =
            (int)seat == job->seat ? store->own : received_sketches_of_seat(store, seat);
    }
}

uint64_t sketch_store_page_bytes(const struct wire_shape *shape, uint32_t slice) {
    const uint32_t first = slice / SKETCH_PAGE_SLICES * SKETCH_PAGE_SLICES;
    ASSERT(first < shape->slice_count);
    return min_u64(shape->slice_count - first, SKETCH_PAGE_SLICES) * SKETCH_BYTES;
}

void sketch_store_sign_own(struct sketch_store *store, const struct member_job *job) {
    ASSERT(job->kind == ACTION_SKETCH);
    for (uint32_t slice = 0; slice < store->shape->slice_count; slice += SKETCH_PAGE_SLICES) {
        struct sketch_page *page = &store->own_pages[slice / SKETCH_PAGE_SLICES];
        page->hash = hash_of(store->own + (size_t)slice * SKETCH_BYTES,
                             sketch_store_page_bytes(store->shape, slice));
        struct message message = {.kind = MESSAGE_SKETCHES,
                                  .round = job->round,
                                  .slice = slice,
                                  .ballot.seed = job->seed,
                                  .hash = page->hash};
        wire_sign_message(store->shape, store->options->keys, &message);
        page->signature = message.signature;
    }
    store->own_seed = job->seed;
}

const uint8_t *sketch_store_find_page(const struct sketch_store *store,
                                      const struct outbox_item *item, struct message *message) {
    ASSERT(item->slice < store->shape->slice_count && item->slice % SKETCH_PAGE_SLICES == 0);
    if (hash_is_zero(&store->own_seed) || !hash_equal(&store->own_seed, &item->hash)) {
        return NULL;
    }
    message->signature = store->own_pages[item->slice / SKETCH_PAGE_SLICES].signature;
    return store->own + (size_t)item->slice * SKETCH_BYTES;
}

void sketch_store_keep_page(struct sketch_store *store, uint32_t seat,
                            const struct message *message, const uint8_t *bytes) {
    ASSERT(message->slice % SKETCH_PAGE_SLICES == 0);
    store->pages[seat][message->slice / SKETCH_PAGE_SLICES] =
        (struct sketch_page){.hash = message->hash, .signature = message->signature};
    memcpy(received_sketches_of_seat(store, seat) + (size_t)message->slice * SKETCH_BYTES, bytes,
           sketch_store_page_bytes(store->shape, message->slice));
}

void sketch_store_add_evidence(const struct sketch_store *store, struct message *message) {
    const uint32_t page = message->slice / SKETCH_PAGE_SLICES;
    ASSERT(message->ballot.refusal.reason == REFUSAL_SKETCH);
    message->hash = store->pages[message->ballot.refusal.suspect][page].hash;
    message->signature = store->pages[message->ballot.refusal.suspect][page].signature;
}
