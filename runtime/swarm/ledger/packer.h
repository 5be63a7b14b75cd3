/* packer: serializes a struct as fixed little-endian bytes. One function passes over the fields,
 * and counts, writes, reads or hashes them, so that the four always agree.
 *
 * Bytes that are read may come from any source: the first error ends the reading, and later fields
 * read as zero. Only reading changes the fields. */
#ifndef SKEP_SWARM_LEDGER_PACKER_H
#define SKEP_SWARM_LEDGER_PACKER_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packer_mode {
    PACKER_COUNT, /* only count the bytes */
    PACKER_WRITE, /* encode the values into a buffer */
    PACKER_READ,  /* decode the values from a buffer */
    PACKER_HASH,  /* hash the encoded values */
};

struct packer {
    enum packer_mode mode;         /* what pack_* functions do with a value */
    uint8_t *bytes;                /* buffer that is written or read */
    size_t capacity, offset;       /* offset: number of bytes processed so far. */
    struct hash_state *hash_state; /* receives the bytes in mode HASH */
    const char *error;             /* Text of the first error, or NULL. */
};

struct packer packer_begin_count(void);
struct packer packer_begin_write(uint8_t *bytes, size_t capacity);
struct packer packer_begin_read(const uint8_t *bytes, size_t count);
struct packer packer_begin_hash(struct hash_state *state);

/* packer_fail: record an error, unless an earlier one was recorded. */
void packer_fail(struct packer *packer, const char *error);

/* packer_skip_rest: skip all bytes that are not yet read. Returns their number. */
size_t packer_skip_rest(struct packer *packer);

/* packer_finish: return a text that describes the first error, or NULL. Unread bytes are an error
 * too. */
const char *packer_finish(struct packer *packer);

/* Functions that count, write, read or hash one field, depending on the mode. Writing a number that
 * does not fit its size is a caller's bug. pack_element_count: pack a count as 4 bytes; a count
 * above `max` is an error. Returns the count, or 0 after an error. */
void pack_bytes(struct packer *packer, void *bytes, size_t count);
void pack_u64(struct packer *packer, uint64_t *value);
void pack_u32(struct packer *packer, uint32_t *value);
void pack_uint(struct packer *packer, uint32_t *value, size_t bytes); /* 1 or 2 */
uint32_t pack_element_count(struct packer *packer, uint32_t *count, uint32_t max);

/* pack_text: pack a string, encoded as a length of one byte and its characters. `text` has
 * `capacity` bytes with the NUL. Only visible ASCII is accepted. Reading fills the rest of `text`
 * with zeros.
 * limits  capacity <= 256 */
void pack_text(struct packer *packer, char *text, size_t capacity);

#endif
