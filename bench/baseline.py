#!/usr/bin/env python3
"""One PyTorch engine of bench/train.py: read step counts from stdin, print timings.

The argument is JSON: {"case": NAME, "compile": bool, "autocast": bool}. For
each line of input, a number of steps, it prints {"ms": [...], "rss_bytes": N, "first_loss": X}.
"""

import json
import os
import resource
import sys
import time

GPT2_124M = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
}
LLAMA_15M = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 32000,
    "hidden_size": 288,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
}
# name: (config.json, rows, tokens in a row)
CASES = {
    "GPT-2 124M, 4x64": (GPT2_124M, 4, 64),
    "GPT-2 124M, 1x1024": (GPT2_124M, 1, 1024),
    "Llama 15M, 8x256": (LLAMA_15M, 8, 256),
}
LEARNING_RATE = 1e-4


class Trainer:
    def __init__(self, case, compiled, autocast):
        import torch
        import transformers

        self.torch = torch
        self.autocast = autocast
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
        torch.manual_seed(1)
        fields, rows, length = CASES[case]
        config = transformers.AutoConfig.for_model(**fields)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
        model.train()
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.ndim >= 2], "weight_decay": 0.1},
                {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=LEARNING_RATE,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.model = torch.compile(model) if compiled else model
        self.ids = torch.randint(0, fields["vocab_size"], (64, rows, length))
        self.steps_done = 0

    def step(self):
        torch = self.torch
        ids = self.ids[self.steps_done % len(self.ids)]
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.steps_done += 1
        return loss.item()


def main():
    options = json.loads(sys.argv[1])
    trainer = Trainer(options["case"], options["compile"], options["autocast"])
    first_loss = None
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            loss = trainer.step()
            times.append((time.perf_counter() - begin) * 1e3)
            first_loss = loss if first_loss is None else first_loss
        rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"ms": times, "rss_bytes": rss_bytes, "first_loss": first_loss}),
              flush=True)


if __name__ == "__main__":
    main()
