"""Conversations for tests: a tokenizer with the tokens of ChatML, texts with their masks, and the
rows of token files."""
import json
import pathlib
import shutil
import struct
import subprocess

from small_run import LLAMA, SKEP, TIMEOUT_S, RunTest, nested

SMALL = pathlib.Path(__file__).parents[1] / "support" / "small_tokenizer"
START, END = "<|im_start|>", "<|im_end|>"
CHATML = ("{%- for message in messages %}\n"
          "{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\n"
          "{%- endfor %}\n{%- if add_generation_prompt %}\n"
          "{{- '<|im_start|>assistant\\n' }}\n{%- endif %}")
VOCABULARY = 448
SEQUENCE = 64
HEADER_BYTES = 1024
WORDS = ("a", "bee", "builds", "naïve", "蜂", "🐝", "\n", "\n\n", " ", "12.5", "comb", "of wax")


def alphabet():
    """The character of GPT-2's alphabet for each byte, reversed."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain},
            **{chr(256 + i): byte for i, byte in enumerate(others)}}


def write_tokenizer(folder):
    """The small tokenizer with ChatML's tokens. Returns the bytes of each token."""
    tokenizer = json.loads((SMALL / "tokenizer.json").read_text())
    count = len(tokenizer["model"]["vocab"])
    for i, text in enumerate((START, END)):
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": count + i,
                                          "content": text})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(SMALL / "tokenizer_config.json", folder)
    byte_of = alphabet()
    added = {token["id"]: token["content"].encode() for token in tokenizer["added_tokens"]}
    return {**{i: bytes(byte_of[c] for c in text) for text, i in tokenizer["model"]["vocab"].items()
               if i not in added}, **added}


def chatml(messages):
    """The text, and for each of its bytes whether it is trained."""
    text, trained = b"", []
    for message in messages:
        is_answer = message["role"] == "assistant"
        header = f"{START}{message['role']}\n".encode()
        body = f"{message['content']}{END}".encode()
        text += header + body + b"\n"
        trained += [False] * len(header) + [is_answer] * len(body) + [False]
    return text, trained


def conversation(chance, turns=2, words=8):
    messages = [{"role": "system", "content": "Be brief."}] if chance.random() < 0.3 else []
    for _ in range(chance.randrange(1, turns + 1)):
        for role in ("user", "assistant"):
            content = "".join(chance.choice(WORDS) for _ in range(chance.randrange(1, words)))
            messages.append({"role": role, "content": content})
    return messages


def chatml_lines(count):
    """JSON lines with a conversation each."""
    line = json.dumps({"messages": [{"role": "user", "content": "a"},
                                    {"role": "assistant", "content": "b"}]})
    return (line + "\n") * count


def read_rows(path):
    """Rows of (id, is trained, starts a conversation)."""
    data = path.read_bytes()
    header = struct.unpack_from("<256I", data)
    count, row_tokens = header[2], header[69]
    ids = struct.unpack_from(f"<{count}H", data, HEADER_BYTES)
    masks, list_bytes = data[HEADER_BYTES + 2 * count:], (count + 7) // 8
    assert header[68] == 1 and len(masks) == 2 * list_bytes
    bits = [[masks[part * list_bytes + i // 8] >> i % 8 & 1 for i in range(count)]
            for part in range(2)]
    tokens = list(zip(ids, *bits))
    return [tokens[at:at + row_tokens] for at in range(0, count, row_tokens)]


def conversations_of(row):
    """Divides a row where a conversation starts."""
    found = []
    for token in row:
        if token[2]:
            found.append([])
        found[-1].append(token[:2])
    return found


class ChatTest(RunTest):
    def setUp(self):
        self.path = self.folder().path
        (self.path / "model" / "config.json").write_text(json.dumps(
            {**LLAMA, "vocab_size": VOCABULARY, "max_position_embeddings": 4 * SEQUENCE}))
        self.token_bytes = write_tokenizer(self.path / "model")

    def skep(self, *arguments, code=0, **options):
        result = subprocess.run([SKEP, *arguments], cwd=self.path, capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False, **options)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return result

    def chats(self, conversations, *options, code=0, folder="chats"):
        lines = [json.dumps({"messages": messages}) for messages in conversations]
        (self.path / "chats.jsonl").write_text("\n".join(lines) + "\n")
        return self.skep("data", "chats.jsonl", "--model", "model", "-o", folder, "--chat",
                         "--template", "chatml", "--sequence", str(SEQUENCE), "--json", *options,
                         code=code)

    def write_run(self, **settings):
        settings = {key.replace("__", "."): value for key, value in settings.items()}
        (self.path / "run.yaml").write_text(nested(
            {"model": "model", "init": "random", "steps": 2, "threads": 1,
             "data.train": "chats/train_*.bin", "batch.sequence": SEQUENCE,
             "batch.tokens": 4 * SEQUENCE, "metrics": "metrics.jsonl", **settings}))
