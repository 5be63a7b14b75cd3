"""Convert text into token shards in the format of llm.c, with any Hugging Face tokenizer.

    python tokenize.py --tokenizer openai-community/gpt2 -o data/books *.txt
    python tokenize.py --tokenizer ./model --validation 0.05 -o data/books books.jsonl
    python tokenize.py --tokenizer ./model --encode "It is a truth"     # ids of a prompt
    python tokenize.py --tokenizer ./model --decode 1026,318            # their text; -: from a pipe

A text file is one document, or several that --separator divides. Each line of a .jsonl file is one
document, in the field --field. The output has a separator token before each document: the
tokenizer's end of text, or --document-token. The output files are PREFIX_train_000000.bin and so
on. With --validation, the last share of the tokens goes to PREFIX_val_000000.bin and so on.

A shard is a header of 256 int32 {magic, version, tokens, 0...}, then the tokens, little-endian:
uint16 with magic 20240520 when every id fits, otherwise uint32 with magic 20240801. The script
needs the Python package transformers.
"""

import argparse
import array
import json
import os
import pathlib
import re
import struct
import sys

HEADER_INTS = 256
# bytes of a token: type code of array, magic, version (llm.c's dev/data/data_common.py)
FORMS = {2: ("H", 20240520, 1), 4: ("I", 20240801, 7)}
UINT16_IDS = 1 << 16
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # org/name


def fail(message):
    raise SystemExit(f"tokenize.py: {message}")


def say(message):
    print(f"tokenize.py: {message}", file=sys.stderr, flush=True)


def document_of_line(line, place, field):
    """The text in one line of a .jsonl file."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        fail(f"{place}: not JSON: {error.msg}; each line must be one JSON object")
    if not isinstance(record, dict) or field not in record:
        fail(f"{place}: no field '{field}'; name it with --field")
    if not isinstance(record[field], str):
        fail(f"{place}: the field '{field}' is not a text")
    return record[field]


def documents_of(path, separator, field):
    """The texts in one input file."""
    try:
        if path.suffix == ".jsonl":
            with path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield document_of_line(line, f"{path}:{number}", field)
            return
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fail(f"{path}: byte {error.start} is not UTF-8; convert the file to UTF-8")
    for document in text.split(separator) if separator else [text]:
        if document.strip():
            yield document


def encode_all(documents, encode, document_token, width):
    """All tokens in one array, with `document_token` before each document unless it is None."""
    tokens = array.array(FORMS[width][0])
    for document in documents:
        if document_token is not None:
            tokens.append(document_token)
        tokens.extend(encode(document))
    return tokens


def write_shard(path, tokens):
    code, magic, version = FORMS[tokens.itemsize]
    header = struct.pack(f"<{HEADER_INTS}i", magic, version, len(tokens), *[0] * (HEADER_INTS - 3))
    body = array.array(code, tokens)
    if sys.byteorder == "big":
        body.byteswap()
    with path.open("wb") as out:
        out.write(header)
        body.tofile(out)


def write_shards(prefix, split, tokens, shard_tokens):
    """Write full shards and a shorter last one; return their paths."""
    paths = []
    for begin in range(0, len(tokens), shard_tokens):
        path = pathlib.Path(f"{prefix}_{split}_{len(paths):06d}.bin")
        write_shard(path, tokens[begin : begin + shard_tokens])
        paths.append(path)
    return paths


def choose_document_token(tokenizer, text):
    if text == "none":
        return None
    if text is not None:
        token = tokenizer.convert_tokens_to_ids(text)
        if token is None or token == tokenizer.unk_token_id != text:
            fail(f"--document-token: the tokenizer has no token '{text}'")
        return token
    if tokenizer.eos_token_id is None:
        fail("the tokenizer has no end-of-text token; set --document-token to a token, or to none")
    return tokenizer.eos_token_id


def load_tokenizer(name):
    """The tokenizer of a model folder, or of org/name on the Hub."""
    if not os.path.isdir(name) and not HUB_NAME.fullmatch(name):
        fail(f"{name}: no such folder; give a model folder or org/name")
    say("loading transformers")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch is missing
    sys.path.pop(0)  # otherwise transformers would import this file instead of Python's tokenize
    try:
        import transformers
    except ModuleNotFoundError as error:
        fail(f"needs the Python package {error.name}: python3 -m venv v; "
             "v/bin/pip install transformers; then run this with v/bin/python")
    try:
        return transformers.AutoTokenizer.from_pretrained(name)
    except (ImportError, OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return fail(f"{name}: cannot load the tokenizer: {reason}")


def print_ids(tokenizer, text):
    """The ids of a prompt, with the special tokens that the model's own tokenizer adds."""
    print(",".join(map(str, tokenizer.encode(text))))


