#!/usr/bin/env python3
"""One PyTorch engine of bench/gpu.py: a module in bf16 with PyTorch's causal attention
(scaled_dot_product_attention), and masters, gradients, clipping and AdamW in f32.

The argument is JSON: {"case": NAME, "compile": bool, "recompute": bool, "device": "cuda"}. The
script prints a line when it is ready. For each number of steps on standard input it then prints
{"ms": [...], "losses": [...], "allocated_bytes": N, "reserved_bytes": N}; the bytes are peaks since
the first answer. When memory runs out it prints {"failed": "..."} and exits.

Static bytes are the same as in Skep: bf16 parameters, f32 masters, f32 gradients, and moments in
the dtype of the case. For f32 moments the optimizer is the fused torch.optim.AdamW. That optimizer
has no bf16 moments with f32 masters, so torch.compile compiles its formula into one kernel per
tensor.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import gpu_cases

LEARNING_RATE = 1e-4
BETAS = (0.9, 0.95)
EPSILON = 1e-8
DECAY = 0.1
CLIP_NORM = 1.0
BATCHES = 8


class LlamaBlock(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.heads, self.shared = model["num_attention_heads"], model["num_key_value_heads"]
        self.head_dim, hidden = model["head_dim"], model["hidden_size"]
        inner = model["intermediate_size"]
        self.norm_in = nn.RMSNorm(hidden, eps=model["rms_norm_eps"])
        self.norm_mlp = nn.RMSNorm(hidden, eps=model["rms_norm_eps"])
        self.q = nn.Linear(hidden, self.heads * self.head_dim, bias=False)
        self.k = nn.Linear(hidden, self.shared * self.head_dim, bias=False)
        self.v = nn.Linear(hidden, self.shared * self.head_dim, bias=False)
        self.o = nn.Linear(self.heads * self.head_dim, hidden, bias=False)
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def heads_of(self, x, count):
        return x.unflatten(-1, (count, self.head_dim)).transpose(1, 2)

    def turned(self, x, angles):
        cosine, sine = angles
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)

    def forward(self, x, angles):
        y = self.norm_in(x)
        q = self.turned(self.heads_of(self.q(y), self.heads), angles)
        k = self.turned(self.heads_of(self.k(y), self.shared), angles)
        v = self.heads_of(self.v(y), self.shared)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                    enable_gqa=self.shared != self.heads)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm_mlp(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Gpt2Block(nn.Module):
    def __init__(self, model):
        super().__init__()
        hidden, self.heads = model["n_embd"], model["n_head"]
        self.norm_in = nn.LayerNorm(hidden, eps=model["layer_norm_epsilon"])
        self.norm_mlp = nn.LayerNorm(hidden, eps=model["layer_norm_epsilon"])
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.o = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x, _):
        heads = self.qkv(self.norm_in(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = (part.squeeze(2).transpose(1, 2) for part in heads.split(1, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x)), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, model, length, recompute):
        super().__init__()
        layers, hidden, _ = gpu_cases.shape_of(model)
        gpt2 = model["model_type"] == "gpt2"
        self.recompute, self.length = recompute, length
        self.theta = None if gpt2 else (model["rope_theta"], model["head_dim"])
        self.table = nn.Embedding(model["vocab_size"], hidden)
        self.places = nn.Embedding(model["n_positions"], hidden) if gpt2 else None
        self.blocks = nn.ModuleList((Gpt2Block if gpt2 else LlamaBlock)(model)
                                    for _ in range(layers))
        self.norm = (nn.LayerNorm(hidden, eps=model["layer_norm_epsilon"]) if gpt2
                     else nn.RMSNorm(hidden, eps=model["rms_norm_eps"]))
        self.head = nn.Linear(hidden, model["vocab_size"], bias=False)
        if model["tie_word_embeddings"]:
            self.head.weight = self.table.weight

    def draw(self):
        for parameter in self.parameters():
            if parameter.ndim >= 2:
                nn.init.normal_(parameter, std=0.02)

    def angles(self, device):
        theta, head_dim = self.theta
        rates = theta ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
        angles = torch.outer(torch.arange(self.length, device=device).float(), rates)
        return angles.cos().bfloat16(), angles.sin().bfloat16()

    def forward(self, ids, labels, angles):
        x = self.table(ids)
        if self.places is not None:
            x = x + self.places.weight[: self.length]
        for block in self.blocks:
            x = checkpoint(block, x, angles, use_reentrant=False) if self.recompute else \
                block(x, angles)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def fused_step(tensors, numbers, decay):
    """AdamW for one tensor, with f32 masters and bf16 moments."""
    master, gradient, first, second, parameter = tensors
    rate, correction_1, correction_2, scale = numbers.unbind()
    g = gradient * scale
    m = first.float().lerp(g, 1 - BETAS[0])
    v = second.float() * BETAS[1] + (1 - BETAS[1]) * g * g
    step = (m / correction_1) / ((v / correction_2).sqrt() + EPSILON)
    new = master * (1 - rate * decay) - rate * step
    first.copy_(m)
    second.copy_(v)
    master.copy_(new)
    parameter.copy_(new)


class Optimizer:
    """AdamW with f32 masters and gradients for bf16 parameters."""

    def __init__(self, parameters, moments):
        self.parameters = list(parameters)
        self.masters = [p.detach().float() for p in self.parameters]
        for parameter, master in zip(self.parameters, self.masters):
            master.grad = torch.zeros_like(master)
            parameter.register_post_accumulate_grad_hook(self.taker(master))
        self.steps = 0
        self.adamw = None
        if moments == "f32":
            groups = [{"params": [m for m in self.masters if m.ndim >= 2], "weight_decay": DECAY},
                      {"params": [m for m in self.masters if m.ndim < 2], "weight_decay": 0.0}]
            self.adamw = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON,
                                           fused=True)
        else:
            self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.parameters]
            device = self.masters[0].device
            # On a CPU, which serves only for trials of this script, compiling would take minutes.
            self.fused = torch.compile(fused_step, dynamic=True) if device.type == "cuda" else \
                fused_step
            self.numbers = torch.ones(4, device=device)

    @staticmethod
    def taker(master):
        """A hook that converts a gradient to f32 and frees it; a step has one backward."""
        def take(parameter):
            master.grad.copy_(parameter.grad)
            parameter.grad = None
        return take

    def step(self):
        self.steps += 1
        if self.adamw is not None:
            nn.utils.clip_grad_norm_(self.masters, CLIP_NORM)
            self.adamw.step()
            torch._foreach_copy_(self.parameters, self.masters)
            return
        norm = nn.utils.get_total_norm([m.grad for m in self.masters])
        self.numbers[0] = LEARNING_RATE
        self.numbers[1] = 1 - BETAS[0] ** self.steps
        self.numbers[2] = 1 - BETAS[1] ** self.steps
        self.numbers[3] = (CLIP_NORM / (norm + 1e-6)).clamp(max=1.0)
        for parameter, master, (first, second) in zip(self.parameters, self.masters, self.moments):
            flat = [t.view(-1) for t in (master, master.grad, first, second, parameter.data)]
            self.fused(flat, self.numbers, DECAY if parameter.ndim >= 2 else 0.0)


class Trainer:
    def __init__(self, options):
        case = gpu_cases.CASES[options["case"]]
        rows, length = options.get("rows") or case["rows"], case["length"]
        self.device = options["device"]
        torch.manual_seed(1)
        with torch.device(self.device):
            torch.set_default_dtype(torch.bfloat16)
            module = Decoder(case["model"], length, options["recompute"])
            torch.set_default_dtype(torch.float32)
        module.draw()
        self.parameter_count = sum(p.numel() for p in module.parameters())
        with torch.no_grad():
            self.optimizer = Optimizer(module.parameters(), case["moments"])
        self.angles = None if module.theta is None else module.angles(self.device)
        self.module = torch.compile(module) if options["compile"] else module
        # Each step copies ids to the device, as in training from a file.
        self.ids = torch.randint(0, case["model"]["vocab_size"], (BATCHES, rows, length + 1))
        if self.device == "cuda":
            self.ids = self.ids.pin_memory()

    def step(self):
        batch = self.ids[self.optimizer.steps % BATCHES].to(self.device, non_blocking=True)
        loss = self.module(batch[:, :-1], batch[:, 1:], self.angles)
        loss.backward()
        with torch.no_grad():
            self.optimizer.step()
        return loss.item()

    def settle(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def peaks(self):
        if self.device != "cuda":
            return {"allocated_bytes": 0, "reserved_bytes": 0}
        return {"allocated_bytes": torch.cuda.max_memory_allocated(),
                "reserved_bytes": torch.cuda.max_memory_reserved()}

    def answer(self, count):
        times, losses = [], []
        self.settle()
        for _ in range(count):
            begin = time.perf_counter()
            losses.append(self.step())
            self.settle()
            times.append((time.perf_counter() - begin) * 1e3)
        return {"ms": times, "losses": losses} | self.peaks()


def print_document(document):
    print(json.dumps(document), flush=True)


def serve(options):
    torch.set_float32_matmul_precision("highest")
    trainer = Trainer(options)
    cuda = options["device"] == "cuda"
    print_document({"parameters": trainer.parameter_count, "torch": torch.__version__,
         "device": torch.cuda.get_device_name() if cuda else "cpu"})
    warmed = False
    for line in sys.stdin:
        print_document(trainer.answer(int(line)))
        if not warmed and cuda:
            torch.cuda.reset_peak_memory_stats()
        warmed = True


def main():
    options = json.loads(sys.argv[1])
    try:
        serve(options)
    except torch.OutOfMemoryError as error:
        print_document({"failed": "out of memory: " + str(error).splitlines()[0]})
        sys.exit(3)


if __name__ == "__main__":
    main()
