"""Make the fixtures of the tokenizer tests with the Python package tokenizers.

    v/bin/pip install tokenizers==0.23.3
    v/bin/python tests/tokenizer/make_fixtures.py [NAME...]

A fixture is a small trained tokenizer in fixtures/NAME, and expected.txt with digests of the
package's results. A digest is the first 8 bytes of BLAKE2b-256 over the ids as int32, or over the
decoded text. Its lines:

    encode, special, literal INDEX DIGEST    ids of GROUP texts of texts.json: plain, with the
                                             special tokens of the template, special tokens as text
    decode, skip INDEX DIGEST                texts of these ids; without special tokens
    random, random_skip INDEX DIGEST         texts of LISTS_A_LINE lists of random ids
    scalars INDEX DIGEST                     ids of TEXTS_A_LINE texts with scalar values, in the
                                             fixtures SCALAR_FIXTURES
"""
import hashlib
import itertools
import json
import pathlib
import struct
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

import texts

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
SCALAR_FIXTURES = ("qwen2", "tekken", "words")
VOCABULARY = 600
RANDOM_TEXTS = 300
RANDOM_LISTS, LISTS_A_LINE, IDS_MAX = 1000, 100, 30
TEXTS_A_LINE = 64
GROUP = 8
STEP, ADDEND, MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES)
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          + SPACES)
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*" + SPACES)


def cased(contractions, numbers):
    return (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            + contractions
            + r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            + contractions + "|" + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + SPACES)


def corpus():
    return texts.PLAIN * 8 + texts.hard_texts(200, seed=1)


def byte_level(pre_tokenizer, specials=("<|endoftext|>",), normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def then_bytes(*steps):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*steps, last])


def by_pattern(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def template(single, *specials):
    return processors.TemplateProcessing(single=single, special_tokens=list(specials))


def characters(byte_fallback=True, fuse_unk=True, unk="<unk>", missing_bytes=()):
    """A model over characters, like those converted from SentencePiece."""
    options = {"byte_fallback": byte_fallback, "fuse_unk": fuse_unk, "unk_token": unk}
    trained = Tokenizer(models.BPE(**options))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256) if byte not in missing_bytes]
    specials = ["<unk>", "<s>", "</s>"] + (byte_tokens if byte_fallback else [])
    trained.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=specials, limit_alphabet=120, show_progress=False))
    fields = json.loads(trained.to_str())
    fields["added_tokens"] = fields["added_tokens"][:3]
    fields["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(fields))


def spaces_to_meta():
    return normalizers.Replace(" ", "\u2581")


def prepended_meta():
    return normalizers.Sequence([normalizers.Prepend("\u2581"), spaces_to_meta()])


def meta_decoder(*last):
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                              decoders.Fuse(), *last])


def special(*contents, **options):
    return [AddedToken(content, special=True, normalized=False, **options) for content in contents]


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt2_prefix():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))


def llama3():
    tokenizer = byte_level(then_bytes(by_pattern(LLAMA3)), ignore_merges=True, specials=(
        "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        template("<|begin_of_text|> $A", ("<|begin_of_text|>", 0))])
    return tokenizer


def qwen2():
    tokenizer = byte_level(then_bytes(by_pattern(QWEN2)), normalizer=normalizers.NFC(), specials=())
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False),
                          AddedToken("<think>", normalized=True),
                          AddedToken("cafe\u0301", normalized=True)])
    return tokenizer


def tekken():
    tokenizer = byte_level(then_bytes(by_pattern(cased("", r"\p{N}"))), specials=(
        "<unk>", "<s>", "</s>", "[INST]", "[/INST]"))
    tokenizer.post_processor = template("<s> $A </s>", ("<s>", 1), ("</s>", 2))
    return tokenizer


def o200k():
    return byte_level(then_bytes(by_pattern(cased(CONTRACTIONS + "?", r"\p{N}{1,3}"))))


def smollm():
    return byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def llama2():
    tokenizer = characters()
    tokenizer.normalizer = prepended_meta()
    tokenizer.decoder = meta_decoder(decoders.Strip(" ", 1, 0))
    tokenizer.post_processor = template("<s> $A", ("<s>", 1))
    return tokenizer


def mistral():
    tokenizer = characters()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = meta_decoder(decoders.Strip(" ", 1, 0))
    tokenizer.add_special_tokens(special("[INST]", "[/INST]"))
    return tokenizer


def gemma():
    tokenizer = characters()
    tokenizer.normalizer = spaces_to_meta()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = meta_decoder()
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False),
                          AddedToken("\u2581\u2581", normalized=False)])
    return tokenizer


def phi3():
    tokenizer = llama2()
    tokenizer.add_special_tokens(special("<|end|>", "<|user|>", rstrip=True))
    tokenizer.add_tokens([AddedToken("<|left|>", lstrip=True, normalized=False),
                          AddedToken("word", single_word=True, normalized=False),
                          AddedToken("  ", normalized=False), AddedToken("NORM")])
    return tokenizer


