/* driver_memory: device memory and pinned memory of the emulated driver. A range of device
 * addresses is never used twice, so that a use after free is found. */
#include "tests/emulated/driver_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GARBAGE = 0xff, PLAIN_ALIGN_BYTES = 256, GUARD_BYTES = 4096, PLAIN_UNIT_BYTES = 512 };

/* Bytes that are there: from cuMemAlloc or cuMemHostAlloc, or a handle mapped into a
 * reservation. */
struct block {
    struct block *next;
    enum block_kind { BLOCK_PLAIN, BLOCK_MAPPED, BLOCK_PINNED } kind;
    char *address;
    size_t bytes;
    char *pages; /* what protection covers */
    size_t page_bytes;
    int device;
    bool freed, accessible;
    struct handle *handle;
};

struct reservation {
    struct reservation *next;
    char *address;
    size_t bytes;
    bool freed;
};

struct handle {
    struct handle *next;
    size_t bytes;
    int device, mapped;
    bool released;
};

static struct block *blocks;
static struct reservation *reservations;
static struct handle *handles;

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static void *new_of(size_t bytes) {
    void *made = calloc(1, bytes);
    ASSERT(made != NULL);
    return made;
}

/* ---- the host's view ---- */

static void protect(const struct block *block, int protection) {
    if (block->kind != BLOCK_PINNED && !block->freed && block->accessible) {
        ASSERT(mprotect(block->pages, block->page_bytes, protection) == 0);
    }
}

static void protect_all(int protection) {
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        protect(block, protection);
    }
}

void memory_open(void) {
    emulated.open_depth++;
}

/* Changing the protection is slow, and most polls find no work that can run. */
void memory_use(void) {
    ASSERT(emulated.open_depth > 0);
    if (!emulated.is_unprotected) {
        protect_all(PROT_READ | PROT_WRITE);
        emulated.is_unprotected = true;
    }
}

void memory_close(void) {
    if (--emulated.open_depth == 0 && emulated.is_unprotected) {
        protect_all(PROT_NONE);
        emulated.is_unprotected = false;
    }
}

static struct block *block_at(const char *address) {
    for (struct block *block = blocks; block != NULL; block = block->next) {
        if (address >= block->address && address < block->address + block->bytes) {
            return block;
        }
    }
    return NULL;
}

static const struct reservation *reservation_at(const char *address) {
    for (const struct reservation *at = reservations; at != NULL; at = at->next) {
        if (address >= at->address && address < at->address + at->bytes) {
            return at;
        }
    }
    return NULL;
}

static CUresult outside(const char *address, size_t bytes, const char *why) {
    return driver_refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %p: %s", bytes,
                         (const void *)address, why);
}

/* A range may run over several handles that are mapped one behind the other. */
CUresult memory_place(const void *address, size_t bytes, enum place_kind *kind) {
    const char *begin = address;
    const char *end = begin + bytes;
    const struct block *block = block_at(begin);
    if (block == NULL) {
        *kind = PLACE_PAGEABLE;
        return reservation_at(begin) != NULL ? outside(begin, bytes, "nothing is mapped here")
                                             : CUDA_SUCCESS;
    }
    *kind = block->kind == BLOCK_PINNED ? PLACE_PINNED : PLACE_DEVICE;
    for (const char *at = begin; at < end; at = block->address + block->bytes) {
        block = block_at(at);
        if (block == NULL || (at != begin && block->kind != BLOCK_MAPPED)) {
            return outside(begin, bytes, "reach beyond what was allocated");
        }
        if (block->freed) {
            return outside(begin, bytes, "were freed");
        }
        if (!block->accessible) {
            return outside(begin, bytes, "are mapped, but no access was set");
        }
    }
    return CUDA_SUCCESS;
}

static struct block *add_block(enum block_kind kind, void *address, size_t bytes) {
    struct block *block = new_of(sizeof *block);
    *block = (struct block){.next = blocks,
                            .kind = kind,
                            .address = address,
                            .bytes = bytes,
                            .pages = address,
                            .page_bytes = bytes,
                            .accessible = true};
    blocks = block;
    emulated.live++;
    return block;
}

/* Room between two guards that no host access gets through. */
static char *map_room(size_t bytes, size_t align) {
    size_t whole = round_up(bytes, GUARD_BYTES) + align + 2 * GUARD_BYTES;
    char *room = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT(room != MAP_FAILED);
    return (char *)(uintptr_t)round_up((uintptr_t)room + GUARD_BYTES, align);
}

