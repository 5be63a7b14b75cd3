#include "runtime/swarm/member/member_loop.h"

#include "base/clock.h"
#include "runtime/swarm/ledger/entry_bytes.h"
#include "runtime/swarm/member/member_loop_state.h"
#include "targets/os/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum {
    STACK_BYTES = 512 << 10, /* entries and rosters lie on it; nothing is deep */
    LEAVES_SHARE = 4,        /* of the limit: what serving leaves may take */
    LEAVES_MOST = 128 << 20, /* bytes a second of leaves for others, without a limit */
};

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static uint32_t slice_count_of(const struct member_loop_options *options) {
    return options->replica->shape.slices.count;
}

static struct wire_shape shape_of(const struct member_loop_options *options) {
    return (struct wire_shape){.slice_count = slice_count_of(options),
                               .members_max = options->members_max,
                               .swarm = options->manifest};
}

static size_t payload_bytes(const struct wire_shape *shape) {
    size_t longest = wire_payload_max(shape);
    return longest > FRAME_PAYLOAD_MAX ? longest : FRAME_PAYLOAD_MAX;
}

uint64_t member_loop_bytes(const struct member_loop_options *options) {
    const struct wire_shape shape = shape_of(options);
    size_t lines = slice_count_of(options) * sizeof(struct entry_slice);
    return aligned(sizeof(struct member_loop)) + aligned(member_bytes(shape.slice_count)) +
           aligned(ACTIONS_MAX * sizeof(struct action)) + aligned(wire_arrays_bytes(&shape)) +
           2 * aligned(payload_bytes(&shape)) + aligned(options->replica->shape.slices.bytes_max) +
           aligned(mailbox_bytes(shape.slice_count)) +
           aligned(result_index_bytes(shape.slice_count)) + 2 * aligned(lines) +
           aligned(REPLAY_ROUNDS_MAX * lines) +
           aligned(state_fetcher_bytes(&options->replica->shape)) +
           4 * aligned(outbox_bytes(SWARM_MEMBERS_MAX));
}

static struct messenger_options messenger_options_of(const struct member_loop_options *options) {
    struct messenger_options messenger = {.keys = options->keys,
                                          .listen = options->listen,
                                          .peers_max = options->members_max + 1, /* the tracker */
                                          .bulk_connections = options->bulk_connections,
                                          .queued_frames = options->queued_frames};
    wire_allowed_kinds(WIRE_MEMBER, messenger.known);
    return messenger;
}

uint64_t member_loop_declared(const struct member_loop_options *options) {
    struct messenger_options messenger = messenger_options_of(options);
    return messenger_memory_bytes(&messenger);
}

static void *cut(char **memory, size_t bytes) {
    void *start = *memory;
    *memory += aligned(bytes);
    return start;
}

static void bind_outboxes(struct member_loop *loop, char **memory) {
    const struct member_loop_options *options = &loop->options;
    size_t bytes = outbox_bytes(SWARM_MEMBERS_MAX);
    uint64_t share = options->limit_up / LEAVES_SHARE;
    uint64_t leaves_rate = options->limit_up == 0 ? LEAVES_MOST : share > 0 ? share : 1;
    outbox_bind(&loop->contributions, cut(memory, bytes), SWARM_MEMBERS_MAX, options->limit_up);
    outbox_bind(&loop->results, cut(memory, bytes), SWARM_MEMBERS_MAX, options->limit_up);
    outbox_bind(&loop->asks, cut(memory, bytes), SWARM_MEMBERS_MAX, options->limit_down);
    outbox_bind(&loop->leaves, cut(memory, bytes), SWARM_MEMBERS_MAX, leaves_rate);
}

static enum status start_machine(struct member_loop *loop, void *memory, struct fault *fault) {
    struct member_start start = loop->options.start;
    start.id = loop->id;
    start.slice_count = loop->shape.slice_count;
    if (getrandom(&start.number, sizeof start.number, 0) != (ssize_t)sizeof start.number) {
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot draw a random number", errno);
    }
    loop->start = start.number;
    loop->machine = member_init(memory, &start);
    return OK;
}

/* In the order of member_loop_bytes. */
static enum status bind(struct member_loop *loop, char *memory, struct fault *fault) {
    uint32_t slice_count = loop->shape.slice_count;
    size_t lines = slice_count * sizeof(struct entry_slice);
    enum status status = start_machine(loop, cut(&memory, member_bytes(slice_count)), fault);
    if (status != OK) {
        return status;
    }
    loop->actions.capacity = ACTIONS_MAX;
    loop->actions.rows = cut(&memory, ACTIONS_MAX * sizeof(struct action));
    wire_arrays_bind(&loop->shape, cut(&memory, wire_arrays_bytes(&loop->shape)), &loop->arrays);
    loop->payload_capacity = payload_bytes(&loop->shape);
    loop->payload = cut(&memory, loop->payload_capacity);
    loop->pieces.capacity = loop->payload_capacity;
    loop->pieces.bytes = cut(&memory, loop->payload_capacity);
    loop->landing = cut(&memory, loop->options.replica->shape.slices.bytes_max);
    void *post = cut(&memory, mailbox_bytes(slice_count));
    result_index_bind(&loop->rows, cut(&memory, result_index_bytes(slice_count)), slice_count);
    state_fetcher_init(loop, cut(&memory, state_fetcher_bytes(&loop->options.replica->shape)));
    struct entry_slice *slices = cut(&memory, lines);
    ledger_follower_init(loop, slices, cut(&memory, lines));
    catch_up_bind(loop, cut(&memory, REPLAY_ROUNDS_MAX * lines));
    bind_outboxes(loop, &memory);
    return mailbox_open(&loop->post, post, slice_count, fault);
}

