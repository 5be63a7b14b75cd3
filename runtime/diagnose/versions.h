/* versions: what this program was built from and with, and what it finds on this machine. */
#ifndef SKEP_DIAGNOSE_VERSIONS_H
#define SKEP_DIAGNOSE_VERSIONS_H

enum {
    VERSION_BYTES = 32,               /* text of a version */
    VERSION_LIBRARIES = 9,            /* libraries that are listed */
    VERSION_INSTRUCTION_SETS_MAX = 8, /* instruction sets of a build */
};

struct library_version {
    const char *name;         /* "libsodium" */
    const char *built;        /* version at the build */
    char used[VERSION_BYTES]; /* version that this process uses; "" if it is linked statically */
};

struct version_report {
    const char *version, *commit;     /* version and commit of the program */
    const char *compiler;             /* "gcc 12.2.0" */
    const char *toolkit;              /* version of nvcc; "" in a build without CUDA */
    const char *architectures;        /* "sm_80, sm_90": machine code of the kernels */
    char driver[VERSION_BYTES];       /* NVIDIA's driver: "580.65.06"; "" if none was found */
    char nccl[VERSION_BYTES];         /* "2.27.3"; "" if the library was not found */
    const char *used_instruction_set; /* instruction set that kernels use on this machine */
    /* [instruction_set_count]: those of this build that this CPU supports */
    const char *instruction_sets[VERSION_INSTRUCTION_SETS_MAX];
    int instruction_set_count;
    struct library_version libraries[VERSION_LIBRARIES];
};

/* versions_read: fill *report. Loads NVIDIA's libraries if they are installed. */
void versions_read(struct version_report *report);

#endif
