#include "runtime/swarm/member/state_fetcher.h"
#include "runtime/swarm/wire/wire_service.h"

#include "base/clock.h"

#include <string.h>

static const uint8_t *peer_curve_key(const struct state_fetcher *fetcher, uint32_t peer) {
    return peers_curve_key(fetcher->args.peers, peer);
}

/* ---- requests ---- */

static bool request_hashes(void *context, uint32_t source, const struct hash *root,
                           uint64_t index) {
    struct state_fetcher *fetcher = context;
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame frame = {.kind = WIRE_LEAF_HASHES_REQUEST, .offset = index};
    frame.length = (uint32_t)wire_write_leaf_request(root, payload);
    return messenger_send(fetcher->args.messenger, peer_curve_key(fetcher, source), CHANNEL_CONTROL,
                          &frame, payload) == SEND_OK;
}

static bool request_leaf(void *context, uint32_t source, const struct hash *root, uint64_t index) {
    struct state_fetcher *fetcher = context;
    struct outbox_item item = {
        .kind = WIRE_LEAF_REQUEST, .round = fetcher->job, .index = index, .hash = *root};
    return uplink_push_item(fetcher->args.uplink, source, &item);
}

static bool request_result(void *context, uint32_t source, const struct replay_request *request) {
    struct state_fetcher *fetcher = context;
    struct outbox_item item = {.kind = MESSAGE_FETCH_RESULT,
                               .round = request->round,
                               .slice = request->slice,
                               .epoch = request->epoch,
                               .hash = request->hash};
    return uplink_push_item(fetcher->args.uplink, source, &item);
}

/* ---- own files ---- */

static bool read_stored_hashes(void *context, const struct hash *root, struct hash *hashes) {
    const struct state_fetcher *fetcher = context;
    return state_store_read_hashes(fetcher->args.states, root, 0, fetcher->fetch.leaf_count,
                                   hashes);
}

static size_t read_stored_leaf(void *context, const struct hash *root, uint64_t index,
                               uint8_t *bytes) {
    const struct state_fetcher *fetcher = context;
    return state_store_read_leaf(fetcher->args.states, root, index, bytes);
}

enum send_result state_fetcher_send_request(void *context, uint32_t peer,
                                            const struct outbox_item *item, uint64_t *bytes) {
    struct state_fetcher *fetcher = context;
    if (item->round != fetcher->job) {
        /* the request is outdated: a state with a different root is being fetched */
        return SEND_NO_PEER;
    }
    uint8_t payload[WIRE_SMALL_BYTES_MAX];
    struct frame frame = {.kind = WIRE_LEAF_REQUEST, .round = item->round, .offset = item->index};
    frame.length = (uint32_t)wire_write_leaf_request(&item->hash, payload);
    enum send_result sent = messenger_send(fetcher->args.messenger, peer_curve_key(fetcher, peer),
                                           CHANNEL_CONTROL, &frame, payload);
    *bytes = sent == SEND_OK ? LEAF_BYTES : 0;
    return sent;
}

/* ---- the fetch ---- */

size_t state_fetcher_memory_bytes(const struct replica_shape *shape) {
    return shape->slices.count * sizeof(struct entry_slice) + leaf_fetch_memory_bytes(shape);
}

void state_fetcher_init(struct state_fetcher *fetcher, const struct state_fetcher_args *args,
                        void *memory) {
    struct replica *replica = args->replica;
    *fetcher = (struct state_fetcher){.args = *args, .entry = {.slices = memory}};
    leaf_fetch_init(
        &fetcher->fetch, fetcher->entry.slices + replica->shape.slices.count, replica,
        (struct leaf_fetch_callbacks){fetcher, request_hashes, request_leaf, request_result});
    if (args->states != NULL) {
        leaf_fetch_set_file(&fetcher->fetch, &(struct leaf_file){.context = fetcher,
                                                                 .read_hashes = read_stored_hashes,
                                                                 .read_leaf = read_stored_leaf});
    }
}

bool state_fetcher_is_active(const struct state_fetcher *fetcher) {
    return fetcher->state != FETCH_NONE;
}

bool state_fetcher_is_waiting(const struct state_fetcher *fetcher) {
    return fetcher->state == FETCH_WAITING || fetcher->state == FETCH_RUNNING;
}

