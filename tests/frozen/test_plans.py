"""Plans and programs of every model family, for GPUs and a processor, against plans.txt: the plan's
hash, its sizes, and digests of its extents and of its program's instructions."""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import frozen

MODELS = pathlib.Path(__file__).parents[1] / "unit" / "model" / "configs"
BF16 = ["precision.params=bf16", "precision.compute=bf16"]
# Model, target, ranks, run keys.
PLANS = [
    ("gpt2", "h100-80g", 1, []),
    ("gpt2", "cpu-zen5-2c-24g", 1, ["strategy.recompute=selective"]),
    ("gpt2", "cpu-zen5-2c-24g", 4, ["strategy.zero=3", "strategy.keep_gathered=true",
                                    "batch.sequence=256", "batch.microbatch=2"]),
    ("gpt2-large", "l40s-48g", 2, ["strategy.zero=1", "strategy.reduce_at=step",
                                   "batch.tokens=8192"]),
    ("smollm2-135m", "cpu-zen5-2c-24g", 2, ["strategy.zero=0", *BF16, "precision.reduce=bf16"]),
    ("smollm2-135m", "cpu-zen5-2c-24g", 1, ["strategy.offload=params,optimizer,activations"]),
    ("llama-3.2-1b", "h200-141g", 4, ["strategy.zero=3", "strategy.replicate=2",
                                      "strategy.recompute=block", *BF16]),
    ("llama-3.1-8b", "h100-80g", 2, ["strategy.zero=3", "strategy.prefetch=2", *BF16,
                                     "precision.moments=bf16", "precision.rounding=stochastic"]),
    ("tinyllama-1.1b", "rtx4090-24g", 1, ["strategy.offload=activations,optimizer", *BF16]),
    ("mistral-7b-v0.3", "a100-80g", 4, ["strategy.zero=2", "precision.wire_sum=ring", *BF16]),
    ("mistral-7b-v0.1", "jetson-orin-64g", 1, ["strategy.offload=params,optimizer",
                                               "strategy.units=size:100000000", *BF16]),
    ("qwen2-0.5b", "rtx3060-12g", 1, ["frozen=model.embed_tokens,model.layers.0"]),
    ("qwen2.5-1.5b", "rtx5090-32g", 2, ["strategy.zero=2", "strategy.live=3",
                                        "strategy.overrides=layers.3=zero:1"]),
    ("qwen3-0.6b", "a100-40g", 4, ["strategy.zero=1", "strategy.replicate=2",
                                   "precision.wire_sum=ring", "precision.reduce=bf16", *BF16]),
    ("qwen3-4b", "rtx3090-24g", 1, ["batch.sequence=512", "limits.device=8GiB", *BF16]),
    ("qwen3-0.6b", "cpu-zen5-2c-24g", 2, ["generate.context=64", "batch.sequence=128",
                                          "eval.every=5"]),
]
INSTRUCTION = re.compile(r"^ *[0-9]+ ")


def planned(model, target, ranks, keys, flag):
    result = subprocess.run([os.environ["SKEP"], "plan", f"{model}.json", "--target", target,
                             "--ranks", str(ranks), flag, *keys],
                            cwd=MODELS, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 3):  # 3: it does not fit; the plan is printed all the same
        sys.exit(f"{result.args}: {result.returncode}: {result.stderr}")
    return result.stdout


def digest(lines):
    return hashlib.sha256("".join(line + "\n" for line in lines).encode()).hexdigest()


def lines_of(model, target, ranks, keys):
    yield f"{model} on {ranks} x {target} {' '.join(keys)}".rstrip()
    plan = json.loads(planned(model, target, ranks, keys, "--json"))
    yield f"    hash {plan['hash']}"
    yield f"    fits {plan['fits']}, {plan['program_steps']} steps, mesh {plan.get('mesh')}"
    for space in plan["spaces"]:
        if space["name"] != "disk":  # of the machine
            declared = [line["bytes"] for line in space["declared"]]
            yield (f"    space {space['name']} {space['capacity_bytes']} declared {declared} peak "
                   f"{space['peak_bytes']} bound {space['bound_bytes']}")
    yield f"    volumes {json.dumps(plan.get('volumes'))}"
    rows = [json.dumps(extent) for extent in plan["extents"]]
    yield f"    {len(rows)} extents, {digest(rows)}"
    text = planned(model, target, ranks, keys, "--program").splitlines()
    rows = [line for line in text if INSTRUCTION.match(line)]
    yield f"    {len(rows)} instructions, {digest(rows)}"


def main():
    lines = [line for plan in PLANS for line in lines_of(*plan)]
    sys.exit(0 if frozen.holds("plans", lines) else 1)


if __name__ == "__main__":
    main()
