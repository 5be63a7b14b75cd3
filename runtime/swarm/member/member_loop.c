#include "base/bytes.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/member/member_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"
#include "targets/os/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* size of the thread's stack, which contains ledger entries and address books */
enum { THREAD_STACK_BYTES = 512 << 10 };

static struct wire_shape make_wire_shape(const struct member_loop_options *options) {
    return (struct wire_shape){.slice_count = options->replica->shape.slices.count,
                               .members_max = options->members_max,
                               .is_sparse = slices_are_sparse(&options->replica->shape.slices),
                               .swarm = options->manifest};
}

/* Returns the sum of the sizes of the parts of `tables`, in their order. */
uint64_t member_loop_memory_bytes(const struct member_loop_options *options) {
    const struct wire_shape shape = make_wire_shape(options);
    return carve_padded_bytes(sizeof(struct member_loop)) +
           carve_padded_bytes(member_memory_bytes(shape.slice_count)) +
           carve_padded_bytes(ACTIONS_MAX * sizeof(struct action)) +
           carve_padded_bytes(wire_arrays_size(&shape)) +
           carve_padded_bytes(uplink_payload_bytes(&shape)) +
           carve_padded_bytes(mailbox_memory_bytes(shape.slice_count)) +
           carve_padded_bytes(catch_up_memory_bytes(shape.slice_count)) +
           carve_padded_bytes(ledger_follower_memory_bytes(shape.slice_count)) +
           carve_padded_bytes(slice_store_memory_bytes(options)) +
           carve_padded_bytes(uplink_memory_bytes(&shape)) +
           carve_padded_bytes(state_fetcher_memory_bytes(&options->replica->shape));
}

static struct messenger_options make_messenger_options(const struct member_loop_options *options) {
    struct messenger_options messenger = {.keys = options->keys,
                                          .listen = options->listen,
                                          .peers_max = options->members_max + 1, /* the tracker */
                                          .bulk_connections = options->bulk_connections,
                                          .queued_frames = options->queued_frames};
    wire_accepted_kinds(WIRE_MEMBER, messenger.accepted_kinds);
    return messenger;
}

uint64_t member_loop_declared_bytes(const struct member_loop_options *options) {
    struct messenger_options messenger = make_messenger_options(options);
    return messenger_memory_bytes(&messenger);
}

/* ---- start ---- */

static enum status init_member(struct member_loop *loop, void *memory, struct fault *fault) {
    struct member_initial_state start = loop->options.start;
    memcpy(start.id.bytes, loop->options.keys->public_keys.sign, KEY_BYTES);
    start.slice_count = loop->shape.slice_count;
    start.has_sketches = sum_check_has_sketches(&loop->options.replica->shape.slices);
    start.sent_values = slices_sent_values(&loop->options.replica->shape.slices);
    if (getrandom(&start.start_id, sizeof start.start_id, 0) != (ssize_t)sizeof start.start_id ||
        getrandom(&start.audit_secret, HASH_BYTES, 0) != HASH_BYTES) {
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot draw a random number", errno);
    }
    loop->member = member_init(memory, &start);
    admission_init(&loop->admission, &loop->options, &loop->reason, start.start_id);
    tracker_link_init(&loop->tracker, &loop->options, &loop->admission);
    return OK;
}

/* Initializes the objects that must have restored their state before sockets are opened. */
static enum status init_ledger(struct member_loop *loop, char **memory, struct fault *fault) {
    const uint32_t slice_count = loop->shape.slice_count;
    catch_up_init(&loop->catch_up, &loop->options.replica->shape.slices,
                  carve(memory, catch_up_memory_bytes(slice_count)));
    ledger_follower_init(&loop->ledger,
                         &(struct ledger_follower_args){.options = &loop->options,
                                                        .member = loop->member,
                                                        .catch_up = &loop->catch_up,
                                                        .reason = &loop->reason},
                         carve(memory, ledger_follower_memory_bytes(slice_count)));
    return ledger_follower_restore(&loop->ledger, fault);
}

static enum status open_sockets(struct member_loop *loop, struct region *region,
                                struct fault *fault) {
    const struct member_loop_options *options = &loop->options;
    struct messenger_options messenger = make_messenger_options(options);
    TRY(messenger_open(&messenger, region, &loop->messenger, fault));
    enum status status = tracker_link_open(&loop->tracker, loop->messenger, fault);
    if (status != OK) {
        messenger_close(loop->messenger, 0);
    }
    return status;
}

static void on_peer_usable(void *context, uint32_t peer, bool is_usable) {
    struct member_loop *loop = context;
    state_fetcher_set_peer_usable(&loop->fetcher, peer, is_usable);
    if (!is_usable) {
        uplink_drop_items_for_peer(&loop->uplink, peer);
    }
}

static void on_peer_disconnect(void *context, const struct identity *id) {
    member_loop_step(context, &(struct event){.kind = EVENT_CLOSED, .peer = *id});
}