/* Make the pages accessible and fill them with garbage. Huge pages are cheaper to protect. */
static void fill_pages(char *pages, size_t bytes) {
    madvise(pages, bytes, MADV_HUGEPAGE);
    ASSERT(mprotect(pages, bytes, PROT_READ | PROT_WRITE) == 0);
    memset(pages, GARBAGE, bytes);
}

/* ---- plain ---- */

/* The end lies on the end of a page: what runs over it is found. */
static CUresult allocate(CUdeviceptr *address, size_t bytes) {
    int device = driver_context()->device;
    uint64_t taken = round_up(bytes, PLAIN_UNIT_BYTES);
    CUresult result = bytes > 0 ? driver_take(device, taken) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    size_t whole = round_up(bytes, GUARD_BYTES);
    char *pages = map_room(whole, GUARD_BYTES);
    fill_pages(pages, whole);
    struct block *block =
        add_block(BLOCK_PLAIN, pages + whole - round_up(bytes, PLAIN_ALIGN_BYTES), bytes);
    block->pages = pages;
    block->page_bytes = whole;
    block->device = device;
    protect(block, PROT_NONE);
    *address = (CUdeviceptr)(uintptr_t)block->address;
    return CUDA_SUCCESS;
}

static CUresult mem_alloc(CUdeviceptr *address, size_t bytes) {
    CUresult result = driver_enter("cuMemAlloc", ENTRY_CONTEXT | ENTRY_UNSAFE);
    return driver_leave(result == CUDA_SUCCESS ? allocate(address, bytes) : result);
}

static void drop_pages(void *pages, size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    ASSERT(mmap(pages, bytes, PROT_NONE, flags, -1, 0) == pages);
}

static CUresult free_block(enum block_kind kind, const void *address) {
    struct block *block = block_at(address);
    if (block == NULL || block->kind != kind || block->address != (const char *)address) {
        return outside(address, 0, "nothing was allocated at this address");
    }
    if (block->freed) {
        return outside(address, 0, "freed twice");
    }
    work_run_all(); /* as CUDA does: memory is given back when nothing can use it */
    if (kind == BLOCK_PLAIN) {
        driver_give(block->device, round_up(block->bytes, PLAIN_UNIT_BYTES));
    }
    drop_pages(block->pages, block->page_bytes);
    block->freed = true;
    emulated.live--;
    return CUDA_SUCCESS;
}

static CUresult mem_free(CUdeviceptr address) {
    CUresult result = driver_enter("cuMemFree", ENTRY_CONTEXT | ENTRY_UNSAFE);
    if (result == CUDA_SUCCESS && address != 0) {
        result = free_block(BLOCK_PLAIN, (const void *)(uintptr_t)address);
    }
    return driver_leave(result);
}

static CUresult host_alloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    CUresult result = driver_enter("cuMemHostAlloc", ENTRY_CONTEXT | ENTRY_UNSAFE);
    if (result == CUDA_SUCCESS && bytes == 0) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes of pinned memory");
    }
    if (result == CUDA_SUCCESS) {
        size_t whole = round_up(bytes, GUARD_BYTES);
        char *pages = map_room(whole, GUARD_BYTES);
        fill_pages(pages, whole);
        add_block(BLOCK_PINNED, pages, bytes)->page_bytes = whole;
        *address = pages;
    }
    return driver_leave(result);
}

static CUresult free_host(void *address) {
    CUresult result = driver_enter("cuMemFreeHost", ENTRY_CONTEXT | ENTRY_UNSAFE);
    return driver_leave(result == CUDA_SUCCESS ? free_block(BLOCK_PINNED, address) : result);
}

static CUresult get_info(size_t *free_bytes, size_t *total_bytes) {
    CUresult result = driver_enter("cuMemGetInfo", ENTRY_CONTEXT);
    if (result == CUDA_SUCCESS) {
        *total_bytes = emulated.options.memory_bytes;
        *free_bytes = emulated.options.memory_bytes - emulated.used_bytes[driver_context()->device];
    }
    return driver_leave(result);
}

/* ---- virtual memory management ---- */

