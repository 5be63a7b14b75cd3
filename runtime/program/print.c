#include "runtime/program/print.h"

#include "base/text.h"

enum { LINE_BYTES = 4096 };

static const char *const LANE_NAMES[LANE_COUNT] = {"compute", "collective", "copy"};

static const char *const AXIS_NAMES[AXIS_COUNT] = {"shard", "replicate", "world"};

static void send(struct text *line, program_sink *sink, void *context) {
    ASSERT(!line->cut);
    sink(context, line->bytes, line->length);
}

/* "extent SPACE OFFSET BYTES FIRST LAST ROLE NAME", in extent order. */
static void print_extents(const struct program *program, program_sink *sink, void *context) {
    for (int i = 0; i < program->schedule.extent_count; i++) {
        const struct extent *extent = &program->schedule.extents[i];
        char buffer[LINE_BYTES];
        struct text line = text_over(buffer, sizeof buffer);
        text_add(&line, "extent %s %llu %llu %u %u %s %s\n", space_name(extent->space),
                 (unsigned long long)program->plan.offsets[i], (unsigned long long)extent->bytes,
                 extent->first, extent->last, extent_role_name(extent->role), extent->name);
        send(&line, sink, context);
    }
}

static void add_matmul(struct text *line, const struct matmul_args *args) {
    text_add(line, " [%lld,%lld]x[%lld,%lld]%s%s%s%s %s>%s ld %lld,%lld,%lld", (long long)args->m,
             (long long)args->k, (long long)args->k, (long long)args->n,
             args->transpose_a ? " at" : "", args->transpose_b ? " bt" : "",
             args->bias ? " bias" : "", args->accumulate ? " add" : "", dtype_name(args->dtype_in),
             dtype_name(args->dtype_out), (long long)args->lda, (long long)args->ldb,
             (long long)args->ldc);
}

static void add_attention(struct text *line, const struct attention_args *args) {
    text_add(line,
             " rows %lld time %lld heads %lld/%lld dim %lld window %lld %s stride %lld,%lld,%lld",
             (long long)args->rows, (long long)args->time, (long long)args->heads,
             (long long)args->kv_heads, (long long)args->head_dim, (long long)args->window,
             dtype_name(args->dtype), (long long)args->q_stride, (long long)args->kv_stride,
             (long long)args->out_stride);
}

static void add_adamw(struct text *line, const struct adamw_args *args) {
    text_add(line, " %lld beta %.9g,%.9g eps %.9g decay %.9g moments %s params %s",
             (long long)args->count, (double)args->beta1, (double)args->beta2,
             (double)args->epsilon, (double)args->weight_decay, dtype_name(args->dtype_moments),
             dtype_name(args->dtype_params));
    if (args->rounding == ROUNDING_STOCHASTIC) {
        text_add(line, " by noise of stream %u", args->stream);
    }
}

static void add_adamw_of_rank(struct text *line, const struct adamw_of_rank *args) {
    add_adamw(line, &args->run);
    text_add(line, " of first %lld%s", (long long)args->decayed_of_unit,
             args->split ? " in unit, split" : "");
}

static void add_collective(struct text *line, const struct collective_args *args) {
    text_add(line, " over %s %s slot %llu", AXIS_NAMES[args->axis], dtype_name(args->wire),
             (unsigned long long)args->slot_bytes);
}

/* An exact sum between GPUs shows by the staging that it names. */
static void add_sum(struct text *line, const struct collective_args *args) {
    add_collective(line, args);
    text_add(line, "%s", args->sum == WIRE_SUM_RING ? " by ring" : "");
}

static void add_tally(struct text *line, const struct tally_args *args) {
    text_add(line, " of %d ranks%s%s", args->ranks, args->parts & TALLY_TOKENS ? " tokens" : "",
             args->parts & TALLY_LOSS ? " loss" : "");
    if (args->parts & TALLY_NORM) {
        text_add(line, " norm over %d", args->shard);
    }
}

static void add_elementwise(struct text *line, const struct elementwise_args *args) {
    text_add(line, " %lld %s", (long long)args->count, dtype_name(args->dtype));
}

static void add_rope(struct text *line, const struct rope_args *args) {
    text_add(line, " tokens %lld heads %lld dim %lld%s %s", (long long)args->tokens,
             (long long)args->heads, (long long)args->head_dim, args->inverse ? " inverse" : "",
             dtype_name(args->dtype));
}

static void add_head_loss(struct text *line, const struct head_loss_args *args) {
    text_add(line, " [%lld,%lld]x[%lld,%lld] by %lld %s", (long long)args->tokens,
             (long long)args->dim, (long long)args->dim, (long long)args->vocab,
             (long long)args->chunk, dtype_name(args->dtype));
}

/* Ops of the step around the graph. Those whose kernels take no more than operands print nothing.
 */
