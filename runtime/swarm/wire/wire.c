#include "runtime/swarm/wire/wire.h"

#include "base/bytes.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/wire/wire_body.h"

#include <string.h>

/* Properties of a kind of frame, one bit each. */
enum {
    HAS_ROUND = 1 << 0,         /* field `round` in the frame header */
    HAS_SLICE = 1 << 1,         /* fields `slice` and `epoch` in the frame header */
    HAS_INCARNATION = 1 << 2,   /* field `incarnation`: that of the tracker */
    HAS_NUMBER = 1 << 3,        /* field `number` of struct message */
    HAS_VERSION = 1 << 4,       /* field `version`: version of the table */
    HAS_POLL = 1 << 5,          /* field `poll`: number of the poll */
    HAS_TOKENS = 1 << 6,        /* fields `tokens` and `samples`: trained by the sender */
    HAS_ROOT = 1 << 7,          /* field `root` of struct message */
    HAS_HASH = 1 << 8,          /* field `hash` of struct message */
    HAS_CONTRIBUTORS = 1 << 9,  /* field `contributors`: mask of seats */
    HAS_OWNER = 1 << 10,        /* field `owner`: identity of the owner of a slice */
    HAS_SIGNATURE = 1 << 11,    /* field `signature` of struct message */
    HAS_MEASUREMENTS = 1 << 12, /* fields of `measured` in struct message */
    HAS_BULK = 1 << 13,         /* encoded slice bytes follow the payload */
    IS_MESSAGE = 1 << 14,       /* the message is sent and received by the state machines */
    IS_CHUNKED = 1 << 15,       /* the payload may be split into several frames */
    TO_TRACKER = 1 << 16,       /* member to tracker */
    TO_MEMBER = 1 << 17,        /* tracker to member */
    TO_PEER = 1 << 18,          /* member to member */
    HAS_UNREACHABLE = 1 << 19,  /* field `unreachable`: seats that the sender cannot connect to */
    HAS_STORED = 1 << 20,       /* field `stored`: roots of the states that the sender stores */
    HAS_SEED = 1 << 21,         /* field `seed`: seed of sketches */
    HAS_REFUSAL = 1 << 22,      /* fields of `ballot.refusal` in struct message */
    HAS_PARTS = 1 << 23, /* fields `base` and `parts`; `parts` lists the fields that follow */
    HAS_ENDS_TRAINING = 1 << 24, /* field `ends_training` of a poll */
    HAS_RECHECK = 1 << 25,       /* field `recheck`: what voters audit */
    HAS_START = 1 << 26,         /* field `start`: number of the tracker's start */
    HAS_LEFT_OUT = 1 << 27,      /* field `values.left_out`, with a sparse codec only */

    MEMBER_MESSAGE = IS_MESSAGE | TO_TRACKER, /* a member's message to the tracker */
    /* the tracker's message to a member */
    TRACKER_MESSAGE = IS_MESSAGE | TO_MEMBER | HAS_INCARNATION,
    /* a member's message about a slice to another member */
    PEER_MESSAGE = IS_MESSAGE | TO_PEER | HAS_ROUND | HAS_SLICE,
};

