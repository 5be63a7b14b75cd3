/* inspect_text: the report of `skep inspect` for people. */
#include "runtime/cli/reports/inspect_report.h"

#include "base/text.h"
#include "runtime/model/model.h"

#include <stdio.h>
#include <string.h>

static void print_shape(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    printf("%s: %s in %s, %s\n", report->model, model->model_type,
           dtype_name(model->checkpoint_dtype),
           report->weights != NULL ? report->weights : "no weights here");
    printf("  %lld layers, hidden %lld, ffn %lld, %lld heads of %lld (%lld key-value), vocabulary "
           "%lld, positions %lld\n",
           (long long)model->layers, (long long)model->hidden, (long long)model->ffn,
           (long long)model->heads, (long long)model->head_dim, (long long)model->kv_heads,
           (long long)model->vocab, (long long)model->max_positions);
    if (model->notice != NULL) {
        printf("  note: %s\n", model->notice);
    }
}

static void print_counts(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    struct param_counts counts = counts_params(model);
    struct token_flops flops = counts_flops_per_token(model, report->sequence);
    char a[32];
    char b[32];
    char c[32];
    char d[32];
    printf("\nparameters      %s (%s): %s a block, %s outside blocks%s\n",
           text_grouped((uint64_t)counts.total, a), text_count((double)counts.total, b),
           text_count((double)counts.block, c), text_count((double)counts.outside, d),
           model->tied ? ", head tied to the embedding" : "");
    printf("stored          %s in f32, %s in bf16\n",
           text_bytes((uint64_t)counts_param_bytes(model, DTYPE_F32), a),
           text_bytes((uint64_t)counts_param_bytes(model, DTYPE_BF16), b));
    printf("per token       %s FLOPs forward, %s in training, at sequences of %lld\n",
           text_count(flops.forward, a), text_count(flops.training, b),
           (long long)report->sequence);
    printf("                of them attention %.1f %% (%.1f %% if masked scores count too)\n",
           100 * flops.attention / flops.forward,
           100 * flops.attention_full / (flops.products + flops.attention_full));
    printf("cache           %s a token in bf16\n",
           text_bytes((uint64_t)counts_cache_bytes_per_token(model, DTYPE_BF16), a));
}

int inspect_alike_end(const struct inspect_report *report, int first) {
    int end = first + 1;
    const struct unit *units = report->units->units;
    while (end < report->units->unit_count && units[first].layer != PARAM_NO_LAYER &&
           units[end].layer != PARAM_NO_LAYER) {
        end++;
    }
    return end;
}

const char *inspect_units_name(const struct inspect_report *report, int first, int end,
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
    char name[48];
    char count[32];
    char bytes[24];
    printf("\nunits           each parameters          bf16   padding\n");
    for (int first = 0; first < report->units->unit_count;) {
        const struct unit *unit = &report->units->units[first];
        int end = inspect_alike_end(report, first);
        printf("%-16s%15s  %12s  %8lld\n", inspect_units_name(report, first, end, name),
               text_grouped((uint64_t)(unit->elements - unit->padding_elements), count),
               text_bytes((uint64_t)(unit->elements * dtype_bytes(DTYPE_BF16)), bytes),
               (long long)unit->padding_elements);
        first = end;
    }
}

static void print_tensor(const struct param *param, int64_t layers) {
    char name[NAME_BYTES + 16];
    if (param->layer == PARAM_NO_LAYER) {
        snprintf(name, sizeof name, "%s", param->name);
    } else {
        const char *number = strstr(param->name, ".0.");
        ASSERT(number != NULL);
        snprintf(name, sizeof name, "%.*s.{0..%lld}.%s", (int)(number - param->name), param->name,
                 (long long)layers - 1, number + 3);
    }
    if (param->rank == 2) {
        printf("  %-56s [%lld, %lld]\n", name, (long long)param->shape[0],
               (long long)param->shape[1]);
    } else {
        printf("  %-56s [%lld]\n", name, (long long)param->shape[0]);
    }
}

void inspect_print_text(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    print_shape(report);
    print_counts(report);
    print_units(report);
    if (report->shards > 0) {
        inspect_print_shards(report);
    }
    printf("\ntensors         %d\n", model->param_count);
    for (int i = 0; i < model->param_count; i++) {
        if (model->params[i].layer <= 0) {
            print_tensor(&model->params[i], model->layers);
        }
    }
}
