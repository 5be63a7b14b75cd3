/* fatbin: reads the images of a fatbin, as NVIDIA's fatbinary writes them. The format has no
 * documentation; the fields are those of files that fatbinary of CUDA 13.0 wrote in each of its
 * compression modes. */
#ifndef SKEP_TESTS_KERNELS_FATBIN_H
#define SKEP_TESTS_KERNELS_FATBIN_H

#include <stdbool.h>
#include <stddef.h>

struct fatbin_image {
    bool is_code;         /* machine code as an ELF file; false: PTX text */
    bool is_zstd;         /* compressed by zstd, which needs the driver of CUDA 12.4 */
    int architecture;     /* 80: sm_80 */
    unsigned char *bytes; /* without compression; the caller frees them */
    size_t byte_count;
};

/* fatbin_read_next: read the image at *offset and advance *offset to the next one; 0 is the first.
 * A fatbin that this does not understand fails the test.
 * returns  false after the last image */
bool fatbin_read_next(const unsigned char *fatbin, size_t *offset, struct fatbin_image *image);

#endif
