"""Shapes that bench/gpu.py measures, with numbers that follow from them: parameters, operations for
each token, static bytes. Also the peak rates in the data sheets of GPUs."""

GPT2_124M = {
    "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02, "tie_word_embeddings": True,
}
LLAMA_1B = {
    "model_type": "llama", "hidden_act": "silu", "vocab_size": 128256, "hidden_size": 2048,
    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
LLAMA_8B = LLAMA_1B | {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "head_dim": 128,
    "tie_word_embeddings": False,
}
LLAMA_TINY = LLAMA_1B | {
    "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 64,
}
GPT2_TINY = GPT2_124M | {
    "vocab_size": 97, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4,
}

# The most important first, because time may run out. Steps: those of one turn after the warm-up.
CASES = {
    "llama-1b": {"model": LLAMA_1B, "rows": 4, "length": 4096, "moments": "f32", "steps": 16},
    "llama-8b": {"model": LLAMA_8B, "rows": 1, "length": 8192, "moments": "bf16", "steps": 6},
    "gpt2-124m": {"model": GPT2_124M, "rows": 16, "length": 1024, "moments": "f32", "steps": 50},
    "llama-tiny": {"model": LLAMA_TINY, "rows": 2, "length": 16, "moments": "bf16", "steps": 3},
    "gpt2-tiny": {"model": GPT2_TINY, "rows": 2, "length": 16, "moments": "f32", "steps": 3},
}
REAL_CASES = ("llama-1b", "llama-8b", "gpt2-124m")

# Operations per second of dense bf16 products with f32 sums, from data sheets. The first name that
# is part of the device's name applies.
PEAKS = (
    ("B200", 2250e12), ("H200", 989e12), ("GH200", 989e12), ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12), ("H100", 989e12), ("A100", 312e12), ("L40S", 362e12), ("L40", 181e12),
    ("RTX 5090", 209.5e12), ("RTX 4090", 165.2e12), ("RTX 3090", 71e12), ("RTX 3060", 25.5e12),
)


def shape_of(model):
    """(layers, hidden, query heads x head dim) of a GPT-2 or a Llama."""
    if model["model_type"] == "gpt2":
        return model["n_layer"], model["n_embd"], model["n_embd"]
    return (model["num_hidden_layers"], model["hidden_size"],
            model["num_attention_heads"] * model["head_dim"])


def parameters_of(model):
    layers, hidden, width = shape_of(model)
    vocab = model["vocab_size"]
    if model["model_type"] == "gpt2":
        block = 12 * hidden * hidden + 13 * hidden
        return vocab * hidden + model["n_positions"] * hidden + layers * block + 2 * hidden
    shared = width * model["num_key_value_heads"] // model["num_attention_heads"]
    block = (2 * hidden * width + 2 * hidden * shared + 3 * hidden * model["intermediate_size"]
             + 2 * hidden)
    tables = 1 if model["tie_word_embeddings"] else 2
    return tables * vocab * hidden + layers * block + hidden


def multiplied_of(model):
    """Weights in matrix products: all except tables that are only looked up."""
    looked_up = 0
    if not model["tie_word_embeddings"]:
        looked_up = model["vocab_size"] * shape_of(model)[1]
    elif model["model_type"] == "gpt2":
        looked_up = model["n_positions"] * model["n_embd"]
    return parameters_of(model) - looked_up


FORMULA = ("operations of a token: 6 N + 6 L W T; N the weights that it is multiplied by (a tied "
           "table once, as the head), L layers, W query heads x head dim, T tokens of a row: the "
           "causal half of 12 L W T. What is computed again is not counted")


def flops_per_token(case):
    layers, _, width = shape_of(case["model"])
    return 6 * multiplied_of(case["model"]) + 6 * layers * width * case["length"]


def bytes_per_parameter(case):
    """Bytes of bf16 parameters, f32 masters, f32 gradients and moments, the same in all engines."""
    return 10 + 2 * {"f32": 4, "bf16": 2}[case["moments"]]


def static_bytes(case):
    return bytes_per_parameter(case) * parameters_of(case["model"])


def promised_rate(device):
    for name, rate in PEAKS:
        if name in device:
            return rate
    return None
