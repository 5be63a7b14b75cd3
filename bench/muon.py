"""Muon for PyTorch: momentum whose matrices are orthogonalised, and AdamW for the rest.

Source: Jordan et al. 2024 (kellerjordan.github.io/posts/muon); the coefficients and the scale
sqrt(fan_out / fan_in) are those of MuLoCo, arXiv:2505.23725v2.
"""

import torch
import transformers

COEFFICIENTS = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
                (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012))
EPSILON = 1e-7


def orthogonalise(matrix):
    """The nearest matrix with singular values near 1, by five Newton-Schulz steps."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / (wide.norm() + EPSILON)
    for a, b, c in COEFFICIENTS:
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide is matrix else x.T


class Muon(torch.optim.Optimizer):
    """Hidden matrices; `lr` and `weight_decay` as in AdamW. A group's `fan_out` is the dimension of
    the outputs: 0 in torch.nn.Linear, 1 in the Conv1D of GPT-2."""

    def __init__(self, groups, lr, momentum, weight_decay):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                average = state["momentum"]
                average.mul_(group["momentum"]).add_(weight.grad)
                outputs = group["fan_out"]
                scale = (weight.shape[outputs] / weight.shape[1 - outputs]) ** 0.5
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(orthogonalise(average), alpha=-group["lr"] * scale)


class Both:
    """Muon for the matrices of layers, AdamW for embeddings, head and vectors, as one optimizer."""

    def __init__(self, model, arguments):
        hidden = {0: [], 1: []}
        for name, module in model.named_modules():
            if ".layers." in name and isinstance(module, torch.nn.Linear):
                hidden[0].append(module.weight)
            if ".h." in name and isinstance(module, transformers.pytorch_utils.Conv1D):
                hidden[1].append(module.weight)
        taken = {id(weight) for weights in hidden.values() for weight in weights}
        rest = [p for p in model.parameters() if id(p) not in taken]
        matrices = [{"params": weights, "fan_out": dimension}
                    for dimension, weights in hidden.items() if weights]
        groups = [{"params": [p for p in rest if p.ndim >= 2],
                   "weight_decay": arguments.weight_decay},
                  {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0}]
        self.parts = [Muon(matrices, arguments.lr, arguments.momentum, arguments.weight_decay),
                      torch.optim.AdamW(groups, lr=arguments.embedding_lr,
                                        betas=tuple(arguments.betas), eps=arguments.eps,
                                        fused=True)]
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none):
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def state_dict(self):
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states):
        for part, state in zip(self.parts, states):
            part.load_state_dict(state)
        self.param_groups = [group for part in self.parts for group in part.param_groups]
