/* Every row of the list of operations has an implementation that its kind of work needs. */
#include "runtime/ops/operation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OP(kind, name, operands) [OP_##kind] = &name##_operation,
static const struct operation *const OPERATIONS[OP_KIND_COUNT] = {OP_LIST(OP)};
#undef OP

static bool runs(enum op_kind kind) {
    return op_work(kind) == OP_WORK_KERNEL || op_work(kind) == OP_WORK_COPY;
}

static void every_operation_that_runs_has_its_calls(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        const struct operation *operation = OPERATIONS[kind];
        bool called = runs((enum op_kind)kind);
        if ((operation->run != NULL) != called ||
            (operation->enqueue != NULL) != (called && SKEP_CUDA)) {
            fail_msg("%s: calls do not agree with its kind of work",
                     op_row((enum op_kind)kind)->name);
        }
    }
}

static void products_and_only_products_choose_algorithms(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        bool product = kind == OP_LINEAR || kind == OP_LINEAR_DX || kind == OP_LINEAR_DW ||
                       kind == OP_HEAD_LOSS || kind == OP_HEAD_LOSS_GRADIENT;
        assert_int_equal(OPERATIONS[kind]->choose_algorithms != NULL, product && SKEP_CUDA);
    }
}

static void the_shape_comes_from_an_operand_that_is_always_there(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        const struct op_row *row = op_row((enum op_kind)kind);
        int shape_operand = OPERATIONS[kind]->shape_operand;
        assert_in_range(shape_operand, 0, row->operand_count - 1);
        assert_false(row->operands[shape_operand].optional);
    }
}

static void a_split_adamw_decays_the_first_elements_of_the_unit_only(void **state) {
    (void)state;
    static const int DECAYED[] = {64, 36, 0};
    struct instruction adamw = {.op = OP_ADAMW};
    adamw.args.adamw = (struct adamw_of_rank){
        .first_rank = {.count = 64, .decayed = 64}, .unit_decayed_elements = 100, .split = true};
    for (int rank = 0; rank < 3; rank++) {
        const int index[AXIS_COUNT] = {[AXIS_SHARD] = rank};
        union kernel_args args = op_args_of_rank(&adamw, index);
        assert_int_equal(args.adamw.first_rank.decayed, DECAYED[rank]);
        assert_int_equal(args.adamw.first_rank.position, 64 * rank);
    }
    adamw.args.adamw.split = false;
    union kernel_args whole = op_args_of_rank(&adamw, (const int[AXIS_COUNT]){2, 0, 2});
    assert_int_equal(whole.adamw.first_rank.decayed, 64);
    assert_int_equal(whole.adamw.first_rank.position, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_that_runs_has_its_calls),
        cmocka_unit_test(products_and_only_products_choose_algorithms),
        cmocka_unit_test(the_shape_comes_from_an_operand_that_is_always_there),
        cmocka_unit_test(a_split_adamw_decays_the_first_elements_of_the_unit_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
