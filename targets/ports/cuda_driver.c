#include "targets/ports/cuda_driver.h"

#include "targets/ports/driver_remedy.h"
#include "targets/ports/nvml.h"
#include "targets/ports/shared_library.h"

#include "build_config.h"

#include <dlfcn.h>
#include <stdio.h>

static const char *const LIBRARY = "libcuda.so.1";

#define NAME_OF(name)            #name
#define CUDA_DRIVER_SYMBOL(name) {NAME_OF(name), offsetof(struct cuda_driver, name)},
static const struct library_symbol SYMBOLS[] = {CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_SYMBOL)};
static const struct library_symbol OPTIONAL_SYMBOLS[] = {
    CUDA_DRIVER_OPTIONAL_FUNCTIONS(CUDA_DRIVER_SYMBOL)};
static const struct library_symbol VERSION_SYMBOL[] = {CUDA_DRIVER_SYMBOL(cuDriverGetVersion)};

static enum status set_driver_fault(const char *reason, const char *detail, struct fault *fault) {
    char how[DRIVER_REMEDY_BYTES];
    char remedy[sizeof fault->remedy];
    driver_remedy_read(how);
    snprintf(remedy, sizeof remedy, "%s, or use a cpu target", how);
    return fault_set(fault, STATUS_INPUT, LIBRARY, remedy, "%s%s%s", reason,
                     detail[0] != 0 ? ": " : "", detail);
}

enum status cuda_driver_check_version(int version, struct fault *fault) {
    struct nvml nvml;
    char release[32] = "";
    char reason[160];
    if (version >= CUDA_DRIVER_VERSION_MIN) {
        return OK;
    }
    if (nvml_open(&nvml)) {
        nvml_driver_version(&nvml, release);
    }
    snprintf(reason, sizeof reason,
             "NVIDIA's driver %s%s(CUDA %d.%d) is too old: this build needs %d (CUDA %d.%d)",
             release, release[0] != '\0' ? " " : "", version / 1000, version % 1000 / 10,
             CUDA_DRIVER_BRANCH_MIN, CUDA_DRIVER_VERSION_MIN / 1000,
             CUDA_DRIVER_VERSION_MIN % 1000 / 10);
    return set_driver_fault(reason, "", fault);
}

static enum status initialize_driver(const struct cuda_driver *driver, struct fault *fault) {
    int devices = 0;
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuDeviceGetCount(&devices);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_fault(driver, result, STATUS_INPUT, LIBRARY, "initialize NVIDIA's driver",
                          fault);
    }
    return devices > 0 ? OK : set_driver_fault("the driver found no device", "", fault);
}

/* Before any other function: what an old driver lacks, or cannot do, is of no interest. */
static enum status check_version(void *library, struct cuda_driver *driver, struct fault *fault) {
    int version = 0;
    if (library_find_functions(library, VERSION_SYMBOL, 1, driver) != NULL ||
        driver->cuDriverGetVersion(&version) != CUDA_SUCCESS) {
        return set_driver_fault("NVIDIA's driver does not report its version", "", fault);
    }
    return cuda_driver_check_version(version, fault);
}

static enum status find_functions(void *library, struct cuda_driver *driver, struct fault *fault) {
    const char *missing = library_find_functions(library, SYMBOLS, ARRAY_COUNT(SYMBOLS), driver);
    if (missing != NULL) {
        return set_driver_fault("the installed driver lacks", missing, fault);
    }
    for (size_t i = 0; i < ARRAY_COUNT(OPTIONAL_SYMBOLS); i++) {
        (void)library_find_functions(library, &OPTIONAL_SYMBOLS[i], 1, driver);
    }
    return OK;
}

static enum status open_library(void *library, struct cuda_driver *driver, struct fault *fault) {
    struct cuda_driver found = {.cuFuncLoad = NULL};
    TRY(check_version(library, &found, fault));
    TRY(find_functions(library, &found, fault));
    TRY(initialize_driver(&found, fault));
    *driver = found;
    return OK;
}

enum status cuda_driver_open(struct cuda_driver *driver, struct fault *fault) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return set_driver_fault("NVIDIA's driver is not installed", dlerror(), fault);
    }
    enum status status = open_library(library, driver, fault);
    if (status != OK) {
        dlclose(library);
    }
    return status;
}

bool cuda_driver_is_present(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

/* The remedy for an error code; NULL when the code alone does not determine one. */
static const char *find_remedy(CUresult result) {
    switch ((int)result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "free device memory, lower limits.device or use a smaller batch";
    case CUDA_ERROR_NO_DEVICE:
        return "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use a cpu target";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "another process uses the device exclusively (compute mode): end that process, or "
               "use a different device";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "the driver's library and kernel module have different versions: restart the "
               "machine";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "start nvidia-fabricmanager";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
        return "the device's memory failed: reset or replace it, then resume from the last "
               "snapshot";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
        return "resume from the last snapshot; if it fails again, start with -v, which tests each "
               "instruction before the first step: the cause is a bug or a failing device";
    case CUDA_ERROR_LAUNCH_TIMEOUT:
        return "the kernel ran longer than the display watchdog allows: use a device without a "
               "display";
    default:
        return NULL;
    }
}

enum status cuda_fault(const struct cuda_driver *driver, CUresult result, enum status status,
                       const char *subject, const char *action, struct fault *fault) {
    const char *name = "an unknown error";
    const char *text = "";
    (void)driver->cuGetErrorName(result, &name);
    (void)driver->cuGetErrorString(result, &text);
    return fault_set(fault, status, subject, find_remedy(result), "cannot %s: %s, %s", action, name,
                     text);
}
