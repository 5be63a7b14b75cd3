/* wire: encodes messages as frames and decodes them. It defines the kinds of frames, their
 * payloads, which process may send each kind, and what is signed. The tracker, its clients and the
 * members call it; it owns no state.
 *
 * The payload of a control message is one MessagePack map (packer.h), and each message has exactly
 * one encoding. The frame header of a state machine's message holds kind, epoch, round, slice, and
 * the member's session in both directions; offset is 0. The map consists of the fields that the
 * kind has, in this order; lists are bins, and numbers in them are little-endian:
 *
 *     incarnation, number, start, base, parts, version, poll, ends_training, tokens, samples,
 *     root, seed, recheck, hash, left_out, contributors, owner, signature, reason, suspect, silent,
 *     opposed, unreachable, step_ms, transfer_ms, round_trip_ms, upload_kib_s, stored, then those
 *     of the kind:
 *     ENTRY    the entry's record (entry.h); of a commit: base, the root before it
 *     PROPOSE  entry, its root zero, and the rows of its results (entry.h); holders {8} of each
 *              slice
 *     TABLE    version, base; if base is 0: declared; tokens {8}, weights {8}, samples {8}, norms
 *              {8, fp64}, roots {32} and signatures {64} of each declared seat; else: slices as
 *              stretches of {first 2, rows 2}, and the following of these slices only; owners {1}
 *              of each slice; epochs, expected and optional of each slice as runs of {rows 2} and
 *              a number of 2, 8 and 8 bytes
 *     REPORT   only the fields of its parts (protocol.h); awaited_ms of 64 seats as runs of {rows
 *              2, number 4}; slices as stretches of {first 2, rows 2}; epochs, received, rejected,
 *              repeated (only with its part), has_result and contributors of each of these
 *              slices as runs of {rows 2} and a number of 2, 8, 8, 8, 1 and 8 bytes; hashes {32}
 *              of each result of these slices
 *     DECLARE  norm
 *     CONTRIBUTION  norm {8, fp64} of the slice; path {32}; bytes: the encoded slice
 *     RESULT   bytes: the encoded slice, or with a sparse codec the list of contributions to it
 *              (sparse_result.h), which may lack the receiver's encoding
 *     FETCH_RESULT  left_out only with a sparse codec
 *     SKETCHES  bytes: the encoded sketches of the slices of a page
 *
 * The payload of a chunked kind begins with its length, 4 bytes, this field included.
 * A payload longer than FRAME_PAYLOAD_MAX is sent in chunks, in order on one connection;
 * frame.offset is the position of each. Only the tracker sends chunks.
 *
 * public   attendance.h serving_limits.h wire_service.h */
#ifndef SKEP_SWARM_WIRE_WIRE_H
#define SKEP_SWARM_WIRE_WIRE_H

#include "runtime/swarm/protocol/protocol.h"
#include "transport/identity/keys.h"
#include "transport/messages/frame.h"
#include "transport/messages/messages.h"

