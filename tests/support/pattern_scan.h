/* pattern_scan: watches every byte of a bound program's arenas around each instruction. Bytes that
 * no living extent covers hold a pattern; after the instruction the pattern still stands, and of
 * the living bytes only those changed that the instruction names as written or as workspace. */
#ifndef SKEP_TESTS_SUPPORT_PATTERN_SCAN_H
#define SKEP_TESTS_SUPPORT_PATTERN_SCAN_H

#include "runtime/program/program.h"

#include <stdbool.h>

/* The first byte that changed and should not have. */
struct stray_write {
    bool found;
    uint32_t instruction;
    enum space space;
    uint64_t offset;
    const char *extent; /* whose life covers the byte now; NULL: nobody's */
};

/* Executes an instruction: program_execute_instruction, or a function that also commits a
 * deliberate error. */
typedef void scanned_run(struct bound_program *bound, uint32_t index);

struct pattern_scan {
    const struct bound_program *bound;
    scanned_run *run;
    unsigned char *before[SPACE_COUNT]; /* the arenas as they were before the instruction */
    struct stray_write stray;
};

/* memory  as much again as the arenas, in `region` */
void pattern_scan_init(struct pattern_scan *scan, const struct bound_program *bound,
                       scanned_run *run, struct region *region);

/* pattern_scan_step: fill, run instruction `index`, compare. Has the form of a small_step; context
 * is the scan. Does nothing more than run once a stray write was found. */
void pattern_scan_step(void *context, struct bound_program *bound, uint32_t index);

#endif