static const uint32_t KINDS[WIRE_KIND_END] = {
    [MESSAGE_HELLO] = MEMBER_MESSAGE | HAS_ROOT | HAS_NUMBER,
    [MESSAGE_REPORT] = MEMBER_MESSAGE | HAS_ROUND | HAS_NUMBER | HAS_ROOT | HAS_HASH | HAS_VERSION |
                       HAS_POLL | HAS_UNREACHABLE | HAS_MEASUREMENTS | HAS_STORED | HAS_PARTS,
    [MESSAGE_DECLARE] =
        MEMBER_MESSAGE | HAS_ROUND | HAS_TOKENS | HAS_ROOT | HAS_HASH | HAS_SIGNATURE,
    [MESSAGE_VOTE] = MEMBER_MESSAGE | HAS_ROUND | HAS_SLICE | HAS_NUMBER | HAS_ROOT | HAS_SEED |
                     HAS_HASH | HAS_CONTRIBUTORS | HAS_OWNER | HAS_SIGNATURE | HAS_REFUSAL |
                     HAS_START,
    [MESSAGE_LEAVE] = MEMBER_MESSAGE,
    [MESSAGE_WELCOME] = TRACKER_MESSAGE | HAS_NUMBER,
    [MESSAGE_ENTRY] = TRACKER_MESSAGE | IS_CHUNKED,
    [MESSAGE_TABLE] = TRACKER_MESSAGE | IS_CHUNKED | HAS_ROUND,
    [MESSAGE_POLL] = TRACKER_MESSAGE | HAS_ROUND | HAS_POLL | HAS_ENDS_TRAINING,
    [MESSAGE_GOODBYE] = TRACKER_MESSAGE | HAS_ROUND | HAS_HASH,
    [MESSAGE_PROPOSE] =
        TRACKER_MESSAGE | IS_CHUNKED | HAS_ROUND | HAS_NUMBER | HAS_SEED | HAS_RECHECK | HAS_START,
    [MESSAGE_CONTRIBUTION] = PEER_MESSAGE | HAS_BULK,
    [MESSAGE_RESULT] =
        PEER_MESSAGE | HAS_HASH | HAS_CONTRIBUTORS | HAS_OWNER | HAS_SIGNATURE | HAS_BULK,
    [MESSAGE_FETCH_CONTRIBUTION] = PEER_MESSAGE,
    [MESSAGE_FETCH_RESULT] = PEER_MESSAGE | HAS_HASH | HAS_LEFT_OUT,
    [MESSAGE_FETCH_SKETCHES] = PEER_MESSAGE | HAS_SEED,
    [MESSAGE_SKETCHES] = PEER_MESSAGE | HAS_SEED | HAS_SIGNATURE | HAS_BULK,
    [MESSAGE_CONFIRM] = TRACKER_MESSAGE | HAS_NUMBER,
    [MESSAGE_RESIGN] = MEMBER_MESSAGE | HAS_HASH | HAS_SIGNATURE,
    [WIRE_INTRODUCE] = TO_TRACKER,
    [WIRE_REJECTED] = TO_MEMBER,
    [WIRE_ADDRESS_BOOK] = TO_MEMBER,
    [WIRE_MANIFEST_REQUEST] = TO_TRACKER,
    [WIRE_MANIFEST] = TO_MEMBER | IS_CHUNKED,
    [WIRE_STATUS_REQUEST] = TO_TRACKER,
    [WIRE_STATUS] = TO_MEMBER | IS_CHUNKED,
    [WIRE_LEAF_HASHES_REQUEST] = TO_PEER,
    [WIRE_LEAF_HASHES] = TO_PEER,
    [WIRE_LEAF_REQUEST] = TO_PEER,
    [WIRE_LEAF] = TO_PEER,
    [WIRE_LEDGER_REQUEST] = TO_TRACKER,
    [WIRE_LEDGER] = TO_MEMBER | IS_CHUNKED,
    [WIRE_PROBE_ADDRESS] = TO_TRACKER | TO_MEMBER,
    [WIRE_PING] = TO_TRACKER | TO_MEMBER | TO_PEER,
    [WIRE_PONG] = TO_TRACKER | TO_MEMBER | TO_PEER,
    [WIRE_REPLACED] = TO_MEMBER,
    [WIRE_CHECKPOINT_REQUEST] = TO_TRACKER,
    [WIRE_CHECKPOINT] = TO_MEMBER | IS_CHUNKED,
    [WIRE_ATTENDANCE] = TO_MEMBER,
};

