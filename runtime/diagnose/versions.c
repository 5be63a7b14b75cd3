#include "runtime/diagnose/versions.h"

#include "base/check.h"
#include "build_config.h"
#include "kernels/cpu_level.h"
#include "runtime/diagnose/commit.h"
#include "targets/ports/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* How a library reports its version. */
enum version_call {
    CALL_TEXT,           /* by the result of a function const char *name(void) */
    CALL_THREE_INTEGERS, /* by a function void name(int *major, int *minor, int *patch) */
    CALL_CONFIG          /* by a function int name(uint32_t what, void *text), as in PCRE2 */
};

static const struct {
    const char *name, *built, *symbol;
    enum version_call call;
} LIBRARIES[] = {
    {"libsodium", LIBSODIUM_VERSION, "sodium_version_string", CALL_TEXT},
    {"libzmq", LIBZMQ_VERSION, "zmq_version", CALL_THREE_INTEGERS},
    {"jansson", JANSSON_VERSION_TEXT, "jansson_version_str", CALL_TEXT},
    {"libfyaml", LIBFYAML_VERSION, "fy_library_version", CALL_TEXT},
    {"sqlite3", SQLITE3_VERSION, "sqlite3_libversion", CALL_TEXT},
    {"msgpack-c", MSGPACK_VERSION_TEXT, "msgpack_version", CALL_TEXT},
    {"pcre2", PCRE2_VERSION_TEXT, "pcre2_config_8", CALL_CONFIG},
    {"zlib", ZLIB_VERSION_TEXT, "zlibVersion", CALL_TEXT},
    {"libzstd", LIBZSTD_VERSION, "ZSTD_versionString", CALL_TEXT},
};
_Static_assert(ARRAY_COUNT(LIBRARIES) == VERSION_LIBRARIES, "one row for each library");

/* Reads the version of the library in use. The symbol is looked up at run time, because a library
 * that is linked statically exports none. */
static void read_used_version(const char *symbol, enum version_call call,
                              char used[static VERSION_BYTES]) {
    void *found = dlsym(RTLD_DEFAULT, symbol);
    used[0] = '\0';
    if (found == NULL) {
        return;
    }
    if (call == CALL_TEXT) {
        const char *(*text)(void);
        memcpy(&text, &found, sizeof text);
        snprintf(used, VERSION_BYTES, "%s", text());
        return;
    }
    if (call == CALL_CONFIG) {
        enum { CONFIG_VERSION = 11 }; /* PCRE2_CONFIG_VERSION: "10.42 2022-12-11" */
        int (*config)(uint32_t what, void *text);
        memcpy(&config, &found, sizeof config);
        if (config(CONFIG_VERSION, NULL) <= VERSION_BYTES) {
            (void)config(CONFIG_VERSION, used);
        }
        used[strcspn(used, " ")] = '\0';
        return;
    }
    void (*integers)(int *major, int *minor, int *patch);
    int major = 0;
    int minor = 0;
    int patch = 0;
    memcpy(&integers, &found, sizeof integers);
    integers(&major, &minor, &patch);
    snprintf(used, VERSION_BYTES, "%d.%d.%d", major, minor, patch);
}

/* Writes the version of NCCL. NCCL reports version 2.27.3 as the number 22703. */
static void read_nccl_version(char nccl[static VERSION_BYTES]) {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "ncclGetVersion") : NULL;
    int (*get)(int *version);
    int version = 0;
    nccl[0] = '\0';
    if (symbol == NULL) {
        return;
    }
    memcpy(&get, &symbol, sizeof get);
    if (get(&version) == 0) {
        snprintf(nccl, VERSION_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
    }
}

static void read_instruction_sets(struct version_report *report) {
    report->used_instruction_set = cpu_level_name(cpu_level_detect());
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level((enum cpu_level)level)) {
            ASSERT(report->instruction_set_count < VERSION_INSTRUCTION_SETS_MAX);
            report->instruction_sets[report->instruction_set_count++] =
                cpu_level_name((enum cpu_level)level);
        }
    }
}

void versions_read(struct version_report *report) {
    struct nvml nvml;
    *report = (struct version_report){.version = SKEP_VERSION,
                                      .commit = SKEP_COMMIT,
                                      .compiler = COMPILER_VERSION,
                                      .toolkit = CUDA_TOOLKIT_VERSION,
                                      .architectures = SKEP_CUDA ? CUDA_ARCHITECTURES : ""};
    if (nvml_open(&nvml)) {
        nvml_driver_version(&nvml, report->driver);
    }
    read_nccl_version(report->nccl);
    read_instruction_sets(report);
    for (int i = 0; i < VERSION_LIBRARIES; i++) {
        struct library_version *library = &report->libraries[i];
        library->name = LIBRARIES[i].name;
        library->built = LIBRARIES[i].built;
        read_used_version(LIBRARIES[i].symbol, LIBRARIES[i].call, library->used);
    }
}