def print_text(tokenizer, ids):
    """The text of ids that anything but digits divides."""
    numbers = [int(number) for number in re.findall(r"\d+", ids)]
    known = [number for number in numbers if number < len(tokenizer)]
    if len(known) < len(numbers):  # a model may have more ids than its tokenizer
        say(f"left out {len(numbers) - len(known)} ids that the tokenizer does not have")
    print(tokenizer.decode(known))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", nargs="*", type=pathlib.Path, help="text or .jsonl files")
    parser.add_argument("--tokenizer", required=True, help="a model folder or org/name")
    parser.add_argument("-o", "--output", help="path prefix of the shards")
    parser.add_argument("--encode", metavar="TEXT", help="print the ids of this text, and end")
    parser.add_argument("--decode", metavar="IDS",
                        help="print the text of these ids, or with - of those on standard input")
    parser.add_argument("--separator", help="text that divides a text file into documents")
    parser.add_argument("--field", default="text", help="field of a .jsonl line (default: text)")
    parser.add_argument("--document-token", help="text of a token, or none (default: end of text)")
    parser.add_argument("--validation", type=float, default=0.0, metavar="SHARE",
                        help="share of the tokens, from the end (default: 0)")
    parser.add_argument("--shard-tokens", type=int, default=100_000_000,
                        help="tokens in a full shard (default: 1e8)")
    arguments = parser.parse_args()
    writes = arguments.encode is None and arguments.decode is None
    if writes and not (arguments.input and arguments.output):
        parser.error("give -o PREFIX and text files, or --encode TEXT, or --decode IDS")
    if not 0.0 <= arguments.validation < 1.0:
        parser.error("--validation: must be at least 0 and below 1")
    if arguments.shard_tokens < 1:
        parser.error("--shard-tokens: must be at least 1")
    return arguments


def write_files(arguments, tokenizer):
    def documents():
        for path in arguments.input:
            say(f"tokenising {path}")
            yield from documents_of(path, arguments.separator, arguments.field)

    tokens = encode_all(
        documents(),
        lambda text: tokenizer.encode(text, add_special_tokens=False),
        choose_document_token(tokenizer, arguments.document_token),
        2 if len(tokenizer) <= UINT16_IDS else 4,
    )
    train_count = len(tokens) - round(len(tokens) * arguments.validation)
    pathlib.Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    for split, part in (("train", tokens[:train_count]), ("val", tokens[train_count:])):
        for path in write_shards(arguments.output, split, part, arguments.shard_tokens):
            print(f"{path}  {path.stat().st_size:,} bytes")
    print(f"{train_count:,} tokens to train on, {len(tokens) - train_count:,} to validate")


def main():
    arguments = parse_arguments()
    for path in arguments.input:  # before the wait for transformers
        if not path.is_file():
            fail(f"{path}: no such file")
    tokenizer = load_tokenizer(arguments.tokenizer)
    if arguments.encode is not None:
        print_ids(tokenizer, arguments.encode)
    elif arguments.decode is not None:
        print_text(tokenizer, sys.stdin.read() if arguments.decode == "-" else arguments.decode)
    else:
        write_files(arguments, tokenizer)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else error)