/* The fields that any message may have, in the order of the encoding. */
static const struct {
    const char *name;
    uint32_t kinds;
    size_t bytes; /* size of the field; 4 or 8: an integer; otherwise a bin */
    size_t offset;
} FIELDS[] = {
    {"incarnation", HAS_INCARNATION, 4, offsetof(struct message, incarnation)},
    {"number", HAS_NUMBER, 8, offsetof(struct message, number)},
    {"start", HAS_START, 8, offsetof(struct message, ballot.start)},
    {"base", HAS_PARTS, 8, offsetof(struct message, report.base)},
    {"parts", HAS_PARTS, 4, offsetof(struct message, report.parts)},
    {"version", HAS_VERSION, 4, offsetof(struct message, version)},
    {"poll", HAS_POLL, 4, offsetof(struct message, poll.number)},
    {"ends_training", HAS_ENDS_TRAINING, 4, offsetof(struct message, poll.ends_training)},
    {"tokens", HAS_TOKENS, 8, offsetof(struct message, trained.tokens)},
    {"samples", HAS_TOKENS, 8, offsetof(struct message, trained.samples)},
    {"root", HAS_ROOT, HASH_BYTES, offsetof(struct message, root)},
    {"seed", HAS_SEED, HASH_BYTES, offsetof(struct message, ballot.seed)},
    {"recheck", HAS_RECHECK, 4, offsetof(struct message, ballot.recheck)},
    {"hash", HAS_HASH, HASH_BYTES, offsetof(struct message, hash)},
    {"left_out", HAS_LEFT_OUT, 8, offsetof(struct message, values.left_out)},
    {"contributors", HAS_CONTRIBUTORS, 8, offsetof(struct message, contributors)},
    {"owner", HAS_OWNER, SWARM_IDENTITY_BYTES, offsetof(struct message, owner)},
    {"signature", HAS_SIGNATURE, SWARM_SIGNATURE_BYTES, offsetof(struct message, signature)},
    {"reason", HAS_REFUSAL, 4, offsetof(struct message, ballot.refusal.reason)},
    {"suspect", HAS_REFUSAL, 4, offsetof(struct message, ballot.refusal.suspect)},
    {"silent", HAS_REFUSAL, 8, offsetof(struct message, ballot.refusal.silent_seats)},
    {"opposed", HAS_REFUSAL, 8, offsetof(struct message, ballot.refusal.opposed_seats)},
    {"unreachable", HAS_UNREACHABLE, 8, offsetof(struct message, links.unreachable)},
    {"step_ms", HAS_MEASUREMENTS, 4, offsetof(struct message, measured.step_ms)},
    {"transfer_ms", HAS_MEASUREMENTS, 4, offsetof(struct message, measured.transfer_ms)},
    {"round_trip_ms", HAS_MEASUREMENTS, 4, offsetof(struct message, measured.round_trip_ms)},
    {"upload_kib_s", HAS_MEASUREMENTS, 4, offsetof(struct message, measured.upload_kib_s)},
    {"stored", HAS_STORED, STORED_STATES_MAX *HASH_BYTES, offsetof(struct message, stored)},
};

static uint32_t kind_properties(uint8_t kind) {
    return kind < WIRE_KIND_END ? KINDS[kind] : 0;
}

bool wire_may_send(enum wire_side sender, enum wire_side receiver, uint8_t kind) {
    static const uint32_t DIRECTIONS[2][2] = {[WIRE_TRACKER][WIRE_MEMBER] = TO_MEMBER,
                                              [WIRE_MEMBER][WIRE_TRACKER] = TO_TRACKER,
                                              [WIRE_MEMBER][WIRE_MEMBER] = TO_PEER};
    return (kind_properties(kind) & DIRECTIONS[sender][receiver]) != 0;
}

void wire_accepted_kinds(enum wire_side side, uint64_t kinds[static 4]) {
    memset(kinds, 0, 4 * sizeof kinds[0]);
    for (uint8_t kind = 0; kind < WIRE_KIND_END; kind++) {
        if (wire_may_send(WIRE_TRACKER, side, kind) || wire_may_send(WIRE_MEMBER, side, kind)) {
            kinds[kind / 64] |= (uint64_t)1 << kind % 64;
        }
    }
}

bool wire_is_chunked(uint8_t kind) {
    return (kind_properties(kind) & IS_CHUNKED) != 0;
}

