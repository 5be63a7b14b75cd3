/* threads: the steps that the threads of a block take together: what the words of emulated.h, which
 * is C++, call. */
#ifndef SKEP_TESTS_EMULATED_THREADS_H
#define SKEP_TESTS_EMULATED_THREADS_H

#include "tests/emulated/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_index {
    unsigned x, y, z;
};

/* Of the thread that is running. */
extern struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

/* emulated_register: make a kernel known, before main(). */
void emulated_register(struct emulated_kernel *kernel);

/* The line is that of the kernel's source: all threads must come from the same one. */
void emulated_barrier(int line);
void emulated_warp_barrier(int line);

/* emulated_shuffle: the value that thread `lane` of this warp brought. */
uint32_t emulated_shuffle(uint32_t value, int lane, int line);

/* As mma_bf16() and load_matrices() of device.h. */
void emulated_mma(float d[4], const uint32_t a[4], const uint32_t b[2], int line);
void emulated_load_matrices(uint32_t r[4], const void *row, bool transposed, int line);

/* As copy_async() and so on: a copy lands when its thread waits for it, and not before. */
void emulated_copy(void *shared, const void *global, bool valid);
void emulated_copy_commit(void);
void emulated_copy_wait(int pending);

/* emulated_global: no word that takes an address of global memory is given one of shared memory. */
void emulated_global(const void *global);

/* Static shared memory of one declaration, between red zones. */
enum { EMULATED_RED_ZONE = 128 };
struct emulated_shared {
    unsigned char *bytes;
    size_t count;
    uint64_t block; /* that uses it now */
    struct emulated_shared *next;
};

/* emulated_shared_enter: a thread passes the declaration; the first one of a block finds garbage
 * there. */
void emulated_shared_enter(struct emulated_shared *shared, unsigned char *bytes, size_t count);

/* emulated_dynamic_shared: the launch's dynamic shared memory; what lies right behind it cannot be
 * touched. */
unsigned char *emulated_dynamic_shared(void);

/* emulated_fail: say what the kernel did, and where, and end the process. */
void emulated_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