void state_fetcher_start(struct state_fetcher *fetcher, const struct action *action,
                         const struct hash *base) {
    const struct entry *entry = action->entry;
    ASSERT(action->kind == ACTION_ADOPT && action->job > fetcher->job);
    bool is_continued = state_fetcher_is_active(fetcher) && entry->kind == ENTRY_COMMIT &&
                        entry->slice_count > 0 && base != NULL &&
                        hash_equal(base, &fetcher->entry.root);
    if (is_continued) {
        /* The sources are the members with a seat in the entry's round, because they have its
         * results. */
        leaf_fetch_follow_commit(&fetcher->fetch, entry,
                                 peers_with_seats(fetcher->args.peers, entry));
    } else {
        leaf_fetch_begin(&fetcher->fetch, &entry->root);
    }
    entry_copy(&fetcher->entry, entry);
    fetcher->job = action->job;
    fetcher->state = FETCH_WAITING;
    mailbox_cancel_job(fetcher->args.mailbox);
}

void state_fetcher_on_answer(struct state_fetcher *fetcher, uint32_t job) {
    if (job == fetcher->job && state_fetcher_is_active(fetcher)) {
        ASSERT(fetcher->state == FETCH_POSTED);
        fetcher->state = FETCH_NONE;
    }
}

bool state_fetcher_accept_result(struct state_fetcher *fetcher, const struct message *message) {
    uint32_t peer = peers_find_by_id(fetcher->args.peers, &message->from);
    struct replay_request result = {message->round, message->slice, message->epoch, message->hash};
    return fetcher->state == FETCH_RUNNING && peer != PEER_NONE &&
           leaf_fetch_accept_slice_result(&fetcher->fetch, peer, &result, clock_monotonic_ns());
}

static void receive_hashes(struct state_fetcher *fetcher, uint32_t peer, const struct frame *frame,
                           const uint8_t *payload, int64_t now_ns) {
    struct hash root;
    const uint8_t *hashes = NULL;
    size_t bytes = 0;
    if (wire_read_leaf_hashes(payload, frame->length, &root, &hashes, &bytes) == NULL) {
        leaf_fetch_on_hashes(&fetcher->fetch, peer, &root, frame->offset, hashes, bytes, now_ns);
    }
}

void state_fetcher_on_frame(struct state_fetcher *fetcher, uint32_t peer, const struct frame *frame,
                            const uint8_t *payload, int64_t now_ns) {
    ASSERT(frame->kind == WIRE_LEAF_HASHES || frame->kind == WIRE_LEAF);
    if (fetcher->state != FETCH_RUNNING) {
        return;
    }
    if (frame->kind == WIRE_LEAF_HASHES) {
        receive_hashes(fetcher, peer, frame, payload, now_ns);
        /* a leaf that arrives late may belong to a different root */
    } else if (frame->round == fetcher->job) {
        leaf_fetch_on_leaf(&fetcher->fetch, peer, frame->offset, payload, frame->length, now_ns);
    }
}

void state_fetcher_set_peer_usable(struct state_fetcher *fetcher, uint32_t peer, bool is_usable) {
    leaf_fetch_set_source_connected(&fetcher->fetch, peer, is_usable);
}

static void post_adopt_job(struct state_fetcher *fetcher) {
    leaf_fetch_end(&fetcher->fetch);
    fetcher->state = FETCH_POSTED;
    mailbox_post_job(fetcher->args.mailbox, &(struct member_job){.kind = ACTION_ADOPT,
                                                                 .job = fetcher->job,
                                                                 .round = fetcher->entry.round,
                                                                 .seat = -1,
                                                                 .entry = &fetcher->entry});
}

bool state_fetcher_step(struct state_fetcher *fetcher, int64_t now_ns) {
    if (fetcher->state == FETCH_WAITING && !mailbox_is_busy(fetcher->args.mailbox)) {
        fetcher->state = FETCH_RUNNING;
    }
    leaf_fetch_set_timeout(&fetcher->fetch, peers_timeout_ns(fetcher->args.peers));
    if (fetcher->state == FETCH_RUNNING &&
        leaf_fetch_step(&fetcher->fetch, now_ns) == LEAF_STAGE_DONE) {
        post_adopt_job(fetcher);
    }
    return fetcher->state == FETCH_RUNNING && leaf_fetch_has_local_work(&fetcher->fetch);
}
