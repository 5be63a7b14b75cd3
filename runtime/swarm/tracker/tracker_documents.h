/* tracker_documents: outgoing frames. A message is short, or it is one of the documents: those are
 * encoded once for all guests, and go out in pieces as each guest's connection has room. */
#ifndef SKEP_SWARM_TRACKER_TRACKER_DOCUMENTS_H
#define SKEP_SWARM_TRACKER_TRACKER_DOCUMENTS_H

#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum document {
    DOCUMENT_ENTRY,
    DOCUMENT_TABLE,
    DOCUMENT_PROPOSAL,
    DOCUMENT_MANIFEST,
    DOCUMENT_STATUS,
    DOCUMENTS
};

struct document_buffer {
    uint8_t *bytes;
    size_t capacity, count;
    struct frame whole;  /* its header, except for the session */
    struct hash key;     /* of the message in it: messages with equal keys have equal bytes */
    uint32_t generation; /* rises with each new content */
};

struct document_table {
    struct document_buffer buffers[DOCUMENTS];
};

/* The documents that one guest is to receive. They go one after the other: pieces of two documents
 * must not mix. */
struct document_stream {
    uint32_t due; /* bit d: document d is to be sent */
    struct frame whole[DOCUMENTS];
    uint32_t generation[DOCUMENTS]; /* of the content that was sent last, or is being sent */
    int64_t sent_ms[DOCUMENTS];
    int current; /* the document in progress; -1: none */
    size_t at;   /* of its bytes, those that are sent */
};

struct tracker_loop;
struct tracker_loop_options;
struct tracker_guest;

/* document_table_bytes: what document_table_init takes of the region. */
uint64_t document_table_bytes(const struct tracker_loop_options *options);
struct document_table *document_table_init(const struct tracker_loop_options *options,
                                           struct region *region);

struct document_stream document_stream_empty(void);

/* tracker_loop_send_action: send a message of the state machine. It is dropped when its receiver is
 * not connected: a member requests what it lacks when it reconnects. */
void tracker_loop_send_action(struct tracker_loop *loop, const struct action *action);

/* tracker_loop_send: send one short payload. False when it was not sent. */
bool tracker_loop_send(struct tracker_loop *loop, const struct tracker_guest *guest,
                       enum wire_kind kind, uint64_t offset, const void *payload, size_t count);

/* tracker_loop_send_manifest: start to send the manifest. tracker_loop_send_status: the same for a
 * new swarm status. */
void tracker_loop_send_manifest(struct tracker_loop *loop, struct tracker_guest *guest);
void tracker_loop_send_status(struct tracker_loop *loop, struct tracker_guest *guest);

/* tracker_loop_pump_documents: send as much of all due documents as connections have room for. */
void tracker_loop_pump_documents(struct tracker_loop *loop);

/* tracker_status: the swarm status as one JSON document. */

struct tracker_loop;

/* tracker_status_write: what `skep status` shows: format, name, manifest, since, incarnation,
 * round, stage, commits, root, head, entries, cursor, deadlines with their derivation, members, and
 * the processes that wait to be admitted.
 * limits  every status fits WIRE_STATUS_BYTES_MAX bytes */
void tracker_status_write(const struct tracker_loop *loop, struct text *text);

#endif
