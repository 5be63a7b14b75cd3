/* test_hf_config: what a config.json may not say, each with an error that names it; and
 * defaults. */
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A small valid file; each row adds members, which win over nothing: duplicates are refused. */
#define LLAMA "{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 4"
#define GPT2  "{\"model_type\": \"gpt2\""
#define QWEN2 "{\"model_type\": \"qwen2\", \"hidden_size\": 64, \"num_attention_heads\": 4"
#define QWEN3 "{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"num_attention_heads\": 4"
#define MISTRAL                                                                                    \
    "{\"model_type\": \"mistral\", \"hidden_size\": 64, \"num_attention_heads\": 4, "              \
    "\"num_key_value_heads\": 2"

struct refused {
    const char *text;
    const char *field;  /* in backticks in the reason */
    const char *detail; /* a part of the reason or the remedy */
};

static const struct refused REFUSED[] = {
    /* the family */
    {"{}", "model_type", "is missing; the supported values are llama, mistral, qwen2, qwen3, gpt2"},
    {"{\"model_type\": \"mamba\"}", "model_type", "is \"mamba\"; the supported values are llama"},
    {"{\"model_type\": 3}", "model_type", "is the integer 3, expected a string"},
    {"{\"model_type\": \"llama\\u001b\"}", "model_type", "llama?"},
    /* types */
    {LLAMA ", \"vocab_size\": \"32000\"}", "vocab_size",
     "the string \"32000\", expected an integer"},
    {LLAMA ", \"vocab_size\": 32000.5}", "vocab_size", "expected an integer"},
    {LLAMA ", \"vocab_size\": true}", "vocab_size", "is true, expected an integer"},
    {LLAMA ", \"intermediate_size\": [4, 8]}", "intermediate_size", "is an array"},
    {LLAMA ", \"tie_word_embeddings\": 1}", "tie_word_embeddings", "expected true or false"},
    {LLAMA ", \"rms_norm_eps\": \"1e-5\"}", "rms_norm_eps", "expected a number"},
    {LLAMA ", \"hidden_act\": 1}", "hidden_act", "expected a string"},
    {LLAMA ", \"rope_scaling\": 2.0}", "rope_scaling", "expected an object"},
    {LLAMA ", \"torch_dtype\": {}}", "torch_dtype", "expected a string"},
    {LLAMA ", \"eos_token_id\": \"</s>\"}", "eos_token_id", "expected an integer"},
    {LLAMA ", \"attention_dropout\": \"no\"}", "attention_dropout", "expected a number"},
    /* bounds */
    {LLAMA ", \"vocab_size\": 0}", "vocab_size", "is 0; the allowed range is 1 to 16777216"},
    {LLAMA ", \"vocab_size\": -1}", "vocab_size", "is -1"},
    {LLAMA ", \"vocab_size\": 16777217}", "vocab_size", "is 16777217"},
    {LLAMA ", \"vocab_size\": 9223372036854775807}", "vocab_size", "allowed range is 1 to"},
    {LLAMA ", \"num_hidden_layers\": 1025}", "num_hidden_layers", "allowed range is 1 to 1024"},
    {LLAMA ", \"intermediate_size\": 4194305}", "intermediate_size", "1 to 4194304"},
    {LLAMA ", \"head_dim\": 257}", "head_dim", "1 to 256"},
    {LLAMA ", \"head_dim\": 0}", "head_dim", "is 0"},
    {LLAMA ", \"max_position_embeddings\": 0}", "max_position_embeddings", "is 0"},
    {LLAMA ", \"rms_norm_eps\": -1e-5}", "rms_norm_eps", "is -1e-05; the allowed range is 0 to 1"},
    {LLAMA ", \"initializer_range\": 2}", "initializer_range", "allowed range is 0 to 1"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 1048577}", "hidden_size", "1 to 1048576"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 1048576, \"num_attention_heads\": 1}",
     "num_attention_heads", "the limit is 256"},
    {"{\"model_type\": \"llama\", \"hidden_size\": null, \"num_attention_heads\": 4}",
     "num_attention_heads", "gives a head_dim of 1024; the limit is 256"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": 1048576, \"n_head\": 1}", "n_head",
     "the limit is 256"},
    {GPT2 ", \"n_positions\": 1073741825}", "n_positions", "1 to 1073741824"},
    /* how they fit each other */
    {LLAMA ", \"num_key_value_heads\": 3}", "num_key_value_heads", "number of attention heads, 4"},
    {LLAMA ", \"num_key_value_heads\": 8}", "num_key_value_heads", "is 8"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 6}",
     "num_attention_heads", "does not divide the hidden size 64"},
    {"{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 6}", "n_head", "does not divide"},
    {LLAMA ", \"head_dim\": 15}", "head_dim", "embeddings require an even number"},
    {"{\"model_type\": \"llama\", \"hidden_size\": 36, \"num_attention_heads\": 4}", "head_dim",
     "is 9"},
    {QWEN2 ", \"num_key_value_heads\": null, \"num_hidden_layers\": 2, \"layer_types\": "
           "[\"full_attention\"]}",
     "layer_types", "has 1 entries for 2 layers"},
    {QWEN2 "}", "num_key_value_heads", "is 32"},
    /* mathematics that is not there */
    {LLAMA ", \"hidden_act\": \"gelu\"}", "hidden_act",
     "is \"gelu\"; the supported values are silu, swish"},
    {GPT2 ", \"activation_function\": \"relu\"}", "activation_function", "gelu_new"},
    {GPT2 ", \"activation_function\": \"gelu\"}", "activation_function", "gelu_pytorch_tanh"},
    {GPT2 ", \"scale_attn_weights\": false}", "scale_attn_weights", "is false"},
    {GPT2 ", \"scale_attn_by_inverse_layer_idx\": true}", "scale_attn_by_inverse_layer_idx",
     "is true"},
    {GPT2 ", \"add_cross_attention\": true}", "add_cross_attention",
     "changes what the model computes; the"},
    {GPT2 ", \"rope_theta\": 10000.0}", "rope_theta", "is an unknown field for this"},
    {LLAMA ", \"pretraining_tp\": 2}", "pretraining_tp", "changes what the model computes; the"},
    {LLAMA ", \"partial_rotary_factor\": 0.5}", "partial_rotary_factor",
     "the supported values are 1"},
    {LLAMA ", \"quantization_config\": {\"bits\": 4}}", "quantization_config", "unquantised"},
    {LLAMA ", \"attention_multiplier\": 0.5}", "attention_multiplier", "is an unknown"},
    {LLAMA ", \"residual_multiplier\": 0.22}", "residual_multiplier",
     "changes what the model computes; the"},
    {LLAMA ", \"logits_scaling\": 8}", "logits_scaling", "changes what the model computes; the"},
    {LLAMA ", \"final_logit_softcapping\": 30.0}", "final_logit_softcapping", "is an unknown"},
    {LLAMA ", \"query_pre_attn_scalar\": 256}", "query_pre_attn_scalar", "is an unknown"},
    {LLAMA ", \"num_local_experts\": 8}", "num_local_experts",
     "changes what the model computes; the"},
    {LLAMA ", \"sliding_window\": 4096}", "sliding_window",
     "is an unknown field for this model_type"},
    {LLAMA ", \"auto_map\": {\"AutoModelForCausalLM\": \"modeling_x.X\"}}", "auto_map",
     "the model comes with its own code"},
    {LLAMA ", \"is_causal\": false}", "is_causal", "changes what the model computes; the"},
    {LLAMA ", \"rope_interleaved\": true}", "rope_interleaved",
     "changes what the model computes; the"},
    {MISTRAL ", \"attention_bias\": true}", "attention_bias",
     "changes what the model computes; the"},
    {QWEN2 ", \"num_key_value_heads\": 4, \"use_mrope\": true}", "use_mrope", "changes what the"},
    {LLAMA ", \"head_dims\": 16}", "head_dims", "did you mean `head_dim`?"},
    {LLAMA ", \"ffn_zeta\": 1}", "ffn_zeta", "is an unknown field for this"},
    {LLAMA ", \"torch_dtype\": \"float64\"}", "torch_dtype", "float32, bfloat16 and float16"},
    {LLAMA ", \"torch_dtype\": \"int32\"}", "torch_dtype", "is \"int32\""},
    /* rotary embeddings */
    {LLAMA ", \"rope_theta\": 0}", "rope_theta", "above 0"},
    {LLAMA ", \"rope_theta\": -1.0}", "rope_theta", "is -1"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}", "rope_scaling.type",
     "is \"dynamic\"; the supported types are default, linear, llama3"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, "
           "\"original_max_position_embeddings\": 32768}}",
     "rope_scaling.rope_type", "is \"yarn\""},
    {LLAMA ", \"rope_parameters\": {\"rope_type\": \"longrope\"}}", "rope_parameters.rope_type",
     "is \"longrope\""},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}", "rope_scaling.factor", "is missing"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.0}}", "rope_scaling.factor",
     "above 0"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": \"2\"}}", "rope_scaling.factor",
     "expected a number"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
           "\"high_freq_factor\": 4.0}}",
     "rope_scaling.low_freq_factor", "is missing"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
           "\"low_freq_factor\": 4.0, \"high_freq_factor\": 4.0}}",
     "rope_scaling.high_freq_factor", "above low_freq_factor"},
    {LLAMA ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": "
           "1, \"high_freq_factor\": 4, \"original_max_position_embeddings\": 0}}",
     "rope_scaling.original_max_position_embeddings", "is 0"},
    {LLAMA ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"mscale\": 1.0}}",
     "rope_scaling.mscale", "is an unknown"},
    {LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}}",
     "rope_parameters.partial_rotary_factor", "is 0.5; the only supported value is 1"},
    {LLAMA ", \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}}}",
     "rope_parameters.full_attention", "is an unknown"},
    /* windows */
    {MISTRAL ", \"sliding_window\": 0}", "sliding_window", "is 0"},
    {MISTRAL ", \"sliding_window\": \"4096\"}", "sliding_window", "expected an integer"},
    {MISTRAL ", \"num_hidden_layers\": 2, \"layer_types\": [\"sliding_attention\", "
             "\"full_attention\"]}",
     "layer_types", "in layer 1"},
    {QWEN2 ", \"num_key_value_heads\": 4, \"num_hidden_layers\": 1, \"layer_types\": "
           "[\"sliding_attention\"]}",
     "layer_types[0]", "no sliding_window is set"},
    {QWEN3 ", \"num_key_value_heads\": 4, \"num_hidden_layers\": 1, \"layer_types\": "
           "[\"chunked_attention\"]}",
     "layer_types[0]", "is \"chunked_attention\""},
    {LLAMA ", \"num_hidden_layers\": 1, \"layer_types\": [7]}", "layer_types[0]",
     "expected a string"},
    {LLAMA ", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
     "layer_types[0]", "no sliding_window is set"},
};

