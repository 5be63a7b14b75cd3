/* wire: messages as frames and back: kinds, payloads, who may say what, and what must be signed.
 *
 * Payloads are fixed little-endian forms as entry_code's, not msgpack: reading them allocates
 * nothing, and each has one spelling. In the header of a machine's message stand kind, epoch, round
 * and slice, and as `session` the member's, whichever side speaks; offset is 0. The payload, of
 * what its kind has (message.h):
 *
 *     length 4 (of kinds in pieces: of the whole payload, itself included), incarnation 4,
 *     number 8, version 4, ask 4, tokens 8, root 32, hash 32, contributors 8, owner 32,
 *     signature 64, cut 8, measured 4 x 4, then one of
 *     ENTRY    the entry's record (entry_code.h); of a commit: root 32, which it starts from
 *     PROPOSE  the entry's canonical bytes, its root zero; holders 8 of each slice
 *     TABLE    version 4, declared 8, {tokens 8, weight 8, signature 64} of each declared seat,
 *              {owner 1, epoch 2, expected 8} of each slice,
 *              {hash 32 of each slice} of each declared seat
 *     REPORT   runs {silent 2, rows 2, row ...} up to the last slice: `silent` rows of nothing but
 *              zeros, then rows that say something. A row: marks 1, then what they name
 *     DECLARE  hash 32 of each slice
 *     CONTRIBUTION, RESULT  the slice's encoded bytes
 *
 *     marks    0      1 2     3 4        5 6            7
 *              held   epoch   received   contributors   refused
 *              then what is given: epoch 2, received 8, contributors 8, refused 8, hash 32 (where
 *              held). A pair of marks: 0 zero, 1 as the last that was given, 2 given
 *
 * A payload longer than FRAME_PAYLOAD_MAX goes in pieces, one behind the other on one connection;
 * frame.offset says where each lies. Only the tracker sends such. */
#ifndef SKEP_SWARM_WIRE_WIRE_H
#define SKEP_SWARM_WIRE_WIRE_H

#include "runtime/swarm/protocol/protocol.h"
#include "transport/identity/keys.h"
#include "transport/messages/frame.h"
#include "transport/messages/messages.h"

/* Frame kinds: enum message_kind of the machines first, then what their hosts say to each other. */
enum wire_kind {
    WIRE_MACHINE_KINDS = MESSAGE_KINDS,
    WIRE_INTRODUCE =
        32,        /* process to tracker: who I am, where I listen (struct wire_introduction) */
    WIRE_REJECTED, /* tracker: why the peer is not admitted, as text; the peer stays connected */
    WIRE_ADDRESS_BOOK,     /* tracker: every member, and the deadlines (struct wire_address_book) */
    WIRE_MANIFEST_REQUEST, /* anybody to tracker, also without being on the roster */
    WIRE_MANIFEST,         /* tracker: length 4 and the file's bytes, in pieces */
    WIRE_STATUS_REQUEST,   /* anybody on the roster: nothing, or struct wire_proof of who asks */
    WIRE_STATUS,           /* tracker: length 4 and one JSON document, in pieces */
    WIRE_LEAF_HASHES_REQUEST, /* member to member: root; frame.offset of the first name wanted */
    WIRE_LEAF_HASHES,         /* root, then leaf names from frame.offset on */
    WIRE_LEAF_REQUEST,        /* member to member: root; frame.offset: which leaf */
    WIRE_LEAF,                /* frame.offset: which leaf; its bytes */
    WIRE_LEDGER_REQUEST,      /* the same; frame.offset: number of the first entry wanted */
    WIRE_LEDGER,        /* tracker: whole records, one behind the other, from frame.offset on */
    WIRE_PROBE_ADDRESS, /* tracker to member: reach this address once, say whether that worked */
    WIRE_PING,          /* anybody: 8 bytes; the same come back as WIRE_PONG */
    WIRE_PONG,
    WIRE_REPLACED, /* tracker: a later start of this identity is the member now: end */
    WIRE_KIND_END
};

enum {
    WIRE_NAME_BYTES = 64, /* of a member, as it calls itself: letters, digits, - _ . */
    WIRE_REASON_BYTES = 512,
    WIRE_MANIFEST_MAX = 1 << 20,
    WIRE_STATUS_MAX = 1 << 20,
    WIRE_LENGTH_BYTES = 4, /* before what goes in pieces */
    /* The longest introduction and roster. */
    WIRE_INTRODUCTION_MAX =
        12 + 2 * KEY_BYTES + WIRE_NAME_BYTES + MESSAGE_ADDRESS_BYTES + HASH_BYTES + SIGNATURE_BYTES,
    WIRE_PROOF_BYTES = 2 * KEY_BYTES + SIGNATURE_BYTES,
    WIRE_ADDRESS_BOOK_MAX = 28 + SWARM_MEMBERS_MAX * (2 * KEY_BYTES + MESSAGE_ADDRESS_BYTES),
};

