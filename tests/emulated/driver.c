/* driver: the emulated device's entrance: devices, contexts, errors, and what tests ask of it. */
#include "tests/emulated/driver_parts.h"

#include "base/random.h"
#include "base/region.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CALLS_MAX = 80, NAME_BYTES = 48, FAILING_MAX = 4 };

struct call_count {
    char name[NAME_BYTES];
    uint64_t count;
};

struct injection {
    char call[NAME_BYTES]; /* "": any */
    int countdown;         /* 0: none */
    CUresult code;
};

struct driver_state emulated = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct call_count calls[CALLS_MAX];
static struct injection next_call;
static struct injection next_work;
static struct injection failing[FAILING_MAX]; /* fail always; their countdown is not used */
static int failing_count;
static _Thread_local CUcontext current_context;

uint32_t driver_draw(uint32_t bound) {
    uint32_t words[4];
    random_block(emulated.options.seed, emulated.draws++, words);
    return words[0] % bound;
}

CUresult driver_refuse(CUresult code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(emulated.reason, sizeof emulated.reason, format, arguments);
    va_end(arguments);
    emulated.reason_code = code;
    return code;
}

CUcontext driver_context(void) {
    return current_context != NULL && current_context->retained > 0 ? current_context : NULL;
}

CUresult driver_take(int device, uint64_t bytes) {
    uint64_t *used = &emulated.used_bytes[device];
    if (bytes > emulated.options.memory_bytes - *used) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *used += bytes;
    uint64_t *peak = &emulated.peak_bytes[device];
    *peak = *used > *peak ? *used : *peak;
    return CUDA_SUCCESS;
}

void driver_give(int device, uint64_t bytes) {
    ASSERT(bytes <= emulated.used_bytes[device]);
    emulated.used_bytes[device] -= bytes;
}

/* ---- calls ---- */

static void count_call(const char *name) {
    for (int i = 0; i < CALLS_MAX; i++) {
        if (calls[i].count == 0) {
            snprintf(calls[i].name, sizeof calls[i].name, "%s", name);
        }
        if (strcmp(calls[i].name, name) == 0) {
            calls[i].count++;
            return;
        }
    }
    ASSERT(!"CALLS_MAX has room for every function of the table");
}

static bool breaks_context(CUresult code) {
    return code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_FAILED ||
           code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_LAUNCH_TIMEOUT ||
           code == CUDA_ERROR_ILLEGAL_INSTRUCTION || code == CUDA_ERROR_MISALIGNED_ADDRESS ||
           code == CUDA_ERROR_HARDWARE_STACK_ERROR || code == CUDA_ERROR_ASSERT;
}

static CUresult injected(struct injection *injection, const char *call) {
    bool meant = injection->call[0] == '\0' || strcmp(injection->call, call) == 0;
    if (injection->countdown == 0 || !meant || --injection->countdown > 0) {
        return CUDA_SUCCESS;
    }
    if (breaks_context(injection->code)) {
        emulated.broken = injection->code;
    }
    return driver_refuse(injection->code, "injected into %s", call);
}

static CUresult failing_always(const char *call) {
    for (int i = 0; i < failing_count; i++) {
        if (strcmp(failing[i].call, call) == 0) {
            return driver_refuse(failing[i].code, "%s always fails", call);
        }
    }
    return CUDA_SUCCESS;
}

CUresult driver_work_failure(void) {
    return injected(&next_work, "");
}

/* What a sealed program promised not to do any more. */
static bool takes(const char *call) {
    static const char *const TAKING[] = {
        "cuMemAlloc",          "cuMemHostAlloc",       "cuMemCreate",
        "cuMemAddressReserve", "cuStreamCreate",       "cuStreamCreateWithPriority",
        "cuEventCreate",       "cuStreamBeginCapture", "cuGraphInstantiateWithFlags",
        "cuLibraryLoadData",   "emulated_driver_take", "cuFuncLoad",
        "cuFuncGetAttribute"};
    bool found = false;
    for (size_t i = 0; i < ARRAY_COUNT(TAKING); i++) {
        found = found || strcmp(call, TAKING[i]) == 0;
    }
    return found;
}