def metaspace():
    tokenizer = characters(byte_fallback=False, fuse_unk=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def unknown_fused():
    tokenizer = characters(byte_fallback=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer


def unknown_bytes():
    """Some bytes have no token, so unknown characters and bytes mix."""
    return characters(missing_bytes=range(0x80, 0xC0, 2))


def no_unknown():
    return characters(byte_fallback=False, unk=None)


def qwen35():
    return byte_level(then_bytes(by_pattern(QWEN35)))


def deepseek():
    return byte_level(then_bytes(by_pattern(r"\p{N}{1,3}"),
                                 by_pattern("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                                 by_pattern(DEEPSEEK)))


def words():
    return byte_level(then_bytes(by_pattern(r"\b\w+\b|\d{2,}?x|[^\w\s]", "merged_with_previous"),
                                 pre_tokenizers.Split("'", "contiguous")))


def inverted():
    return byte_level(then_bytes(by_pattern(r"\w+|[^\w\s]+", "removed", invert=True)))


def with_next():
    return byte_level(then_bytes(
        by_pattern(r"(?<=a)\W|\p{Lu}+|[\p{Nd}]", "merged_with_next", invert=True),
        by_pattern(r"\p{P}|\p{Ll}{2,4}?", "merged_with_next")))


def contiguous():
    return byte_level(then_bytes(by_pattern(r"(?i:hello|k|don't)|\P{L}{2}|[^\S\n]", "contiguous"),
                                 pre_tokenizers.Digits()))


CONFIGS = {  # tokenizer_config.json
    "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "llama2": {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": "<unk>"},
    "qwen2": {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
}
MAKERS = {maker.__name__.replace("_", "-"): maker for maker in (
    gpt2, gpt2_prefix, llama3, qwen2, tekken, o200k, smollm, llama2, mistral, gemma, phi3,
    metaspace, unknown_fused, unknown_bytes, no_unknown, qwen35, deepseek, words, inverted,
    with_next, contiguous)}


def digest(data):
    return hashlib.blake2b(data, digest_size=32).hexdigest()[:16]


def id_bytes(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


def random_lists(id_count):
    """RANDOM_LISTS lists of ids, some without a token; check_fixture.c makes the same."""
    state = 1
    for _ in range(RANDOM_LISTS):
        state = state * STEP + ADDEND & MASK
        ids = []
        for _ in range((state >> 33) % IDS_MAX):
            state = state * STEP + ADDEND & MASK
            ids.append((state >> 33) % (id_count + 2))
        yield ids


def chunks(items, size):
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])


def expected_lines(name, tokenizer, samples):
    def encode(key, special_tokens):
        for index, part in enumerate(chunks(samples, GROUP)):
            encodings = tokenizer.encode_batch_fast(part, add_special_tokens=special_tokens)
            yield f"{key} {index} {digest(b''.join(id_bytes(each.ids) for each in encodings))}"

    yield from encode("encode", False)
    yield from encode("special", True)
    tokenizer.encode_special_tokens = True
    yield from encode("literal", False)
    tokenizer.encode_special_tokens = False
    for key, skips in (("decode", False), ("skip", True)):
        for index, part in enumerate(chunks(samples, GROUP)):
            lists = [encoding.ids for encoding in tokenizer.encode_batch_fast(part)]
            text = "".join(tokenizer.decode(ids, skip_special_tokens=skips) for ids in lists)
            yield f"{key} {index} {digest(text.encode())}"
    id_count = max(tokenizer.get_vocab(True).values()) + 1
    for key, skips in (("random", False), ("random_skip", True)):
        for index, part in enumerate(chunks(random_lists(id_count), LISTS_A_LINE)):
            text = "".join(tokenizer.decode(ids, skip_special_tokens=skips) for ids in part)
            yield f"{key} {index} {digest(text.encode())}"
    if name in SCALAR_FIXTURES:
        for index, part in enumerate(chunks(texts.scalar_texts(), TEXTS_A_LINE)):
            encodings = tokenizer.encode_batch_fast(part, add_special_tokens=False)
            ids = [number for encoding in encodings for number in encoding.ids]
            yield f"scalars {index} {digest(id_bytes(ids))}"


def main():
    samples = texts.hard_texts(RANDOM_TEXTS)
    FIXTURES.mkdir(exist_ok=True)
    (FIXTURES / "texts.json").write_text(json.dumps({"texts": samples}, indent=0) + "\n")
    for name in sys.argv[1:] or MAKERS:
        folder = FIXTURES / name
        folder.mkdir(exist_ok=True)
        MAKERS[name]().save(str(folder / "tokenizer.json"), pretty=False)
        if name in CONFIGS:
            (folder / "tokenizer_config.json").write_text(json.dumps(CONFIGS[name]) + "\n")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        (folder / "expected.txt").write_text(
            "\n".join(expected_lines(name, tokenizer, samples)) + "\n")
        print(name, flush=True)


if __name__ == "__main__":
    main()
