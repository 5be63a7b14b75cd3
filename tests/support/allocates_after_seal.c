/* allocates_after_seal: a program with the fault that count_alloc looks for: one call of each kind
 * while sealed, as many before and after. */
#include "base/region.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 8192 };

/* A compiler must not see that what is asked for is not used. */
static void *volatile kept;

static void call_each(void) {
    kept = malloc(BYTES);
    kept = realloc(kept, 2 * BYTES);
    free(kept);
    kept = calloc(2, BYTES);
    free(kept);
    kept = aligned_alloc(64, BYTES);
    free(kept);
    void *memory = NULL;
    if (posix_memalign(&memory, 64, BYTES) == 0) {
        kept = memory;
        free(kept);
    }
    kept = memalign(64, BYTES);
    free(kept);
    kept = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kept = mremap(kept, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
    munmap(kept, 2 * BYTES);
    kept = sbrk(BYTES);
}

/* The C library allocates on its own account here. */
static void open_a_stream(void) {
    FILE *stream = fopen("/dev/null", "w");
    if (stream != NULL) {
        fclose(stream);
    }
}

int main(void) {
    call_each();
    process_seal();
    call_each();
    open_a_stream();
    ssize_t put = write(STDOUT_FILENO, "sealed\n", 7);
    process_unseal();
    call_each();
    return put == 7 ? 0 : 1;
}