/* Kinds of frames: the state machines' enum message_kind first, then the kinds below. */
enum wire_kind {
    /* kinds below this number are those of enum message_kind */
    WIRE_STATE_MACHINE_KINDS = MESSAGE_KINDS,
    WIRE_INTRODUCE = 32, /* Process to tracker: identity and address (struct wire_introduction). */
    /* Tracker to process: the reason for not admitting the process, which stays connected. Payloads
     * of this and later kinds are in wire_service.h, unless the comment of a kind names another
     * file. */
    WIRE_REJECTED,
    /* From the tracker: all members and the deadlines (struct wire_address_book). */
    WIRE_ADDRESS_BOOK,
    /* Request to the tracker, from any process, even if not on the allow-list. Empty payload. */
    WIRE_MANIFEST_REQUEST,
    WIRE_MANIFEST, /* From the tracker: the bytes of the manifest file, chunked. */
    /* Request to the tracker, from any process on the allow-list. Payload: empty, or a
     * wire_proof. */
    WIRE_STATUS_REQUEST,
    WIRE_STATUS, /* From the tracker: one JSON document, chunked. */
    /* Member to member: root; frame.offset is the index of the first leaf. */
    WIRE_LEAF_HASHES_REQUEST,
    /* Member to member: root, then the hashes of the leaves from index frame.offset. */
    WIRE_LEAF_HASHES,
    WIRE_LEAF_REQUEST, /* Member to member: root; frame.offset is the index of the leaf. */
    WIRE_LEAF,         /* Member to member: bytes of the leaf with index frame.offset. */
    /* Sender and payload as of WIRE_STATUS_REQUEST; frame.offset is the index of the first
     * entry. */
    WIRE_LEDGER_REQUEST,
    WIRE_LEDGER, /* From the tracker: consecutive entries (struct wire_ledger_page), chunked. */
    /* To the tracker, from a process that received a WIRE_STATUS: an address that the tracker is
     * to connect to. From the tracker: whether the tracker could connect (struct wire_probe). */
    WIRE_PROBE_ADDRESS,
    WIRE_PING,     /* From any process: a number. */
    WIRE_PONG,     /* Reply to WIRE_PING: the same number. */
    WIRE_REPLACED, /* Tracker to process: a newer process with this identity is the member; exit. */
    WIRE_CHECKPOINT_REQUEST, /* sender and payload as of WIRE_STATUS_REQUEST */
    /* From the tracker: the newest checkpoint of its ledger, or nothing; chunked. */
    WIRE_CHECKPOINT,
    WIRE_ATTENDANCE, /* From the tracker: how many members are connected (attendance.h). */
    WIRE_KIND_END    /* one more than the highest kind */
};

enum {
    WIRE_MEMBER_NAME_BYTES = 64, /* Longest name of a member with its NUL: letters, digits, - _ . */
    WIRE_REJECT_REASON_BYTES = 512,    /* size of the longest reason of a rejection, with its NUL */
    WIRE_MANIFEST_BYTES_MAX = 1 << 20, /* maximum size of the manifest in a MANIFEST */
    WIRE_STATUS_BYTES_MAX = 1 << 20,   /* maximum size of the JSON document in a STATUS */
    WIRE_LENGTH_BYTES = 4,             /* Size of the length that precedes a chunked payload. */
    WIRE_SERVICE_FIELDS_MAX = 16, /* Most fields of an introduction, a proof or an address book. */
    /* Largest size of an introduction, a proof or an address book without the contents of its texts
     * and bins. */
    WIRE_SERVICE_BYTES_MAX =
        2 * PACKER_MAP_BYTES_MAX + WIRE_SERVICE_FIELDS_MAX * PACKER_FIELD_BYTES_MAX,
    /* Size of the longest introduction. */
    WIRE_INTRODUCTION_BYTES_MAX = WIRE_SERVICE_BYTES_MAX + 2 * KEY_BYTES + WIRE_MEMBER_NAME_BYTES +
                                  MESSAGE_ADDRESS_BYTES + HASH_BYTES + SIGNATURE_BYTES,
    /* size of the longest proof */
    WIRE_PROOF_BYTES_MAX = WIRE_SERVICE_BYTES_MAX + 2 * KEY_BYTES + SIGNATURE_BYTES,
    /* Size of the longest address book, in which each address has a header of at most 3 bytes. */
    WIRE_ADDRESS_BOOK_BYTES_MAX =
        WIRE_SERVICE_BYTES_MAX + SWARM_MEMBERS_MAX * (2 * KEY_BYTES + 3 + MESSAGE_ADDRESS_BYTES),
};

/* The reason of WIRE_REJECTED for a key that is not on the allow-list. The rejected process prints
 * its key, so that it can be sent to the operator. */
#define WIRE_NOT_LISTED "its key is not on the allow-list"

/* The process at one side of a connection. A client of the tracker, which requests the manifest or
 * the status, counts as a member. */
enum wire_side { WIRE_TRACKER, WIRE_MEMBER };

/* wire_may_send: whether `sender` may send this kind to `receiver`.
 * wire_accepted_kinds: the kinds that a process of this side accepts, for
 * messenger_options.accepted_kinds. */
