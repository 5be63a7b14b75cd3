/* models: small models of every family, for tests that run whole programs. */
#ifndef SKEP_TESTS_UNIT_PROGRAM_MODELS_H
#define SKEP_TESTS_UNIT_PROGRAM_MODELS_H

struct test_model {
    const char *name;
    const char *config;
};

static const struct test_model TEST_MODELS[] = {
    {"llama", "{\"model_type\": \"llama\", \"vocab_size\": 97, \"hidden_size\": 64, "
              "\"intermediate_size\": 96,"
              "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
              "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"initializer_range\": 0.2,"
              "\"tie_word_embeddings\": false}"},
    {"llama odd sizes, biases, tied",
     "{\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 36, \"intermediate_size\": "
     "50,"
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 3, \"num_key_value_heads\": 1,"
     "\"head_dim\": 10, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5,"
     "\"initializer_range\": 0.2, \"attention_bias\": true, \"mlp_bias\": true,"
     "\"tie_word_embeddings\": true}"},
    {"mistral window",
     "{\"model_type\": \"mistral\", \"vocab_size\": 97, \"hidden_size\": 64, "
     "\"intermediate_size\": 96,"
     "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"initializer_range\": 0.2,"
     "\"sliding_window\": 5, \"tie_word_embeddings\": false}"},
    {"qwen2", "{\"model_type\": \"qwen2\", \"vocab_size\": 97, \"hidden_size\": 64, "
              "\"intermediate_size\": 96,"
              "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 4,"
              "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"initializer_range\": 0.2,"
              "\"tie_word_embeddings\": true}"},
    {"qwen3", "{\"model_type\": \"qwen3\", \"vocab_size\": 97, \"hidden_size\": 48, "
              "\"intermediate_size\": 96,"
              "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
              "\"head_dim\": 16, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6,"
              "\"initializer_range\": 0.2, \"tie_word_embeddings\": true}"},
    {"gpt2",
     "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 48, \"n_layer\": 2, \"n_head\": 3,"
     "\"n_positions\": 64, \"initializer_range\": 0.2}"},
};

#endif