/* wire_may_send: whether this kind goes from such a process to such a one. Who asks the tracker for
 * its manifest, or for its status, is a member here.
 * wire_allowed_kinds: the kinds that a process of this sort takes, for messenger_options.known. */
enum wire_side { WIRE_TRACKER, WIRE_MEMBER };
bool wire_may_send(enum wire_side speaker, enum wire_side hearer, uint8_t kind);
void wire_allowed_kinds(enum wire_side side, uint64_t known[static 4]);

struct wire_introduction {
    struct public_keys keys;
    char name[WIRE_NAME_BYTES];          /* "" for none */
    char address[MESSAGE_ADDRESS_BYTES]; /* where others reach it; "tcp://:PORT": at the IP that
                                               the tracker sees; "": nowhere */
    uint32_t version;                    /* of the protocol */
    uint64_t start;                      /* the process's: drawn at random */
    struct hash manifest;                /* that it goes by */
    struct signature signature;          /* over all of the above: wire_sign_introduction */
};

/* Who asks on a connection whose channel key is not its own: that one is for the member's process
 * alone. */
struct wire_proof {
    struct public_keys keys;
    struct signature signature; /* wire_sign_proof */
};

struct wire_member {
    struct public_keys keys;
    char address[MESSAGE_ADDRESS_BYTES]; /* "" when it cannot be reached */
};

