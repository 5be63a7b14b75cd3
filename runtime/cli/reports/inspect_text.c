/* inspect_text: the report of `skep inspect` as text. */
#include "runtime/cli/reports/reports.h"

#include "base/text.h"
#include "runtime/model/model.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_RANKS_MAX = 16 /* maximum number of ranks that are listed without -v */ };

static void print_shape(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    printf("%s: %s in %s, %s\n", report->model, model->model_type,
           dtype_name(model->checkpoint_dtype),
           report->weights != NULL ? report->weights : "no weight files");
    printf("  %lld layers, hidden %lld, ffn %lld, %lld heads of %lld (%lld key-value), vocabulary "
           "%lld, positions %lld\n",
           (long long)model->layers, (long long)model->hidden, (long long)model->ffn,
           (long long)model->heads, (long long)model->head_dim, (long long)model->kv_heads,
           (long long)model->vocab, (long long)model->max_positions);
    if (report->tokenizer_problem != NULL) {
        printf("  tokenizer cannot be used: %s\n", report->tokenizer_problem);
    } else if (report->tokenizer_ids > 0) {
        printf("  tokenizer of %lld ids, %s chat template\n", (long long)report->tokenizer_ids,
               report->has_chat_template ? "with a" : "no");
    }
    if (model->notice != NULL) {
        printf("  note: %s\n", model->notice);
    }
}

static void print_counts(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    struct param_counts counts = counts_params(model);
    struct token_flops flops = counts_flops_per_token(model, report->sequence);
    char total[32], rounded[32], block[32], outside[32], forward[32], training[32], bf16[32];
    printf("\nparameters      %s (%s): %s a block, %s outside blocks%s\n",
           text_format_grouped((uint64_t)counts.total, total),
           text_format_count((double)counts.total, rounded),
           text_format_count((double)counts.one_layer, block),
           text_format_count((double)counts.outside_layers, outside),
           model->tied ? ", head tied to the embedding" : "");
    printf("stored          %s in f32, %s in bf16\n",
           text_format_bytes((uint64_t)counts_param_bytes(model, DTYPE_F32), total),
           text_format_bytes((uint64_t)counts_param_bytes(model, DTYPE_BF16), bf16));
    printf("per token       %s FLOPs forward, %s in training, at sequences of %lld\n",
           text_format_count(flops.forward, forward), text_format_count(flops.training, training),
           (long long)report->sequence);
    printf("                attention is %.1f %% of these (%.1f %% with masked scores)\n",
           100 * flops.attention / flops.forward,
           100 * flops.attention_unmasked / (flops.matrix_products + flops.attention_unmasked));
    printf("cache           %s a token in bf16\n",
           text_format_bytes((uint64_t)counts_cache_bytes_per_token(model, DTYPE_BF16), bf16));
}

/* Returns the end of the range of units from `first` on that have equal contents, such as blocks.
 * Their rows in the table are combined. */
static int equal_units_end(const struct inspect_report *report, int first) {
    int end = first + 1;
    const struct unit *units = report->units->units;
    while (end < report->units->unit_count && units[first].layer != PARAM_NO_LAYER &&
           units[end].layer != PARAM_NO_LAYER) {
        end++;
    }
    return end;
}

/* Returns the name of a unit, or a name such as "layers.0..11" for several units. */
static const char *format_units_name(const struct inspect_report *report, int first, int end,
                                     char buffer[static 48]) {
    const struct unit *units = report->units->units;
    if (end - first == 1) {
        snprintf(buffer, 48, "%s", units[first].name);
    } else {
        snprintf(buffer, 48, "layers.%d..%d", units[first].layer, units[end - 1].layer);
    }
    return buffer;
}

static void print_units(const struct inspect_report *report) {
    char name[48], count[32], bytes[24];
    printf("\nunits           each parameters          bf16   padding\n");
    for (int first = 0; first < report->units->unit_count;) {
        const struct unit *unit = &report->units->units[first];
        int end = equal_units_end(report, first);
        printf("%-16s%15s  %12s  %8lld\n", format_units_name(report, first, end, name),
               text_format_grouped((uint64_t)(unit->elements - unit->padding_elements), count),
               text_format_bytes((uint64_t)(unit->elements * dtype_bytes(DTYPE_BF16)), bytes),
               (long long)unit->padding_elements);
        first = end;
    }
}