/* Initializes the objects that use the messenger. */
static void init_transfers(struct member_loop *loop, char *memory) {
    struct replica *replica = loop->options.replica;
    admission_set_messenger(&loop->admission, loop->messenger, &loop->tracker.keys);
    peers_init(&loop->peers, &loop->admission, loop->member, loop->messenger,
               (struct peers_callbacks){loop, on_peer_usable, on_peer_disconnect});
    slice_store_init(&loop->slices, &loop->options, &loop->shape,
                     carve(&memory, slice_store_memory_bytes(&loop->options)));
    uplink_init(&loop->uplink,
                &(struct uplink_args){
                    .options = &loop->options,
                    .shape = &loop->shape,
                    .messenger = loop->messenger,
                    .peers = &loop->peers,
                    .slices = &loop->slices,
                    .measures = &loop->measures,
                    .leaf_requests = {&loop->fetcher, state_fetcher_send_request},
                    .leaves = {&loop->leaf_server, leaf_server_send},
                },
                carve(&memory, uplink_memory_bytes(&loop->shape)));
    state_fetcher_init(&loop->fetcher,
                       &(struct state_fetcher_args){.replica = replica,
                                                    .messenger = loop->messenger,
                                                    .peers = &loop->peers,
                                                    .uplink = &loop->uplink,
                                                    .mailbox = &loop->mailbox,
                                                    .states = loop->options.states},
                       carve(&memory, state_fetcher_memory_bytes(&replica->shape)));
    loop->leaf_server =
        (struct leaf_server){.replica = replica,
                             .fetcher = &loop->fetcher,
                             .mailbox = &loop->mailbox,
                             .peers = &loop->peers,
                             .messenger = loop->messenger,
                             .uplink = &loop->uplink,
                             .states = loop->options.states,
                             .leaf_count = replica_leaf_count(&replica->shape.slices),
                             .payload = loop->uplink.payload};
}

static enum status init_loop(struct member_loop *loop, char *memory, struct region *region,
                             struct fault *fault) {
    const uint32_t slice_count = loop->shape.slice_count;
    TRY(init_member(loop, carve(&memory, member_memory_bytes(slice_count)), fault));
    loop->action_rows = carve(&memory, ACTIONS_MAX * sizeof(struct action));
    wire_arrays_carve(&loop->shape, carve(&memory, wire_arrays_size(&loop->shape)), &loop->arrays);
    loop->chunks.capacity = uplink_payload_bytes(&loop->shape);
    ASSERT(loop->chunks.capacity >= wire_ledger_page_bytes_max(slice_count));
    loop->chunks.bytes = carve(&memory, loop->chunks.capacity);
    TRY(mailbox_open(&loop->mailbox, carve(&memory, mailbox_memory_bytes(slice_count)), slice_count,
                     fault));
    enum status status = init_ledger(loop, &memory, fault);
    if (status == OK) {
        status = open_sockets(loop, region, fault);
    }
    if (status != OK) {
        mailbox_close(&loop->mailbox);
        return status;
    }
    init_transfers(loop, memory);
    return OK;
}

static void close_sockets_and_mailbox(struct member_loop *loop) {
    tracker_link_cancel_fetch(&loop->tracker);
    messenger_close(loop->messenger, 0);
    mailbox_close(&loop->mailbox);
}

enum status member_loop_start(const struct member_loop_options *options, void *tables,
                              struct region *region, struct member_loop **started,
                              struct fault *fault) {
    char *memory = tables;
    struct member_loop *loop = carve(&memory, sizeof *loop);
    memset(loop, 0, sizeof *loop);
    loop->options = *options;
    loop->shape = make_wire_shape(options);
    TRY(init_loop(loop, memory, region, fault));
    int failure = thread_start(&loop->thread, THREAD_STACK_BYTES, member_loop_run, loop);
    if (failure != 0) {
        close_sockets_and_mailbox(loop);
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot start a thread", failure);
    }
    *started = loop;
    return OK;
}

void member_loop_stop(struct member_loop *loop, struct member_loop_view *last) {
    mailbox_shut_down(&loop->mailbox);
    pthread_join(loop->thread, NULL);
    if (last != NULL) {
        mailbox_read_view(&loop->mailbox, last);
    }
    close_sockets_and_mailbox(loop);
}

/* ---- for the compute thread ---- */

struct mailbox *member_loop_mailbox(struct member_loop *loop) {
    return &loop->mailbox;
}

/* Called on the compute thread, because hashing and signing take long. */
void member_loop_vote(struct member_loop *loop, const struct member_job *job,
                      const struct hash *root) {
    ASSERT(job->kind == ACTION_ROOT);
    struct event event = {.kind = EVENT_ROOT_COMPUTED, .job = job->job, .root = *root};
    if (!hash_is_zero(root)) {
        loop->vote = *job->entry;
        loop->vote.root = *root;
        event.hash = entry_hash(&loop->vote);
        ledger_sign(loop->options.keys, &event.hash, &event.signature);
    }
    mailbox_post_answer(&loop->mailbox, &event);
}