static void what_is_not_supported_is_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(REFUSED); i++) {
        struct region region = {0};
        struct blueprint blueprint = {.layers = 77};
        struct fault fault = {0};
        char field[128];
        enum status status = blueprint_read(REFUSED[i].text, strlen(REFUSED[i].text), "c.json",
                                            &region, &blueprint, &fault);
        snprintf(field, sizeof field, "`%s` ", REFUSED[i].field);
        if (status != STATUS_INPUT || blueprint.layers != 77 ||
            strcmp(fault.subject, "c.json") != 0 || strstr(fault.reason, field) == NULL ||
            (strstr(fault.reason, REFUSED[i].detail) == NULL &&
             strstr(fault.remedy, REFUSED[i].detail) == NULL)) {
            fail_msg("%s\ngave %d: %s: %s; %s", REFUSED[i].text, status, fault.subject,
                     fault.reason, fault.remedy);
        }
        region_finish(&region);
    }
}

static struct blueprint read_good(const char *text, struct region *region) {
    struct blueprint blueprint;
    struct fault fault;
    if (blueprint_read(text, strlen(text), "c.json", region, &blueprint, &fault) != OK) {
        fail_msg("%s\ngave %s: %s", text, fault.subject, fault.reason);
    }
    return blueprint;
}

static void broken_json_is_refused_with_line_and_column(void **state) {
    (void)state;
    static const char TEXT[] = "{\n  \"model_type\": \"llama\",\n  \"vocab_size\": ,\n}";
    struct region region = {0};
    struct blueprint blueprint;
    struct fault fault;
    assert_int_equal(blueprint_read(TEXT, strlen(TEXT), "c.json", &region, &blueprint, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "c.json:3:17");
    region_finish(&region);
}

/* The classes' defaults, as LlamaConfig() and the others print them. */
static void absent_fields_have_the_defaults_of_the_classes(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint llama = read_good("{\"model_type\": \"llama\"}", &region);
    assert_int_equal(blueprint_elements(&llama), 6738415616);
    assert_true(llama.norm_epsilon == 1e-6 && llama.rope.theta == 10000.0 && !llama.tied);
    assert_int_equal(llama.max_positions, 2048);
    assert_int_equal(llama.kv_heads, 32);
    struct blueprint mistral = read_good("{\"model_type\": \"mistral\"}", &region);
    assert_int_equal(blueprint_elements(&mistral), 7241732096);
    assert_int_equal(mistral.layer_window[0], 4096);
    assert_int_equal(mistral.max_positions, 131072);
    struct blueprint qwen3 = read_good("{\"model_type\": \"qwen3\"}", &region);
    assert_true(qwen3.head_dim == 128 && qwen3.kv_heads == 32 && qwen3.ffn == 22016);
    assert_int_equal(qwen3.layer_window[31], 0);
    struct blueprint gpt2 = read_good("{\"model_type\": \"gpt2\"}", &region);
    assert_int_equal(blueprint_elements(&gpt2), 124439808);
    assert_true(gpt2.tied && gpt2.norm_epsilon == 1e-5 && gpt2.tokens.eos == -1);
    region_finish(&region);
}

static void null_is_absent_except_for_windows_and_kv_heads(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint mistral = read_good(
        "{\"model_type\": \"mistral\", \"sliding_window\": null, \"num_key_value_heads\": null, "
        "\"head_dim\": null, \"rope_scaling\": null, \"vocab_size\": null, \"frob\": null}",
        &region);
    assert_int_equal(mistral.layer_window[5], 0);
    assert_int_equal(mistral.kv_heads, 32);
    assert_int_equal(mistral.head_dim, 128);
    assert_int_equal(mistral.vocab, 32000);
    region_finish(&region);
}

static void windows_follow_layer_types_or_max_window_layers(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint legacy = read_good(
        QWEN2 ", \"num_key_value_heads\": 4, \"num_hidden_layers\": 4, \"use_sliding_window\": "
              "true, \"sliding_window\": 128, \"max_window_layers\": 3}",
        &region);
    assert_int_equal(legacy.layer_window[2], 0);
    assert_int_equal(legacy.layer_window[3], 128);
    struct blueprint typed = read_good(
        QWEN3 ", \"num_key_value_heads\": 4, \"num_hidden_layers\": 3, \"use_sliding_window\": "
              "true, \"sliding_window\": 64, \"max_window_layers\": 0, \"layer_types\": "
              "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]}",
        &region);
    assert_int_equal(typed.layer_window[0], 64);
    assert_int_equal(typed.layer_window[1], 0);
    assert_int_equal(typed.layer_window[2], 64);
    struct blueprint unused = read_good(
        QWEN2 ", \"num_key_value_heads\": 4, \"num_hidden_layers\": 2, \"sliding_window\": 128, "
              "\"max_window_layers\": 0}",
        &region);
    assert_int_equal(unused.layer_window[1], 0);
    region_finish(&region);
}

static void both_spellings_of_rope_give_the_same(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        LLAMA ", \"rope_theta\": 5e5, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
              "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
              "\"original_max_position_embeddings\": 8192}}",
        LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000, "
              "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
              "\"original_max_position_embeddings\": 8192}}",
        LLAMA ", \"rope_theta\": 1.0, \"rope_scaling\": {\"type\": \"llama3\", \"rope_theta\": "
              "500000, \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4}, "
              "\"rope_parameters\": {\"rope_type\": \"default\"}, "
              "\"original_max_position_embeddings\": 8192}",
        LLAMA ", \"rope_theta\": 500000, \"max_position_embeddings\": 8192, \"rope_scaling\": "
              "{\"rope_type\": \"llama3\", \"type\": \"linear\", \"factor\": 8, "
              "\"low_freq_factor\": 1, \"high_freq_factor\": 4}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(TEXTS); i++) {
        struct region region = {0};
        struct blueprint llama = read_good(TEXTS[i], &region);
        assert_int_equal(llama.rope.kind, ROPE_LLAMA3);
        assert_true(llama.rope.theta == 500000.0 && llama.rope.factor == 8.0);
        assert_true(llama.rope.low_freq_factor == 1.0 && llama.rope.high_freq_factor == 4.0);
        assert_int_equal(llama.rope.original_positions, 8192);
        region_finish(&region);
    }
}