static void print_tensor(const struct param *param, int64_t layers) {
    char name[NAME_BYTES + 16];
    if (param->layer == PARAM_NO_LAYER) {
        snprintf(name, sizeof name, "%s", param->name);
    } else {
        const char *layer = strstr(param->name, ".0.");
        ASSERT(layer != NULL);
        snprintf(name, sizeof name, "%.*s.{0..%lld}.%s", (int)(layer - param->name), param->name,
                 (long long)layers - 1, layer + strlen(".0."));
    }
    if (param->rank == 2) {
        printf("  %-56s [%lld, %lld]\n", name, (long long)param->shape[0],
               (long long)param->shape[1]);
    } else {
        printf("  %-56s [%lld]\n", name, (long long)param->shape[0]);
    }
}

static bool is_whole_param(const struct inspect_report *report, const struct unit_part *part) {
    const struct unit_table *units = report->units;
    return part->count == units->params[units->position_of_param[part->param]].elements;
}

static int64_t count_elements(const struct unit_part *parts, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += parts[i].count;
    }
    return sum;
}

static void print_parts(const struct inspect_report *report, int count) {
    for (int i = 0; i < count; i++) {
        const struct unit_part *part = &report->parts[i];
        const char *name = report->blueprint->params[part->param].name;
        if (is_whole_param(report, part)) {
            printf("    %s\n", name);
        } else {
            printf("    %s [%lld, %lld)\n", name, (long long)part->first,
                   (long long)(part->first + part->count));
        }
    }
}

static void print_rank_shard(const struct inspect_report *report, int unit, int64_t rank) {
    struct unit_range range = unit_shard_range(&report->units->units[unit], report->shards, rank);
    int count = unit_list_parts(report->units, unit, range, report->parts);
    int whole = 0;
    char bounds[48], partial[24];
    for (int i = 0; i < count; i++) {
        whole += is_whole_param(report, &report->parts[i]);
    }
    snprintf(bounds, sizeof bounds, "%lld..%lld", (long long)range.begin, (long long)range.end);
    snprintf(partial, sizeof partial, "%d partial", count - whole);
    printf("  rank %-5lld %-28s %3d whole, %-11s %12lld padding\n", (long long)rank, bounds, whole,
           partial, (long long)(range.end - range.begin - count_elements(report->parts, count)));
    if (report->is_full) {
        print_parts(report, count);
    }
}

static void print_unit_shards(const struct inspect_report *report, int first, int end) {
    const struct unit *unit = &report->units->units[first];
    int64_t shard_elements = unit_shard_elements(unit, report->shards);
    bool lists_ranks = report->is_full || report->shards <= SHOWN_RANKS_MAX;
    char name[48], count[32], bytes[24];
    printf("%-16s %s elements a rank, %s in f32, %lld padding in total\n",
           format_units_name(report, first, end, name),
           text_format_grouped((uint64_t)shard_elements, count),
           text_format_bytes((uint64_t)shard_elements * sizeof(float), bytes),
           (long long)unit->padding_elements);
    for (int64_t rank = 0; rank < (lists_ranks ? report->shards : 0); rank++) {
        print_rank_shard(report, first, rank);
    }
}

static void print_shard_sum(const struct inspect_report *report) {
    int64_t elements = 0, padding = 0;
    char count[32], bytes[24];
    for (int unit = 0; unit < report->units->unit_count; unit++) {
        elements += unit_shard_elements(&report->units->units[unit], report->shards);
        padding += report->units->units[unit].padding_elements;
    }
    printf("each rank        %s elements, %s in f32; padding of all ranks %lld (%.4f %%)\n",
           text_format_grouped((uint64_t)elements, count),
           text_format_bytes((uint64_t)elements * sizeof(float), bytes), (long long)padding,
           100 * (double)padding / (double)(elements * report->shards));
}

static void print_shards(const struct inspect_report *report) {
    printf("\nshards           elements of each unit on each of %lld ranks\n",
           (long long)report->shards);
    for (int first = 0; first < report->units->unit_count;) {
        int end = report->is_full ? first + 1 : equal_units_end(report, first);
        print_unit_shards(report, first, end);
        first = end;
    }
    print_shard_sum(report);
    if (!report->is_full) {
        printf("%s\n", report->shards > SHOWN_RANKS_MAX ? "-v lists all ranks and their parameters"
                                                        : "-v lists the parameters of each rank");
    }
}

void inspect_print_text(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    print_shape(report);
    print_counts(report);
    print_units(report);
    if (report->shards > 0) {
        print_shards(report);
    }
    printf("\ntensors         %d\n", model->param_count);
    for (int i = 0; i < model->param_count; i++) {
        if (model->params[i].layer <= 0) {
            print_tensor(&model->params[i], model->layers);
        }
    }
}
