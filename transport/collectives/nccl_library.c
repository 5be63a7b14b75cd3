/* nccl_library: see nccl_library.h. */
#include "transport/collectives/nccl_library.h"

#include "base/text.h"
#include "targets/ports/shared_library.h"

#include <dlfcn.h>

static const char *const LIBRARY = "libnccl.so.2";

#define NAME_OF(name)                       #name
#define NCCL_SYMBOL(type, name, parameters) {NAME_OF(name), offsetof(struct nccl_library, name)},
static const struct library_symbol SYMBOLS[] = {NCCL_FUNCTIONS(NCCL_SYMBOL) NCCL_SYMBOL(
    , ncclGetUniqueId, ) NCCL_SYMBOL(, ncclCommInitRankConfig, )};

static enum status set_library_fault(const char *reason, const char *detail, struct fault *fault) {
    return fault_set(
        fault, STATUS_INPUT, LIBRARY,
        "install NCCL 2.19 or newer, add its folder to LD_LIBRARY_PATH, or use one rank",
        "several ranks on GPUs communicate through NCCL, %s%s%s", reason,
        detail[0] != '\0' ? ": " : "", detail);
}

/* Rejects a version of NCCL that is too old. NCCL reports version 2.18.5 as the number 21805. */
static enum status check_version(const struct nccl_library *library, struct fault *fault) {
    int version = 0;
    unsigned result = library->ncclGetVersion(&version);
    if (result != NCCL_SUCCESS) {
        return set_library_fault("but the installed library does not report its version",
                                 library->ncclGetErrorString(result), fault);
    }
    if (version >= NCCL_VERSION_MIN) {
        return OK;
    }
    char found[64];
    struct text text = text_over(found, sizeof found);
    text_add(&text, "version %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return set_library_fault("but the installed version is too old", found, fault);
}

static enum status check_library(void *opened, struct nccl_library *library, struct fault *fault) {
    const char *missing = library_find_functions(opened, SYMBOLS, ARRAY_COUNT(SYMBOLS), library);
    return missing != NULL
               ? set_library_fault("but the installed version lacks a function", missing, fault)
               : check_version(library, fault);
}

enum status nccl_library_find(struct nccl_library *library, struct fault *fault) {
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        return set_library_fault("which cannot be loaded", dlerror(), fault);
    }
    enum status status = check_library(opened, library, fault);
    if (status != OK) {
        dlclose(opened);
    }
    return status;
}