/* Results that an earlier start left on the disk can be served again where this member owns the
 * slice: the signature that was sent with them is made again, and is the same. */
static void note_stored(struct member_loop *loop) {
    const struct member_start *start = &loop->options.start;
    for (uint32_t s = 0; start->stored_round > 0 && s < loop->shape.slice_count; s++) {
        const struct slice_report *stored = &start->stored[s];
        struct message message = {.kind = MESSAGE_RESULT,
                                  .round = start->stored_round,
                                  .slice = s,
                                  .epoch = stored->epoch,
                                  .contributors = stored->contributors,
                                  .hash = stored->hash};
        site_health_kind(&loop->shape, loop->options.keys, &message);
        *result_index_slot(&loop->rows, start->stored_round, s) =
            (struct stored_result){.is_held = stored->held != 0,
                                   .epoch = stored->epoch,
                                   .contributors = stored->contributors,
                                   .hash = stored->hash,
                                   .owner = loop->id,
                                   .signature = message.signature};
    }
}

static void *talk(void *argument) {
    struct member_loop *loop = argument;
    loop->turned_ns = clock_monotonic_ns();
    while (!atomic_load(&loop->is_over)) {
        member_loop_turn(loop);
    }
    return NULL;
}

static enum status open_sockets(struct member_loop *loop, struct region *region,
                                struct fault *fault) {
    const struct member_loop_options *options = &loop->options;
    struct messenger_options messenger = messenger_options_of(options);
    enum status status = messenger_open(&messenger, region, &loop->messenger, fault);
    if (status != OK) {
        return status;
    }
    status =
        messenger_peer(loop->messenger, options->tracker.curve, options->tracker_address, fault);
    if (status != OK) {
        messenger_close(loop->messenger, 0);
    }
    return status;
}

enum status member_loop_start(const struct member_loop_options *options, void *tables,
                              struct region *region, struct member_loop **started,
                              struct fault *fault) {
    struct member_loop *loop = tables;
    memset(loop, 0, sizeof(*loop));
    loop->options = *options;
    loop->shape = shape_of(options);
    loop->timing.heartbeat_ms = LOOP_HEARTBEAT_MS;
    loop->back_ns = INT64_MAX;
    memcpy(loop->id.bytes, options->keys->public_keys.sign, KEY_BYTES);
    memcpy(loop->tracker_id.bytes, options->tracker.sign, KEY_BYTES);
    atomic_init(&loop->is_over, false);
    enum status status = bind(loop, (char *)tables + aligned(sizeof(*loop)), fault);
    if (status != OK) {
        return status;
    }
    note_stored(loop);
    status = ledger_follower_restore(loop, fault);
    if (status == OK) {
        status = open_sockets(loop, region, fault);
    }
    if (status != OK) {
        mailbox_close(&loop->post);
        return status;
    }
    int failure = thread_start(&loop->thread, STACK_BYTES, talk, loop);
    if (failure != 0) {
        messenger_close(loop->messenger, 0);
        mailbox_close(&loop->post);
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot start a thread", failure);
    }
    *started = loop;
    return OK;
}

bool member_loop_wait_job(struct member_loop *loop, int timeout_ms, struct member_job *work) {
    return mailbox_wait_job(&loop->post, timeout_ms, work);
}

bool member_loop_is_stale(const struct member_loop *loop, const struct member_job *work) {
    return mailbox_is_stale(&loop->post, work->kind);
}

/* Hash and signature are made here, so that the talking thread does not wait for them. */
static void sign_vote(struct member_loop *loop, struct event *event) {
    struct entry *entry = mailbox_entry(&loop->post);
    entry->root = event->root;
    event->hash = entry_hash(entry);
    ledger_sign(loop->options.keys, &event->hash, &event->signature);
}

void member_loop_answer(struct member_loop *loop, const struct event *event) {
    struct event answer = *event;
    if (answer.kind == EVENT_ROOT_COMPUTED) {
        sign_vote(loop, &answer);
    }
    mailbox_answer(&loop->post, &answer);
}

void member_loop_request_leave(struct member_loop *loop) {
    mailbox_request_leave(&loop->post);
}

void member_loop_set_measured(struct member_loop *loop, const struct timing_measured *measured) {
    mailbox_set_measured(&loop->post, measured);
}

void member_loop_read_view(struct member_loop *loop, struct member_loop_view *view) {
    mailbox_read_view(&loop->post, view);
}

void member_loop_stop(struct member_loop *loop, struct member_loop_view *last) {
    atomic_store(&loop->is_over, true);
    mailbox_end(&loop->post);
    pthread_join(loop->thread, NULL);
    if (last != NULL) {
        mailbox_read_view(&loop->post, last);
    }
    messenger_close(loop->messenger, 0);
    mailbox_close(&loop->post);
}
