/* shared_library: a struct with pointers to the functions of a library that is loaded at run
 * time. */
#ifndef SKEP_TARGETS_PORTS_SHARED_LIBRARY_H
#define SKEP_TARGETS_PORTS_SHARED_LIBRARY_H

#include <stddef.h>

/* A function's name and the offset of its pointer in the struct. */
struct library_symbol {
    const char *name; /* name of the exported function */
    size_t offset;    /* offset of its pointer in the struct, in bytes */
};

/* library_find_functions: fill the struct at `functions` from a library that dlopen returned.
 * returns  NULL, or the name of the first function that the library lacks */
const char *library_find_functions(void *library, const struct library_symbol *symbols,
                                   size_t count, void *functions);

#endif
