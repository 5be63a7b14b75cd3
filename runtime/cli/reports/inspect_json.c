/* inspect_json: the report of `skep inspect` for programs: one document, "format": 1. */
#include "runtime/cli/reports/inspect_report.h"

#include "base/text.h"
#include "runtime/model/model.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 128 };

/* In pieces, because a path of 4 KiB may grow six times. */
static void print_string(const char *value) {
    putchar('"');
    for (size_t length = strlen(value); length > 0;) {
        char piece[PIECE_BYTES + 1];
        char escaped[6 * PIECE_BYTES + 3];
        size_t count = length < PIECE_BYTES ? length : PIECE_BYTES;
        snprintf(piece, sizeof piece, "%.*s", (int)count, value);
        struct text text = text_over(escaped, sizeof escaped);
        text_add_json(&text, piece);
        printf("%.*s", (int)(text.length - 2), escaped + 1);
        value += count;
        length -= count;
    }
    putchar('"');
}

static const char *truth(bool value) {
    return value ? "true" : "false";
}

static void print_shape(const struct blueprint *model) {
    printf("  \"shape\": {\"vocab\": %lld, \"hidden\": %lld, \"ffn\": %lld, \"layers\": %lld, "
           "\"heads\": %lld, \"kv_heads\": %lld, \"head_dim\": %lld, \"max_positions\": %lld,\n",
           (long long)model->vocab, (long long)model->hidden, (long long)model->ffn,
           (long long)model->layers, (long long)model->heads, (long long)model->kv_heads,
           (long long)model->head_dim, (long long)model->max_positions);
    printf("    \"tied\": %s, \"qk_norm\": %s, \"qkv_bias\": %s, \"o_bias\": %s, \"mlp_bias\": "
           "%s},\n",
           truth(model->tied), truth(model->qk_norm), truth(model->qkv_bias), truth(model->o_bias),
           truth(model->mlp_bias));
}

static void print_counts(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    struct param_counts counts = counts_params(model);
    struct token_flops flops = counts_flops_per_token(model, report->sequence);
    printf("  \"parameters\": {\"total\": %lld, \"matrix\": %lld, \"block\": %lld, \"outside\": "
           "%lld, \"by_kind\": {",
           (long long)counts.total, (long long)counts.matrix, (long long)counts.block,
           (long long)counts.outside);
    const char *separator = "";
    for (int kind = 0; kind < PARAM_KIND_COUNT; kind++) {
        if (counts.by_kind[kind] > 0) {
            printf("%s\"%s\": %lld", separator, param_kind_name((enum param_kind)kind),
                   (long long)counts.by_kind[kind]);
            separator = ", ";
        }
    }
    printf("}},\n  \"parameter_bytes\": {\"f32\": %lld, \"bf16\": %lld, \"f16\": %lld},\n",
           (long long)counts_param_bytes(model, DTYPE_F32),
           (long long)counts_param_bytes(model, DTYPE_BF16),
           (long long)counts_param_bytes(model, DTYPE_F16));
    printf("  \"flops_per_token\": {\"sequence\": %lld, \"products\": %.0f, \"attention\": %.0f, "
           "\"attention_full\": %.0f, \"forward\": %.0f, \"training\": %.0f},\n",
           (long long)report->sequence, flops.products, flops.attention, flops.attention_full,
           flops.forward, flops.training);
    printf("  \"cache_bytes_per_token\": {\"f32\": %lld, \"bf16\": %lld},\n",
           (long long)counts_cache_bytes_per_token(model, DTYPE_F32),
           (long long)counts_cache_bytes_per_token(model, DTYPE_BF16));
}

/* What each rank holds, by rank: names with the elements [first, first + count) of each. */
static void print_holds(const struct inspect_report *report, int unit) {
    for (int64_t rank = 0; rank < report->shards; rank++) {
        struct unit_range range = unit_shard(&report->units->units[unit], report->shards, rank);
        int count = unit_parts(report->units, unit, range, report->parts);
        printf("%s[", rank > 0 ? ",\n      " : ",\n      \"holds\": [");
        for (int i = 0; i < count; i++) {
            const struct unit_part *part = &report->parts[i];
            printf("%s{\"name\": \"%s\", \"first\": %lld, \"count\": %lld}", i > 0 ? ", " : "",
                   report->blueprint->params[part->param].name, (long long)part->first,
                   (long long)part->count);
        }
        printf("]");
    }
    printf("]");
}

static void print_units(const struct inspect_report *report) {
    printf("  \"units\": [");
    for (int i = 0; i < report->units->unit_count; i++) {
        const struct unit *unit = &report->units->units[i];
        printf("%s\n    {\"name\": \"%s\", \"parameters\": %lld, \"elements\": %lld, \"padding\": "
               "%lld",
               i > 0 ? "," : "", unit->name, (long long)(unit->elements - unit->padding_elements),
               (long long)unit->elements, (long long)unit->padding_elements);
        for (int64_t rank = 0; rank < report->shards; rank++) {
            struct unit_range range = unit_shard(unit, report->shards, rank);
            printf("%s[%lld, %lld]", rank > 0 ? ", " : ", \"shards\": [", (long long)range.begin,
                   (long long)range.end);
        }
        if (report->shards > 0) {
            printf("]");
            print_holds(report, i);
        }
        printf("}");
    }
    printf("\n  ],\n");
}

static void print_tensors(const struct blueprint *model) {
    printf("  \"tensors\": [");
    for (int i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        printf("%s\n    {\"name\": \"%s\", \"kind\": \"%s\", ", i > 0 ? "," : "", param->name,
               param_kind_name(param->kind));
        if (param->layer != PARAM_NO_LAYER) {
            printf("\"layer\": %d, ", param->layer);
        } else {
            printf("\"layer\": null, ");
        }
        if (param->rank == 2) {
            printf("\"shape\": [%lld, %lld]}", (long long)param->shape[0],
                   (long long)param->shape[1]);
        } else {
            printf("\"shape\": [%lld]}", (long long)param->shape[0]);
        }
    }
    printf("\n  ]\n");
}

void inspect_print_json(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    printf("{\n  \"format\": 1,\n  \"model\": ");
    print_string(report->model);
    printf(",\n  \"model_type\": \"%s\",\n  \"dtype\": \"%s\",\n  \"weights\": ", model->model_type,
           dtype_name(model->checkpoint_dtype));
    if (report->weights != NULL) {
        print_string(report->weights);
    } else {
        printf("null");
    }
    printf(",\n");
    if (report->shards > 0) {
        printf("  \"shards\": %lld,\n", (long long)report->shards);
    }
    print_shape(model);
    print_counts(report);
    print_units(report);
    print_tensors(model);
    printf("}\n");
}