static void biases_follow_the_flags(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint llama =
        read_good(LLAMA ", \"attention_bias\": true, \"mlp_bias\": true, \"head_dim\": 8, "
                        "\"num_hidden_layers\": 1, \"intermediate_size\": 96}",
                  &region);
    assert_int_equal(blueprint_param(&llama, PARAM_Q_BIAS, 0)->shape[0], 32);
    assert_int_equal(blueprint_param(&llama, PARAM_O_BIAS, 0)->shape[0], 64);
    assert_int_equal(blueprint_param(&llama, PARAM_UP_BIAS, 0)->shape[0], 96);
    assert_int_equal(blueprint_param(&llama, PARAM_O, 0)->shape[1], 32);
    struct blueprint qwen =
        read_good(QWEN3 ", \"num_key_value_heads\": 2, \"attention_bias\": true}", &region);
    assert_int_equal(blueprint_param(&qwen, PARAM_V_BIAS, 0)->shape[0], 256);
    assert_non_null(blueprint_param(&qwen, PARAM_O_BIAS, 0));
    struct blueprint gpt2 = read_good(
        GPT2 ", \"tie_word_embeddings\": false, \"n_inner\": 100, \"n_layer\": 1}", &region);
    assert_string_equal(blueprint_param(&gpt2, PARAM_HEAD, PARAM_NO_LAYER)->name, "lm_head.weight");
    assert_int_equal(blueprint_param(&gpt2, PARAM_UP, 0)->shape[1], 100);
    region_finish(&region);
}

