#!/usr/bin/env python3
"""Compare the step times of two builds of bench/step_times, which take turns.

    python bench/step_ratio.py BEFORE/step_times AFTER/step_times [--pairs N] [--steps N]
                               [--threads N] [--json FILE]

For each of three shapes both programs run as long-lived processes. In each pair both take the same
number of steps, in alternating order, so that a slow period of the machine affects both alike. The
ratio of a pair is the time of AFTER divided by the time of BEFORE. The script prints the mean ratio
of all pairs of a shape with its 95 % interval (Student's t), and that of all shapes together.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 688,
         "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
         "vocab_size": 4096, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True}
QWEN3 = {"model_type": "qwen3", "hidden_size": 128, "intermediate_size": 384,
         "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 32, "vocab_size": 2048, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": True}
GPT2 = {"model_type": "gpt2", "n_embd": 192, "n_layer": 4, "n_head": 6, "n_positions": 256,
        "vocab_size": 4096, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}
# name: config, sequence, microbatch, precision
SHAPES = {
    "llama f32, 4 x 256 tokens": (LLAMA, 256, 4, "f32"),
    "qwen3 bf16, 8 x 128 tokens": (QWEN3, 128, 8, "bf16"),
    "gpt2 f32, 8 x 128 tokens": (GPT2, 128, 8, "f32"),
}
# Two-sided 95 % quantiles of Student's t; otherwise those of a normal distribution.
STUDENT_T = {9: 2.262, 19: 2.093, 29: 2.045, 39: 2.023, 59: 2.001, 89: 1.987, 119: 1.980}
NORMAL = 1.96
WARM_STEPS = 3


class Timed:
    """One process of step_times."""

    def __init__(self, program, folder, config, settings):
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        self.process = subprocess.Popen([program, str(path), *settings], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.process.stdout.readline():
            raise SystemExit(f"{program} did not start")

    def milliseconds(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return sum(json.loads(self.process.stdout.readline())["ms"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ratios_of(programs, shape, options):
    config, sequence, rows, precision = shape
    settings = [f"batch.sequence={sequence}", f"batch.microbatch={rows}",
                f"batch.tokens={sequence * rows}", f"precision.params={precision}",
                f"precision.compute={precision}", f"threads={options.threads}"]
    with tempfile.TemporaryDirectory() as folder:
        timed = [Timed(program, folder, config, settings) for program in programs]
        for one in timed:
            one.milliseconds(WARM_STEPS)
        found = []
        for pair in range(options.pairs):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            took = {index: timed[index].milliseconds(options.steps) for index in order}
            found.append(took[1] / took[0])
        for one in timed:
            one.end()
    return found


def interval(ratios):
    """The mean and the ends of its 95 % interval."""
    mean = statistics.mean(ratios)
    quantile = STUDENT_T.get(len(ratios) - 1, NORMAL)
    half = quantile * statistics.stdev(ratios) / len(ratios) ** 0.5
    return mean, mean - half, mean + half


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=3, help="steps of each program in a pair")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    found = {name: ratios_of((options.before, options.after), shape, options)
             for name, shape in SHAPES.items()}
    rows = {**found, "all": [ratio for ratios in found.values() for ratio in ratios]}
    for name, ratios in rows.items():
        print("{:28} {:.4f} [{:.4f}, {:.4f}]".format(name, *interval(ratios)))
    if options.json:
        options.json.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
