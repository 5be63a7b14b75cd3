#include "runtime/swarm/member/leaf_server.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum {
    /* maximum number of leaf hashes in one frame */
    HASHES_PER_FRAME_MAX = (FRAME_PAYLOAD_MAX - WIRE_DOCUMENT_OFFSET) / HASH_BYTES,
};

/* Whether the replica has the state with this root and the compute thread is not changing it. */
static bool replica_has_state(const struct leaf_server *server, const struct hash *root) {
    const struct member_job *job = mailbox_current_job(server->mailbox);
    bool is_changing =
        (job != NULL && job->kind == ACTION_APPLY) || state_fetcher_is_active(server->fetcher);
    return !is_changing && hash_equal(root, &server->replica->root);
}

/* Whether the replica will have the state with this root soon, because the compute thread has
 * the job to apply the commit that leads to it. */
static bool will_have_state_soon(const struct leaf_server *server, const struct hash *root) {
    const struct member_job *job = mailbox_current_job(server->mailbox);
    return job != NULL && (job->kind == ACTION_ROOT || job->kind == ACTION_APPLY) &&
           hash_equal(root, &job->entry->root);
}

static bool is_state_stored(const struct leaf_server *server, const struct hash *root) {
    return server->states != NULL && state_store_has_root(server->states, root);
}

static enum send_result send_frame(const struct leaf_server *server, uint32_t peer,
                                   struct frame frame, const void *payload) {
    return messenger_send(server->messenger, peers_curve_key(server->peers, peer), CHANNEL_BULK,
                          &frame, payload);
}

void leaf_server_on_request(const struct leaf_server *server, uint32_t peer,
                            const struct frame *request, const uint8_t *payload) {
    bool is_hashes = request->kind == WIRE_LEAF_HASHES_REQUEST;
    ASSERT(is_hashes || request->kind == WIRE_LEAF_REQUEST);
    struct hash root;
    if (wire_read_leaf_request(payload, request->length, &root) != NULL ||
        request->offset >= server->leaf_count) {
        return;
    }
    struct outbox_item item = {.kind = is_hashes ? WIRE_LEAF_HASHES : WIRE_LEAF,
                               .round = request->round,
                               .index = request->offset,
                               .hash = root};
    bool is_available = replica_has_state(server, &item.hash) ||
                        will_have_state_soon(server, &item.hash) ||
                        is_state_stored(server, &item.hash);
    if (!is_available || !uplink_push_item(server->uplink, peer, &item)) {
        uint8_t empty[WIRE_DOCUMENT_OFFSET];
        struct frame rejection = {
            .kind = (uint8_t)item.kind, .round = request->round, .offset = request->offset};
        rejection.length = is_hashes ? (uint32_t)wire_write_leaf_hashes(&root, 0, empty) : 0;
        (void)send_frame(server, peer, rejection, empty);
    }
}

/* Copies leaf hashes of the state with the requested root: the current state, or a stored one.
 * Returns false if this member has no such state. */
static bool copy_hashes(const struct leaf_server *server, const struct outbox_item *item,
                        uint64_t count, struct hash *hashes) {
    if (replica_has_state(server, &item->hash)) {
        memcpy(hashes, &server->replica->leaves[item->index], count * sizeof *hashes);
        return true;
    }
    return server->states != NULL &&
           state_store_read_hashes(server->states, &item->hash, item->index, count, hashes);
}

static size_t write_leaf_hashes(const struct leaf_server *server, const struct outbox_item *item,
                                bool may_send) {
    ASSERT(item->index < server->leaf_count);
    uint64_t left = server->leaf_count - item->index;
    uint64_t count = left < HASHES_PER_FRAME_MAX ? left : HASHES_PER_FRAME_MAX;
    const bool is_copied =
        may_send &&
        copy_hashes(server, item, count, (struct hash *)(server->payload + WIRE_DOCUMENT_OFFSET));
    return wire_write_leaf_hashes(&item->hash, is_copied ? (size_t)count : 0, server->payload);
}

/* Copies a leaf to the payload. Returns its length, or 0 if this member does not have the state. */
static size_t write_leaf(const struct leaf_server *server, const struct outbox_item *item) {
    if (replica_has_state(server, &item->hash)) {
        return replica_read_leaf(server->replica, item->index, server->payload);
    }
    return server->states != NULL
               ? state_store_read_leaf(server->states, &item->hash, item->index, server->payload)
               : 0;
}

/* Sends an answer without content if the state has changed since the request, or if the peer has
 * used up its budget. */
enum send_result leaf_server_send(void *context, uint32_t peer, const struct outbox_item *item,
                                  uint64_t *bytes) {
    const struct leaf_server *server = context;
    if (!replica_has_state(server, &item->hash) && will_have_state_soon(server, &item->hash)) {
        return SEND_WOULD_BLOCK;
    }
    const bool may_send = uplink_may_send(server->uplink, peer, SERVED_LEAVES);
    const bool is_hashes = item->kind == WIRE_LEAF_HASHES;
    const size_t count = is_hashes  ? write_leaf_hashes(server, item, may_send)
                         : may_send ? write_leaf(server, item)
                                    : 0;
    *bytes = count;
    const enum send_result sent = send_frame(server, peer,
                                             (struct frame){.kind = (uint8_t)item->kind,
                                                            .round = item->round,
                                                            .offset = item->index,
                                                            .length = (uint32_t)count},
                                             server->payload);
    if (sent == SEND_OK) {
        uplink_charge(server->uplink, peer, SERVED_LEAVES, count);
    }
    return sent;
}
