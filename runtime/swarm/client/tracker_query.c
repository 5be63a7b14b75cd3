#include "base/clock.h"
#include "base/text.h"
#include "runtime/swarm/client/client.h"
#include "runtime/swarm/wire/wire_service.h"

#include <string.h>

enum {
    QUEUED_FRAMES = 4, /* frames that each queue of the connection can hold */
    /* time until a query is repeated, because it can be lost with its connection */
    RESEND_MS = 1000,
    LINGER_MS = 100, /* time to send queued frames before the socket closes */
    /* time to wait for a manifest: far longer than the few round trips that it usually takes */
    MANIFEST_TIMEOUT_MS = 10000,
    /* time to wait for the outcome: above the 5 s in which the tracker tries to connect */
    TEST_TIMEOUT_MS = 9000,
};

/* Size of the longest answer, with its length field. */
static size_t answer_bytes_max(void) {
    const size_t page = wire_ledger_page_bytes_max(SWARM_SLICES_MAX);
    const size_t document = WIRE_MANIFEST_BYTES_MAX > WIRE_STATUS_BYTES_MAX
                                ? WIRE_MANIFEST_BYTES_MAX
                                : WIRE_STATUS_BYTES_MAX;
    return page > WIRE_DOCUMENT_OFFSET + document ? page : WIRE_DOCUMENT_OFFSET + document;
}

struct tracker_client {
    const struct tracker_contact *tracker;    /* address and keys of the tracker */
    struct key_pairs keys;                    /* temporary keys of this connection */
    uint8_t proof[WIRE_PROOF_BYTES_MAX];      /* proof of the client's identity */
    uint32_t proof_bytes;                     /* size of the proof; 0: the client has no identity */
    char key[KEYS_TEXT_BYTES];                /* public keys of the identity as text; "" for none */
    struct messenger *messenger;              /* has the connection to the tracker */
    struct wire_chunks chunks;                /* chunks of the answer */
    char rejection[WIRE_REJECT_REASON_BYTES]; /* reason of a rejected query; "" for none */
    bool has_answer;                          /* the whole answer has arrived */
};

static void sign_proof(struct tracker_client *client, const struct key_pairs *identity) {
    struct wire_proof proof;
    wire_sign_proof(identity, &client->tracker->keys, client->keys.public_keys.curve, &proof);
    client->proof_bytes = (uint32_t)wire_write_proof(&proof, client->proof);
    public_keys_write(&identity->public_keys, client->key);
}

enum status tracker_client_open(const struct key_pairs *identity,
                                const struct tracker_contact *tracker, const char *listen,
                                struct region *region, struct tracker_client **client,
                                struct fault *fault) {
    struct tracker_client *opened = region_alloc(region, 1, sizeof *opened);
    struct messenger_options options = {
        .keys = &opened->keys, .listen = listen, .peers_max = 1, .queued_frames = QUEUED_FRAMES};
    wire_accepted_kinds(WIRE_MEMBER, options.accepted_kinds);
    opened->tracker = tracker;
    keys_generate(&opened->keys);
    if (identity != NULL) {
        sign_proof(opened, identity);
    }
    opened->chunks = (struct wire_chunks){.bytes = region_alloc(region, answer_bytes_max(), 1),
                                          .capacity = answer_bytes_max()};
    TRY(messenger_open(&options, region, &opened->messenger, fault));
    enum status status =
        messenger_register_peer(opened->messenger, tracker->keys.curve, tracker->address, fault);
    if (status != OK) {
        messenger_close(opened->messenger, 0);
        return status;
    }
    *client = opened;
    return OK;
}

static enum wire_kind answer_kind(enum wire_kind request) {
    switch (request) {
    case WIRE_MANIFEST_REQUEST:
        return WIRE_MANIFEST;
    case WIRE_STATUS_REQUEST:
        return WIRE_STATUS;
    case WIRE_PROBE_ADDRESS:
        return WIRE_PROBE_ADDRESS;
    default:
        ASSERT(request == WIRE_LEDGER_REQUEST);
        return WIRE_LEDGER;
    }
}

/* Sets *answer to the content of this payload. Returns whether it answers the current query, and
 * not an earlier one for other ledger entries. An invalid page counts as an answer: the code that
 * reads it reports the error. */
