/* inspect_json: the report of `skep inspect` as one JSON document, "format": 1. */
#include "runtime/cli/reports/reports.h"
#include "runtime/model/model.h"

static void add_shape(struct json_writer *json, const struct blueprint *model) {
    json_begin_object(json_newline(json, 2), "shape");
    json_add_i64(json, "vocab", model->vocab);
    json_add_i64(json, "hidden", model->hidden);
    json_add_i64(json, "ffn", model->ffn);
    json_add_i64(json, "layers", model->layers);
    json_add_i64(json, "heads", model->heads);
    json_add_i64(json, "kv_heads", model->kv_heads);
    json_add_i64(json, "head_dim", model->head_dim);
    json_add_i64(json, "max_positions", model->max_positions);
    json_add_bool(json_newline(json, 4), "tied", model->tied);
    json_add_bool(json, "qk_norm", model->qk_norm);
    json_add_bool(json, "qkv_bias", model->qkv_bias);
    json_add_bool(json, "o_bias", model->o_bias);
    json_add_bool(json, "mlp_bias", model->mlp_bias);
    json_end(json);
}

static void add_parameters(struct json_writer *json, const struct blueprint *model) {
    struct param_counts counts = counts_params(model);
    json_begin_object(json_newline(json, 2), "parameters");
    json_add_i64(json, "total", counts.total);
    json_add_i64(json, "matrix", counts.matrix_params);
    json_add_i64(json, "block", counts.one_layer);
    json_add_i64(json, "outside", counts.outside_layers);
    json_begin_object(json, "by_kind");
    for (int kind = 0; kind < PARAM_KIND_COUNT; kind++) {
        if (counts.by_kind[kind] > 0) {
            json_add_i64(json, param_kind_name((enum param_kind)kind), counts.by_kind[kind]);
        }
    }
    json_end(json);
    json_end(json);
    json_begin_object(json_newline(json, 2), "parameter_bytes");
    json_add_i64(json, "f32", counts_param_bytes(model, DTYPE_F32));
    json_add_i64(json, "bf16", counts_param_bytes(model, DTYPE_BF16));
    json_add_i64(json, "f16", counts_param_bytes(model, DTYPE_F16));
    json_end(json);
}

static void add_costs_per_token(struct json_writer *json, const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    struct token_flops flops = counts_flops_per_token(model, report->sequence);
    json_begin_object(json_newline(json, 2), "flops_per_token");
    json_add_i64(json, "sequence", report->sequence);
    json_add_fixed(json, "products", flops.matrix_products, 0);
    json_add_fixed(json, "attention", flops.attention, 0);
    json_add_fixed(json, "attention_full", flops.attention_unmasked, 0);
    json_add_fixed(json, "forward", flops.forward, 0);
    json_add_fixed(json, "training", flops.training, 0);
    json_end(json);
    json_begin_object(json_newline(json, 2), "cache_bytes_per_token");
    json_add_i64(json, "f32", counts_cache_bytes_per_token(model, DTYPE_F32));
    json_add_i64(json, "bf16", counts_cache_bytes_per_token(model, DTYPE_BF16));
    json_end(json);
}

/* Adds the shards of a unit, each with the parameters of which it contains elements. */
static void add_unit_shards(struct json_writer *json, const struct inspect_report *report,
                            int unit_index) {
    const struct unit *unit = &report->units->units[unit_index];
    json_begin_array(json, "shards");
    for (int64_t rank = 0; rank < report->shards; rank++) {
        struct unit_range range = unit_shard_range(unit, report->shards, rank);
        json_begin_array(json, NULL);
        json_add_i64(json, NULL, range.begin);
        json_add_i64(json, NULL, range.end);
        json_end(json);
    }
    json_end(json);
    json_begin_array(json_newline(json, 6), "holds");
    for (int64_t rank = 0; rank < report->shards; rank++) {
        struct unit_range range = unit_shard_range(unit, report->shards, rank);
        int count = unit_list_parts(report->units, unit_index, range, report->parts);
        if (rank > 0) {
            json_newline(json, 6);
        }
        json_begin_array(json, NULL);
        for (int i = 0; i < count; i++) {
            json_begin_object(json, NULL);
            json_add_text(json, "name", report->blueprint->params[report->parts[i].param].name);
            json_add_i64(json, "first", report->parts[i].first);
            json_add_i64(json, "count", report->parts[i].count);
            json_end(json);
        }
        json_end(json);
    }
    json_end(json);
}

static void add_units(struct json_writer *json, const struct inspect_report *report) {
    json_begin_array(json_newline(json, 2), "units");
    for (int i = 0; i < report->units->unit_count; i++) {
        const struct unit *unit = &report->units->units[i];
        json_begin_object(json_newline(json, 4), NULL);
        json_add_text(json, "name", unit->name);
        json_add_i64(json, "parameters", unit->elements - unit->padding_elements);
        json_add_i64(json, "elements", unit->elements);
        json_add_i64(json, "padding", unit->padding_elements);
        if (report->shards > 0) {
            add_unit_shards(json, report, i);
        }
        json_end(json);
    }
    json_end(json_newline(json, 2));
}

static void add_tensors(struct json_writer *json, const struct blueprint *model) {
    json_begin_array(json_newline(json, 2), "tensors");
    for (int i = 0; i < model->param_count; i++) {
        const struct param *param = &model->params[i];
        json_begin_object(json_newline(json, 4), NULL);
        json_add_text(json, "name", param->name);
        json_add_text(json, "kind", param_kind_name(param->kind));
        if (param->layer != PARAM_NO_LAYER) {
            json_add_i64(json, "layer", param->layer);
        } else {
            json_add_null(json, "layer");
        }
        json_begin_array(json, "shape");
        json_add_i64(json, NULL, param->shape[0]);
        if (param->rank == 2) {
            json_add_i64(json, NULL, param->shape[1]);
        }
        json_end(json);
        json_end(json);
    }
    json_end(json_newline(json, 2));
}

static void add_tokenizer(struct json_writer *json, const struct inspect_report *report) {
    json_newline(json, 2);
    if (report->tokenizer_ids == 0 && report->tokenizer_problem == NULL) {
        json_add_null(json, "tokenizer");
        return;
    }
    json_begin_object(json, "tokenizer");
    json_add_bool(json, "usable", report->tokenizer_problem == NULL);
    if (report->tokenizer_problem != NULL) {
        json_add_text(json, "problem", report->tokenizer_problem);
    } else {
        json_add_i64(json, "ids", report->tokenizer_ids);
    }
    json_add_bool(json, "chat_template", report->has_chat_template);
    json_end(json);
}

void inspect_print_json(const struct inspect_report *report) {
    const struct blueprint *model = report->blueprint;
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, 2);
    json_add_text(json_newline(json, 2), "model", report->model);
    json_add_text(json_newline(json, 2), "model_type", model->model_type);
    json_add_text(json_newline(json, 2), "dtype", dtype_name(model->checkpoint_dtype));
    json_newline(json, 2);
    if (report->weights != NULL) {
        json_add_text(json, "weights", report->weights);
    } else {
        json_add_null(json, "weights");
    }
    add_tokenizer(json, report);
    if (report->shards > 0) {
        json_add_i64(json_newline(json, 2), "shards", report->shards);
    }
    add_shape(json, model);
    add_parameters(json, model);
    add_costs_per_token(json, report);
    add_units(json, report);
    add_tensors(json, model);
    json_newline(json, 0);
    json_stdout_end(&out);
}
