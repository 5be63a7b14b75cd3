/* doctor: what this machine lacks for training or for a swarm, each with a remedy. doctor_read
 * looks at the machine, and doctor_judge decides from these facts alone. */
#ifndef SKEP_DIAGNOSE_DOCTOR_H
#define SKEP_DIAGNOSE_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DOCTOR_TEXT_BYTES = 256,   /* text of a result */
    DOCTOR_CHECKS_MAX = 16,    /* checks of a report */
    DOCTOR_FOLDERS = 3,        /* number of default folders: state, configuration and cache */
    DOCTOR_PORT_NUMBER = 7700, /* the default port number of `skep track` */
};

/* A folder in which skep stores files by default. */
struct doctor_folder {
    const char *use;              /* "state of members" */
    char path[DOCTOR_TEXT_BYTES]; /* path of the folder; "" if no variable gives it */
    bool is_writable;             /* the folder, or its nearest existing parent, is writable */
    uint64_t free_bytes;          /* free bytes of the file system of the folder */
};

/* What the tracker of a swarm answers, for the operator of that swarm. */
struct doctor_swarm {
    bool is_checked; /* false: the user specified no swarm */
    /* whether the operator's delegation never expires; whether it expires soon */
    bool never_expires, is_expiring;
    char left[24]; /* time until the delegation expires: "3 days" */
    /* why no valid delegation was found, "" if one was found; remedy for this problem */
    char problem[DOCTOR_TEXT_BYTES], remedy[DOCTOR_TEXT_BYTES];
};

/* The facts about a machine. UINT64_MAX is a limit without a bound. */
struct doctor_facts {
    bool has_cuda;   /* this build has CUDA */
    bool has_gpu;    /* an NVIDIA GPU is in this machine */
    int gpu_count;   /* number of GPUs that this process can use */
    char driver[32]; /* "580.65.06"; "" unknown */
    /* how to install an NVIDIA driver that is new enough */
    char driver_remedy[DOCTOR_TEXT_BYTES];
    /* the processor: name, number of CPUs, instruction set */
    char cpu[DOCTOR_TEXT_BYTES];
    uint64_t memory_bytes, memory_free_bytes; /* size of host memory; free part of it */
    uint64_t shared_memory_bytes;             /* free bytes of /dev/shm */
    uint64_t memlock_bytes;                   /* soft limit on locked memory */
    /* hard limit on open files; skep raises the soft limit itself */
    uint64_t open_files_max;
    bool is_overcommit_strict; /* vm.overcommit_memory is 2 */
    struct doctor_folder folders[DOCTOR_FOLDERS];
    int port_error; /* errno of an attempt to listen on DOCTOR_PORT_NUMBER; 0: it is free */
    bool is_clock_synchronized;
    double unix_s; /* the time now */
    /* what the swarm's tracker answers; set by the caller of doctor_read */
    struct doctor_swarm swarm;
};

enum doctor_verdict { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_FAILED };

struct doctor_check {
    const char *name; /* name of what is checked, such as "device" */
    enum doctor_verdict verdict;
    char found[DOCTOR_TEXT_BYTES];  /* what was found, for the report */
    char remedy[DOCTOR_TEXT_BYTES]; /* remedy of the defect; "" if the verdict is DOCTOR_OK */
};

struct doctor_report {
    struct doctor_check checks[DOCTOR_CHECKS_MAX];
    int count, failed; /* number of checks, and of those with DOCTOR_FAILED */
};

void doctor_read(struct doctor_facts *facts);
void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report);

#endif
