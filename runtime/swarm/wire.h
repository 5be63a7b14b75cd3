/* wire: messages as frames and back: kinds, payloads, who may say what, and what must be signed.
 *
 * Payloads are fixed little-endian forms as entry_code's, not msgpack: reading them allocates
 * nothing, and each has one spelling. A payload longer than FRAME_PAYLOAD_MAX (a TABLE or an ENTRY
 * of a big swarm) goes in pieces, by frame.offset, on one connection; the first piece begins with
 * the whole's length. Only the tracker sends such. */
#ifndef SKEP_SWARM_WIRE_H
#define SKEP_SWARM_WIRE_H

#include "runtime/swarm/message.h"
#include "transport/frame.h"
#include "transport/keys.h"
#include "transport/messages.h"

/* Frame kinds: enum message_kind of the machines first, then what their hosts say to each other. */
enum wire_kind {
    WIRE_MACHINE_KINDS = MESSAGE_KINDS,
    WIRE_INTRODUCE =
        32,            /* process to tracker: who I am, where I listen (struct wire_introduction) */
    WIRE_REFUSED,      /* tracker: why it is not let in, as text; it stays connected and waits */
    WIRE_ROSTER,       /* tracker: every member it knows, and the deadlines (struct wire_roster) */
    WIRE_MANIFEST_ASK, /* anybody to tracker, also without being on the roster */
    WIRE_MANIFEST,     /* tracker: the file's bytes, in pieces by offset */
    WIRE_STATUS_ASK,   /* anybody on the roster */
    WIRE_STATUS,       /* tracker: one JSON document, in pieces by offset */
    WIRE_NAMES_ASK,    /* member to member: root; frame.offset of the first name wanted */
    WIRE_NAMES,        /* root, then leaf names from frame.offset on */
    WIRE_LEAF_ASK,     /* member to member: root; frame.offset: which leaf */
    WIRE_LEAF,         /* frame.offset: which leaf; its bytes */
    WIRE_LEDGER_ASK,   /* member to tracker: frame.offset: number of the first entry wanted */
    WIRE_LEDGER,       /* tracker: whole records, one behind the other, from frame.offset on */
    WIRE_DIAL,         /* tracker to member: reach this address once, say whether that worked */
    WIRE_PING,         /* anybody: 8 bytes; the same come back as WIRE_PONG */
    WIRE_PONG,
    WIRE_KIND_END
};

enum {
    WIRE_NAME_BYTES = 64, /* of a member, as it calls itself: letters, digits, - _ . */
    WIRE_REASON_BYTES = 512,
    WIRE_MANIFEST_MAX = 1 << 20,
    WIRE_STATUS_MAX = 1 << 20,
};

/* wire_kinds: the kinds that a process of this sort takes, for messenger_options.known. */
enum wire_side { WIRE_TRACKER, WIRE_MEMBER };
void wire_kinds(enum wire_side side, uint64_t known[static 4]);

struct wire_introduction {
    struct public_keys keys;
    char name[WIRE_NAME_BYTES];          /* "" for none */
    char address[MESSAGE_ADDRESS_BYTES]; /* where others reach it; "tcp://:PORT": at the IP that
                                               the tracker sees; "": nowhere */
    uint32_t version;                    /* of the protocol */
    struct hash manifest;                /* that it goes by */
    struct signature signature;          /* over all of the above, context "skep introduction" */
};

struct wire_member {
    struct public_keys keys;
    char address[MESSAGE_ADDRESS_BYTES]; /* "" when it cannot be reached */
};

struct wire_roster {
    uint32_t version; /* rises with every change */
    uint32_t count;   /* 0 .. SWARM_MEMBERS_MAX */
    struct wire_member members[SWARM_MEMBERS_MAX];
    struct swarm_timing timing;
};

/* What a reader or writer of one swarm must know. */
struct wire_shape {
    uint32_t slice_count;
    uint32_t members_max;
    struct hash swarm; /* hash of the manifest: part of everything signed, so that nothing passes
                             from one swarm to another */
};

/* wire_payload_max: the longest payload, whole, that machine messages of this shape have. */
size_t wire_payload_max(const struct wire_shape *shape);

/* wire_sign: fill message->signature where the kind carries one of its sender's: DECLARE (session,
 * round, tokens, hashes) and RESULT (round, slice, epoch, contributors, hash; owner is set too).
 * VOTE and ENTRY carry signatures of ledger_sign already. */
void wire_sign(const struct wire_shape *shape, const struct key_pairs *keys,
               struct message *message);

/* wire_write: header and payload of a machine message; bulk bytes are not part of the payload but
 * follow it in the same frame: their length is added to frame->length.
 * limits  capacity >= wire_payload_max(shape), or the kind's own; bulk_bytes 0 where the kind has
 *         none
 * returns the payload's length without the bulk bytes */
size_t wire_write(const struct wire_shape *shape, const struct message *message,
                  uint64_t bulk_bytes, struct frame *frame, uint8_t *payload, size_t capacity);

/* Arrays that wire_read's message points into, in the reader's memory, of this shape. */
struct wire_arrays {
    struct entry entry; /* entry.slices [slice_count] is the owner's */
    struct round_table table;
    struct slice_report *reports; /* [slice_count] */
    struct hash *hashes;          /* [slice_count] */
};
size_t wire_arrays_bytes(const struct wire_shape *shape);
void wire_arrays_bind(const struct wire_shape *shape, void *memory, struct wire_arrays *arrays);

/* wire_read: a whole payload (pieces put together) to a message. `from` is left to the caller, who
 * knows whose channel it was. *bulk, *bulk_bytes: what follows in the frame, where the kind has
 * bytes. Counts, orders, seats, zero padding are checked; signatures are not.
 * errors  what is wrong, else NULL; *message is then undefined */
MUST_CHECK const char *wire_read(const struct wire_shape *shape, const struct frame *frame,
                                 const uint8_t *payload, size_t count, struct wire_arrays *arrays,
                                 struct message *message, const uint8_t **bulk, size_t *bulk_bytes);

/* wire_verified: whether the message carries every signature it must: a DECLARE its sender's
 * (message->from), a RESULT its owner's, a VOTE its sender's over `hash`, an ENTRY the tracker's or
 * a commit, each voter's with a quorum of its seats, and the entry's hash is its own. A TABLE every
 * declared seat's signature over its hashes, `open` being the round's OPEN. Hashes of bulk bytes
 * are computed here into message->hash for CONTRIBUTION, and compared for RESULT.
 * open  NULL when none is known */
MUST_CHECK bool wire_verified(const struct wire_shape *shape,
                              const uint8_t tracker_key[static KEY_BYTES], const struct entry *open,
                              struct message *message, const uint8_t *bulk, size_t bulk_bytes);

/* Forms of the hosts' messages. Readers: what is wrong, else NULL, *out then untouched; writers:
 * the length. */
size_t wire_write_introduction(const struct wire_introduction *introduction, uint8_t *payload);
MUST_CHECK const char *wire_read_introduction(const uint8_t *payload, size_t count,
                                              struct wire_introduction *introduction);
size_t wire_write_roster(const struct wire_roster *roster, uint8_t *payload);
MUST_CHECK const char *wire_read_roster(const uint8_t *payload, size_t count,
                                        struct wire_roster *roster);

#endif
