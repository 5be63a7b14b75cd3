#!/usr/bin/env python3
"""Make the parity fixtures: small random models with what transformers computes for them in fp64.

Run once per pinned version of the reference (torch 2.15.0, transformers 5.23.0):

    python tests/parity/make_fixtures.py [NAME...]

A fixture is a folder of tests/parity/fixtures:
    model/config.json, model/model.safetensors   the model, weights in F32
    batch.safetensors                            input_ids, sometimes labels and cu_seqlens
    expected.safetensors                         logits, losses, gradients.NAME, weights.NAME
    tolerances.json                              the errors of transformers' own fp32 and bf16 runs

The truth is transformers' own code run wholly in fp64. Its norms, softmax, rotary angles and loss
ask for fp32 by name, so a mode answers every such request with fp64, and a second mode proves that
no fp32 value is made anywhere, backward included.
"""

import json
import pathlib
import shutil
import sys
import zlib

import numpy
import torch
import transformers
from safetensors.numpy import save_file
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fixture_models import FIXTURES

FOLDER = pathlib.Path(__file__).parent / "fixtures"
STEPS = 20
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.95)
EPSILON = 1e-8
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0


class AnswerInDouble(TorchFunctionMode):
    """Every request for fp32 that is made by name gets fp64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = [torch.float64 if value is torch.float32 else value for value in args]
        kwargs = {
            key: torch.float64 if value is torch.float32 else value
            for key, value in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


class RefuseSingle(TorchDispatchMode):
    """Fails on any operation, forward or backward, whose result is fp32 or narrower."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                assert value.dtype is torch.float64, f"{func} made {value.dtype}"
        return result


def seeded(name, purpose):
    return numpy.random.default_rng(zlib.crc32(f"{name} {purpose}".encode()))


def random_weights(name, model):
    """Wider than a fresh model's, norms off one, biases off zero: every gradient is healthy."""
    weights = {}
    for key, parameter in model.named_parameters():
        noise = seeded(name, key).standard_normal(tuple(parameter.shape))
        if key.endswith("bias"):
            value = 0.1 * noise
        elif key.endswith("c_attn.weight"):
            value = 0.3 * noise / numpy.sqrt(model.config.hidden_size)
        elif parameter.ndim == 1:
            value = 1.0 + 0.2 * noise
        elif "embed_tokens" in key or ".wte" in key or ".wpe" in key:
            value = 0.3 * noise
        else:
            value = noise / numpy.sqrt(model.config.hidden_size)
        weights[key] = value.astype(numpy.float32)
    return weights


def make_batch(name, vocab, batch):
    rng = seeded(name, "batch")
    shape = (batch["rows"], batch["length"])
    ids = rng.integers(0, vocab, shape).astype(numpy.int32)
    if batch["often"] is not None:
        ids[rng.random(shape) < 0.25] = batch["often"]
    tensors = {"input_ids": ids}
    if batch["labels"] != "absent":
        tensors["labels"] = ids.copy()
    if batch["labels"] == "masked":
        tensors["labels"][rng.random(shape) < 0.2] = -100
    if batch["documents"]:
        bounds = numpy.cumsum((0,) + batch["documents"]).astype(numpy.int32)
        assert bounds[-1] == batch["length"]
        tensors["cu_seqlens"] = bounds
        if batch["labels"] == "masked":
            tensors["labels"][0, bounds[:-1]] = -100
    return tensors


def logits_of(model, batch):
    """Each document is run alone, so that nothing can look over its boundary."""
    ids = torch.tensor(batch["input_ids"], dtype=torch.int64)
    if "cu_seqlens" not in batch:
        return model(ids, use_cache=False).logits
    bounds = batch["cu_seqlens"].tolist()
    parts = [
        model(ids[:, begin:end], use_cache=False).logits
        for begin, end in zip(bounds, bounds[1:])
    ]
    return torch.cat(parts, dim=1)


def loss_of(logits, batch):
    labels = torch.tensor(batch.get("labels", batch["input_ids"]), dtype=torch.int64)
    if logits.dtype is torch.bfloat16:
        logits = logits.float()  # as transformers does
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100
    )


def optimizer_of(model):
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)


def clip_gradients(model):
    gradients = [p.grad for p in model.parameters()]
    norm = torch.sqrt(sum((g * g).sum() for g in gradients))
    for gradient in gradients:
        gradient.mul_(torch.clamp(CLIP_NORM / norm, max=1.0))


