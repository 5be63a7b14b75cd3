/* cpu_level: the instruction sets that kernels may use on this machine. */
#ifndef SKEP_KERNELS_CPU_LEVEL_H
#define SKEP_KERNELS_CPU_LEVEL_H

#include <stdbool.h>

/* In ascending order within one architecture; a level includes all lower ones of its architecture.
 * On aarch64 there are only CPU_SCALAR and CPU_NEON. */
enum cpu_level {
    CPU_SCALAR,
    CPU_AVX2,        /* avx2, fma */
    CPU_AVX512,      /* avx512 f, bw, dq, vl */
    CPU_AVX512_BF16, /* avx512_bf16 */
    CPU_NEON,        /* aarch64's baseline */
    CPU_LEVEL_COUNT
};

/* cpu_level_name: "scalar", "avx2", "avx512", "avx512_bf16" or "neon". */
const char *cpu_level_name(enum cpu_level level);

/* cpu_level_parse: the level with that name. false when there is none; *level is then unchanged. */
bool cpu_level_parse(const char *name, enum cpu_level *level);

/* cpu_level_runs: whether this machine, and this build, can run kernels of `level`. */
bool cpu_level_runs(enum cpu_level level);

/* cpu_level_detect: the highest level of this machine, or the lower one that the environment
 * variable SKEP_CPU names. An unknown or too high level in SKEP_CPU is logged and ignored. */
enum cpu_level cpu_level_detect(void);

#endif