size_t wire_arrays_size(const struct wire_shape *shape) {
    size_t slices = shape->slice_count;
    return carve_padded_bytes(slices * sizeof(struct entry_slice)) +
           carve_padded_bytes(slices * sizeof(struct slice_plan)) +
           carve_padded_bytes(slices * sizeof(struct slice_report)) +
           carve_padded_bytes(slices * sizeof(uint64_t));
}

void wire_arrays_carve(const struct wire_shape *shape, void *memory, struct wire_arrays *arrays) {
    size_t slices = shape->slice_count;
    char *at = memory;
    memset(arrays, 0, sizeof *arrays);
    arrays->entry.slices = (void *)at;
    at += carve_padded_bytes(slices * sizeof(struct entry_slice));
    arrays->table.slices = (void *)at;
    at += carve_padded_bytes(slices * sizeof(struct slice_plan));
    arrays->reports = (void *)at;
    at += carve_padded_bytes(slices * sizeof(struct slice_report));
    arrays->holders = (void *)at;
}

size_t wire_payload_bytes_max(const struct wire_shape *shape) {
    size_t bytes = WIRE_LENGTH_BYTES + PACKER_MAP_BYTES_MAX + wire_body_bytes_max(shape);
    for (size_t i = 0; i < ARRAY_COUNT(FIELDS); i++) {
        bytes += PACKER_FIELD_BYTES_MAX + FIELDS[i].bytes;
    }
    return bytes;
}

/* A message and its arrays. Only a packer in reading mode changes them. */
struct packed_message {
    const struct wire_shape *shape;
    struct message *message;
    struct entry *entry;          /* the entry of an ENTRY or PROPOSE */
    struct round_table *table;    /* table of a TABLE */
    struct slice_report *reports; /* [slice_count]: rows of a REPORT */
    struct slice_proof *proof;    /* proof of a CONTRIBUTION */
    uint64_t *holders;            /* [slice_count] masks of the seats that probably have a result */
    /* by seat: ms that a REPORT's sender waited for contributions of the seat */
    uint32_t *awaited_ms;
    const uint8_t *bulk; /* [bulk_bytes] encoded slices or sketches */
    size_t bulk_bytes;   /* size of `bulk` */
};

/* Returns the fields that this message has. For a kind with HAS_PARTS, its field `parts` adds
 * some. */
static uint32_t fields_of_message(const struct wire_shape *shape, const struct message *message) {
    uint32_t fields = KINDS[message->kind];
    fields &= shape->is_sparse ? UINT32_MAX : ~(uint32_t)HAS_LEFT_OUT;
    if ((fields & HAS_PARTS) == 0) {
        return fields;
    }
    if ((message->report.parts & REPORT_POSITION) == 0) {
        fields &= ~(uint32_t)(HAS_VERSION | HAS_POLL | HAS_UNREACHABLE);
    }
    if ((message->report.parts & REPORT_STATE) == 0) {
        fields &= ~(uint32_t)(HAS_ROOT | HAS_HASH | HAS_MEASUREMENTS | HAS_STORED);
    }
    return fields;
}

static void pack_message_fields(struct packer *pack, const struct wire_shape *shape,
                                struct message *message) {
    for (size_t i = 0; i < ARRAY_COUNT(FIELDS); i++) {
        void *field = (char *)message + FIELDS[i].offset;
        if ((fields_of_message(shape, message) & FIELDS[i].kinds) == 0) {
            continue;
        }
        if (FIELDS[i].bytes == 4) {
            pack_u32(pack, FIELDS[i].name, field);
        } else if (FIELDS[i].bytes == 8) {
            pack_u64(pack, FIELDS[i].name, field);
        } else {
            pack_bytes(pack, FIELDS[i].name, field, FIELDS[i].bytes);
        }
    }
}