struct wire_address_book {
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

/* wire_sign: fill message->signature where the kind carries one of its sender's: DECLARE
 * (session, round, tokens, hashes; "skep declaration") and RESULT (round, slice, epoch,
 * contributors, hash; "skep result"; owner is set too). Signed is the hash of the swarm and those
 * fields in that order. VOTE and ENTRY carry signatures of ledger_sign already, whose hash names
 * the chain. */
void wire_sign(const struct wire_shape *shape, const struct key_pairs *keys,
               struct message *message);

/* wire_write: header and payload of a machine message; bulk bytes are not part of the payload but
 * follow it in the same frame: their length is added to frame->length.
 * limits  capacity >= wire_payload_max(shape), or the kind's own; bulk_bytes 0 where the kind has
 *         none, and with the payload within FRAME_PAYLOAD_MAX; what a kind does not name is not
 *         looked at; a row of a report that is not held has no hash and no contributors
 * returns the payload's length without the bulk bytes; above FRAME_PAYLOAD_MAX only of a kind in
 *         pieces */
size_t wire_write(const struct wire_shape *shape, const struct message *message,
                  uint64_t bulk_bytes, struct frame *frame, uint8_t *payload, size_t capacity);

/* Arrays that wire_read's message points into, in the reader's memory, of this shape. */
struct wire_arrays {
    struct entry entry; /* entry.slices [slice_count] is the owner's */
    struct round_table table;
    struct slice_report *reports; /* [slice_count] */
    struct hash *hashes;          /* [slice_count] */
    uint64_t *holders;            /* [slice_count] */
};

/* wire_arrays_bytes, wire_arrays_bind: the memory behind them, 64-byte aligned. */
size_t wire_arrays_bytes(const struct wire_shape *shape);
void wire_arrays_bind(const struct wire_shape *shape, void *memory, struct wire_arrays *arrays);

/* wire_read: a whole payload (pieces put together) to a message. `from` is left to the caller, who
 * knows whose channel it was. *bulk, *bulk_bytes: what follows in the frame, where the kind has
 * bytes, else NULL and 0. Counts, orders, seats, unused bits are checked; hashes and signatures are
 * not, nor who may say it. What of the arrays the message does not have is zero: undeclared seats
 * of a table, fields of an entry that its kind does not use.
 * memory  the message points into `arrays`, *bulk into `payload`
 * errors  what is wrong, else NULL; *message and the arrays are then undefined */
MUST_CHECK const char *wire_read(const struct wire_shape *shape, const struct frame *frame,
                                 const uint8_t *payload, size_t count, struct wire_arrays *arrays,
                                 struct message *message, const uint8_t **bulk, size_t *bulk_bytes);

/* wire_verified: whether a message of wire_read carries every signature it must: a DECLARE its
 * sender's (message->from), a RESULT its owner's, a VOTE its sender's over `hash`, an ENTRY the
 * tracker's or, of a commit, each voter's with a quorum of its seats, and the entry's hash is its
 * own. A TABLE every declared seat's over its hashes, and no seat that the round's OPEN has not.
 * Hashes of bulk bytes are computed here into message->hash for CONTRIBUTION, compared for RESULT.
 * Others carry none: true.
 * open  the newest OPEN; NULL when none is known: no TABLE is then verified */
MUST_CHECK bool wire_verified(const struct wire_shape *shape,
                              const uint8_t tracker_key[static KEY_BYTES], const struct entry *open,
                              struct message *message, const uint8_t *bulk, size_t bulk_bytes);

/* wire_is_chunked: whether payloads of this kind begin with their length, so that they can go in
 * pieces: ENTRY, TABLE, PROPOSE, MANIFEST and STATUS.
 * wire_put_length: that length, before a document of a host's: count is of both together.
 * wire_chunk: the header of the piece at `offset`, of frame.length bytes from there on; `whole` is
 * the header of all `count` bytes. The next piece begins behind it, until `count` is reached. */
bool wire_is_chunked(uint8_t kind);
void wire_put_length(uint8_t payload[static WIRE_LENGTH_BYTES], size_t count);
struct frame wire_chunk(const struct frame *whole, size_t count, size_t offset);

/* Pieces from one connection on their way to a whole. */
struct wire_chunks {
    uint8_t *bytes; /* the owner's */
    size_t capacity;
    struct frame frame; /* of the whole */
    size_t count, at;   /* of the whole; what of it has come: 0 when none is begun */
};

enum wire_progress { WIRE_COMPLETE, WIRE_INCOMPLETE, WIRE_INVALID };

/* wire_chunks_add: take a frame of a kind that goes in pieces. A piece at offset 0 begins a new
 * whole and drops one that was cut off; any other must be the next of the one begun, as long as
 * wire_chunk makes it. Frames of other kinds may lie between pieces: they are not shown to it.
 * memory  a whole of one piece stays where it is, others are gathered in pieces->bytes
 * returns WIRE_COMPLETE: pieces->frame, *payload and pieces->count are it; WIRE_INVALID: a gap, an
 *         overlap, another message's piece, a length beyond `capacity`; nothing is begun then */
MUST_CHECK enum wire_progress wire_chunks_add(struct wire_chunks *pieces, const struct frame *frame,
                                              const uint8_t *bytes, const uint8_t **payload);

/* wire_sign_introduction: fill in the signature, for "skep introduction".
 * wire_introduction_verified: whether it is of the key that stands in it. */
void wire_sign_introduction(const struct key_pairs *keys, struct wire_introduction *introduction);
MUST_CHECK bool wire_introduction_verified(const struct wire_introduction *introduction);

/* wire_sign_proof: fill in keys and signature, for "skep question": of the tracker's two keys, of
 * `channel`, the asking connection's public CURVE key, and of the own keys. So it proves nothing to
 * another tracker, nor on a connection of anybody who has not that channel's secret.
 * wire_proof_verified: whether it is of the keys that stand in it, for this tracker and channel. */
void wire_sign_proof(const struct key_pairs *keys, const struct public_keys *tracker,
                     const uint8_t channel[static KEY_BYTES], struct wire_proof *proof);
MUST_CHECK bool wire_proof_verified(const struct wire_proof *proof,
                                    const struct public_keys *tracker,
                                    const uint8_t channel[static KEY_BYTES]);

/* Forms of the hosts' messages. Readers: what is wrong, else NULL, *out then untouched; writers:
 * the length.
 *     introduction  version 4, start 8, curve key 32, sign key 32, manifest 32, name, address,
 *                   signature 64
 *     proof         curve key 32, sign key 32, signature 64
 *     roster        version 4, timing 5 x 4, count 4, {curve key 32, sign key 32, address} ...
 * where a text is its length in one byte and its characters.
 * limits  payload has room for WIRE_INTRODUCTION_MAX, WIRE_PROOF_BYTES, WIRE_ADDRESS_BOOK_MAX;
 *         names and addresses are right (join_string.h; of an introduction the host may be
 *         missing), no key stands twice in a roster, no deadline is 0 or above INT32_MAX */
size_t wire_write_introduction(const struct wire_introduction *introduction, uint8_t *payload);
MUST_CHECK const char *wire_read_introduction(const uint8_t *payload, size_t count,
                                              struct wire_introduction *introduction);
size_t wire_write_proof(const struct wire_proof *proof, uint8_t *payload);
MUST_CHECK const char *wire_read_proof(const uint8_t *payload, size_t count,
                                       struct wire_proof *proof);
size_t wire_write_address_book(const struct wire_address_book *roster, uint8_t *payload);
MUST_CHECK const char *wire_read_address_book(const uint8_t *payload, size_t count,
                                              struct wire_address_book *roster);

#endif
