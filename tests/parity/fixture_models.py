"""What the parity fixtures are: the models' config.json and the shapes of their batches."""

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
MISTRAL = LLAMA | {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}
QWEN2 = LLAMA | {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "rms_norm_eps": 1e-6,
}
QWEN3 = LLAMA | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "rms_norm_eps": 1e-6,
    "head_dim": 12,
    "attention_bias": False,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 32,
    "vocab_size": 97,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "resid_pdrop": 0.1,
    "bos_token_id": 96,
    "eos_token_id": 96,
}


def batch_of(rows, length, labels="masked", documents=None, often=None):
    """labels: absent, equal (given, none ignored) or masked (some ignored). often: an id that
    stands at about a quarter of the places."""
    return {
        "rows": rows,
        "length": length,
        "labels": labels,
        "documents": documents,
        "often": often,
    }


# name: (what it covers, config.json, batch). Both spellings of the config occur on purpose.
FIXTURES = {
    "llama-grouped": (
        "grouped queries, untied head, rope_theta and torch_dtype, labels absent",
        LLAMA | {"rope_theta": 10000.0, "rope_scaling": None, "torch_dtype": "float32"},
        batch_of(2, 16, labels="absent"),
    ),
    "llama-biases": (
        "attention bias, MLP bias, tied head, head_dim not hidden/heads, rope_scaling llama3",
        LLAMA
        | {
            "attention_bias": True,
            "mlp_bias": True,
            "intermediate_size": 16,
            "tie_word_embeddings": True,
            "head_dim": 12,
            "rope_theta": 500.0,
            "rope_scaling": LLAMA3_SCALING,
            "torch_dtype": "float32",
        },
        batch_of(2, 24),
    ),
    "llama-odd": (
        "odd sizes everywhere, one key head, rope_parameters and dtype",
        LLAMA
        | {
            "hidden_size": 40,
            "intermediate_size": 23,
            "num_attention_heads": 5,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "dtype": "float32",
        },
        batch_of(3, 17),
    ),
    "llama-packed": (
        "packed documents whose first labels are ignored, rope_parameters llama3",
        LLAMA
        | {
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "rope_parameters": LLAMA3_SCALING | {"rope_theta": 500.0},
            "dtype": "float32",
        },
        batch_of(1, 48, documents=(7, 20, 1, 20)),
    ),
    "llama-padding": (
        "a padding id whose lookups give no gradient, while the tied head's row has one",
        LLAMA
        | {
            "pad_token_id": 7,
            "tie_word_embeddings": True,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 19, often=7),
    ),
    "llama-padding-untied": (
        "a padding id whose row of the embedding has no gradient at all",
        LLAMA
        | {
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "pad_token_id": 7,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 15, labels="equal", often=7),
    ),
    "mistral-window": (
        "a window over every layer, grouped queries",
        MISTRAL
        | {
            "intermediate_size": 16,
            "sliding_window": 5,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 21),
    ),
    "mistral-packed": (
        "a window inside packed documents, head_dim not hidden/heads, tied head",
        MISTRAL
        | {
            "hidden_size": 24,
            "sliding_window": 6,
            "head_dim": 10,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
            "dtype": "float32",
        },
        batch_of(1, 40, documents=(15, 3, 22)),
    ),
    "mistral-full": (
        "no window, one query head per key head, labels equal to the input",
        MISTRAL
        | {
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "sliding_window": None,
            "rope_theta": 1000000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 13, labels="equal"),
    ),
    "qwen2-tied": (
        "biases on queries, keys and values, tied head, window fields that are switched off",
        QWEN2
        | {
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "sliding_window": 4,
            "max_window_layers": 1,
            "rope_theta": 1000000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 19),
    ),
    "qwen2-fused": (
        "queries, keys and values as one product with its bias: all their widths are of 64s",
        QWEN2
        | {
            "hidden_size": 16,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 16,
            "vocab_size": 61,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 17),
    ),
    "qwen2-upper-window": (
        "a window on the layers from max_window_layers up",
        QWEN2
        | {
            "num_hidden_layers": 3,
            "intermediate_size": 16,
            "tie_word_embeddings": True,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
            "rope_theta": 10000.0,
            "torch_dtype": "float32",
        },
        batch_of(2, 18),
    ),
    "qwen2-layer-types": (
        "a window on the layers that layer_types names, untied head, one row",
        QWEN2
        | {
            "num_hidden_layers": 3,
            "intermediate_size": 16,
            "hidden_size": 24,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
            "dtype": "float32",
        },
        batch_of(1, 33),
    ),
    "qwen3-grouped": (
        "norms of queries and keys, head_dim not hidden/heads, grouped queries, tied head",
        QWEN3
        | {"tie_word_embeddings": True, "rope_theta": 1000000.0, "torch_dtype": "float32"},
        batch_of(2, 16),
    ),
    "qwen3-packed": (
        "attention bias, packed documents, labels absent: boundaries count as they stand",
        QWEN3
        | {
            "attention_bias": True,
            "intermediate_size": 16,
            "head_dim": 8,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            "dtype": "float32",
        },
        batch_of(1, 37, labels="absent", documents=(12, 25)),
    ),
    "gpt2-plain": (
        "learned positions, LayerNorm, Conv1D, tied head, n_inner absent",
        GPT2 | {"torch_dtype": "float32"},
        batch_of(2, 32),
    ),
    "gpt2-odd": (
        "odd sizes, n_inner given, fewer positions used than there are",
        GPT2 | {"n_embd": 30, "n_head": 3, "n_inner": 26, "dtype": "float32"},
        batch_of(3, 17),
    ),
    "gpt2-packed": (
        "learned positions that restart in packed documents",
        GPT2 | {"n_inner": 24, "dtype": "float32"},
        batch_of(1, 43, documents=(11, 32)),
    ),
}