static void token_ids_outside_the_vocabulary_are_absent(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint llama =
        read_good(LLAMA ", \"vocab_size\": 100, \"eos_token_id\": [7, 9], \"bos_token_id\": 100, "
                        "\"pad_token_id\": -1}",
                  &region);
    assert_int_equal(llama.tokens.eos, 7);
    assert_int_equal(llama.tokens.bos, -1);
    assert_int_equal(llama.tokens.padding, 99);
    llama = read_good(LLAMA ", \"eos_token_id\": [], \"pad_token_id\": 32000}", &region);
    assert_int_equal(llama.tokens.eos, -1);
    assert_int_equal(llama.tokens.padding, -1);
    struct blueprint gpt2 = read_good(GPT2 ", \"pad_token_id\": 5}", &region);
    assert_int_equal(gpt2.tokens.padding, -1);
    region_finish(&region);
}

static void dropout_is_accepted_with_one_notice(void **state) {
    (void)state;
    struct region region = {0};
    struct blueprint llama = read_good(LLAMA ", \"attention_dropout\": 0.25}", &region);
    assert_string_equal(llama.notice, "attention_dropout 0.25: Skep trains without dropout");
    llama = read_good(LLAMA ", \"attention_dropout\": 0.0}", &region);
    assert_null(llama.notice);
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(broken_json_is_refused_with_line_and_column),
        cmocka_unit_test(absent_fields_have_the_defaults_of_the_classes),
        cmocka_unit_test(null_is_absent_except_for_windows_and_kv_heads),
        cmocka_unit_test(windows_follow_layer_types_or_max_window_layers),
        cmocka_unit_test(both_spellings_of_rope_give_the_same),
        cmocka_unit_test(biases_follow_the_flags),
        cmocka_unit_test(token_ids_outside_the_vocabulary_are_absent),
        cmocka_unit_test(dropout_is_accepted_with_one_notice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
