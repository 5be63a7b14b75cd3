/* versions: what this program was built from and with, and what it finds on this machine. */
#ifndef SKEP_DIAGNOSE_VERSIONS_H
#define SKEP_DIAGNOSE_VERSIONS_H

enum {
    VERSION_BYTES = 32,               /* text of a version */
    VERSION_LIBRARIES = 9,            /* number of libraries that are listed */
    VERSION_INSTRUCTION_SETS_MAX = 8, /* maximum number of instruction sets of a build */
};

struct library_version {
    const char *name;  /* "libsodium" */
    const char *built; /* version of the library at the build */
    /* version of the library that this process uses; "" if it is linked statically */
    char used[VERSION_BYTES];
};

struct version_report {
    const char *version, *commit; /* version and commit of the program */
    const char *compiler;         /* "gcc 12.2.0" */
    const char *toolkit;          /* version of nvcc; "" in a build without CUDA */
    /* GPU architectures that the kernels are compiled for, such as "sm_80, sm_90" */
    const char *architectures;
    /* version of NVIDIA's driver, such as "580.65.06"; "" if none was found */
    char driver[VERSION_BYTES];
    /* version of NCCL, such as "2.27.3"; "" if the library was not found */
    char nccl[VERSION_BYTES];
    const char *used_instruction_set; /* instruction set that kernels use on this machine */
    /* [instruction_set_count]: instruction sets of this build that this CPU supports */
    const char *instruction_sets[VERSION_INSTRUCTION_SETS_MAX];
    int instruction_set_count;
    struct library_version libraries[VERSION_LIBRARIES];
};

/* versions_read: fill *report. Loads NVIDIA's libraries if they are installed. */
void versions_read(struct version_report *report);

#endif