static bool read_answer(const struct tracker_query_args *args, const uint8_t *payload, size_t count,
                        struct tracker_answer *answer) {
    struct wire_ledger_page page;
    if (args->request != WIRE_LEDGER_REQUEST) {
        return wire_read_document((uint8_t)answer_kind(args->request), payload, count,
                                  &answer->bytes, &answer->count) == NULL;
    }
    *answer = (struct tracker_answer){payload, count};
    return wire_read_ledger_page(payload, count, &page) != NULL || page.first == args->first_entry;
}

static void read_rejection(struct tracker_client *client, const struct messenger_event *event) {
    const uint8_t *reason = NULL;
    size_t length = 0;
    if (wire_read_document(WIRE_REJECTED, event->payload, event->frame.length, &reason, &length) ==
            NULL &&
        length > 0) {
        length = length < WIRE_REJECT_REASON_BYTES ? length : WIRE_REJECT_REASON_BYTES - 1;
        memcpy(client->rejection, reason, length);
        client->rejection[length] = '\0';
    }
}

static void read_probe_outcome(struct tracker_client *client, const struct messenger_event *event,
                               struct tracker_answer *answer) {
    const size_t count = event->frame.length;
    if (count <= client->chunks.capacity) {
        memcpy(client->chunks.bytes, event->payload, count);
        *answer = (struct tracker_answer){client->chunks.bytes, count};
        client->has_answer = true;
    }
}

static void receive_answer(struct tracker_client *client, const struct tracker_query_args *args,
                           const struct messenger_event *event, struct tracker_answer *answer) {
    const uint8_t *payload = event->payload;
    const struct frame *frame = &event->frame;
    struct wire_chunks *chunks = &client->chunks;
    if (frame->kind == WIRE_REJECTED) {
        read_rejection(client, event);
    } else if (frame->kind != answer_kind(args->request)) {
        return;
    } else if (frame->kind == WIRE_PROBE_ADDRESS) {
        read_probe_outcome(client, event, answer);
    } else if (wire_chunks_add(chunks, frame, payload, &payload) == WIRE_COMPLETE) {
        memmove(chunks->bytes, payload, chunks->payload_bytes);
        client->has_answer = read_answer(args, chunks->bytes + WIRE_LENGTH_BYTES,
                                         chunks->payload_bytes - WIRE_LENGTH_BYTES, answer);
    }
}

static enum status set_rejection_fault(const struct tracker_client *client, struct fault *fault) {
    char remedy[sizeof fault->remedy] = "";
    struct text text = text_over(remedy, sizeof remedy);
    if (client->key[0] != '\0') {
        text_add(&text, "send the operator this key: %s", client->key);
    } else {
        text_add(&text, "run `skep keys` and send the operator the key that it prints");
    }
    return fault_set(fault, STATUS_INPUT, client->tracker->address, remedy,
                     "the tracker rejected the query: %s", client->rejection);
}

/* Handles the events that have arrived. A connection that is rejected or closed does not prove that
 * another process listens at the address, so the messenger redials until the query times out. */
static enum status receive_events(struct tracker_client *client,
                                  const struct tracker_query_args *args,
                                  struct tracker_answer *answer, struct fault *fault) {
    struct messenger_event event;
    while (!client->has_answer && messenger_next_event(client->messenger, &event)) {
        if (event.kind == MESSENGER_FRAME) {
            receive_answer(client, args, &event, answer);
        }
    }
    return client->rejection[0] == '\0' ? OK : set_rejection_fault(client, fault);
}

static enum status set_no_answer_fault(const struct tracker_client *client,
                                       const struct tracker_query_args *args, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, client->tracker->address,
                     "check that the tracker is running, that its port is open, and that the join "
                     "string is current",
                     "busy or unreachable: no answer within %d s", args->timeout_ms / 1000);
}

