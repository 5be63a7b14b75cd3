/* futex: lets the threads of one process sleep in the kernel until a word of memory changes. */
#ifndef SKEP_TARGETS_OS_FUTEX_H
#define SKEP_TARGETS_OS_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* futex_pause: a delay of 15 to 50 ns between two polls of a word. */
static inline void futex_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* futex_sleep: sleep until woken if *word is still `value`. May also return without being woken. */
static inline void futex_sleep(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* futex_wake: wake all threads that sleep on the word. */
static inline void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
