/* scratch: a folder for the files of one test program, removed with them at its end. */
#ifndef SKEP_TESTS_UNIT_TRAIN_SCRATCH_H
#define SKEP_TESTS_UNIT_TRAIN_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

/* scratch_open, scratch_close: group set-up and tear-down for cmocka. The working directory is the
 * folder in between. */
int scratch_open(void **state);
int scratch_close(void **state);

/* scratch_write: a file of these bytes; folders on its way are made. */
void scratch_write(const char *path, const void *bytes, size_t count);
void scratch_write_text(const char *path, const char *text);

/* scratch_write_tokens: `count` tokens of `width` bytes; token i is (first + i) % modulus. With a
 * `magic`, llm.c's header goes in front. */
struct scratch_tokens {
    int64_t first, count, modulus;
    int width;
    uint32_t magic, version;
};
void scratch_write_tokens(const char *path, const struct scratch_tokens *tokens);

#endif
