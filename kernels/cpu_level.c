#include "kernels/cpu_level.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const char *const level_names[CPU_LEVEL_COUNT] = {
    [CPU_SCALAR] = "scalar",           [CPU_AVX2] = "avx2", [CPU_AVX512] = "avx512",
    [CPU_AVX512_BF16] = "avx512_bf16", [CPU_NEON] = "neon",
};

const char *cpu_level_name(enum cpu_level level) {
    ASSERT(level < CPU_LEVEL_COUNT);
    return level_names[level];
}

bool cpu_level_parse(const char *name, enum cpu_level *level) {
    for (int i = 0; i < CPU_LEVEL_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum cpu_level)i;
            return true;
        }
    }
    return false;
}

#if defined(__x86_64__)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool cpu_supports_level(enum cpu_level level) {
    switch (level) {
    case CPU_SCALAR:
        return true;
    case CPU_AVX2:
        return has_avx2();
    case CPU_AVX512:
        return has_avx512();
    case CPU_AVX512_BF16:
        return has_avx512() && __builtin_cpu_supports("avx512bf16");
    case CPU_NEON:
    case CPU_LEVEL_COUNT:
        break;
    }
    return false;
}
#elif defined(__aarch64__)
bool cpu_supports_level(enum cpu_level level) {
    return level == CPU_SCALAR || level == CPU_NEON;
}
#else
bool cpu_supports_level(enum cpu_level level) {
    return level == CPU_SCALAR;
}
#endif

enum cpu_level cpu_level_detect(void) {
    enum cpu_level level = CPU_LEVEL_COUNT - 1;
    while (!cpu_supports_level(level)) {
        level--;
    }
    const char *requested_name = getenv("SKEP_CPU");
    if (requested_name == NULL) {
        return level;
    }
    enum cpu_level requested_level;
    if (!cpu_level_parse(requested_name, &requested_level) ||
        !cpu_supports_level(requested_level)) {
        log_line(LOG_WARNING, "SKEP_CPU=%s: not a CPU level that this machine supports; using %s",
                 requested_name, cpu_level_name(level));
        return level;
    }
    return requested_level;
}
