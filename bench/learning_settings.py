"""Settings of one learning run: their defaults, their key, and the run file that they give.

A setting is a flat dict. It holds everything that determines the loss of a run except the seed and
the program, so equal keys mean the same experiment.
"""

import hashlib
import json

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "vocab_size": 256,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "initializer_range": 0.06,
    "tie_word_embeddings": False,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 256,
    "n_embd": 96,
    "n_layer": 8,
    "n_head": 3,
    "n_positions": 128,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.06,
    "tie_word_embeddings": True,
}
MODELS = {"llama-0.9m": LLAMA, "gpt2-0.9m": GPT2}

COMMON = {
    "model": "llama-0.9m",
    "text": None,  # text_hash of the mixed text
    "steps": 18000,
    "tokens": 1024,  # per step of all members together
    "sequence": 128,
    "precision": "bf16",
    "warmup": 100,
    "lr": 1.4e-3,
    "betas": [0.9, 0.99],
    "eps": 1e-8,
    "clip_norm": 1.0,
    "weight_decay": 0.1,
    "run_keys": [],  # further key=value of the run file
}
DEFAULTS = {
    "data parallel": COMMON,
    "swarm": {**COMMON, "lr": 1e-3, "members": 4, "inner_steps": 30, "codec": "int8",
              "outer_lr": 1.0, "outer_momentum": 0.5,
              "churn": 0.0},  # probability that a member is replaced in 30 inner steps
    "muon": {**COMMON, "precision": "f32", "lr": 1e-2, "embedding_lr": 2e-3, "momentum": 0.95},
}
# Values of a swarm that a setting has only where they differ from these, so that keys of earlier
# results stay the same.
LATER = {"member_betas": "fixed", "member_decay": "fixed", "member_variance": "fixed",
         "outer_gain": 0,  # unless 0, it takes the place of outer_momentum
         "sparse_values": 64, "sparse_bits": 2}  # of the codec sparse, which has no outer momentum
CHURN_STEPS = 30
MICROBATCH_ROWS_MAX = 8

RUN = """model: model
init: random
seed: {seed}
steps: {steps}
threads: 1
data:
  train: {text_folder}/train.txt
  validation: {text_folder}/validation.txt
  format: bytes
batch:
  sequence: {sequence}
  microbatch: {microbatch}
  tokens: {member_tokens}
optimizer:
  lr: {lr}
  betas: {betas}
  eps: {eps}
  clip_norm: {clip_norm}
  weight_decay: {weight_decay}
schedule:
  kind: cosine
  warmup_steps: {warmup}
precision: {{params: {precision}, compute: {precision}}}
"""
SWARM_RUN = """swarm:
  name: learning
  inner_steps: {inner_steps}
  codec: {codec}
  members_max: 8
  members_min: {members_min}
  patience: 20
  shrink_after: {shrink_after}
  outer_lr: {outer_lr}
"""
SNAPSHOT_STEPS = 500


def setting(kind, **changes):
    """The defaults of `kind` with `changes`; ValueError for a name or a division that is wrong."""
    if kind not in DEFAULTS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(DEFAULTS)}")
    known = {**DEFAULTS[kind], **(LATER if kind == "swarm" else {})}
    unknown = changes.keys() - known.keys()
    if unknown:
        raise ValueError(f"{kind} has no {', '.join(sorted(unknown))}; it has {', '.join(known)}")
    made = {"kind": kind, **DEFAULTS[kind], **changes}
    made = {name: value for name, value in made.items()
            if name not in LATER or value != LATER[name]}
    if made.get("codec") == "sparse":
        if changes.get("outer_momentum") or made.get("outer_gain"):
            raise ValueError("the codec sparse has no outer momentum")
        del made["outer_momentum"]
    elif "sparse_values" in made or "sparse_bits" in made:
        raise ValueError("sparse_values and sparse_bits are settings of the codec sparse")
    if made.get("outer_gain"):
        if "outer_momentum" in changes:
            raise ValueError("outer_gain takes the place of outer_momentum: give one of them")
        del made["outer_momentum"]
    if made["model"] not in MODELS:
        raise ValueError(f"model {made['model']!r} is not one of {', '.join(MODELS)}")
    members = made.get("members", 1)
    if made["tokens"] % (members * made["sequence"]):
        raise ValueError(f"{made['tokens']} tokens are no whole rows for each of {members} members")
    made["shape"] = short_hash(json.dumps(MODELS[made["model"]], sort_keys=True).encode())
    made["microbatch"] = min(made["tokens"] // members // made["sequence"], MICROBATCH_ROWS_MAX)
    return made


def short_hash(content):
    return hashlib.sha256(content).hexdigest()[:12]


def key_of(made):
    """Equal for equal settings, whatever the order of their names and the spelling of numbers."""
    plain = {name: float(value) if isinstance(value, int) else value
             for name, value in made.items()}
    plain["betas"] = [float(beta) for beta in made["betas"]]
    return short_hash(json.dumps(plain, sort_keys=True).encode())


def codec_words(made):
    """The codec, and how much of a block it sends: a codec of its own for each."""
    if made["codec"] != "sparse":
        return made["codec"]
    values, bits = (made.get(name, LATER[name]) for name in ("sparse_values", "sparse_bits"))
    return f"sparse {values} x {bits} bit"


def family_of(made):
    """What one baseline or one kind of swarm is tuned as."""
    if made["kind"] != "swarm":
        return made["kind"]
    churn = f", churn {made['churn']:g}" if made["churn"] else ""
    return f"swarm of {made['members']}, {codec_words(made)}, H {made['inner_steps']}{churn}"


def words_of(made):
    """The tuned values of a setting in one line; those of its family are left out."""
    words = [f"lr {made['lr']:g}", "betas {:g}/{:g}".format(*made["betas"]),
             f"decay {made['weight_decay']:g}"]
    if made["kind"] == "swarm":
        words.append(f"outer {made['outer_lr']:g}/" + (
            f"gain {made['outer_gain']:g}" if "outer_gain" in made
            else f"{made.get('outer_momentum', 0):g}"))
        words += [f"{name.replace('member_', '')} {made[name]}"
                  for name in ("member_betas", "member_decay", "member_variance")
                  if name in made]
    if made["kind"] == "muon":
        words.append(f"momentum {made['momentum']:g}, embeddings {made['embedding_lr']:g}")
    return ", ".join(words + list(made["run_keys"]))


def chance_per_round(made):
    """Probability that a member is replaced in one round."""
    return 1 - (1 - made["churn"]) ** (made["inner_steps"] / CHURN_STEPS)


def run_file(made, seed, text_folder):
    members = made.get("members", 1)
    values = {**made, "seed": seed, "text_folder": text_folder,
              "member_tokens": made["tokens"] // members}
    if made["kind"] != "swarm":
        text = RUN.format(**values) + f"snapshot.every: {SNAPSHOT_STEPS}\n"
    else:
        churn = made["churn"] > 0
        text = RUN.format(**values) + SWARM_RUN.format(
            members_min=members - 1 if churn else members, shrink_after=2 if churn else 20,
            **values)
        text += "".join(f"  {name}: {made[name]}\n" for name in ("outer_momentum", *LATER)
                        if name in made)
    return text + "".join("{}: {}\n".format(*pair.split("=", 1)) for pair in made["run_keys"])