static void add_step_args(struct text *line, const struct instruction *instruction) {
    const union kernel_args *args = &instruction->args;
    switch (instruction->op) {
    case OP_ADAMW:
        add_adamw_of_rank(line, &args->adamw);
        break;
    case OP_ACCUMULATE:
        add_elementwise(line, &args->elementwise);
        break;
    case OP_CAST:
        text_add(line, " %lld %s>%s", (long long)args->cast.count, dtype_name(args->cast.from),
                 dtype_name(args->cast.to));
        break;
    case OP_ALL_GATHER:
        add_collective(line, &args->collective);
        break;
    case OP_REDUCE_SCATTER:
        add_sum(line, &args->collective);
        break;
    case OP_TALLY_IN:
        add_tally(line, &args->tally);
        break;
    case OP_CLIP:
        text_add(line, " %.9g", (double)args->clip_norm);
        break;
    default:
        break;
    }
}

static void add_args(struct text *line, const struct instruction *instruction) {
    const union kernel_args *args = &instruction->args;
    switch (instruction->op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
        add_matmul(line, &args->matmul);
        break;
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
    case OP_ATTENTION_CACHED:
        add_attention(line, &args->attention);
        break;
    case OP_RMSNORM:
    case OP_RMSNORM_BACKWARD:
    case OP_LAYERNORM:
    case OP_LAYERNORM_BACKWARD:
        text_add(line, " [%lld,%lld] eps %.9g %s", (long long)args->norm.rows,
                 (long long)args->norm.dim, (double)args->norm.epsilon,
                 dtype_name(args->norm.dtype));
        break;
    case OP_EMBEDDING:
    case OP_EMBEDDING_BACKWARD:
        text_add(line, " [%lld,%lld] of %lld padding %lld %s", (long long)args->embedding.tokens,
                 (long long)args->embedding.dim, (long long)args->embedding.vocab,
                 (long long)args->embedding.padding, dtype_name(args->embedding.dtype));
        break;
    case OP_ROPE:
        add_rope(line, &args->rope);
        break;
    case OP_HEAD_LOSS:
    case OP_HEAD_LOSS_GRADIENT:
        add_head_loss(line, &args->head_loss);
        break;
    case OP_CACHE_APPEND:
    case OP_SELECT_LAST:
        text_add(line, " [%lld,%lld] of %lld %s", (long long)args->generation.tokens,
                 (long long)args->generation.width, (long long)args->generation.context,
                 dtype_name(args->generation.dtype));
        break;
    case OP_SWIGLU:
    case OP_SWIGLU_BACKWARD:
    case OP_GELU:
    case OP_GELU_BACKWARD:
    case OP_ADD:
        add_elementwise(line, &args->elementwise);
        break;
    case OP_COLUMN_SUM:
        text_add(line, " [%lld,%lld] %s", (long long)args->column_sum.rows,
                 (long long)args->column_sum.columns, dtype_name(args->column_sum.dtype));
        break;
    default:
        add_step_args(line, instruction);
        break;
    }
}

static void add_operand(struct text *line, const struct schedule *schedule,
                        const struct operand *operand) {
    if (operand->extent == EXTENT_NONE) {
        return;
    }
    const char *mark = operand->access == ACCESS_READ    ? "<"
                       : operand->access == ACCESS_WRITE ? ">"
                                                         : "=";
    text_add(line, " %s%s", mark, schedule->extents[operand->extent].name);
    if (operand->offset != 0) {
        text_add(line, "+%llu", (unsigned long long)operand->offset);
    }
    if (operand->stride != 0) {
        text_add(line, "+%s*%llu", AXIS_NAMES[operand->axis], (unsigned long long)operand->stride);
    }
    text_add(line, ":%llu", (unsigned long long)operand->bytes);
}

void program_print_instruction(const struct program *program, uint32_t index, program_sink *sink,
                               void *context) {
    const struct schedule *schedule = &program->schedule;
    const struct instruction *instruction = &schedule->instructions[index];
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    text_add(&line, "%6u %-7s %-20s", index, LANE_NAMES[instruction->lane],
             op_row(instruction->op)->name);
    add_args(&line, instruction);
    text_add(&line, " |");
    for (int k = 0; k < OPERANDS_MAX; k++) {
        add_operand(&line, schedule, &instruction->operands[k]);
    }
    add_operand(&line, schedule, &instruction->workspace);
    for (int k = 0; k < WAITS_MAX; k++) {
        if (instruction->waits[k] != EVENT_NONE) {
            text_add(&line, " wait %u", instruction->waits[k]);
        }
    }
    if (instruction->signal != EVENT_NONE) {
        text_add(&line, " signal %u", instruction->signal);
    }
    text_add(&line, "\n");
    send(&line, sink, context);
}

void program_print_instructions(const struct program *program, program_sink *sink, void *context) {
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &program->schedule.segments[kind];
        if (segment->first == segment->end) {
            continue;
        }
        char buffer[LINE_BYTES];
        struct text line = text_over(buffer, sizeof buffer);
        text_add(&line, "segment %s x %lld\n", segment_name((enum segment_kind)kind),
                 (long long)segment->repeat);
        send(&line, sink, context);
        for (uint32_t i = segment->first; i < segment->end; i++) {
            program_print_instruction(program, i, sink, context);
        }
    }
}

static void hash_line(void *context, const char *line, size_t length) {
    hash_add(context, line, length);
}

struct hash program_hash(const struct program *program) {
    struct hash_state state;
    hash_begin(&state);
    print_extents(program, hash_line, &state);
    program_print_instructions(program, hash_line, &state);
    return hash_end(&state);
}