static void pack_message(struct packer *pack, void *object) {
    struct packed_message *packed = object;
    const struct wire_shape *shape = packed->shape;
    pack_message_fields(pack, shape, packed->message);
    switch (packed->message->kind) {
    case MESSAGE_ENTRY:
        wire_pack_entry(pack, shape, packed->entry, &packed->message->root);
        break;
    case MESSAGE_PROPOSE:
        wire_pack_proposal(pack, shape, packed->entry, packed->holders);
        break;
    case MESSAGE_TABLE:
        wire_pack_table(pack, shape, packed->table, &packed->message->version);
        break;
    case MESSAGE_REPORT:
        wire_pack_report(pack, shape, packed->message, packed->awaited_ms, packed->reports);
        break;
    case MESSAGE_DECLARE:
        pack_f64(pack, "norm", &packed->message->trained.norm);
        break;
    case MESSAGE_CONTRIBUTION:
        wire_pack_proof(pack, packed->proof);
        pack_bulk_header(pack, "bytes", &packed->bulk, &packed->bulk_bytes);
        break;
    case MESSAGE_RESULT:
    case MESSAGE_SKETCHES:
        pack_bulk_header(pack, "bytes", &packed->bulk, &packed->bulk_bytes);
        break;
    default:
        break;
    }
}

static struct frame make_header(const struct message *message, size_t bytes) {
    uint32_t kind = KINDS[message->kind];
    bool has_slice = (kind & HAS_SLICE) != 0;
    ASSERT(!has_slice || message->epoch <= SWARM_EPOCH_MAX);
    ASSERT(bytes <= ((kind & IS_CHUNKED) != 0 ? UINT32_MAX : FRAME_PAYLOAD_MAX));
    return (struct frame){.kind = (uint8_t)message->kind,
                          .session = message->session,
                          .round = (kind & HAS_ROUND) != 0 ? message->round : 0,
                          .slice = has_slice ? message->slice : 0,
                          .epoch = has_slice ? (uint16_t)message->epoch : 0,
                          .length = (uint32_t)bytes};
}

size_t wire_write_message(const struct wire_shape *shape, const struct message *message,
                          uint64_t bulk_bytes, struct frame *frame, uint8_t *payload,
                          size_t capacity) {
    ASSERT((uint32_t)message->kind < WIRE_STATE_MACHINE_KINDS);
    ASSERT((KINDS[message->kind] & IS_MESSAGE) != 0);
    ASSERT(((KINDS[message->kind] & HAS_BULK) != 0) == (bulk_bytes > 0));
    ASSERT(message->kind != MESSAGE_TABLE || message->table->round == message->round);
    ASSERT(bulk_bytes <= FRAME_PAYLOAD_MAX);
    struct packed_message packed = {.shape = shape,
                                    .message = (struct message *)(uintptr_t)message,
                                    .entry = (struct entry *)(uintptr_t)message->entry,
                                    .table = (struct round_table *)(uintptr_t)message->table,
                                    .reports =
                                        (struct slice_report *)(uintptr_t)message->report.rows,
                                    .proof = (struct slice_proof *)(uintptr_t)message->proof,
                                    .holders = (uint64_t *)(uintptr_t)message->ballot.holders,
                                    .awaited_ms = (uint32_t *)(uintptr_t)message->links.awaited_ms,
                                    .bulk_bytes = bulk_bytes};
    const size_t prefix = wire_is_chunked((uint8_t)message->kind) ? WIRE_LENGTH_BYTES : 0;
    ASSERT(capacity >= prefix);
    const size_t count = prefix + packer_write((struct packed_object){pack_message, &packed},
                                               payload + prefix, capacity - prefix);
    if (prefix > 0) {
        wire_write_length(payload, count);
    }
    *frame = make_header(message, count + bulk_bytes);
    return count;
}

static const char *read_header(const struct wire_shape *shape, const struct frame *frame,
                               struct message *message) {
    uint32_t kind = kind_properties(frame->kind);
    if ((kind & IS_MESSAGE) == 0) {
        return "has a header with an unknown message kind";
    }
    if (frame->offset != 0 || ((kind & HAS_ROUND) == 0 && frame->round != 0) ||
        ((kind & HAS_SLICE) == 0 && (frame->slice != 0 || frame->epoch != 0))) {
        return "has a header field that messages of its kind do not use";
    }
    if (frame->slice >= shape->slice_count) {
        return "has a slice index above the swarm's number of slices";
    }
    memset(message, 0, sizeof *message);
    message->kind = (enum message_kind)frame->kind;
    message->session = frame->session;
    message->round = frame->round;
    message->slice = frame->slice;
    message->epoch = frame->epoch;
    return NULL;
}