bool wire_may_send(enum wire_side sender, enum wire_side receiver, uint8_t kind);
void wire_accepted_kinds(enum wire_side side, uint64_t kinds[static 4]);

/* What a process sends to the tracker to be admitted. */
struct wire_introduction {
    struct public_keys keys;           /* public keys of the process */
    char name[WIRE_MEMBER_NAME_BYTES]; /* name of the member; "" for none */
    /* advertised address, to which other members connect. "tcp://:PORT": the tracker inserts the IP
     * address that it sees; "": none. */
    char address[MESSAGE_ADDRESS_BYTES];
    uint32_t version;           /* Protocol version. */
    uint64_t start_id;          /* Random number that identifies this start of the process. */
    struct hash manifest;       /* Hash of the manifest that the process has. */
    struct signature signature; /* signature over all fields above (wire_sign_introduction) */
};

/* The identity that makes a request on a connection with another channel key. A client needs it
 * because only the member's own process uses the identity's channel key. */
struct wire_proof {
    struct public_keys keys;    /* public keys of the identity that signs */
    struct signature signature; /* signature by wire_sign_proof */
};

/* A member in the address book. */
struct wire_member {
    struct public_keys keys;             /* public keys of the member */
    char address[MESSAGE_ADDRESS_BYTES]; /* advertised address; "": not reachable */
};

/* The outcome of a test whether others can connect to an address. */
enum probe_outcome {
    PROBE_REQUESTED, /* no outcome yet: the frame requests a test */
    PROBE_CONNECTED, /* a process with the channel key of the request answered at the address */
    PROBE_FAILED,    /* no process answered at the address */
    PROBE_FOREIGN,   /* not tested: the address is not on the host that sent the request */
    PROBE_BUSY,      /* not tested: too many other tests are in progress */
    PROBE_OUTCOMES   /* number of outcomes */
};

/* A request to the tracker for a connection test, or its answer. */
struct wire_probe {
    /* the address to test, as in an introduction; in the tracker's answer, always with its host */
    char address[MESSAGE_ADDRESS_BYTES];
    uint32_t outcome; /* outcome of the test: enum probe_outcome */
};

/* What the tracker sends to all members about each other. */
struct wire_address_book {
    uint32_t version; /* version of the address book; increases with every change */
    uint32_t count;   /* number of members, 0 .. SWARM_MEMBERS_MAX */
    struct wire_member members[SWARM_MEMBERS_MAX]; /* [count]: the admitted members */
    struct swarm_timing timing;                    /* the tracker's current deadlines */
};

/* The properties of a swarm that determine the layout of its messages, and the hash that they
 * are signed with. */
struct wire_shape {
    uint32_t slice_count; /* number of slices of the parameters */
    uint32_t members_max; /* maximum number of members */
    bool is_sparse;       /* results are lists of contributions; a tracker need not know this */
    struct hash swarm;    /* hash of the manifest; all signatures cover it */
};

/* wire_payload_bytes_max: the size of the longest payload of a state machine's message, before
 * it is split into chunks. */
size_t wire_payload_bytes_max(const struct wire_shape *shape);

/* wire_sign_message: sign a DECLARE (hash of the OPEN, round, tokens, samples, norm, root; context
 * "skep declaration"), a RESULT (which sets owner too) or SKETCHES (statement.h), and leave other
 * kinds unchanged. The hash of SKETCHES must be set to that of their bytes. The signature of a
 * DECLARE covers the hash of a MessagePack map of the swarm hash, as `swarm`, and those fields, in
 * that order. VOTE and ENTRY carry signatures of ledger_sign, whose hash includes the ledger's
 * history.
 */
void wire_sign_message(const struct wire_shape *shape, const struct key_pairs *keys,
                       struct message *message);

/* wire_write_message: header and payload of a state machine's message. Bulk bytes follow the
 * payload in the same frame; frame->length includes them.
 * limits  capacity >= wire_payload_bytes_max(shape), or the longest payload of the kind; bulk_bytes
 *         is 0 exactly where the kind has none; payload and bulk bytes fit FRAME_PAYLOAD_MAX,
 *         except of a chunked kind; a row of a report without a result has no hash and no
 *         contributors. Fields that the kind does not have are ignored
 * returns the payload's length without the bulk bytes */
