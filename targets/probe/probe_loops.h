/* probe_loops: loops that keep the arithmetic units busy from registers alone. */
#ifndef SKEP_TARGETS_PROBE_PROBE_LOOPS_H
#define SKEP_TARGETS_PROBE_PROBE_LOOPS_H

#include <stdint.h>

/* One loop: `turns` rounds over independent accumulators; the sum is given back so that nothing is
 * optimised away. Multiply-adds count as two operations. */
struct probe_loop {
    float (*run)(int64_t turns);
    double operations_per_turn;
};

/* probe_loop_f32, probe_loop_bf16: the loop for an instruction set of this machine, named as in
 * machine->isa. Where no instruction multiplies bf16, the second is the first: bf16 is widened. */
struct probe_loop probe_loop_f32(const char *isa);
struct probe_loop probe_loop_bf16(const char *isa);

#endif
