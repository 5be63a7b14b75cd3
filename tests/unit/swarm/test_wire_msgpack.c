/* test_wire_msgpack: another MessagePack reader, msgpack-c's object API, reads every control
 * message, and no other encoding of the same content is accepted. */
#include "wire_fixture.h"

#include <msgpack.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 3, SLICES = 4, BYTES = 1 << 16, DEPTH_MAX = 8 };

/* Other ways to encode one value of a message. */
enum spelling {
    SPELLING_CANONICAL,
    SPELLING_WIDE,    /* an integer in nine bytes; a text, bin or list with a longer header */
    SPELLING_TYPE,    /* a bin as text, a text as bin, an integer as a float */
    SPELLING_ORDER,   /* the last pair of a map first */
    SPELLING_MISSING, /* a map without its last pair */
    SPELLINGS
};

/* Re-encodes a message, with the value number `target` in another way. */
struct speller {
    msgpack_packer packer;
    enum spelling spelling;
    uint32_t target, value_count;
    bool is_changed;
};

static struct wire_fixture fixture;
static struct wire_arrays arrays;
static uint8_t payload[BYTES];
static size_t count;
static struct frame frame;

static void write_header(struct speller *speller, uint8_t code, size_t size) {
    uint8_t bytes[5] = {code, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                        (uint8_t)size};
    speller->packer.callback(speller->packer.data, (const char *)bytes, sizeof bytes);
    speller->is_changed = true;
}

static void spell_number(struct speller *speller, uint64_t number, enum spelling spelling) {
    if (spelling == SPELLING_WIDE && number <= UINT32_MAX) {
        msgpack_pack_fix_uint64(&speller->packer, number);
        speller->is_changed = true;
    } else if (spelling == SPELLING_TYPE && number < 1 << 24) {
        msgpack_pack_double(&speller->packer, (double)number);
        speller->is_changed = true;
    } else {
        msgpack_pack_uint64(&speller->packer, number);
    }
}

static void spell_bytes(struct speller *speller, const char *bytes, uint32_t size, bool is_text,
                        enum spelling spelling) {
    bool as_text = is_text != (spelling == SPELLING_TYPE);
    speller->is_changed |= spelling == SPELLING_TYPE;
    if (spelling == SPELLING_WIDE && size <= UINT16_MAX) {
        write_header(speller, as_text ? 0xdb : 0xc6, size);
    } else if (as_text) {
        msgpack_pack_str(&speller->packer, size);
    } else {
        msgpack_pack_bin(&speller->packer, size);
    }
    msgpack_pack_bin_body(&speller->packer, bytes, size);
}

/* A map or array whose elements are being written: keys and values count as elements. */
struct open_value {
    const msgpack_object *object;
    uint32_t next, end, first; /* elements; `first` is that of the first pair */
};

static struct open_value spell_map(struct speller *speller, const msgpack_object *object,
                                   enum spelling spelling) {
    const uint32_t size = object->via.map.size;
    const bool is_missing = spelling == SPELLING_MISSING && size > 0;
    const bool is_moved = spelling == SPELLING_ORDER && size > 1;
    speller->is_changed |= is_missing || is_moved;
    if (spelling == SPELLING_WIDE) {
        write_header(speller, 0xdf, size);
    } else {
        msgpack_pack_map(&speller->packer, size - is_missing);
    }
    return (struct open_value){object, 0, 2 * (size - is_missing), is_moved ? 2 * (size - 1) : 0};
}

static struct open_value spell_array(struct speller *speller, const msgpack_object *object,
                                     enum spelling spelling) {
    const uint32_t size = object->via.array.size;
    if (spelling == SPELLING_WIDE) {
        write_header(speller, 0xdd, size);
    } else {
        msgpack_pack_array(&speller->packer, size);
    }
    return (struct open_value){object, 0, size, 0};
}

