/* futex: waiting for a word of memory to change: threads of one process sleep in the kernel. */
#ifndef SKEP_TARGETS_OS_FUTEX_H
#define SKEP_TARGETS_OS_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* futex_pause: a breath between two looks at a word, 15 to 50 ns. */
static inline void futex_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* futex_sleep: sleep until woken if *word is still `value`; may come back without cause. */
static inline void futex_sleep(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* futex_wake: wake all threads that sleep on the word. */
static inline void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