def train(model, batch):
    """The quantities of `skep dump --gradients --steps 20`."""
    found = {}
    losses = []
    optimizer = optimizer_of(model)
    for step in range(STEPS + 1):
        logits = logits_of(model, batch)
        loss = loss_of(logits, batch)
        losses.append(loss.item())
        if step == STEPS:
            break
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step == 0:
            found["logits"] = logits.detach().numpy().copy()
            for key, parameter in model.named_parameters():
                found[f"gradients.{key}"] = parameter.grad.numpy().copy()
        clip_gradients(model)
        optimizer.step()
    found["losses"] = numpy.array(losses)
    for key, parameter in model.named_parameters():
        found[f"weights.{key}"] = parameter.detach().numpy().copy()
    return found


def load(folder, weights, dtype, attention="eager"):
    config = transformers.AutoConfig.from_pretrained(folder)
    config.dtype = dtype
    torch.set_default_dtype(dtype)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    model.eval()  # dropout off
    if weights is not None:
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.copy_(torch.tensor(weights[key]))
    return model


def run_double(folder, weights, batch):
    with AnswerInDouble():
        model = load(folder, weights, torch.float64)
        with RefuseSingle():
            return train(model, batch)


def run_single(folder, weights, batch, attention):
    return train(load(folder, weights, torch.float32, attention), batch)


def run_half(folder, weights, batch, attention):
    """Logits and gradients of the model in bf16; nobody trains 20 steps without fp32 masters."""
    model = load(folder, weights, torch.bfloat16, attention)
    logits = logits_of(model, batch)
    loss_of(logits, batch).backward()
    found = {"logits": logits.detach().float().numpy()}
    for key, parameter in model.named_parameters():
        found[f"gradients.{key}"] = parameter.grad.float().numpy()
    return found


def error_of(key, value, truth):
    """As tests/parity/check.py measures it."""
    difference = value.astype(numpy.float64) - truth
    if key == "logits":
        return float(numpy.abs(difference).max() / numpy.abs(truth).max())
    return float(numpy.linalg.norm(difference) / max(numpy.linalg.norm(truth), 1e-30))


def error_over_all(prefix, found, truth):
    """Relative L2 over every tensor of that prefix as one vector."""
    keys = [key for key in truth if key.startswith(prefix)]
    both = [
        numpy.concatenate([values[key].ravel().astype(numpy.float64) for key in keys])
        for values in (found, truth)
    ]
    return float(numpy.linalg.norm(both[0] - both[1]) / numpy.linalg.norm(both[1]))


def write_model(folder, config, weights):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if weights is not None:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def own_errors(folder, weights, batch, truth):
    """fp32 by tensor, bf16 by kind: the larger of the library's two ways to do attention."""
    errors, half_errors = {}, {}
    for attention in ("eager", "sdpa"):
        single = run_single(folder, weights, batch, attention)
        for key in truth:
            errors[key] = max(errors.get(key, 0.0), error_of(key, single[key], truth[key]))
        half = run_half(folder, weights, batch, attention)
        for kind in ("logits", "gradients"):
            error = error_over_all(kind, half, truth)
            half_errors[kind] = max(half_errors.get(kind, 0.0), error)
    return errors, half_errors


def make_fixture(name):
    covers, config, shape = FIXTURES[name]
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    write_model(folder / "model", config, None)
    weights = random_weights(name, load(folder / "model", None, torch.float32))
    shutil.rmtree(folder)
    write_model(folder / "model", config, weights)
    batch = make_batch(name, config["vocab_size"], shape)
    save_file(batch, folder / "batch.safetensors")

    truth = run_double(folder / "model", weights, batch)
    errors, half_errors = own_errors(folder / "model", weights, batch, truth)
    expected = {key: value.astype(numpy.float32) for key, value in truth.items()}
    save_file(expected, folder / "expected.safetensors")
    document = {
        "covers": covers,
        "reference": f"torch {torch.__version__}, transformers {transformers.__version__}",
        "steps": STEPS,
        "fp32_error": {key: float(f"{errors[key]:.3g}") for key in sorted(errors)},
        "bf16_error": {key: float(f"{value:.3g}") for key, value in half_errors.items()},
    }
    (folder / "tolerances.json").write_text(json.dumps(document, indent=1) + "\n")
    report(name, weights, errors, half_errors)


def report(name, weights, errors, half_errors):
    def worst(prefix):
        return max((value, key) for key, value in errors.items() if key.startswith(prefix))

    gradient, gradient_key = worst("gradients.")
    weight, weight_key = worst("weights.")
    print(
        f"{name:20} {sum(value.size for value in weights.values()):6d} parameters"
        f"  logits {errors['logits']:.1e}  losses {errors['losses']:.1e}"
        f"  gradients {gradient:.1e} {gradient_key}  weights {weight:.1e} {weight_key}"
        f"  bf16 {half_errors['logits']:.1e} {half_errors['gradients']:.1e}"
    )


def main():
    torch.set_num_threads(2)
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or FIXTURES:
        make_fixture(name)


if __name__ == "__main__":
    main()
