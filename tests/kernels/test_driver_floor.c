/* test_driver_floor: the oldest driver that this build accepts is the oldest that can run it.
 *
 * Each machine code in the binary, its compression, and each function of the driver that the
 * program requires need a version of CUDA. The newest of them has to be the version that
 * meson.build configures, cuda_driver_check_version compares with, and the README names.
 *
 * With two arguments, test_driver_floor FATBIN COUNT checks that CUDA 12.0 is enough for that file,
 * which has machine code for COUNT architectures. */
#include "base/check.h"
#include "targets/ports/cuda_driver.h"
#include "tests/kernels/fatbin.h"

#include "build_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    README_BYTES_MAX = 1 << 20,
    TYPEDEFS_BYTES_MAX = 4 << 20,
    FATBIN_BYTES_MAX = 16 << 20,
    VERSIONS_MAX = 16
};

/* FAMILIES is X(attention_backward) X(codec) ... of kernels/cuda/device/meson.build. */
#define X(name) extern const unsigned char cuda_##name##_fatbin[];
FAMILIES
#undef X
#define X(name) {#name, cuda_##name##_fatbin},
static const struct {
    const char *name;
    const unsigned char *fatbin;
} ALL_FAMILIES[] = {FAMILIES};
#undef X

#define NAME_OF(name) #name
/* The macros of cuda.h have replaced each name by the exported one. */
#define LISTED(name) NAME_OF(name),
static const char *const REQUIRED_SYMBOLS[] = {CUDA_DRIVER_FUNCTIONS(LISTED)};

/* The first driver of each version, by the release notes of the CUDA toolkits. */
static const struct {
    int version, branch;
} BRANCHES[] = {{12000, 525}, {12010, 530}, {12020, 535}, {12030, 545}, {12040, 550},
                {12050, 555}, {12060, 560}, {12080, 570}, {12090, 575}, {13000, 580}};

/* The newest version that anything needs, and what needs it. */
static int floor_version;
static char floor_reason[160];

static void need_version(int version, const char *what, const char *detail) {
    if (version > floor_version) {
        floor_version = version;
        snprintf(floor_reason, sizeof floor_reason, "%s%s", what, detail);
    }
}

/* The contents of a file, which the caller frees. */
static char *read_whole(const char *path, size_t bytes_max) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, bytes_max + 1);
    if (file == NULL || text == NULL) {
        fail_msg("cannot read %s", path);
    }
    size_t length = fread(text, 1, bytes_max, file);
    fclose(file);
    assert_true(length > 0 && length < bytes_max);
    return text;
}

/* ---- code ---- */

/* CUDA 13 marks all machine code as version 8 of its ABI, CUDA 12 only that of architectures that
 * older drivers do not know. That code names its compiler: "release 12.9". */
static int find_code_version(const struct fatbin_image *image) {
    static const char RELEASE[] = "Cuda compilation tools, release ";
    const unsigned char *bytes = image->bytes;
    assert_true(image->byte_count > 64 && memcmp(bytes, "\177ELF", 4) == 0);
    if (bytes[7] == 0x33 && bytes[8] == 7) {
        return 12000;
    }
    if (bytes[7] != 0x41 || bytes[8] != 8) {
        fail_msg("machine code for sm_%d with the unknown ABI 0x%02x, version %d: find out which "
                 "drivers load it",
                 image->architecture, bytes[7], bytes[8]);
    }
    const char *release = memmem(bytes, image->byte_count, RELEASE, sizeof RELEASE - 1);
    assert_non_null(release);
    return (int)strtol(release + sizeof RELEASE - 1, NULL, 10) * 1000;
}

/* Only GPUs without machine code use PTX. A driver of the same major version has to compile it,
 * though not the first one. */
static void check_ptx(const char *family, const struct fatbin_image *image, int cuda_major) {
    static const char VERSION[] = ".version ";
    const char *at = memmem(image->bytes, image->byte_count, VERSION, sizeof VERSION - 1);
    assert_non_null(at);
    long ptx_major = strtol(at + sizeof VERSION - 1, NULL, 10);
    if (ptx_major + 4 != cuda_major) { /* PTX 8 is of CUDA 12 */
        fail_msg("%s: PTX of version %ld, for drivers from CUDA %d on", family, ptx_major,
                 cuda_major);
    }
}

static int count_architectures(void) {
    int count = 1;
    for (const char *at = CUDA_ARCHITECTURES; *at != '\0'; at++) {
        count += *at == ',';
    }
    return count;
}

static void need_family(const char *name, const unsigned char *fatbin, int code_count,
                        int cuda_major) {
    struct fatbin_image image = {.byte_count = 0};
    size_t offset = 0;
    int codes = 0;
    int ptx = 0;
    while (fatbin_read_next(fatbin, &offset, &image)) {
        if (image.is_code) {
            need_version(find_code_version(&image), "machine code of ", name);
        } else {
            check_ptx(name, &image, cuda_major);
        }
        codes += image.is_code;
        ptx += !image.is_code;
        need_version(image.is_zstd ? 12040 : 0, "compression of ", name);
        free(image.bytes);
    }
    assert_int_equal(codes, code_count);
    assert_int_equal(ptx, 1);
}

/* ---- functions ---- */