static CUresult enter_mapping(const char *call) {
    CUresult result = driver_enter(call, ENTRY_PLAIN);
    if (result == CUDA_SUCCESS && emulated.options.without_mapping) {
        return driver_refuse(CUDA_ERROR_NOT_SUPPORTED, "%s: this device cannot map memory", call);
    }
    return result;
}

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *wanted,
                            CUmemAllocationGranularity_flags flags) {
    (void)wanted, (void)flags;
    CUresult result = enter_mapping("cuMemGetAllocationGranularity");
    *bytes = result == CUDA_SUCCESS ? MAPPING_BYTES : *bytes;
    return driver_leave(result);
}

static CUresult check_granules(CUresult result, uint64_t address, size_t bytes) {
    if (result == CUDA_SUCCESS &&
        (bytes == 0 || bytes % MAPPING_BYTES != 0 || address % MAPPING_BYTES != 0)) {
        return outside((const char *)(uintptr_t)address, bytes, "not whole granules");
    }
    return result;
}

static CUresult address_reserve(CUdeviceptr *address, size_t bytes, size_t align, CUdeviceptr wish,
                                unsigned long long flags) {
    (void)wish, (void)flags;
    CUresult result = check_granules(enter_mapping("cuMemAddressReserve"), 0, bytes);
    if (result == CUDA_SUCCESS) {
        struct reservation *reservation = new_of(sizeof *reservation);
        size_t unit = align > MAPPING_BYTES ? align : MAPPING_BYTES;
        reservation->address = map_room(bytes, unit);
        reservation->bytes = bytes;
        reservation->next = reservations;
        reservations = reservation;
        emulated.live++;
        *address = (CUdeviceptr)(uintptr_t)reservation->address;
    }
    return driver_leave(result);
}

static bool holds_mapping(const struct reservation *reservation) {
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        if (block->kind == BLOCK_MAPPED && !block->freed &&
            reservation_at(block->address) == reservation) {
            return true;
        }
    }
    return false;
}

static CUresult address_free(CUdeviceptr address, size_t bytes) {
    CUresult result = enter_mapping("cuMemAddressFree");
    const char *at = (const char *)(uintptr_t)address;
    struct reservation *found = (struct reservation *)(uintptr_t)reservation_at(at);
    if (result == CUDA_SUCCESS &&
        (found == NULL || found->address != at || found->bytes != bytes || found->freed)) {
        result = outside(at, bytes, "are no reservation");
    } else if (result == CUDA_SUCCESS && holds_mapping(found)) {
        result = outside(at, bytes, "still have memory mapped");
    }
    if (result == CUDA_SUCCESS) {
        found->freed = true;
        emulated.live--;
    }
    return driver_leave(result);
}

static CUresult create_handle(CUmemGenericAllocationHandle *handle, size_t bytes, int device) {
    if (device < 0 || device >= emulated.options.devices) {
        return driver_refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", device);
    }
    CUresult result = driver_take(device, bytes);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct handle *made = new_of(sizeof *made);
    *made = (struct handle){.next = handles, .bytes = bytes, .device = device};
    handles = made;
    emulated.live++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)made;
    return CUDA_SUCCESS;
}

static CUresult mem_create(CUmemGenericAllocationHandle *handle, size_t bytes,
                           const CUmemAllocationProp *wanted, unsigned long long flags) {
    CUresult result = check_granules(enter_mapping("cuMemCreate"), 0, bytes);
    if (result == CUDA_SUCCESS && (flags != 0 || wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
                                   wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "only pinned memory of a device");
    }
    return driver_leave(result == CUDA_SUCCESS ? create_handle(handle, bytes, wanted->location.id)
                                               : result);
}

static struct handle *handle_of(CUmemGenericAllocationHandle wanted) {
    for (struct handle *handle = handles; handle != NULL; handle = handle->next) {
        if ((uintptr_t)handle == (uintptr_t)wanted) {
            return handle;
        }
    }
    return NULL;
}

/* The memory goes when the handle was released and nothing maps it. */
static void drop_handle(struct handle *handle) {
    if (handle->released && handle->mapped == 0) {
        driver_give(handle->device, handle->bytes);
        emulated.live--;
    }
}

static CUresult mem_release(CUmemGenericAllocationHandle wanted) {
    CUresult result = enter_mapping("cuMemRelease");
    struct handle *handle = handle_of(wanted);
    if (result == CUDA_SUCCESS && (handle == NULL || handle->released)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "no handle, or one released twice");
    }
    if (result == CUDA_SUCCESS) {
        handle->released = true;
        drop_handle(handle);
    }
    return driver_leave(result);
}

