/* fiber: threads of execution that are switched by hand, a few nanoseconds each. */
#ifndef SKEP_TESTS_EMULATED_FIBER_H
#define SKEP_TESTS_EMULATED_FIBER_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(EMULATED_UCONTEXT)
struct fiber {
    void *stack_pointer;
};
#else
#include <ucontext.h>
struct fiber {
    ucontext_t context;
};
#endif

/* fiber_start: at the first switch to it, `entry` runs on the stack; it must never return. */
void fiber_start(struct fiber *fiber, void *stack, size_t stack_bytes, void (*entry)(void));

/* fiber_switch: keep where the caller stands in *from, and go on where *to stood. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
