/* pack: fixed little-endian forms: one walk over the fields counts, writes, reads or hashes them,
 * so that the four cannot come apart.
 *
 * A walk that reads is over bytes of anybody: the first thing that is wrong ends it, and every
 * later field reads as zero. Only a walk that reads changes the fields. */
#ifndef SKEP_SWARM_LEDGER_PACKER_H
#define SKEP_SWARM_LEDGER_PACKER_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packer_mode { PACKER_COUNT, PACKER_WRITE, PACKER_READ, PACKER_HASH };

struct packer {
    enum packer_mode direction;
    uint8_t *bytes;
    size_t capacity, at; /* at: the bytes that went by */
    struct hash_state *hashing;
    const char *wrong; /* the first thing, in words; NULL: none */
};

struct packer packer_counting(void);
struct packer packer_writing(uint8_t *bytes, size_t capacity);
struct packer packer_reading(const uint8_t *bytes, size_t count);
struct packer packer_hashing(struct hash_state *state);

/* packer_fail: end the walk because of this, unless something was wrong before. */
void packer_fail(struct packer *pack, const char *wrong);

/* packer_skip_rest: pass over all bytes that are left to read; how many there were. */
size_t packer_skip_rest(struct packer *pack);

/* packer_end: what was wrong with bytes that were read, else NULL: bytes left over are wrong
 * too. */
const char *packer_end(struct packer *pack);

/* The fields. A number that its bytes do not hold is the writer's bug.
 * packer_count: a count of 4 bytes, refused above `most`; gives it, or 0 when it was. */
void packer_bytes(struct packer *pack, void *bytes, size_t count);
void packer_u64(struct packer *pack, uint64_t *value);
void packer_u32(struct packer *pack, uint32_t *value);
void packer_uint(struct packer *pack, uint32_t *value, size_t bytes); /* 1 or 2 */
uint32_t packer_count(struct packer *pack, uint32_t *count, uint32_t most);

/* packer_text: a string in `text` of `capacity` bytes with its NUL, as a length of one byte and its
 * characters. Only visible ASCII is let in; what follows the string is set to zero.
 * limits  capacity <= 256 */
void packer_text(struct packer *pack, char *text, size_t capacity);

#endif
