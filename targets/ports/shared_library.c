#include "targets/ports/shared_library.h"

#include <dlfcn.h>

const char *library_find_functions(void *library, const struct library_symbol *symbols,
                                   size_t count, void *functions) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            return symbols[i].name;
        }
        *(void **)((char *)functions + symbols[i].offset) = symbol;
    }
    return NULL;
}