CUresult driver_enter(const char *call, unsigned entry) {
    pthread_mutex_lock(&emulated.lock);
    ASSERT(emulated.open);
    count_call(call);
    CUresult result = injected(&next_call, call);
    result = result == CUDA_SUCCESS ? failing_always(call) : result;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (emulated.broken != CUDA_SUCCESS) {
        return emulated.broken;
    }
    if (process_is_sealed() && takes(call)) {
        return driver_refuse(CUDA_ERROR_NOT_PERMITTED, "%s after the seal", call);
    }
    if ((entry & ENTRY_CONTEXT) != 0 && driver_context() == NULL) {
        return driver_refuse(CUDA_ERROR_INVALID_CONTEXT, "%s: this thread has no context", call);
    }
    return (entry & ENTRY_UNSAFE) != 0 ? graph_check_unsafe() : CUDA_SUCCESS;
}

CUresult driver_leave(CUresult result) {
    pthread_mutex_unlock(&emulated.lock);
    return result;
}

/* ---- devices ---- */

static CUresult init(unsigned flags) {
    CUresult result = driver_enter("cuInit", ENTRY_PLAIN);
    return driver_leave(result == CUDA_SUCCESS && flags != 0 ? CUDA_ERROR_INVALID_VALUE : result);
}

static CUresult get_version(int *version) {
    CUresult result = driver_enter("cuDriverGetVersion", ENTRY_PLAIN);
    *version = result == CUDA_SUCCESS ? emulated.options.cuda_version : *version;
    return driver_leave(result);
}

static CUresult device_count(int *count) {
    CUresult result = driver_enter("cuDeviceGetCount", ENTRY_PLAIN);
    *count = result == CUDA_SUCCESS ? emulated.options.devices : *count;
    return driver_leave(result);
}

static CUresult check_device(CUresult result, CUdevice device) {
    if (result == CUDA_SUCCESS && (device < 0 || device >= emulated.options.devices)) {
        return driver_refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", device);
    }
    return result;
}

static CUresult device_get(CUdevice *device, int ordinal) {
    CUresult result = check_device(driver_enter("cuDeviceGet", ENTRY_PLAIN), ordinal);
    *device = result == CUDA_SUCCESS ? ordinal : *device;
    return driver_leave(result);
}

static CUresult device_name(char *name, int capacity, CUdevice device) {
    CUresult result = check_device(driver_enter("cuDeviceGetName", ENTRY_PLAIN), device);
    if (result == CUDA_SUCCESS) {
        snprintf(name, (size_t)capacity, "emulated GPU %d", device);
    }
    return driver_leave(result);
}

static CUresult device_bus(char *name, int capacity, CUdevice device) {
    CUresult result = check_device(driver_enter("cuDeviceGetPCIBusId", ENTRY_PLAIN), device);
    if (result == CUDA_SUCCESS) {
        snprintf(name, (size_t)capacity, "0000:%02x:00.0", device + 1);
    }
    return driver_leave(result);
}

static CUresult device_memory(size_t *bytes, CUdevice device) {
    CUresult result = check_device(driver_enter("cuDeviceTotalMem", ENTRY_PLAIN), device);
    *bytes = result == CUDA_SUCCESS ? emulated.options.memory_bytes : *bytes;
    return driver_leave(result);
}

static CUresult attribute_of(CUdevice_attribute attribute, int *value) {
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = emulated.options.compute_capability / 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = emulated.options.compute_capability % 10;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = emulated.options.multiprocessors;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
        *value = !emulated.options.without_mapping;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
        *value = emulated.options.has_display;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = SHARED_MAX_BYTES;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: /* kHz */
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 1000000;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 64;
        return CUDA_SUCCESS;
    default:
        return driver_refuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not emulated", attribute);
    }
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult result = check_device(driver_enter("cuDeviceGetAttribute", ENTRY_PLAIN), device);
    return driver_leave(result == CUDA_SUCCESS ? attribute_of(attribute, value) : result);
}

/* ---- contexts ---- */

