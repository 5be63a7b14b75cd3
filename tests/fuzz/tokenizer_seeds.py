#!/usr/bin/env python3
"""Write seeds for the fuzz targets of tokenizers.

    tokenizer_seeds.py FOLDER

files/ has the tokenizers of tests/tokenizer/fixtures, cut to their first tokens, for
fuzz_tokenizer; words.dict has names and texts of these files, for its option -dict. texts/ has
short texts after a byte that chooses the tokenizer, for fuzz_tokenizer_text, and lines/ has lines
of JSON after a byte that divides them, for fuzz_corpus.
"""
import json
import pathlib
import random
import sys

TOKENIZERS = pathlib.Path(__file__).parents[1] / "tokenizer"
sys.path.insert(0, str(TOKENIZERS))
import texts  # noqa: E402

TOKENS, MERGES = 40, 12
TEXTS, TEXT_BYTES_MAX = 60, 600
WORD_BYTES_MAX = 60  # of libFuzzer are 64


def cut_tokenizer(fields):
    """The same components with few tokens, whose ids have no gaps."""
    model = fields["model"]
    kept = set(sorted(model["vocab"], key=model["vocab"].get)[:TOKENS])
    merges = [pair for pair in model["merges"] if set(pair) <= kept][:MERGES]
    kept |= {left + right for left, right in merges}
    kept |= {model["unk_token"]} if model.get("unk_token") else set()
    kept |= {token["content"] for token in fields["added_tokens"]} & set(model["vocab"])
    tokens = sorted(kept, key=model["vocab"].get)
    model["vocab"] = {token: index for index, token in enumerate(tokens)}
    model["merges"] = merges
    next_id = len(tokens)
    for token in fields["added_tokens"]:
        token["id"] = model["vocab"].get(token["content"], next_id)
        next_id += token["id"] == next_id
    return fields


def words_of(value):
    """The names and texts in a value of JSON, as JSON writes them."""
    if isinstance(value, dict):
        return {json.dumps(key) for key in value}.union(*map(words_of, value.values()))
    if isinstance(value, list):
        return set().union(*map(words_of, value))
    return {json.dumps(value)} if isinstance(value, str) else set()


def write_files(folder):
    words = set()
    for path in sorted((TOKENIZERS / "fixtures").glob("*/tokenizer.json")):
        fields = cut_tokenizer(json.loads(path.read_text()))
        (folder / "files" / path.parent.name).write_text(
            json.dumps(fields, ensure_ascii=False, separators=(",", ":")))
        fields["model"].update(vocab={}, merges=[])
        words |= words_of(fields)
    lines = [json.dumps(word) + "\n" for word in sorted(words) if len(word) <= WORD_BYTES_MAX]
    (folder / "words.dict").write_text("".join(lines))


def main():
    folder, chance = pathlib.Path(sys.argv[1]), random.Random(3)
    for name in ("files", "texts", "lines"):
        (folder / name).mkdir(parents=True)
    write_files(folder)
    for index, text in enumerate(texts.hard_texts(TEXTS)):
        raw = text.encode()
        if len(raw) <= TEXT_BYTES_MAX:
            (folder / "texts" / str(index)).write_bytes(bytes([chance.randrange(256)]) + raw)
            line = json.dumps({"id": index, "text": text}, ensure_ascii=index % 2 == 0).encode()
            (folder / "lines" / str(index)).write_bytes(bytes([chance.randrange(256)]) + line)


if __name__ == "__main__":
    main()