enum status tracker_query(struct tracker_client *client, const struct tracker_query_args *args,
                          struct tracker_answer *answer, struct fault *fault) {
    uint8_t probe[WIRE_PROBE_BYTES_MAX];
    const uint8_t *payload = args->probe != NULL ? probe : client->proof;
    const struct frame frame = {.kind = (uint8_t)args->request,
                                .offset = args->first_entry,
                                .length = args->probe != NULL
                                              ? (uint32_t)wire_write_probe(args->probe, probe)
                                              : client->proof_bytes};
    const int64_t until_ms = clock_monotonic_ms() + args->timeout_ms;
    int64_t sent_ms = 0;
    client->has_answer = false;
    client->rejection[0] = '\0';
    while (!client->has_answer && clock_monotonic_ms() < until_ms) {
        if (args->should_continue != NULL && !args->should_continue(args->context)) {
            return fault_set(fault, STATUS_STOPPED, client->tracker->address, NULL,
                             "stopped by request");
        }
        bool is_due = sent_ms == 0 || clock_monotonic_ms() - sent_ms >= RESEND_MS;
        if (is_due && messenger_send(client->messenger, client->tracker->keys.curve,
                                     CHANNEL_CONTROL, &frame, payload) == SEND_OK) {
            sent_ms = clock_monotonic_ms();
        }
        messenger_wait(client->messenger, -1, RESEND_MS / 10);
        TRY(receive_events(client, args, answer, fault));
    }
    return client->has_answer ? OK : set_no_answer_fault(client, args, fault);
}

void tracker_client_close(struct tracker_client *client) {
    messenger_close(client->messenger, LINGER_MS);
    keys_wipe(&client->keys);
}

enum status tracker_test_address(struct tracker_client *client, const char *public_address,
                                 struct wire_probe *probe, struct fault *fault) {
    struct wire_probe request = {.outcome = PROBE_REQUESTED};
    const struct tracker_query_args args = {
        .request = WIRE_PROBE_ADDRESS, .probe = &request, .timeout_ms = TEST_TIMEOUT_MS};
    struct text text = text_over(request.address, sizeof request.address);
    struct tracker_answer answer;
    ASSERT(messenger_port(client->messenger) != 0);
    if (public_address != NULL) {
        text_add(&text, "%s", public_address);
    } else {
        text_add(&text, "tcp://:%u", messenger_port(client->messenger));
    }
    TRY(tracker_query(client, &args, &answer, fault));
    const char *error = wire_read_probe(answer.bytes, answer.count, probe);
    return error == NULL ? OK
                         : fault_set(fault, STATUS_FAILED, client->tracker->address, NULL,
                                     "the outcome of the connection test %s", error);
}

enum status tracker_query_once(const struct key_pairs *identity,
                               const struct tracker_contact *tracker,
                               const struct tracker_query_args *args, struct region *region,
                               struct tracker_answer *answer, struct fault *fault) {
    struct region scratch = {0};
    struct tracker_client *client = NULL;
    struct tracker_answer found;
    enum status status = tracker_client_open(identity, tracker, NULL, &scratch, &client, fault);
    if (status == OK) {
        status = tracker_query(client, args, &found, fault);
        if (status == OK) {
            uint8_t *bytes = region_alloc(region, found.count + 1, 1);
            if (found.count > 0) {
                memcpy(bytes, found.bytes, found.count);
            }
            *answer = (struct tracker_answer){bytes, found.count};
        }
        tracker_client_close(client);
    }
    region_finish(&scratch);
    return status;
}

enum status manifest_check_delegation(const struct manifest *manifest,
                                      const struct tracker_contact *tracker, struct fault *fault) {
    return hash_equal(&manifest->hash, &tracker->delegation.swarm)
               ? OK
               : fault_set(fault, STATUS_INPUT, tracker->address,
                           "ask the swarm's operator for the manifest and its join string",
                           "the tracker sent a manifest of %s other than the one that the operator "
                           "has delegated to it",
                           manifest->name);
}

enum status manifest_fetch(const char *join_string, struct region *region,
                           struct manifest *manifest, const char **address, struct fault *fault) {
    const struct tracker_query_args args = {.request = WIRE_MANIFEST_REQUEST,
                                            .timeout_ms = MANIFEST_TIMEOUT_MS};
    const struct delegation_search_args search = {.timeout_ms = MANIFEST_TIMEOUT_MS};
    struct join_string join;
    struct tracker_contact tracker;
    struct tracker_answer answer;
    TRY(join_string_read(join_string, &join, fault));
    TRY(delegation_search(&join, &search, &tracker, fault));
    TRY(tracker_query_once(NULL, &tracker, &args, region, &answer, fault));
    TRY(manifest_read((const char *)answer.bytes, answer.count, tracker.address,
                      &join.operator_keys, region, manifest, fault));
    *address = region_copy_text(region, tracker.address);
    return manifest_check_delegation(manifest, &tracker, fault);
}
