/* small_program: programs of tiny models of every family, drawn from a seed, compiled, bound and
 * filled, for tests that run all their segments. */
#ifndef SKEP_TESTS_SUPPORT_SMALL_PROGRAM_H
#define SKEP_TESTS_SUPPORT_SMALL_PROGRAM_H

#include "runtime/program/program.h"

#include <stdint.h>

enum { SMALL_CONFIG_BYTES = 1024, SMALL_LOSSES = 3 };

struct small_program {
    char config[SMALL_CONFIG_BYTES]; /* the model's config.json */
    char title[256];                 /* what was drawn, for failure messages */
    struct region region;
    struct blueprint blueprint;
    struct target target;
    struct schedule_options options;
    struct program program;
    struct bound_program bound;
    double losses[SMALL_LOSSES]; /* sums, of a run: of both steps, then of the evaluation */
    double norms[2];             /* of both steps' gradients */
};

/* Runs one instruction of a segment. */
typedef void small_step(void *context, struct bound_program *bound, uint32_t index);

/* small_program_init: draw configuration `index` of `seed`: family (index % 5), sizes, dtypes,
 * recompute, microbatch, accumulation, threads, unified memory or not; compile, bind, fill
 * constants, parameters and moments. The same arguments give the same program. A failure fails the
 * running cmocka test.
 * memory  small_program_finish gives it back */
void small_program_init(struct small_program *small, uint64_t seed, uint64_t index);

/* small_program_init_on: the same drawn, but on `device` and not on this machine; NULL: on it. */
void small_program_init_on(struct small_program *small, uint64_t seed, uint64_t index,
                           const struct target *device);

/* small_program_run: every segment as a training run meets them: load; twice begin, accumulation
 * times microbatch, finish; evaluate; prefill; decode; snapshot.
 * step  called for every instruction in order; NULL: program_execute_instruction, or
 *       program_execute_segment on a device */
void small_program_run(struct small_program *small, small_step *step, void *context);

/* small_program_result: a hash of the parameters, masters and moments as they are now. */
struct hash small_program_result(const struct small_program *small);

void small_program_finish(struct small_program *small);

#endif
