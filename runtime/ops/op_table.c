/* op_table: maps the kind of an op to its operation. */
#include "runtime/ops/operation.h"

#define OP(kind, name, operands) [OP_##kind] = &name##_operation,
static const struct operation *const OPERATIONS[OP_KIND_COUNT] = {OP_LIST(OP)};
#undef OP

static const struct operation *find_operation(enum op_kind kind) {
    ASSERT(kind < OP_KIND_COUNT);
    return OPERATIONS[kind];
}

enum op_work op_work(enum op_kind kind) {
    return find_operation(kind)->work;
}

const struct tensor *op_tensor(const struct op_source *source, int operand) {
    int tensor = source->op->operands[operand];
    ASSERT(operand < op_row(source->op->kind)->operand_count && tensor != TENSOR_NONE);
    return &source->graph->tensors[tensor];
}

union kernel_args op_args(const struct graph *graph, const struct op *op,
                          const struct target *device) {
    const struct operation *operation = find_operation(op->kind);
    struct op_source source = {.graph = graph, .op = op, .device = device};
    ASSERT(operation->args != NULL);
    source.shape = op_tensor(&source, operation->shape_operand);
    return operation->args(&source);
}

union kernel_args op_args_of_rank(const struct instruction *instruction,
                                  const int index[static AXIS_COUNT]) {
    const struct operation *operation = find_operation(instruction->op);
    union kernel_args args = instruction->args;
    if (operation->args_of_rank != NULL) {
        operation->args_of_rank(&args, index);
    }
    return args;
}

uint64_t op_workspace_bytes(const struct instruction *instruction,
                            const struct op_hardware *machine) {
    const struct operation *operation = find_operation(instruction->op);
    ASSERT(machine->device != NULL || machine->threads >= 1);
    return operation->workspace_bytes == NULL ? 0
                                              : operation->workspace_bytes(instruction, machine);
}

double op_flops(const struct instruction *instruction) {
    const struct operation *operation = find_operation(instruction->op);
    return operation->flops == NULL ? 0 : operation->flops(instruction);
}

double op_traffic_bytes(const struct instruction *instruction) {
    const struct operation *operation = find_operation(instruction->op);
    double bytes = 0;
    for (int k = 0; k < OPERANDS_MAX; k++) {
        const struct operand *operand = &instruction->operands[k];
        if (operand->extent != EXTENT_NONE) {
            double passes = operand->access == ACCESS_UPDATE ? 2 : 1;
            bytes += passes * (double)operand->bytes;
        }
    }
    return operation->bytes == NULL ? bytes : operation->bytes(instruction, bytes);
}

void op_append_text(const struct instruction *instruction, struct text *line) {
    const struct operation *operation = find_operation(instruction->op);
    if (operation->text != NULL) {
        operation->text(&instruction->args, line);
    }
}

void op_run(const struct compute *compute, const struct op_call *call) {
    const struct operation *operation = find_operation(call->instruction->op);
    if (operation->work == OP_WORK_NONE) {
        return;
    }
    ASSERT(operation->run != NULL);
    operation->run(compute, call);
}

void op_enqueue(const struct cuda_compute *compute, const struct op_call *call) {
    const struct operation *operation = find_operation(call->instruction->op);
    ASSERT(operation->enqueue != NULL);
    operation->enqueue(compute, call);
}

void op_choose_algorithms(struct cuda_products *products, const struct op_call *call) {
    const struct operation *operation = find_operation(call->instruction->op);
    if (operation->choose_algorithms != NULL) {
        operation->choose_algorithms(products, call);
    }
}
