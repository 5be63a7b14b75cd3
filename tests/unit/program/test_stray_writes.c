/* No instruction writes a byte that it does not name, nor computes with one that nobody owns: the
 * pattern scan over small programs of all families, and proof that the scan sees what it should. */
#include "tests/support/pattern_scan.h"
#include "tests/support/small_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 77, CONFIGURATIONS = 40, PLANTED_CONFIGURATIONS = 5 };

static uint32_t planted_at; /* the instruction after which a byte is spoilt */
static uint64_t planted_offset;
static enum space planted_space;

static const char *named(const char *extent) {
    return extent != NULL ? extent : "nobody's bytes";
}

static void instructions_write_only_what_they_name(void **state) {
    (void)state;
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program small;
        struct pattern_scan scan;
        small_program_init(&small, SEED, index);
        pattern_scan_init(&scan, &small.bound, program_execute_instruction, &small.region);
        small_program_run(&small, pattern_scan_step, &scan);
        if (scan.stray.found) {
            const struct instruction *at =
                &small.program.schedule.instructions[scan.stray.instruction];
            fail_msg("%s: instruction %u (%s in %s) wrote byte %llu of %s, %s", small.title,
                     scan.stray.instruction, op_row(at->op)->name,
                     segment_name((enum segment_kind)at->segment),
                     (unsigned long long)scan.stray.offset, space_name(scan.stray.space),
                     named(scan.stray.extent));
        }
        small_program_finish(&small);
    }
}

static void results_do_not_depend_on_bytes_that_nobody_owns(void **state) {
    (void)state;
    for (uint64_t index = 0; index < CONFIGURATIONS; index++) {
        static struct small_program small;
        struct pattern_scan scan;
        small_program_init(&small, SEED, index);
        small_program_run(&small, NULL, NULL);
        struct hash plain = small_program_result(&small);
        small_program_finish(&small);
        small_program_init(&small, SEED, index);
        pattern_scan_init(&scan, &small.bound, program_execute_instruction, &small.region);
        small_program_run(&small, pattern_scan_step, &scan);
        struct hash scanned = small_program_result(&small);
        if (memcmp(&plain, &scanned, sizeof plain) != 0) {
            fail_msg("%s: other weights when dead bytes hold a pattern", small.title);
        }
        small_program_finish(&small);
    }
}

static void run_and_spoil(struct bound_program *bound, uint32_t index) {
    program_execute_instruction(bound, index);
    if (index == planted_at) {
        bound->base[planted_space][planted_offset] ^= 1;
    }
}

/* The byte behind the last written operand of the instruction; false when it writes nothing, or
 * ends where its arena does. */
static bool behind_an_operand(const struct program *program, uint32_t index) {
    const struct instruction *instruction = &program->schedule.instructions[index];
    for (int k = 0; k < OPERANDS_MAX; k++) {
        const struct operand *operand = &instruction->operands[k];
        if (operand->extent == EXTENT_NONE || (operand->access & ACCESS_WRITE) == 0) {
            continue;
        }
        const struct extent *extent = &program->schedule.extents[operand->extent];
        planted_offset = program->plan.offsets[operand->extent] + operand->offset + operand->bytes;
        planted_space = extent->space;
        planted_at = index;
        return planted_offset < program->plan.peak_bytes[extent->space];
    }
    return false;
}

/* Whether another operand of the same instruction owns that byte. */
static bool named_by_another(const struct program *program, uint32_t index) {
    const struct instruction *instruction = &program->schedule.instructions[index];
    for (int k = 0; k <= OPERANDS_MAX; k++) {
        const struct operand *operand =
            k < OPERANDS_MAX ? &instruction->operands[k] : &instruction->workspace;
        if (operand->extent == EXTENT_NONE || (operand->access & ACCESS_WRITE) == 0) {
            continue;
        }
        const struct extent *extent = &program->schedule.extents[operand->extent];
        uint64_t first = program->plan.offsets[operand->extent] + operand->offset;
        if (extent->space == planted_space && first <= planted_offset &&
            planted_offset < first + operand->bytes) {
            return true;
        }
    }
    return false;
}

static void a_planted_byte_is_found_at_its_instruction(void **state) {
    (void)state;
    int planted = 0;
    for (uint64_t index = 0; index < PLANTED_CONFIGURATIONS; index++) {
        static struct small_program small;
        small_program_init(&small, SEED, index);
        int count = small.program.schedule.instruction_count;
        for (int at = 0; at < count; at += 1 + count / 8) {
            if (!behind_an_operand(&small.program, (uint32_t)at) ||
                named_by_another(&small.program, (uint32_t)at)) {
                continue;
            }
            struct pattern_scan scan;
            pattern_scan_init(&scan, &small.bound, run_and_spoil, &small.region);
            small_program_run(&small, pattern_scan_step, &scan);
            assert_true(scan.stray.found);
            assert_int_equal(scan.stray.instruction, at);
            assert_int_equal(scan.stray.space, planted_space);
            assert_int_equal(scan.stray.offset, planted_offset);
            planted++;
        }
        small_program_finish(&small);
    }
    assert_true(planted >= 2 * PLANTED_CONFIGURATIONS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_write_only_what_they_name),
        cmocka_unit_test(results_do_not_depend_on_bytes_that_nobody_owns),
        cmocka_unit_test(a_planted_byte_is_found_at_its_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