static CUresult retain(CUcontext *context, CUdevice device) {
    CUresult result = check_device(driver_enter("cuDevicePrimaryCtxRetain", ENTRY_PLAIN), device);
    if (result == CUDA_SUCCESS && emulated.contexts[device].retained == 0) {
        result = driver_take(device, emulated.options.context_bytes);
        emulated.live += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        emulated.contexts[device].retained++;
        *context = &emulated.contexts[device];
    }
    return driver_leave(result);
}

/* NVIDIA's drivers before CUDA 11 refuse flags of a context that is in use. */
static CUresult set_flags(CUdevice device, unsigned flags) {
    CUresult result = check_device(driver_enter("cuDevicePrimaryCtxSetFlags", ENTRY_PLAIN), device);
    if (result == CUDA_SUCCESS && emulated.contexts[device].retained > 0) {
        result = driver_refuse(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the context is in use");
    }
    if (result == CUDA_SUCCESS) {
        emulated.contexts[device].flags = flags;
    }
    return driver_leave(result);
}

static CUresult release(CUdevice device) {
    CUresult result = check_device(driver_enter("cuDevicePrimaryCtxRelease", ENTRY_PLAIN), device);
    if (result == CUDA_SUCCESS && emulated.contexts[device].retained == 0) {
        result = driver_refuse(CUDA_ERROR_INVALID_CONTEXT, "released more often than retained");
    }
    if (result == CUDA_SUCCESS && --emulated.contexts[device].retained == 0) {
        work_run_all();
        kernel_unload_all(device);
        driver_give(device, emulated.options.context_bytes);
        emulated.live--;
    }
    return driver_leave(result);
}

static CUresult set_current(CUcontext context) {
    CUresult result = driver_enter("cuCtxSetCurrent", ENTRY_PLAIN);
    if (result == CUDA_SUCCESS && context != NULL && context->retained == 0) {
        result = driver_refuse(CUDA_ERROR_INVALID_CONTEXT, "this context was released");
    }
    current_context = result == CUDA_SUCCESS ? context : current_context;
    return driver_leave(result);
}

static CUresult synchronize(void) {
    CUresult result = driver_enter("cuCtxSynchronize", ENTRY_CONTEXT);
    if (result == CUDA_SUCCESS && emulated.captures != NULL) {
        result = driver_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                               "cuCtxSynchronize while a stream is capturing");
    }
    if (result == CUDA_SUCCESS) {
        work_run_all();
        result = emulated.broken;
    }
    return driver_leave(result);
}

static CUresult priorities(int *least, int *greatest) {
    CUresult result = driver_enter("cuCtxGetStreamPriorityRange", ENTRY_CONTEXT);
    if (result == CUDA_SUCCESS) {
        *least = 0;
        *greatest = -5;
    }
    return driver_leave(result);
}

/* ---- for tests ---- */

static bool find_nothing(const char *name, struct emulated_code *code) {
    (void)name, (void)code;
    return false;
}

static void fill_table(struct cuda_driver *driver) {
    memset(driver, 0, sizeof *driver);
    driver->cuInit = init;
    driver->cuDriverGetVersion = get_version;
    driver->cuDeviceGetCount = device_count;
    driver->cuDeviceGet = device_get;
    driver->cuDeviceGetName = device_name;
    driver->cuDeviceGetPCIBusId = device_bus;
    driver->cuDeviceGetAttribute = device_attribute;
    driver->cuDeviceTotalMem = device_memory;
    driver->cuDevicePrimaryCtxSetFlags = set_flags;
    driver->cuDevicePrimaryCtxRetain = retain;
    driver->cuDevicePrimaryCtxRelease = release;
    driver->cuCtxSetCurrent = set_current;
    driver->cuCtxSynchronize = synchronize;
    driver->cuCtxGetStreamPriorityRange = priorities;
    error_fill_table(driver);
    memory_fill_table(driver);
    stream_fill_table(driver);
    graph_fill_table(driver);
    kernel_fill_table(driver);
    for (size_t i = 0; i < sizeof *driver / sizeof(void *); i++) {
        ASSERT(((void **)driver)[i] != NULL); /* every function of the table is emulated */
    }
    driver->cuFuncLoad = emulated.options.without_func_load ? NULL : driver->cuFuncLoad;
}