size_t wire_write_message(const struct wire_shape *shape, const struct message *message,
                          uint64_t bulk_bytes, struct frame *frame, uint8_t *payload,
                          size_t capacity);

/* The arrays to which a message of wire_read_message points, in the caller's memory. */
struct wire_arrays {
    struct entry entry; /* entry of an ENTRY or PROPOSE; entry.slices has slice_count elements */
    struct round_table table;     /* table of a TABLE message */
    struct slice_report *reports; /* [slice_count]: rows of a REPORT */
    struct slice_proof proof;     /* proof of a CONTRIBUTION */
    uint64_t *holders; /* [slice_count]: masks of the seats that probably have the result */
    /* by seat: ms that the sender of a REPORT waited for the seat's contributions */
    uint32_t awaited_ms[SWARM_MEMBERS_MAX];
};

/* wire_arrays_size: the size of the memory for the arrays. wire_arrays_carve: carve the arrays
 * from `memory`, which is 64-byte aligned. */
size_t wire_arrays_size(const struct wire_shape *shape);
void wire_arrays_carve(const struct wire_shape *shape, void *memory, struct wire_arrays *arrays);

/* wire_read_message: decode a reassembled payload. The caller sets message->from by the channel.
 * *bulk and *bulk_bytes are the bulk bytes of a kind that has them, else NULL and 0. Counts, order,
 * seats and unused bits are checked; hashes, signatures and the right to send the kind are not.
 * Unused parts of the arrays are zero: undeclared seats of a table, fields of an entry that its
 * kind lacks.
 * memory  the message points into `arrays`, *bulk into `payload`
 * errors  text that describes the error, else NULL; after an error *message and the arrays are
 *         undefined */
MUST_CHECK const char *wire_read_message(const struct wire_shape *shape, const struct frame *frame,
                                         const uint8_t *payload, size_t count,
                                         struct wire_arrays *arrays, struct message *message,
                                         const uint8_t **bulk, size_t *bulk_bytes);

/* wire_verify_message: whether all required signatures and hashes of a message are valid.
 *     DECLARE, VOTE  signed by the sender (message->from); an accusation in a vote: the statement
 *                    that it calls false is signed by its owner
 *     SKETCHES       signed by the sender; sets message->hash to the hash of the bulk bytes
 *     RESULT         signed by its owner; the bulk bytes have message->hash
 *     ENTRY          signed by the tracker, a commit by a quorum of its seats; its hash is correct
 *     TABLE          has only seats of the round's OPEN; its declarations are signed by their seats
 *                    (a table with a base has none)
 *     CONTRIBUTION   unsigned; sets message->hash to the hash of the bulk bytes
 * Other kinds carry no signature: true.
 * open  the newest OPEN entry; NULL when none is known: every TABLE is then rejected */
MUST_CHECK bool wire_verify_message(const struct wire_shape *shape,
                                    const uint8_t tracker_key[static KEY_BYTES],
                                    const struct entry *open, struct message *message,
                                    const uint8_t *bulk, size_t bulk_bytes);

/* wire_is_chunked: whether payloads of this kind begin with their length and may be sent in chunks:
 * ENTRY, TABLE, PROPOSE, MANIFEST, STATUS and LEDGER.
 * wire_write_length: write the length in front of a document; `count` includes the length field.
 * wire_read_length: the length that a chunked payload begins with.
 * wire_chunk_header: the header of the chunk at `offset`, given the header of all `count` bytes;
 * its length is the number of bytes to send from `offset`. */
bool wire_is_chunked(uint8_t kind);
void wire_write_length(uint8_t payload[static WIRE_LENGTH_BYTES], size_t count);
size_t wire_read_length(const uint8_t payload[static WIRE_LENGTH_BYTES]);
struct frame wire_chunk_header(const struct frame *whole, size_t count, size_t offset);

/* Reassembly of the chunked payloads of one connection. */
struct wire_chunks {
    uint8_t *bytes;        /* [capacity]: buffer of the caller for the payload */
    size_t capacity;       /* size of `bytes` */
    struct frame frame;    /* Header of the whole payload. */
    size_t payload_bytes;  /* size of the whole payload */
    size_t received_bytes; /* bytes of the payload received so far; 0: no payload is in progress */
};

