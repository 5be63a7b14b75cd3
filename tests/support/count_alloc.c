/* count_alloc: preloaded into a program, counts the calls that take or give back memory while the
 * program says that it is sealed. At exit the count and the first callers go to the file that
 * COUNT_ALLOC_REPORT names. Calls by ZeroMQ, which allocates as it likes within what the plan
 * declares, are left out where COUNT_ALLOC_ZMQ says so: those from its code and its C++ library's,
 * and all of its threads.
 *
 * Whether it is sealed the program itself is asked: its process_is_sealed is found in its symbol
 * table, so nothing need be exported for this test's sake. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { CALLERS_MAX = 16, REPORT_BYTES = 2048, OTHERS_MAX = 2, THREAD_NAME_BYTES = 16 };

typedef int is_sealed(void);

static is_sealed *asked;               /* NULL until the program's symbol was found */
static uintptr_t loaded_at;            /* the program's load address */
static _Atomic uint64_t seen;          /* calls while sealed */
static _Atomic uint64_t sealed_writes; /* proof that the seal was seen at all */
static struct {
    const char *call;
    uintptr_t from;
} callers[CALLERS_MAX];

/* The C library's own names for what is counted here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *memory);
void *__sbrk(intptr_t bytes);

/* Where the code of others lies. */
static struct { uintptr_t begin, end; } others[OTHERS_MAX];
static int others_count;

static bool is_of_others(uintptr_t from) {
    char name[THREAD_NAME_BYTES] = "";
    for (int i = 0; i < others_count; i++) {
        if (from >= others[i].begin && from < others[i].end) {
            return true;
        }
    }
    return others_count > 0 && prctl(PR_GET_NAME, name) == 0 && strncmp(name, "ZMQ", 3) == 0;
}

static void note(const char *call, void *from) {
    if (asked == NULL || !asked() || is_of_others((uintptr_t)from)) {
        return;
    }
    uint64_t index = atomic_fetch_add(&seen, 1);
    if (index < CALLERS_MAX) {
        callers[index].call = call;
        callers[index].from = (uintptr_t)from - loaded_at;
    }
}

#define NOTE(call) note(call, __builtin_return_address(0))

static int note_load_address(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    loaded_at = info->dlpi_addr;
    return 1; /* the program itself comes first */
}

static int note_others(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    if (strstr(info->dlpi_name, "libzmq.so") == NULL &&
        strstr(info->dlpi_name, "libstdc++.so") == NULL) {
        return 0;
    }
    uintptr_t end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t until = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        end = info->dlpi_phdr[i].p_type == PT_LOAD && until > end ? until : end;
    }
    if (others_count < OTHERS_MAX) {
        others[others_count].begin = info->dlpi_addr;
        others[others_count++].end = info->dlpi_addr + end;
    }
    return 0;
}

static uintptr_t symbol_value(const char *file, const char *name) {
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
    for (int s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) {
            continue;
        }
        const Elf64_Sym *symbols = (const void *)(file + sections[s].sh_offset);
        const char *names = file + sections[sections[s].sh_link].sh_offset;
        for (uint64_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++) {
            if (strcmp(names + symbols[i].st_name, name) == 0) {
                return symbols[i].st_value;
            }
        }
    }
    return 0;
}

__attribute__((constructor)) static void find_the_question(void) {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return;
    }
    void *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED) {
        return;
    }
    uintptr_t value = symbol_value(file, "process_is_sealed");
    munmap(file, (size_t)status.st_size);
    dl_iterate_phdr(note_load_address, NULL);
    if (getenv("COUNT_ALLOC_ZMQ") != NULL) {
        dl_iterate_phdr(note_others, NULL);
    }
    if (value != 0) {
        uintptr_t address = loaded_at + value;
        memcpy(&asked, &address, sizeof asked);
    }
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNT_ALLOC_REPORT");
    if (path == NULL || asked == NULL) {
        return;
    }
    char text[REPORT_BYTES];
    uint64_t count = atomic_load(&seen);
    int length = snprintf(text, sizeof text, "count %llu writes %llu\n", (unsigned long long)count,
                          (unsigned long long)atomic_load(&sealed_writes));
    for (uint64_t i = 0; i < count && i < CALLERS_MAX; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length, "%s from +0x%llx\n",
                           callers[i].call, (unsigned long long)callers[i].from);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t put = write(fd, text, (size_t)length);
    (void)put;
    close(fd);
}

EXPORTED void *malloc(size_t bytes) {
    NOTE("malloc");
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    NOTE("calloc");
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *old, size_t bytes) {
    NOTE("realloc");
    return __libc_realloc(old, bytes);
}

EXPORTED void free(void *memory) {
    if (memory != NULL) {
        NOTE("free");
    }
    __libc_free(memory);
}

EXPORTED void *aligned_alloc(size_t align, size_t bytes) {
    NOTE("aligned_alloc");
    return __libc_memalign(align, bytes);
}

EXPORTED void *memalign(size_t align, size_t bytes) {
    NOTE("memalign");
    return __libc_memalign(align, bytes);
}

EXPORTED int posix_memalign(void **memory, size_t align, size_t bytes) {
    NOTE("posix_memalign");
    *memory = __libc_memalign(align, bytes);
    return *memory == NULL;
}

EXPORTED void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    NOTE("mmap");
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

EXPORTED int munmap(void *address, size_t bytes) {
    NOTE("munmap");
    return (int)syscall(SYS_munmap, address, bytes);
}

EXPORTED void *mremap(void *address, size_t bytes, size_t wanted, int flags, ...) {
    NOTE("mremap");
    va_list more;
    va_start(more, flags);
    void *at = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : NULL;
    va_end(more);
    return (void *)syscall(SYS_mremap, address, bytes, wanted, flags, at);
}

EXPORTED void *sbrk(intptr_t bytes) {
    NOTE("sbrk");
    return __sbrk(bytes);
}

EXPORTED ssize_t write(int fd, const void *bytes, size_t count) {
    if (asked != NULL && asked()) {
        atomic_fetch_add(&sealed_writes, 1);
    }
    return syscall(SYS_write, fd, bytes, count);
}
