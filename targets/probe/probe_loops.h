/* probe_loops: loops that measure the arithmetic units, working in registers only. */
#ifndef SKEP_TARGETS_PROBE_PROBE_LOOPS_H
#define SKEP_TARGETS_PROBE_PROBE_LOOPS_H

#include <stdint.h>

/* One loop: `rounds` rounds over independent accumulators. It returns the sum so that the compiler
 * keeps the work. A multiply-add counts as two operations. */
struct probe_loop {
    float (*run)(int64_t rounds);
    double operations_per_round; /* floating-point operations */
};

/* probe_loop_f32, probe_loop_bf16: the loop for an instruction set named as in machine->isa.
 * Without bf16 instructions both return the same loop, because bf16 is then widened to f32. */
struct probe_loop probe_loop_f32(const char *isa);
struct probe_loop probe_loop_bf16(const char *isa);

#endif
