/* Finds cuBLASLt and loads its functions at run time. */
#include "kernels/cuda/launch/products.h"

#include <dlfcn.h>
#include <glob.h>
#include <stddef.h>

enum { PLACES_MAX = 8, LIBRARIES_OF_PLACE_MAX = 8 }; /* patterns; libraries that match one */

#define NAME_OF(name)          #name
#define CUBLAS_LT_SYMBOL(name) {NAME_OF(name), offsetof(struct cublas_lt, name)},
static const struct {
    const char *name;
    size_t at;
} SYMBOLS[] = {CUBLAS_LT_FUNCTIONS(CUBLAS_LT_SYMBOL)};

/* ---- finding ---- */

/* The folders of pip's packages below site-packages: cu13 of CUDA 13, cublas of CUDA 12. */
#define PIP_LIBRARIES "nvidia/{cu13,cublas}/lib/libcublasLt.so.1[32]"
#define LIBRARIES     "{libcublasLt.so.13,libcublasLt.so.12}"

static int list_places(const struct cublas_lt_library_search *search, struct region *region,
                       const char *places[static PLACES_MAX]) {
    int count = 0;
    if (search->virtual_env != NULL) {
        places[count++] = region_format(region, "%s/lib/python3*/site-packages/" PIP_LIBRARIES,
                                        search->virtual_env);
    }
    if (search->conda_prefix != NULL) {
        places[count++] = region_format(region, "%s/lib/" LIBRARIES, search->conda_prefix);
        places[count++] = region_format(region, "%s/lib/python3*/site-packages/" PIP_LIBRARIES,
                                        search->conda_prefix);
    }
    places[count++] = "/usr/local/cuda/lib64/" LIBRARIES;
    places[count++] = "/opt/cuda/lib64/" LIBRARIES;
    if (search->home != NULL) {
        places[count++] = region_format(
            region, "%s/.local/lib/python3*/site-packages/" PIP_LIBRARIES, search->home);
    }
    places[count++] = "/usr/local/lib/python3*/{dist,site}-packages/" PIP_LIBRARIES;
    return count;
}

int cublas_lt_list_libraries(const struct cublas_lt_library_search *search, struct region *region,
                             const char *paths[static CUBLAS_LT_PATHS_MAX]) {
    const char *places[PLACES_MAX];
    int place_count = list_places(search, region, places);
    int count = 0;
    paths[count++] = "libcublasLt.so.13";
    paths[count++] = "libcublasLt.so.12";
    _Static_assert(CUBLAS_LT_PATHS_MAX >= 2 + PLACES_MAX * LIBRARIES_OF_PLACE_MAX, "");
    for (int i = 0; i < place_count; i++) {
        glob_t found = {0};
        if (glob(places[i], GLOB_BRACE, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && k < LIBRARIES_OF_PLACE_MAX; k++) {
                paths[count++] = region_copy_text(region, found.gl_pathv[k]);
            }
        }
        globfree(&found);
    }
    return count;
}

/* ---- loading ---- */

static enum status set_fault(const char *path, const char *reason, const char *detail,
                             struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, path,
                     "install cuBLAS of CUDA 13 or 12, or add its folder to LD_LIBRARY_PATH; "
                     "without it, slower built-in kernels compute matrix products",
                     "%s: %s", reason, detail);
}

enum status cublas_lt_load(const char *path, struct cublas_lt *library, struct fault *fault) {
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        return set_fault(path, "cuBLASLt is not installed", dlerror(), fault);
    }
    struct cublas_lt found = {.opened = opened};
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof SYMBOLS[0]; i++) {
        void *symbol = dlsym(opened, SYMBOLS[i].name);
        if (symbol == NULL) {
            dlclose(opened);
            return set_fault(path, "the installed cuBLASLt lacks a required function",
                             SYMBOLS[i].name, fault);
        }
        *(void **)((char *)&found + SYMBOLS[i].at) = symbol;
    }
    *library = found;
    return OK;
}

void cublas_lt_unload(struct cublas_lt *library) {
    dlclose(library->opened);
    *library = (struct cublas_lt){.opened = NULL};
}
