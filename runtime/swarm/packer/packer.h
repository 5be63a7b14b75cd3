/* packer: serializes a struct as one MessagePack map. One function passes over the fields, and
 * counts, writes, hashes, reads or compares them, so that all five always agree.
 *
 *     numbers              unsigned integers
 *     fp64                 bin of 8 bytes, little-endian
 *     text                 str
 *     hashes, keys, bulk   bin
 *     lists                one bin of all elements; numbers in it are little-endian
 *     runs                 one bin of {rows 2, number} for each run of rows with equal numbers
 *     nested structs       map
 *
 * Each content has exactly one encoding: the fields in the order of the function, each number in
 * its shortest form. A reader encodes what it has read and compares the bytes.
 *
 * Bytes that are read may come from any source: the first error ends the reading, and later fields
 * read as zero. Only reading changes the fields. No function allocates. */
#ifndef SKEP_SWARM_PACKER_PACKER_H
#define SKEP_SWARM_PACKER_PACKER_H

#include "base/check.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PACKER_NAME_BYTES_MAX = 31, /* Maximum length of a field's name. */
    /* Maximum size of a field's name and header, without the content of its text or bin. */
    PACKER_FIELD_BYTES_MAX = 1 + PACKER_NAME_BYTES_MAX + 9,
    PACKER_MAP_BYTES_MAX = 3, /* Size of the header of a map with at most 65535 fields. */
};

/* What a pass does with the encoding of the fields: add up its size, write it, add it to a hash,
 * read the fields from it, or compare it with bytes. */
enum packer_mode { PACKER_COUNT, PACKER_WRITE, PACKER_HASH, PACKER_READ, PACKER_COMPARE };

struct packer_token;

/* The state of one pass over an object. Only the packer's own files change it. */
struct packer {
    enum packer_mode mode;
    uint8_t *bytes;                /* mode WRITE: output; COMPARE: the bytes that were read */
    size_t capacity;               /* size of `bytes` */
    size_t offset;                 /* number of bytes counted, written or compared so far */
    struct hash_state *hash_state; /* mode HASH: the bytes are added to this hash */
    uint32_t field_count;          /* Number of fields of the current map. */
    /* mode READ: next token, and end of the tokens */
    const struct packer_token *token, *tokens_end;
    const uint8_t *bin;    /* mode READ: what is left of the current bin */
    size_t bin_bytes_left; /* mode READ: number of bytes left in the current bin */
    const char *error;     /* Text of the first error, or NULL. */
};

/* A struct and the function that packs its fields. */
struct packed_object {
    void (*pack_fields)(struct packer *packer, void *object);
    void *object; /* the struct; argument of pack_fields */
};

/* packer_count_bytes: returns the length of an object's encoding.
 * packer_write: write the encoding. Returns its length. The caller ensures that the encoding fits
 * `capacity` and that readers accept the object.
 * packer_hash: add the encoding to a hash. */
size_t packer_count_bytes(struct packed_object object);
size_t packer_write(struct packed_object object, uint8_t *bytes, size_t capacity);
void packer_hash(struct packed_object object, struct hash_state *state);

/* packer_read: read an object from exactly `count` bytes.
 * packer_read_next: read the first of several consecutive objects, and set *used to its length.
 * memory  bulk fields point into `bytes`
 * errors  a text that describes the first error, or NULL; *used is undefined after an error */
MUST_CHECK const char *packer_read(struct packed_object object, const uint8_t *bytes, size_t count);
MUST_CHECK const char *packer_read_next(struct packed_object object, const uint8_t *bytes,
                                        size_t count, size_t *used);

/* packer_fail: record an error, unless an earlier one was recorded.
 * packer_is_reading: whether this pass reads, and so changes the fields. */
void packer_fail(struct packer *packer, const char *error);
bool packer_is_reading(const struct packer *packer);

/* Functions that pack one field: count, write, hash, read or compare it, as the mode says. `name`
 * is a constant of at most PACKER_NAME_BYTES_MAX characters; NULL for an element of
 * pack_array_header.
 * pack_element_count: pack a count; a count above `max` is an error, and is read as 0. Returns the
 * count, or 0 after an error.
 * pack_text: `text` has `capacity` bytes with the NUL. Only visible ASCII is accepted. Reading
 * fills the rest of `text` with zeros.
 * pack_array_header: begin an array of `count` elements.
 * pack_map: pack a nested object. */
void pack_u64(struct packer *packer, const char *name, uint64_t *value);
void pack_u32(struct packer *packer, const char *name, uint32_t *value);
void pack_f64(struct packer *packer, const char *name, double *value);
uint32_t pack_element_count(struct packer *packer, const char *name, uint32_t *count, uint32_t max);
void pack_bytes(struct packer *packer, const char *name, void *bytes, size_t count);
void pack_text(struct packer *packer, const char *name, char *text, size_t capacity);
void pack_array_header(struct packer *packer, const char *name, uint32_t count);
void pack_map(struct packer *packer, const char *name, struct packed_object object);

/* pack_bin_header: begin a bin of `count` bytes. The next calls pack its content:
 * pack_bin_part: pack the next `count` bytes of the bin.
 * pack_bin_number: pack a little-endian number of `count` bytes. Returns the number that was read,
 * or `value` in the other modes.
 * pack_variable_bin_header: begin a bin of *count elements of `element_bytes` bytes. Reading sets
 * *count; more than `max` elements are an error. Returns *count, which is 0 after an error. */
void pack_bin_header(struct packer *packer, const char *name, size_t count);
void pack_bin_part(struct packer *packer, void *bytes, size_t count);
uint64_t pack_bin_number(struct packer *packer, uint64_t value, size_t count);
uint32_t pack_variable_bin_header(struct packer *packer, const char *name, uint32_t *count,
                                  uint32_t max, size_t element_bytes);

/* pack_bulk_header: pack only the header of a bin, which must be the last field. When writing, the
 * caller appends the *count bytes of its content to the encoding. Reading sets *bytes and
 * *count. */
void pack_bulk_header(struct packer *packer, const char *name, const uint8_t **bytes,
                      size_t *count);

/* Rows of a table: `count` structs of `stride` bytes. */
struct packer_rows {
    void *first;    /* the first row */
    size_t stride;  /* size of a row in bytes */
    uint32_t count; /* number of rows */
    /* [(count + 63) / 64]: one bit for each row; rows whose bit is 0 are skipped. NULL: no row
     * is skipped. */
    const uint64_t *selected;
};

/* Functions that pack one field of all selected rows, as a bin or as runs. `offset` is the field's
 * offset in the struct; a u32 field is packed in `bytes` bytes: 1, 2 or 4.
 * limits  each number fits the bytes it is packed in; runs have at most 65535 rows */
void pack_u64_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset);
void pack_u32_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset, size_t bytes);
void pack_f64_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset);
void pack_bytes_column(struct packer *packer, const char *name, struct packer_rows rows,
                       size_t offset, size_t bytes);
void pack_u64_runs(struct packer *packer, const char *name, struct packer_rows rows, size_t offset);
void pack_u32_runs(struct packer *packer, const char *name, struct packer_rows rows, size_t offset,
                   size_t bytes);

/* pack_row_set: pack which of `count` rows are selected, as a bin of {first row 2, rows 2} for each
 * stretch of selected rows. `selected` [(count + 63) / 64] has one bit for each row.
 * limits  count <= 65535 */
void pack_row_set(struct packer *packer, const char *name, uint64_t *selected, uint32_t count);

#endif