static int compare_versions(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

/* The versions of CUDA that gave a function another type: those of PFN_cuMemAlloc_v2000 and
 * PFN_cuMemAlloc_v3020, the oldest first. */
static int find_versions(const char *typedefs, const char *name, size_t name_length,
                         int versions[static VERSIONS_MAX]) {
    char pattern[96];
    int count = 0;
    snprintf(pattern, sizeof pattern, "*PFN_%.*s_v", (int)name_length, name);
    for (const char *at = strstr(typedefs, pattern); at != NULL; at = strstr(at, pattern)) {
        char *end;
        at += strlen(pattern);
        int version = (int)strtol(at, &end, 10);
        bool is_known = count > 0 && versions[count - 1] == version;
        if (*end == ')' && !is_known) {
            assert_true(count < VERSIONS_MAX);
            versions[count++] = version;
        }
    }
    qsort(versions, (size_t)count, sizeof versions[0], compare_versions);
    return count;
}

/* cuMemAlloc_v2 is the second version of cuMemAlloc. */
static void need_symbol(const char *typedefs, const char *symbol) {
    const char *suffix = strstr(symbol, "_v");
    size_t name_length = suffix != NULL ? (size_t)(suffix - symbol) : strlen(symbol);
    int index = suffix != NULL ? (int)strtol(suffix + 2, NULL, 10) - 1 : 0;
    int versions[VERSIONS_MAX];
    int count = find_versions(typedefs, symbol, name_length, versions);
    if (index >= count) {
        fail_msg("cudaTypedefs.h does not have %s", symbol);
    }
    need_version(versions[index], "", symbol);
}

static void need_all_symbols(void) {
    char *typedefs = read_whole(TOOLKIT "/include/cudaTypedefs.h", TYPEDEFS_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_COUNT(REQUIRED_SYMBOLS); i++) {
        need_symbol(typedefs, REQUIRED_SYMBOLS[i]);
    }
    free(typedefs);
}

/* Whatever compiled the code: a build with gpu_ptxas has no other functions. */
static void the_functions_are_in_every_driver_of_cuda_12(void **state) {
    (void)state;
    floor_version = 0;
    need_all_symbols();
    if (floor_version > 12000) {
        fail_msg("%s is new in CUDA %d.%d: call its first version, or make it optional",
                 floor_reason, floor_version / 1000, floor_version % 1000 / 10);
    }
}

static void the_floor_is_what_code_and_functions_need(void **state) {
    (void)state;
    floor_version = 0;
    for (size_t i = 0; i < ARRAY_COUNT(ALL_FAMILIES); i++) {
        need_family(ALL_FAMILIES[i].name, ALL_FAMILIES[i].fatbin, count_architectures(),
                    CUDA_DRIVER_VERSION_MIN / 1000);
    }
    need_all_symbols();
    printf("drivers need CUDA %d.%d: %s\n", floor_version / 1000, floor_version % 1000 / 10,
           floor_reason);
    assert_int_equal(floor_version, CUDA_DRIVER_VERSION_MIN);
}

/* ---- a file ---- */

static const char *file_path;
static int file_code_count;

static void cuda_12_0_is_enough_for_the_file(void **state) {
    (void)state;
    char *fatbin = read_whole(file_path, FATBIN_BYTES_MAX);
    floor_version = 0;
    need_family("the file", (const unsigned char *)fatbin, file_code_count, 12);
    assert_int_equal(floor_version, 12000);
    free(fatbin);
}

/* A symbol's suffix counts versions: found by hand in cuda.h and cudaTypedefs.h. */
static void versions_of_symbols_are_those_of_the_toolkit(void **state) {
    (void)state;
    static const struct {
        const char *symbol;
        int version;
    } CASES[] = {{"cuInit", 2000},
                 {"cuMemAlloc_v2", 3020},
                 {"cuEventElapsedTime", 2000},
                 {"cuEventElapsedTime_v2", 12080},
                 {"cuFuncLoad", 12040},
                 {"cuLibraryLoadData", 12000}};
    char *typedefs = read_whole(TOOLKIT "/include/cudaTypedefs.h", TYPEDEFS_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        floor_version = 0;
        need_symbol(typedefs, CASES[i].symbol);
        assert_int_equal(floor_version, CASES[i].version);
    }
    free(typedefs);
}

static void the_readme_names_the_branch_of_the_floor(void **state) {
    (void)state;
    int branch = 0;
    char words[96];
    for (size_t i = 0; i < ARRAY_COUNT(BRANCHES); i++) {
        branch = BRANCHES[i].version == CUDA_DRIVER_VERSION_MIN ? BRANCHES[i].branch : branch;
    }
    assert_int_equal(branch, CUDA_DRIVER_BRANCH_MIN);
    snprintf(words, sizeof words,
             HAS_GPU_PTXAS ? "%d or newer in a build with [`gpu_ptxas`](docs/CUDA.md"
                           : "NVIDIA GPUs, driver %d or newer",
             branch);
    char *readme = read_whole(README, README_BYTES_MAX);
    if (strstr(readme, words) == NULL) {
        fail_msg("README.md lacks \"%s\"", words);
    }
    free(readme);
}

int main(int argc, char **argv) {
    const struct CMUnitTest of_build[] = {
        cmocka_unit_test(versions_of_symbols_are_those_of_the_toolkit),
        cmocka_unit_test(the_functions_are_in_every_driver_of_cuda_12),
        cmocka_unit_test(the_floor_is_what_code_and_functions_need),
        cmocka_unit_test(the_readme_names_the_branch_of_the_floor),
    };
    const struct CMUnitTest of_file[] = {cmocka_unit_test(cuda_12_0_is_enough_for_the_file)};
    if (argc == 3) {
        file_path = argv[1];
        file_code_count = (int)strtol(argv[2], NULL, 10);
        return cmocka_run_group_tests(of_file, NULL, NULL);
    }
    return cmocka_run_group_tests(of_build, NULL, NULL);
}
