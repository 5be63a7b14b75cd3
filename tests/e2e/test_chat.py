"""`skep data --chat`: conversations become rows whose masks are checked token by token, and
training and evaluation count the trained tokens only."""
import json
import pathlib
import random
import shutil
import struct
import subprocess

from small_run import LLAMA, SKEP, TIMEOUT_S, RunTest, main, nested

SMALL = pathlib.Path(__file__).parents[1] / "support" / "small_tokenizer"
START, END = "<|im_start|>", "<|im_end|>"
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
            {**LLAMA, "vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE}))
        self.token_bytes = write_tokenizer(self.path / "model")

    def skep(self, *arguments, code=0):
        result = subprocess.run([SKEP, *arguments], cwd=self.path, capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False)
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


class Rows(ChatTest):
    def test_rows_have_whole_conversations_and_their_masks(self):
        chance = random.Random(5)
        conversations = [conversation(chance) for _ in range(300)]
        wanted = [chatml(messages) for messages in conversations]
        report = json.loads(self.chats(conversations).stdout)
        rows = read_rows(self.path / "chats" / "train_000000.bin")
        found, trained_count = [], 0
        for row in rows:
            for tokens in conversations_of(row):
                texts = [self.token_bytes[token] for token, _ in tokens]
                text = b"".join(texts)
                if not text.startswith(START.encode()):
                    self.assertEqual(set(tokens), {(0, 0)}, "padding")
                    continue
                found.append(text)
                trained = next(
                    mask for other, mask in wanted if other == text)
                at = 0
                for (_, is_trained), part in zip(tokens, texts):
                    self.assertEqual(bool(is_trained), any(trained[at:at + len(part)]), text)
                    at += len(part)
                trained_count += sum(is_trained for _, is_trained in tokens)
        kept = report["train"]["conversations"]
        self.assertEqual((len(rows), len(found)), (report["train"]["rows"], kept))
        self.assertEqual(kept + report["long"], len(conversations))
        self.assertGreater(report["long"], 0)
        self.assertEqual(trained_count, report["train"]["trained"])
        texts = [text for text, _ in wanted]
        self.assertTrue(all(found.count(text) <= texts.count(text) for text in set(found)))

    def test_long_conversations_are_cut_or_left_out(self):
        short = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        answer = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "c" * 500}]
        question = [{"role": "user", "content": "a" * 500}, {"role": "assistant", "content": "b"}]
        counts = []
        for option in ("drop", "cut"):
            report = json.loads(self.chats([short, answer, question], "--long", option,
                                           folder=option).stdout)
            counts.append((report["train"]["conversations"], report["long"], report["untrained"]))
        self.assertEqual(counts, [(1, 2, 0), (2, 2, 1)])

    def test_errors_name_the_line(self):
        good = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        bad = [{"role": "user", "content": f"x {END}"}, {"role": "assistant", "content": "b"}]
        errors = self.chats([good, bad], code=2).stderr
        self.assertIn("chats.jsonl:2: `messages[0]` contains the control token <|im_end|>", errors)
        self.assertIn("add --parse-special", errors)
        self.assertFalse((self.path / "chats").exists())
        self.chats([good, bad], "--parse-special")
        (self.path / "bad.jsonl").write_text("\n{\n")
        for arguments, word in (
                (("bad.jsonl", "--chat", "--template", "chatml"), "bad.jsonl:2:1: not valid JSON"),
                (("chats.jsonl", "--chat"), "has no chat template"),
                (("chats.jsonl", "--chat", "--template", "llama3"), "<|start_header_id|>"),
                (("chats.jsonl", "--chat", "--template", "alpaca"), "chatml, llama3, mistral"),
                (("chats.jsonl", "--chat", "--long", "keep"), "write cut or drop"),
                (("chats.jsonl", "--template", "chatml"), "add --chat"),
                (("chats.jsonl", "--chat", "--literal"), "not for --chat")):
            self.assertIn(word, self.skep("data", *arguments, "--model", "model", "-o", "other",
                                          code=2).stderr)
        config = self.path / "model" / "tokenizer_config.json"
        names = json.loads(config.read_text())
        config.write_text(json.dumps({**names, "chat_template": "{{ x }}"}))
        errors = self.skep("data", "chats.jsonl", "--chat", "--model", "model", "-o", "other",
                           code=2).stderr
        self.assertIn("hash ", errors)
        self.assertIn("choose one with --template", errors)


class Training(ChatTest):
    def test_only_trained_tokens_count(self):
        chance = random.Random(7)
        report = json.loads(self.chats([conversation(chance) for _ in range(60)]).stdout)
        self.write_run()
        self.skep("train", "run.yaml")
        found = json.loads(self.skep("eval", "run/model", "--data", "chats/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        self.assertEqual(found["tokens"], report["train"]["trained"])

    def test_an_answer_is_learned_and_a_question_is_not(self):
        """Questions are noise, answers depend on nothing: the loss of the answers vanishes."""
        chance = random.Random(9)
        answer = {"role": "assistant", "content": "of wax"}
        self.chats([[{"role": "user", "content": "".join(chance.choice(WORDS) for _ in range(6))},
                     answer] for _ in range(200)])
        self.write_run(steps=150, optimizer__lr=0.01)
        self.skep("train", "run.yaml")
        found = json.loads(self.skep("eval", "run/model", "--data", "chats/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        self.assertLess(found["loss"], 0.05)

    def evaluate(self, folder):
        """Sum of the losses, and number of trained tokens."""
        found = json.loads(self.skep("eval", "run/model", "--data", f"{folder}/train_000000.bin",
                                     "--json", f"batch.sequence={SEQUENCE}").stdout)
        return found["loss"] * found["tokens"], found["tokens"]

    def test_conversations_of_a_row_do_not_see_each_other(self):
        """Two in one row have the losses that each has in a row of its own."""
        both = [[{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
                for question, answer in (("a bee", "of wax"), ("builds", "comb 12.5"))]
        report = json.loads(self.chats(both).stdout)
        self.assertEqual((report["train"]["rows"], report["train"]["conversations"]), (1, 2))
        self.chats(both[:1], folder="first")
        self.chats(both[1:], folder="second")
        self.write_run(batch__tokens=SEQUENCE)
        self.skep("train", "run.yaml")
        together, first, second = map(self.evaluate, ("chats", "first", "second"))
        self.assertEqual(together[1], first[1] + second[1])
        self.assertAlmostEqual(together[0], first[0] + second[0], places=3)

    def test_another_sequence_is_rejected(self):
        self.chats([conversation(random.Random(1), 1, 3) for _ in range(20)])
        self.write_run(batch__sequence=32)
        errors = self.skep("train", "run.yaml", code=2).stderr
        self.assertIn("is packed into rows of 64 tokens, but batch.sequence is 32", errors)
        self.assertIn("set batch.sequence to 64", errors)


if __name__ == "__main__":
    main()
