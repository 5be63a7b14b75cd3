#!/usr/bin/env python3
"""Train PyTorch on the text of the demo, for three seeds; its loss is the target for Skep.

    python bench/learning.py FOLDER [--config config.json] [--stop N] [--seeds 1 2 3]

FOLDER holds train.txt and validation.txt (tools/demo_text), read as bytes. The default
model is a Llama of 1.87 million parameters. Each step draws random windows of the training text.
The script reports the mean validation loss per byte over the whole validation text, in windows that
do not overlap. It does so every --eval-every steps and after the last step.
"""

import argparse
import json
import math
import pathlib
import statistics
import time

import torch
import transformers

from muon import Both

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 256,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
}
COSINE_FLOOR = 0.1  # of the peak learning rate
WSD_DECAY_SHARE = 0.2  # of all steps
CHECKPOINT_STEPS = 500


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--config", type=pathlib.Path, help="config.json; default: CONFIG")
    parser.add_argument("--steps", type=int, default=1800, help="length of the schedule")
    parser.add_argument("--stop", type=int, default=600, help="steps to train")
    parser.add_argument("--schedule", choices=("cosine", "wsd"), default="wsd")
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--optimizer", choices=("adamw", "muon"), default="adamw")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--betas", type=float, nargs=2, default=[0.9, 0.95])
    parser.add_argument("--eps", type=float, default=1e-8)
    parser.add_argument("--clip-norm", type=float, default=1.0)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.95, help="of muon")
    parser.add_argument("--embedding-lr", type=float, default=2e-3,
                        help="of AdamW beside muon, for embeddings, head and vectors")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--eval-every", type=int, default=200)
    parser.add_argument("--samples", help="output of bench/sample_order, {seed} in the name: train"
                        " on the tokens of Skep in its order; default: random windows")
    parser.add_argument("--weights", help="model folder of the first weights, {seed} in the name;"
                        " default: random weights from PyTorch")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="file from which an interrupted"
                        " training of one seed continues; written every 500 steps")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results to this file")
    return parser.parse_args()


def bytes_of(path):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long()


def make_model(config, seed, weights):
    torch.manual_seed(seed)
    if weights is None:
        model = transformers.AutoModelForCausalLM.from_config(
            transformers.AutoConfig.for_model(**config), attn_implementation="sdpa"
        )
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            weights.format(seed=seed), attn_implementation="sdpa"
        )
    model.train()
    return model


def make_optimizer(model, arguments):
    if arguments.optimizer == "muon":
        return Both(model, arguments)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": arguments.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=arguments.lr, betas=tuple(arguments.betas),
                             eps=arguments.eps, fused=True)


def rate_share(step, arguments):
    """The schedules of Skep, as a share of the peak learning rate: linear warm-up, then cosine, or
    a plateau and a linear decay."""
    if step < arguments.warmup:
        return (step + 1) / arguments.warmup
    if arguments.schedule == "wsd":
        left = (arguments.steps - step) / (WSD_DECAY_SHARE * arguments.steps)
        return min(1.0, left)
    done = (step - arguments.warmup) / max(1, arguments.steps - arguments.warmup)
    wave = 0.5 * (1.0 + math.cos(math.pi * done))
    return COSINE_FLOOR + (1.0 - COSINE_FLOOR) * wave


def draw_windows(text, generator, arguments):
    starts = torch.randint(0, len(text) - arguments.sequence, (arguments.rows,),
                           generator=generator)
    return torch.stack([text[start : start + arguments.sequence + 1] for start in starts.tolist()])


def sample_rows(seed, arguments):
    """[steps, rows, sequence + 1] from the file of bench/sample_order, or None."""
    if arguments.samples is None:
        return None
    raw = pathlib.Path(arguments.samples.format(seed=seed)).read_bytes()
    ids = torch.frombuffer(bytearray(raw), dtype=torch.int32).long()
    return ids.view(-1, arguments.rows, arguments.sequence + 1)


def loss_of(model, windows):
    """Mean loss of the `sequence` predictions of each row; a row has one byte more."""
    logits = model(windows[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits.float().reshape(-1, logits.shape[-1]), windows[:, 1:].reshape(-1)
    )


@torch.no_grad()
def validation_loss(model, text, arguments):
    count = (len(text) - 1) // arguments.sequence
    starts = range(0, count * arguments.sequence, arguments.sequence)
    windows = torch.stack([text[start : start + arguments.sequence + 1] for start in starts])
    total = sum(loss_of(model, rows).item() * len(rows) for rows in windows.split(32))
    return total / count


def load_checkpoint(path, model, optimizer, generator):
    """The first step to train and the curve so far."""
    if path is None or not path.exists():
        return 0, []
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    generator.set_state(saved["generator"])
    return saved["steps"], saved["curve"]


def save_checkpoint(path, steps, curve, model, optimizer, generator):
    new = path.with_suffix(".new")
    torch.save({"steps": steps, "curve": curve, "model": model.state_dict(),
                "optimizer": optimizer.state_dict(), "generator": generator.get_state()}, new)
    new.rename(path)


def train(seed, config, texts, arguments):
    """A list of [step, validation loss]; the last entry is the result."""
    model = make_model(config, seed, arguments.weights)
    optimizer = make_optimizer(model, arguments)
    peaks = [group["lr"] for group in optimizer.param_groups]
    generator = torch.Generator().manual_seed(seed)
    rows = sample_rows(seed, arguments)
    first, curve = load_checkpoint(arguments.checkpoint, model, optimizer, generator)
    for step in range(first, arguments.stop):
        for group, peak in zip(optimizer.param_groups, peaks):
            group["lr"] = peak * rate_share(step, arguments)
        windows = (draw_windows(texts["train"], generator, arguments) if rows is None
                   else rows[step])
        loss = loss_of(model, windows)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), arguments.clip_norm)
        optimizer.step()
        done = step + 1
        if done % arguments.eval_every == 0 or done == arguments.stop:
            curve.append([done, validation_loss(model, texts["validation"], arguments)])
            print(f"seed {seed}  step {done:5d}  training {loss.item():.4f}"
                  f"  validation {curve[-1][1]:.4f}", flush=True)
        if arguments.checkpoint and done % CHECKPOINT_STEPS == 0:
            save_checkpoint(arguments.checkpoint, done, curve, model, optimizer, generator)
    return curve


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    config = json.loads(arguments.config.read_text()) if arguments.config else CONFIG
    texts = {name: bytes_of(arguments.folder / f"{name}.txt") for name in ("train", "validation")}
    curves, begin = {}, time.monotonic()
    for seed in arguments.seeds:
        curves[seed] = train(seed, config, texts, arguments)
    final = [curve[-1][1] for curve in curves.values()]
    spread = statistics.stdev(final) if len(final) > 1 else 0.0
    print(f"validation loss after {arguments.stop} steps: mean {statistics.mean(final):.4f},"
          f" standard deviation {spread:.4f}, over {len(final)} seeds;"
          f" {time.monotonic() - begin:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps({"config": config, "curves": curves}, indent=1) + "\n")


if __name__ == "__main__":
    main()
