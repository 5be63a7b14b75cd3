#include "tests/kernels/fatbin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

enum { KIND_PTX = 1, KIND_CODE = 2, FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };

struct file_header {
    uint32_t magic; /* 0xba55ed50 */
    uint16_t version, header_bytes;
    uint64_t byte_count; /* of all images with their headers */
};

struct image_header {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t byte_count; /* of the image in the file */
    uint32_t compressed_bytes, options_offset;
    uint16_t minor, major;
    uint32_t architecture, names[2];
    uint64_t flags, unused_bytes;
    uint64_t plain_bytes; /* of a compressed image */
};
_Static_assert(sizeof(struct image_header) == 64, "");

/* A length of 15 goes on in bytes, up to one below 255. */
static size_t read_length(const unsigned char **in, const unsigned char *end, size_t length) {
    unsigned char byte = 255;
    for (bool more = length == 15; more && *in < end && byte == 255;) {
        byte = *(*in)++;
        length += byte;
    }
    return length;
}

/* A block of LZ4: runs of literal bytes, each followed by a copy from the output so far. */
static size_t decode_lz4(const unsigned char *in, size_t in_bytes, unsigned char *out,
                         size_t capacity) {
    const unsigned char *end = in + in_bytes;
    size_t count = 0;
    while (in < end) {
        unsigned token = *in++;
        size_t literals = read_length(&in, end, token >> 4);
        assert_true(literals <= (size_t)(end - in) && literals <= capacity - count);
        memcpy(out + count, in, literals);
        in += literals;
        count += literals;
        if (in == end) {
            break; /* the last run has no copy */
        }
        assert_true(end - in >= 2);
        size_t distance = in[0] | (size_t)in[1] << 8;
        in += 2;
        size_t length = read_length(&in, end, token & 15) + 4;
        assert_true(distance > 0 && distance <= count && length <= capacity - count);
        for (size_t i = 0; i < length; i++, count++) {
            out[count] = out[count - distance];
        }
    }
    return count;
}

static void decode(const unsigned char *data, const struct image_header *header,
                   struct fatbin_image *image) {
    bool is_lz4 = (header->flags & FLAG_LZ4) != 0;
    image->is_zstd = (header->flags & FLAG_ZSTD) != 0;
    bool is_plain = !is_lz4 && !image->is_zstd;
    image->byte_count = is_plain ? header->byte_count : header->plain_bytes;
    assert_true(image->byte_count > 0 && image->byte_count < 1 << 30);
    assert_true(is_plain || header->compressed_bytes <= header->byte_count);
    image->bytes = malloc(image->byte_count);
    assert_non_null(image->bytes);
    size_t count = image->byte_count;
    if (is_plain) {
        memcpy(image->bytes, data, count);
    } else if (is_lz4) {
        count = decode_lz4(data, header->compressed_bytes, image->bytes, image->byte_count);
    } else {
        count = ZSTD_decompress(image->bytes, image->byte_count, data, header->compressed_bytes);
    }
    assert_int_equal(count, image->byte_count);
}

bool fatbin_read_next(const unsigned char *fatbin, size_t *offset, struct fatbin_image *image) {
    struct file_header file;
    struct image_header header;
    memcpy(&file, fatbin, sizeof file);
    assert_int_equal(file.magic, 0xba55ed50);
    assert_int_equal(file.version, 1);
    *offset = *offset == 0 ? file.header_bytes : *offset;
    if (*offset >= file.header_bytes + file.byte_count) {
        return false;
    }
    memcpy(&header, fatbin + *offset, sizeof header);
    assert_int_equal(header.version, 0x101);
    assert_true(header.kind == KIND_PTX || header.kind == KIND_CODE);
    image->is_code = header.kind == KIND_CODE;
    image->architecture = (int)header.architecture;
    decode(fatbin + *offset + header.header_bytes, &header, image);
    *offset += header.header_bytes + header.byte_count;
    return true;
}