static CUresult map_handle(char *address, size_t bytes, struct handle *handle) {
    const struct reservation *room = reservation_at(address);
    if (room == NULL || room->freed || address + bytes > room->address + room->bytes) {
        return outside(address, bytes, "are not reserved");
    }
    if (handle == NULL || handle->released || handle->bytes != bytes) {
        return outside(address, bytes, "no handle of that size");
    }
    for (const struct block *block = blocks; block != NULL; block = block->next) {
        if (!block->freed && block->address < address + bytes &&
            address < block->address + block->bytes) {
            return outside(address, bytes, "are mapped already");
        }
    }
    if (handle->mapped > 0) {
        return outside(address, bytes, "the handle is mapped elsewhere");
    }
    fill_pages(address, bytes);
    ASSERT(mprotect(address, bytes, PROT_NONE) == 0);
    struct block *block = add_block(BLOCK_MAPPED, address, bytes);
    block->handle = handle;
    block->device = handle->device;
    block->accessible = false;
    handle->mapped++;
    return CUDA_SUCCESS;
}

static CUresult mem_map(CUdeviceptr address, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = check_granules(enter_mapping("cuMemMap"), address, bytes);
    if (result == CUDA_SUCCESS && (offset != 0 || flags != 0)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "cuMemMap: offset and flags must be 0");
    }
    if (result == CUDA_SUCCESS) {
        result = map_handle((char *)(uintptr_t)address, bytes, handle_of(handle));
    }
    return driver_leave(result);
}

/* Several mappings at once, or one; never a part of one. */
static CUresult each_mapping(char *address, size_t bytes, bool unmap) {
    char *end = address + bytes;
    for (char *at = address; at < end;) {
        struct block *block = block_at(at);
        if (block == NULL || block->kind != BLOCK_MAPPED || block->freed || block->address != at ||
            at + block->bytes > end) {
            return outside(address, bytes, "are not mapped as a whole");
        }
        at += block->bytes;
        if (!unmap) {
            block->accessible = true;
            continue;
        }
        drop_pages(block->pages, block->page_bytes);
        block->freed = true;
        block->handle->mapped--;
        drop_handle(block->handle);
        emulated.live--;
    }
    return CUDA_SUCCESS;
}

static CUresult mem_unmap(CUdeviceptr address, size_t bytes) {
    CUresult result = enter_mapping("cuMemUnmap");
    if (result == CUDA_SUCCESS && work_queued()) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "unmapped while work is queued");
    }
    return driver_leave(
        result == CUDA_SUCCESS ? each_mapping((char *)(uintptr_t)address, bytes, true) : result);
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                           size_t count) {
    CUresult result = enter_mapping("cuMemSetAccess");
    if (result == CUDA_SUCCESS &&
        (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
        result = driver_refuse(CUDA_ERROR_INVALID_VALUE, "cuMemSetAccess: to one device, for both");
    }
    return driver_leave(
        result == CUDA_SUCCESS ? each_mapping((char *)(uintptr_t)address, bytes, false) : result);
}

void memory_fill_table(struct cuda_driver *driver) {
    driver->cuMemGetInfo = get_info;
    driver->cuMemGetAllocationGranularity = granularity;
    driver->cuMemAddressReserve = address_reserve;
    driver->cuMemAddressFree = address_free;
    driver->cuMemCreate = mem_create;
    driver->cuMemRelease = mem_release;
    driver->cuMemMap = mem_map;
    driver->cuMemUnmap = mem_unmap;
    driver->cuMemSetAccess = set_access;
    driver->cuMemAlloc = mem_alloc;
    driver->cuMemFree = mem_free;
    driver->cuMemHostAlloc = host_alloc;
    driver->cuMemFreeHost = free_host;
}

/* Addresses stay reserved: what a test forgot to forget still faults. */
void memory_forget(void) {
    while (blocks != NULL) {
        struct block *next = blocks->next;
        if (!blocks->freed) {
            drop_pages(blocks->pages, blocks->page_bytes);
        }
        free(blocks);
        blocks = next;
    }
    while (reservations != NULL) {
        struct reservation *next = reservations->next;
        free(reservations);
        reservations = next;
    }
    while (handles != NULL) {
        struct handle *next = handles->next;
        free(handles);
        handles = next;
    }
}
