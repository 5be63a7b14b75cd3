#include "tests/emulated/fiber.h"

#include <stdint.h>

#if defined(__x86_64__) && !defined(EMULATED_UCONTEXT)

/* What the calling convention lets a callee change, the caller has saved: six registers and the
 * stack pointer are all of a fiber. */
__asm__(".text\n"
        ".type fiber_switch, @function\n"
        ".globl fiber_switch\n"
        "fiber_switch:\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch, . - fiber_switch\n");

enum { SAVED_REGISTERS = 6 };

void fiber_start(struct fiber *fiber, void *stack, size_t stack_bytes, void (*entry)(void)) {
    /* From the top: a return address that nobody uses, which leaves the stack as a call would; the
     * entry, which the first switch returns to; and its registers. */
    uintptr_t *top = (uintptr_t *)(void *)((char *)stack + stack_bytes);
    top[-1] = 0;
    top[-2] = (uintptr_t)entry;
    for (int i = 0; i < SAVED_REGISTERS; i++) {
        top[-3 - i] = 0;
    }
    fiber->stack_pointer = &top[-2 - SAVED_REGISTERS];
}

#else

void fiber_start(struct fiber *fiber, void *stack, size_t stack_bytes, void (*entry)(void)) {
    (void)getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stack;
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, entry, 0);
}

void fiber_switch(struct fiber *from, struct fiber *to) {
    (void)swapcontext(&from->context, &to->context);
}

#endif
