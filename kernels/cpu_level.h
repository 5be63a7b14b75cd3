/* cpu_level: the instruction sets that kernels may use on this machine. */
#ifndef SKEP_KERNELS_CPU_LEVEL_H
#define SKEP_KERNELS_CPU_LEVEL_H

#include <stdbool.h>

/* The levels of one architecture are in ascending order, and each includes all lower ones. On
 * aarch64 there are only CPU_SCALAR and CPU_NEON. */
enum cpu_level {
    CPU_SCALAR,
    CPU_AVX2,        /* AVX2 and FMA */
    CPU_AVX512,      /* AVX-512 F, BW, DQ and VL */
    CPU_AVX512_BF16, /* CPU_AVX512 and AVX512_BF16 */
    CPU_NEON,        /* the baseline of aarch64 */
    CPU_LEVEL_COUNT
};

/* cpu_level_name: "scalar", "avx2", "avx512", "avx512_bf16" or "neon". */
const char *cpu_level_name(enum cpu_level level);

/* cpu_level_parse: set *level to the level called `name`. Return false if there is none, and leave
 * *level unchanged. */
bool cpu_level_parse(const char *name, enum cpu_level *level);

/* cpu_supports_level: whether this build has kernels for `level` and this CPU can execute them. */
bool cpu_supports_level(enum cpu_level level);

/* OVERLAY_X86(family, kernels, level), OVERLAY_NEON: in a build for that architecture, replace the
 * plain functions in *kernels by the family's variants up to `level`. */
#if defined(__x86_64__)
#define OVERLAY_X86(family, kernels, level)                                                        \
    do {                                                                                           \
        if ((level) >= CPU_AVX2) {                                                                 \
            family##_kernels_init_avx2(kernels);                                                   \
        }                                                                                          \
        if ((level) >= CPU_AVX512) {                                                               \
            family##_kernels_init_avx512(kernels);                                                 \
        }                                                                                          \
    } while (0)
#else
#define OVERLAY_X86(family, kernels, level) (void)(level)
#endif
#if defined(__aarch64__)
#define OVERLAY_NEON(family, kernels, level)                                                       \
    do {                                                                                           \
        if ((level) == CPU_NEON) {                                                                 \
            family##_kernels_init_neon(kernels);                                                   \
        }                                                                                          \
    } while (0)
#else
#define OVERLAY_NEON(family, kernels, level) (void)(level)
#endif

/* cpu_level_detect: the highest level that this machine supports, or the level given by the
 * environment variable SKEP_CPU. An unknown or unsupported level in SKEP_CPU is logged and
 * ignored. */
enum cpu_level cpu_level_detect(void);

#endif