enum wire_progress {
    WIRE_COMPLETE,   /* the whole payload has arrived */
    WIRE_INCOMPLETE, /* further chunks must arrive */
    WIRE_INVALID,    /* the chunk does not follow the earlier ones */
};

/* wire_chunks_reset: drop an incomplete payload, for example because its connection closed. */
void wire_chunks_reset(struct wire_chunks *chunks);

/* wire_chunks_add: add a frame of a chunked kind. A chunk at offset 0 begins a new payload and
 * drops an incomplete one; any other must be the next chunk of the payload in progress, with the
 * length that wire_chunk_header computes. Frames of other kinds may arrive in between; do not pass
 * them here.
 * memory  a payload of one chunk is not copied; others are gathered in chunks->bytes
 * returns WIRE_COMPLETE: chunks->frame, *payload and payload_bytes describe the payload.
 *         WIRE_INVALID: a gap, an overlap, a chunk of another message, a length above `capacity`;
 *         no payload is in progress then */
MUST_CHECK enum wire_progress wire_chunks_add(struct wire_chunks *chunks, const struct frame *frame,
                                              const uint8_t *bytes, const uint8_t **payload);

/* wire_sign_introduction: fill in the signature (context "skep introduction").
 * wire_introduction_is_signed: whether the signature is valid for the key in the introduction. */
void wire_sign_introduction(const struct key_pairs *keys, struct wire_introduction *introduction);
MUST_CHECK bool wire_introduction_is_signed(const struct wire_introduction *introduction);

/* introduced_address_error: a text that describes the error in the address of an introduction,
 * or NULL. The address may be "" and may lack the host. */
MUST_CHECK const char *introduced_address_error(const char *address);

/* wire_sign_proof: fill in keys and signature (context "skep question") over the tracker's two
 * keys, `channel` (the public CURVE key of the requesting connection) and the signer's keys. The
 * proof is therefore invalid for another tracker and on another connection.
 * wire_proof_is_signed: whether a proof is valid for its keys, this tracker and this channel. */
void wire_sign_proof(const struct key_pairs *keys, const struct public_keys *tracker,
                     const uint8_t channel[static KEY_BYTES], struct wire_proof *proof);
MUST_CHECK bool wire_proof_is_signed(const struct wire_proof *proof,
                                     const struct public_keys *tracker,
                                     const uint8_t channel[static KEY_BYTES]);

/* Payloads of introductions, proofs and address books, as MessagePack maps. Readers return NULL, or
 * a text that describes the error; the output is then unchanged. Writers return the length.
 *     introduction  introduction: a map, whose bytes are signed, of protocol, start, curve, sign,
 *                   manifest, name, address; signature
 *     proof         curve, sign, signature
 *     address book  version, heartbeat_ms, silence_ms, train_ms, exchange_ms, round_ms, count,
 *                   curve_keys {32}, sign_keys {32}, addresses: an array of texts
 * limits  payload has room for WIRE_INTRODUCTION_BYTES_MAX, WIRE_PROOF_BYTES_MAX,
 *         WIRE_ADDRESS_BOOK_BYTES_MAX; names and addresses are valid (join_string.h; an
 *         introduction's address may lack the host), an address book has no key twice, no deadline
 *         is 0 or above INT32_MAX */
size_t wire_write_introduction(const struct wire_introduction *introduction, uint8_t *payload);
MUST_CHECK const char *wire_read_introduction(const uint8_t *payload, size_t count,
                                              struct wire_introduction *introduction);
size_t wire_write_proof(const struct wire_proof *proof, uint8_t *payload);
MUST_CHECK const char *wire_read_proof(const uint8_t *payload, size_t count,
                                       struct wire_proof *proof);
size_t wire_write_address_book(const struct wire_address_book *book, uint8_t *payload);
MUST_CHECK const char *wire_read_address_book(const uint8_t *payload, size_t count,
                                              struct wire_address_book *book);

#endif
