/* disk_double: wraps the file calls of the code under test (linked with --wrap): counts them, kills
 * the process or fails at a chosen call, and records the bytes that a power cut would have lost. */
#ifndef SKEP_TESTS_UNIT_CHECKPOINT_DISK_DOUBLE_H
#define SKEP_TESTS_UNIT_CHECKPOINT_DISK_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

enum disk_mode {
    DISK_PASS,  /* count only */
    DISK_KILL,  /* end the process before the chosen call */
    DISK_TEAR,  /* the same, but half of a write is done first */
    DISK_ERROR, /* the chosen call fails: EIO, or ENOSPC when it needs space */
};

enum { DISK_KILLED = 9 }; /* the exit code of a killed process */

/* disk_begin: count from here; act at call `at` (from 1). Without `can_exchange` renameat2 fails as
 * on file systems that cannot exchange names. */
void disk_begin(enum disk_mode mode, int at, bool can_exchange);
/* disk_end: pass everything again; gives the calls counted. */
int disk_end(void);

/* disk_violations: how often, since disk_begin, a folder was renamed to step-N while it held
 * something not yet durable, or something was removed before that rename was durable. */
int disk_violations(void);

/* disk_read_bytes: read from files since disk_begin. */
int64_t disk_read_bytes(void);

/* disk_allocations: calls of malloc and its kin in the whole process since disk_begin; the bytes
 * that they asked for. */
int disk_allocations(void);
int64_t disk_allocated_bytes(void);

#endif