void emulated_driver_open(const struct emulated_options *options, struct cuda_driver *driver) {
    ASSERT(!emulated.open && options->devices <= DEVICES_MAX);
    emulated.options = *options;
    struct emulated_options *set = &emulated.options;
    set->devices = set->devices > 0 ? set->devices : 1;
    set->memory_bytes = set->memory_bytes > 0 ? set->memory_bytes : 1ull << 30;
    set->multiprocessors = set->multiprocessors > 0 ? set->multiprocessors : 4;
    set->compute_capability = set->compute_capability > 0 ? set->compute_capability : 90;
    set->cuda_version = set->cuda_version > 0 ? set->cuda_version : CUDA_VERSION;
    set->find = set->find != NULL ? set->find : find_nothing;
    for (int i = 0; i < DEVICES_MAX; i++) {
        emulated.contexts[i] = (struct CUctx_st){.device = i};
        emulated.used_bytes[i] = 0;
        emulated.peak_bytes[i] = 0;
    }
    memset(calls, 0, sizeof calls);
    failing_count = 0;
    next_call.countdown = 0;
    next_work.countdown = 0;
    emulated.live = 0;
    emulated.draws = 0;
    emulated.mood = 0;
    emulated.favourite = NULL;
    emulated.broken = CUDA_SUCCESS;
    emulated.reason[0] = '\0';
    emulated.reason_code = CUDA_SUCCESS;
    emulated.open = true;
    fill_table(driver);
}

bool emulated_driver_table(struct cuda_driver *driver) {
    if (emulated.open) {
        fill_table(driver);
    }
    return emulated.open;
}

void emulated_driver_close(void) {
    pthread_mutex_lock(&emulated.lock);
    ASSERT(emulated.open);
    work_run_all();
    graph_forget();
    stream_forget();
    kernel_forget();
    memory_forget();
    emulated.open = false;
    pthread_mutex_unlock(&emulated.lock);
}

const char *emulated_driver_reason(void) {
    return emulated.reason;
}

int emulated_driver_live(void) {
    return emulated.live;
}

int emulated_driver_flat_graphs(void) {
    return emulated.flat_graphs;
}

unsigned emulated_driver_context_flags(int device) {
    return emulated.contexts[device].flags;
}

uint64_t emulated_driver_peak_bytes(int device) {
    return emulated.peak_bytes[device];
}

int emulated_driver_device(void) {
    return driver_context() == NULL ? -1 : driver_context()->device;
}

uint64_t emulated_driver_calls(const char *call) {
    uint64_t count = 0;
    for (int i = 0; i < CALLS_MAX; i++) {
        count += call == NULL || strcmp(calls[i].name, call) == 0 ? calls[i].count : 0;
    }
    return count;
}

static void inject(struct injection *injection, const char *call, int nth, CUresult code) {
    ASSERT(nth > 0 && code != CUDA_SUCCESS);
    snprintf(injection->call, sizeof injection->call, "%s", call != NULL ? call : "");
    injection->countdown = nth;
    injection->code = code;
}

void emulated_driver_fail(const char *call, int nth, CUresult code) {
    inject(&next_call, call, nth, code);
}

void emulated_driver_fail_always(const char *call, CUresult code) {
    ASSERT(failing_count < FAILING_MAX);
    inject(&failing[failing_count++], call, 1, code);
}

void emulated_driver_fail_work(int nth, CUresult code) {
    inject(&next_work, NULL, nth, code);
}

static void move(void *to, const void *from, size_t bytes, const void *device) {
    enum place_kind kind;
    pthread_mutex_lock(&emulated.lock);
    work_run_all();
    ASSERT(memory_place(device, bytes, &kind) == CUDA_SUCCESS && kind == PLACE_DEVICE);
    memory_open();
    memory_use();
    memcpy(to, from, bytes);
    memory_close();
    pthread_mutex_unlock(&emulated.lock);
}

void emulated_driver_read(void *to, CUdeviceptr from, size_t bytes) {
    move(to, (const void *)(uintptr_t)from, bytes, (const void *)(uintptr_t)from);
}

void emulated_driver_write(CUdeviceptr to, const void *from, size_t bytes) {
    move((void *)(uintptr_t)to, from, bytes, (const void *)(uintptr_t)to);
}