/* Rejects values that a correct sender never sends. */
static const char *fields_error(const struct wire_shape *shape, const struct message *message) {
    if (message->trained.tokens > INT64_MAX || message->trained.samples > INT64_MAX) {
        return "has a token or sample count above the maximum";
    }
    if (!norm_is_valid(message->trained.norm) ||
        (message->proof != NULL && !norm_is_valid(message->proof->norm))) {
        return "has a norm that is not a finite number of at least 0";
    }
    if (wire_has_unknown_seats(shape, message->contributors | message->values.left_out)) {
        return "has contributors with seat numbers above the swarm's maximum";
    }
    if (message->kind == MESSAGE_DECLARE && hash_is_zero(&message->root)) {
        return "declares a contribution without a root";
    }
    if (message->ballot.refusal.reason >= REFUSAL_REASONS ||
        message->ballot.refusal.suspect >= SWARM_MEMBERS_MAX ||
        wire_has_unknown_seats(shape, message->ballot.refusal.silent_seats |
                                          message->ballot.refusal.opposed_seats)) {
        return "has a refusal with an unknown reason, or with seat numbers above the swarm's "
               "maximum";
    }
    if (message->ballot.recheck >= RECHECK_SLICE + shape->slice_count) {
        return "asks voters to compute the sum of a slice that does not exist";
    }
    if (message->poll.ends_training > 1) {
        return "has a flag that is neither 0 nor 1";
    }
    if (message->kind == MESSAGE_PROPOSE && message->entry->round != message->round) {
        return "proposes an entry of a different round";
    }
    return NULL;
}

static void point_message_at_arrays(struct message *message, struct wire_arrays *arrays) {
    switch (message->kind) {
    case MESSAGE_PROPOSE:
        message->ballot.holders = arrays->holders;
        message->entry = &arrays->entry;
        break;
    case MESSAGE_ENTRY:
        message->entry = &arrays->entry;
        break;
    case MESSAGE_TABLE:
        message->table = &arrays->table;
        arrays->table.round = message->round;
        break;
    case MESSAGE_REPORT:
        message->report.rows = arrays->reports;
        message->links.awaited_ms = arrays->awaited_ms;
        break;
    case MESSAGE_CONTRIBUTION:
        message->proof = &arrays->proof;
        break;
    default:
        break;
    }
}

const char *wire_read_message(const struct wire_shape *shape, const struct frame *frame,
                              const uint8_t *payload, size_t count, struct wire_arrays *arrays,
                              struct message *message, const uint8_t **bulk, size_t *bulk_bytes) {
    struct packed_message packed = {.shape = shape,
                                    .message = message,
                                    .entry = &arrays->entry,
                                    .table = &arrays->table,
                                    .reports = arrays->reports,
                                    .proof = &arrays->proof,
                                    .holders = arrays->holders,
                                    .awaited_ms = arrays->awaited_ms};
    const char *error = read_header(shape, frame, message);
    if (error != NULL) {
        return error;
    }
    const size_t prefix = wire_is_chunked(frame->kind) ? WIRE_LENGTH_BYTES : 0;
    if (prefix > 0 && (count < prefix || wire_read_length(payload) != count)) {
        return "has a length field that differs from the length of the message";
    }
    error = packer_read((struct packed_object){pack_message, &packed}, payload + prefix,
                        count - prefix);
    if (error != NULL) {
        return error;
    }
    if ((KINDS[message->kind] & HAS_BULK) != 0 && packed.bulk_bytes == 0) {
        return "does not contain the bytes of its slice";
    }
    point_message_at_arrays(message, arrays);
    *bulk = packed.bulk;
    *bulk_bytes = packed.bulk_bytes;
    return fields_error(shape, message);
}
