"""Makes tokenizer.json and expected.json with the Python package tokenizers, version 0.23.3.

    python make.py      # in this folder, which it rewrites

The tokenizer is a byte-level BPE of 600 tokens, trained on documents.py, with a template that puts
<|begin|> first. expected.json has the ids of every document.
"""
import hashlib
import json
import pathlib
import struct

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import documents

HERE = pathlib.Path(__file__).parent
IDS_SHOWN_MAX = 600  # longer lists are stored as a hash
SPECIAL = ["<|endoftext|>", "<|begin|>"]


def train():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, min_frequency=4, special_tokens=SPECIAL,
                                  show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([documents.long_text(5, 20000), *documents.SHORT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", tokenizer.token_to_id("<|begin|>"))])
    return tokenizer


def summary(ids):
    if len(ids) <= IDS_SHOWN_MAX:
        return ids
    return {"count": len(ids),
            "sha256": hashlib.sha256(struct.pack(f"<{len(ids)}H", *ids)).hexdigest()}


def expected(tokenizer, data):
    text = data.decode(errors="replace")
    tokenizer.encode_special_tokens = False
    found = {"special": summary(tokenizer.encode(text).ids),
             "plain": summary(tokenizer.encode(text, add_special_tokens=False).ids)}
    tokenizer.encode_special_tokens = True
    found["literal"] = summary(tokenizer.encode(text).ids)
    return found


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    tokenizer = train()
    tokenizer.save(str(HERE / "tokenizer.json"))
    (HERE / "tokenizer_config.json").write_text(json.dumps(
        {"bos_token": "<|begin|>", "eos_token": "<|endoftext|>"}, indent=1) + "\n")
    rows = {name: expected(tokenizer, data) for name, data in documents.documents().items()}
    (HERE / "expected.json").write_text(
        "{\n" + ",\n".join(f'"{name}": {json.dumps(row)}' for name, row in rows.items()) + "\n}\n")


if __name__ == "__main__":
    main()
