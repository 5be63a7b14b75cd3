/* tracker_documents: sends frames. Short messages are sent at once. Documents, which can be long,
 * are encoded once for all guests, and sent in pieces as each guest's connection has room. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_DOCUMENTS_H
#define SKEP_SWARM_TRACKER_TRACKER_DOCUMENTS_H

#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/tracker/serving.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum document {
    DOCUMENT_ENTRY,         /* a ledger entry */
    DOCUMENT_TABLE,         /* a whole round table */
    DOCUMENT_TABLE_CHANGES, /* changes of the round table since a version */
    DOCUMENT_PROPOSAL,      /* a proposed commit */
    DOCUMENT_MANIFEST,      /* the swarm's manifest */
    DOCUMENT_STATUS,        /* the swarm status as JSON */
    DOCUMENT_PUBLIC_STATUS, /* the swarm status for strangers */
    DOCUMENT_CHECKPOINT,    /* the newest checkpoint of the ledger */
    DOCUMENT_COUNT          /* number of kinds of documents */
};

/* The newest content of one kind of document. */
struct document_buffer {
    uint8_t *bytes;         /* encoded content of the document */
    size_t capacity, count; /* size of `bytes`, and how many of them are used */
    struct frame header;    /* header of the document's frames, without the session */
    struct hash key;        /* key of the encoded message (message_key), or hash of a checkpoint */
    uint32_t generation;    /* number of the content, which rises with each new content */
};

/* The newest content of all documents. */
struct document_table {
    struct document_buffer buffers[DOCUMENT_COUNT]; /* by enum document */
};

/* The documents to send to one guest. They are sent one after the other, because pieces of two
 * documents must not be mixed. */
struct document_stream {
    uint32_t due_mask; /* bit d: document d must be sent */
    /* by document: generation of its content when the document became due */
    uint32_t due_generation[DOCUMENT_COUNT];
    struct frame header[DOCUMENT_COUNT]; /* header of the frames of each document */
    /* by document: generation of the content sent last or being sent */
    uint32_t generation[DOCUMENT_COUNT];
    int64_t sent_ms[DOCUMENT_COUNT]; /* when each document was last sent */
    int current_document;            /* document being sent; -1: none */
    size_t sent_bytes;               /* bytes of the current document that were sent */
};

struct tracker_loop;
struct tracker_loop_options;
struct tracker_guest;

/* document_table_bytes: size of the memory that document_table_init allocates from the region. */
uint64_t document_table_bytes(const struct tracker_loop_options *options);
struct document_table *document_table_init(const struct tracker_loop_options *options,
                                           struct region *region);

struct document_stream make_idle_document_stream(void);

/* document_stream_is_busy: whether only a part of a document has been sent. */
bool document_stream_is_busy(const struct document_stream *stream);

/* tracker_loop_send_action: sends a message of the state machine. Does nothing when the receiver is
 * not connected: a member requests what it lacks when it reconnects. */
void tracker_loop_send_action(struct tracker_loop *loop, const struct action *action);

/* tracker_loop_send_payload: sends one short payload. Returns false when it was not sent. */
bool tracker_loop_send_payload(struct tracker_loop *loop, const struct tracker_guest *guest,
                               enum wire_kind kind, uint64_t offset, const void *payload,
                               size_t count);

/* tracker_loop_send_manifest: starts sending the manifest to a guest.
 * tracker_loop_send_status: writes a new swarm status, and starts sending it to a guest. A stranger
 * gets the status without the members' addresses.
 * tracker_loop_send_checkpoint: starts sending the newest checkpoint of the ledger to a guest.
 * All three do nothing while requesters of this kind have received too many bytes together. */
void tracker_loop_send_manifest(struct tracker_loop *loop, struct tracker_guest *guest,
                                enum requester requester);
void tracker_loop_send_status(struct tracker_loop *loop, struct tracker_guest *guest,
                              enum requester requester);
void tracker_loop_send_checkpoint(struct tracker_loop *loop, struct tracker_guest *guest,
                                  enum requester requester);

/* tracker_loop_continue_documents: sends as much of all due documents as the connections' queues
 * have room for. */
void tracker_loop_continue_documents(struct tracker_loop *loop);

/* tracker_status: writes the swarm status as one JSON document. */

struct tracker_loop;

/* tracker_status_write: writes the document that `skep status` prints: format, name, manifest,
 * since, incarnation, delegation, round, stage, commits, root, head, entries, checkpoint, cursor,
 * deadlines with their derivation, members, and the processes that wait to be admitted. The
 * members' addresses are left out unless `has_addresses`.
 * limits  a status is at most WIRE_STATUS_BYTES_MAX bytes long */
void tracker_status_write(const struct tracker_loop *loop, bool has_addresses, struct text *text);

#endif
