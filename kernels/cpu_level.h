/* cpu_level: which instruction sets the kernels may use on this machine. */
#ifndef SKEP_KERNELS_CPU_LEVEL_H
#define SKEP_KERNELS_CPU_LEVEL_H

#include <stdbool.h>

/* Weakest to strongest within one architecture; a level includes all weaker ones of its own
 * architecture. CPU_NEON stands alone: it follows CPU_SCALAR on aarch64. */
enum cpu_level {
    CPU_SCALAR,
    CPU_AVX2,        /* avx2, fma */
    CPU_AVX512,      /* avx512 f, bw, dq, vl */
    CPU_AVX512_BF16, /* avx512_bf16 */
    CPU_NEON,        /* aarch64's baseline */
    CPU_LEVEL_COUNT
};

/* cpu_level_name: "scalar", "avx2", "avx512", "avx512_bf16", "neon". */
const char *cpu_level_name(enum cpu_level level);

/* cpu_level_parse: the level of that name. false when there is none; *level is then untouched. */
bool cpu_level_parse(const char *name, enum cpu_level *level);

/* cpu_level_runs: whether this machine, and this build, can run kernels of `level`. */
bool cpu_level_runs(enum cpu_level level);

/* cpu_level_detect: the strongest level of this machine, lowered to the one that the environment
 * variable SKEP_CPU names. A name that is unknown or too strong is logged and passed over. */
enum cpu_level cpu_level_detect(void);

#endif