/* Writes a value, or the header of a map or array and returns its elements. */
static struct open_value spell_value(struct speller *speller, const msgpack_object *object) {
    const enum spelling spelling =
        speller->value_count++ == speller->target ? speller->spelling : SPELLING_CANONICAL;
    switch (object->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        spell_number(speller, object->via.u64, spelling);
        break;
    case MSGPACK_OBJECT_STR:
        spell_bytes(speller, object->via.str.ptr, object->via.str.size, true, spelling);
        break;
    case MSGPACK_OBJECT_BIN:
        spell_bytes(speller, object->via.bin.ptr, object->via.bin.size, false, spelling);
        break;
    case MSGPACK_OBJECT_MAP:
        return spell_map(speller, object, spelling);
    default:
        assert_int_equal(object->type, MSGPACK_OBJECT_ARRAY);
        return spell_array(speller, object, spelling);
    }
    return (struct open_value){NULL, 0, 0, 0};
}

static const msgpack_object *next_element(struct open_value *value) {
    const msgpack_object *object = value->object;
    if (object->type == MSGPACK_OBJECT_ARRAY) {
        return &object->via.array.ptr[value->next++];
    }
    const uint32_t at = (value->first + value->next++) % (2 * object->via.map.size);
    const msgpack_object_kv *pair = &object->via.map.ptr[at / 2];
    assert_int_equal(pair->key.type, MSGPACK_OBJECT_STR);
    return at % 2 == 0 ? &pair->key : &pair->val;
}

static void spell(struct speller *speller, const msgpack_object *root) {
    struct open_value stack[DEPTH_MAX];
    uint32_t depth = 1;
    stack[0] = spell_value(speller, root);
    while (depth > 0) {
        struct open_value *top = &stack[depth - 1];
        if (top->next == top->end) {
            depth--;
            continue;
        }
        const struct open_value value = spell_value(speller, next_element(top));
        if (value.object != NULL) {
            assert_true(depth < DEPTH_MAX);
            stack[depth++] = value;
        }
    }
}

/* ---- allocations of the code under test, which the linker redirects here ---- */

static uint32_t allocation_count;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t elements, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t elements, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    allocation_count++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t elements, size_t bytes) {
    allocation_count++;
    return __real_calloc(elements, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    allocation_count++;
    return __real_realloc(memory, bytes);
}

/* ---- the messages ---- */

/* The payloads of wire_service.h follow those of wire.h. */
enum {
    INTRODUCTION = MESSAGE_KINDS,
    ADDRESS_BOOK,
    PROOF,
    SERVICE,
    ALL_KINDS = SERVICE + WIRE_FIXTURE_SERVICES
};

/* Writes the MessagePack of a kind into `payload`. */
static void make(uint32_t kind, enum wire_fill fill) {
    struct wire_proof proof;
    if (kind < MESSAGE_KINDS) {
        static uint8_t bytes[BYTES];
        wire_fixture_make(&fixture, kind, fill, kind);
        const size_t written = wire_fixture_write(&fixture, &fixture.message, fixture.bulk,
                                                  fixture.bulk_bytes, bytes, sizeof bytes);
        const size_t prefix = wire_is_chunked((uint8_t)kind) ? WIRE_LENGTH_BYTES : 0;
        static const uint64_t KNOWN[4] = {UINT64_MAX};
        assert_int_equal(frame_read(bytes, written, KNOWN, &frame), FRAME_OK);
        count = written - FRAME_HEADER_BYTES - prefix;
        memcpy(payload, bytes + FRAME_HEADER_BYTES + prefix, count);
        return;
    }
    if (kind >= SERVICE) {
        count = wire_fixture_service(&fixture, WIRE_FIXTURE_SERVICE_KINDS[kind - SERVICE], fill,
                                     kind, payload);
        return;
    }
    wire_fixture_hosts(&fixture, fill, kind);
    wire_sign_proof(&fixture.swarm.members[0], &fixture.swarm.tracker.public_keys,
                    fixture.swarm.members[1].public_keys.curve, &proof);
    count = kind == INTRODUCTION   ? wire_write_introduction(&fixture.introduction, payload)
            : kind == ADDRESS_BOOK ? wire_write_address_book(&fixture.roster, payload)
                                   : wire_write_proof(&proof, payload);
}

static bool is_accepted(uint32_t kind, const void *bytes, size_t size) {
    static uint8_t whole[2 * BYTES];
    static struct wire_introduction introduction;
    static struct wire_address_book book;
    struct wire_proof proof;
    struct message message;
    const uint8_t *bulk;
    size_t bulk_bytes;
    if (kind >= SERVICE) {
        return wire_fixture_repeat_service(WIRE_FIXTURE_SERVICE_KINDS[kind - SERVICE], bytes, size,
                                           whole) > 0;
    }
    switch (kind) {
    case INTRODUCTION:
        return wire_read_introduction(bytes, size, &introduction) == NULL;
    case ADDRESS_BOOK:
        return wire_read_address_book(bytes, size, &book) == NULL;
    case PROOF:
        return wire_read_proof(bytes, size, &proof) == NULL;
    default:
        break;
    }
    const size_t prefix = wire_is_chunked((uint8_t)kind) ? WIRE_LENGTH_BYTES : 0;
    memcpy(whole + prefix, bytes, size);
    if (prefix > 0) {
        wire_write_length(whole, prefix + size);
    }
    return wire_read_message(&fixture.shape, &frame, whole, prefix + size, &arrays, &message, &bulk,
                             &bulk_bytes) == NULL;
}

/* Returns false when the message has no value number `target`. */
static bool check_spelling(uint32_t kind, const msgpack_object *root, uint32_t target,
                           enum spelling spelling) {
    msgpack_sbuffer buffer;
    msgpack_sbuffer_init(&buffer);
    struct speller speller = {.spelling = spelling, .target = target};
    msgpack_packer_init(&speller.packer, &buffer, msgpack_sbuffer_write);
    spell(&speller, root);
    if (speller.is_changed && is_accepted(kind, buffer.data, buffer.size)) {
        fail_msg("kind %u accepts spelling %u of value %u", kind, spelling, target);
    }
    if (spelling == SPELLING_CANONICAL) {
        assert_int_equal(buffer.size, count);
        assert_memory_equal(buffer.data, payload, count);
    }
    msgpack_sbuffer_destroy(&buffer);
    return target < speller.value_count;
}

static void every_message_reads_elsewhere_and_has_one_spelling(void **state) {
    (void)state;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    void *memory = aligned_alloc(64, wire_arrays_size(&fixture.shape));
    wire_arrays_carve(&fixture.shape, memory, &arrays);
    for (uint32_t kind = 0; kind < ALL_KINDS; kind++) {
        for (uint32_t fill = 0; fill < WIRE_FILLS; fill++) {
            if (kind < MESSAGE_KINDS && !wire_fixture_is(kind)) {
                continue;
            }
            make(kind, fill);
            msgpack_unpacked unpacked;
            size_t used = 0;
            msgpack_unpacked_init(&unpacked);
            assert_int_equal(msgpack_unpack_next(&unpacked, (const char *)payload, count, &used),
                             MSGPACK_UNPACK_SUCCESS);
            assert_int_equal(used, count);
            assert_int_equal(unpacked.data.type, MSGPACK_OBJECT_MAP);
            assert_true(is_accepted(kind, payload, count));
            payload[count] = 0xc0;
            assert_false(is_accepted(kind, payload, count + 1));
            (void)check_spelling(kind, &unpacked.data, UINT32_MAX, SPELLING_CANONICAL);
            for (uint32_t spelling = 1; spelling < SPELLINGS; spelling++) {
                for (uint32_t target = 0; check_spelling(kind, &unpacked.data, target, spelling);) {
                    target++;
                }
            }
            msgpack_unpacked_destroy(&unpacked);
        }
    }
    free(memory);
}

/* The kind that these tests have for the payload of a frame; ALL_KINDS: the payload is empty, or
 * only bytes. No default: a new kind of frame does not compile until it is here. */
static uint32_t kind_of_payload(enum wire_kind frame_kind) {
    enum wire_kind service = frame_kind;
    switch (frame_kind) {
    case WIRE_INTRODUCE:
        return INTRODUCTION;
    case WIRE_ADDRESS_BOOK:
        return ADDRESS_BOOK;
    case WIRE_STATUS_REQUEST:
    case WIRE_LEDGER_REQUEST:
    case WIRE_CHECKPOINT_REQUEST:
        return PROOF;
    case WIRE_LEAF_HASHES_REQUEST:
        service = WIRE_LEAF_REQUEST;
        break;
    case WIRE_PONG:
        service = WIRE_PING;
        break;
    case WIRE_REJECTED:
    case WIRE_MANIFEST:
    case WIRE_STATUS:
    case WIRE_LEAF_HASHES:
    case WIRE_LEAF_REQUEST:
    case WIRE_LEDGER:
    case WIRE_PING:
    case WIRE_CHECKPOINT:
    case WIRE_ATTENDANCE:
    case WIRE_PROBE_ADDRESS:
        break;
    case WIRE_MANIFEST_REQUEST:
    case WIRE_LEAF:
    case WIRE_REPLACED:
    case WIRE_STATE_MACHINE_KINDS:
    case WIRE_KIND_END:
        return ALL_KINDS;
    }
    for (uint32_t i = 0; i < WIRE_FIXTURE_SERVICES; i++) {
        if (WIRE_FIXTURE_SERVICE_KINDS[i] == service) {
            return SERVICE + i;
        }
    }
    fail_msg("no test has the payload of frame kind %d", frame_kind);
    return ALL_KINDS;
}

static void every_kind_of_frame_has_a_payload_in_these_tests(void **state) {
    (void)state;
    uint32_t covered = 0;
    for (uint32_t kind = 0; kind < MESSAGE_KINDS; kind++) {
        assert_true(wire_fixture_is(kind));
    }
    for (int kind = WIRE_INTRODUCE; kind < WIRE_KIND_END; kind++) {
        covered += kind_of_payload((enum wire_kind)kind) < ALL_KINDS;
    }
    assert_int_equal(covered, WIRE_KIND_END - WIRE_INTRODUCE - 3);
}

/* The example of docs/FORMATS.md. */
static void a_confirmation_has_the_documented_bytes(void **state) {
    (void)state;
    static const uint8_t CONFIRM[] = {0x82, 0xab, 'i', 'n',  'c', 'a', 'r', 'n', 'a', 't', 'i',
                                      'o',  'n',  1,   0xa6, 'n', 'u', 'm', 'b', 'e', 'r', 7};
    struct message message = {.kind = MESSAGE_CONFIRM, .incarnation = 1, .number = 7};
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    assert_int_equal(wire_write_message(&fixture.shape, &message, 0, &frame, payload, BYTES),
                     sizeof CONFIRM);
    assert_memory_equal(payload, CONFIRM, sizeof CONFIRM);
}

static void writing_and_reading_allocate_nothing(void **state) {
    (void)state;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    void *memory = aligned_alloc(64, wire_arrays_size(&fixture.shape));
    wire_arrays_carve(&fixture.shape, memory, &arrays);
    for (uint32_t kind = 0; kind < ALL_KINDS; kind++) {
        if (kind < MESSAGE_KINDS && !wire_fixture_is(kind)) {
            continue;
        }
        const uint32_t before = allocation_count;
        make(kind, WIRE_FULL);
        assert_true(is_accepted(kind, payload, count));
        assert_false(is_accepted(kind, payload, count - 1));
        assert_int_equal(allocation_count, before);
    }
    free(memory);
    void *volatile block = malloc(1); /* the redirection works */
    free(block);
    assert_true(allocation_count > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_reads_elsewhere_and_has_one_spelling),
        cmocka_unit_test(every_kind_of_frame_has_a_payload_in_these_tests),
        cmocka_unit_test(a_confirmation_has_the_documented_bytes),
        cmocka_unit_test(writing_and_reading_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
