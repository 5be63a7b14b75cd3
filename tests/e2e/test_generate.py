"""`skep generate` with a tokenizer: text in, text out as it is sampled, and what is sampled."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

from small_run import LLAMA, SKEP, TIMEOUT_S, RunTest, main, nested, safetensors, tensors_of

SMALL = pathlib.Path(__file__).parents[1] / "support" / "small_tokenizer"
sys.path.insert(0, str(SMALL))
import documents  # noqa: E402

COUNTER = os.environ.get("COUNT_ALLOC", "")
VOCAB = 512
PROMPT = "the bees of"


class Generate(RunTest):
    @classmethod
    def setUpClass(cls):
        """One model, trained for a few steps on text of every script."""
        super().setUpClass()
        cls.path = pathlib.Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True,
                                               check=True).stdout.strip())
        cls.addClassCleanup(shutil.rmtree, cls.path)
        (cls.path / "model").mkdir()
        (cls.path / "model" / "config.json").write_text(json.dumps(
            {**LLAMA, "vocab_size": VOCAB, "max_position_embeddings": 128}))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SMALL / name, cls.path / "model")
        (cls.path / "train.txt").write_text(documents.long_text(7, 8000).replace("<|", "< |"))
        (cls.path / "run.yaml").write_text(nested(
            {"model": "model", "init": "random", "steps": 60, "data.train": "tokens/train_*.bin",
             "batch.sequence": 64, "batch.tokens": 256, "optimizer.lr": 0.01}))
        for command in (("data", "train.txt", "--model", "model", "-o", "tokens"),
                        ("train", "run.yaml")):
            result = subprocess.run([SKEP, *command], cwd=cls.path, capture_output=True, text=True,
                                    timeout=TIMEOUT_S, check=False)
            assert result.returncode == 0, result.stderr

    def skep(self, *arguments, code=0, **options):
        arguments = [word if isinstance(word, bytes) else str(word) for word in arguments]
        result = subprocess.run([SKEP, *arguments], cwd=self.path, capture_output=True,
                                timeout=TIMEOUT_S, check=False, **options)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result

    def generate(self, *arguments, prompt=PROMPT, code=0, **options):
        return self.skep("generate", "run/model", "--prompt", prompt, *arguments, code=code,
                         **options).stdout.decode()

    def prompt_ids(self, text=PROMPT):
        return json.loads(self.skep("data", "--ids", "-", "--special", "--model", "model",
                                    input=text.encode()).stdout)

    def ids(self, *arguments, prompt=None):
        prompt = self.prompt_ids() if prompt is None else prompt
        return [int(word) for word in
                self.generate("--ids", *arguments, prompt=str(prompt)).split()]

    def decoded(self, ids):
        return self.skep("data", "--decode", "-", "--model", "model",
                         input=str(ids).encode()).stdout.decode()

    def test_a_text_prompt_gives_the_text_of_the_ids(self):
        for arguments in (("--temperature", 0), ("--seed", 5), ("--seed", 6, "--top-k", 40)):
            ids = self.ids("--tokens", 60, *arguments)
            text = self.generate("--tokens", 60, *arguments)
            self.assertGreater(len(ids), 10)
            self.assertEqual(text, self.decoded(self.prompt_ids() + ids))
            self.assertTrue(text.startswith(PROMPT))

    def test_prompts_end_anywhere(self):
        for prompt in ("蜂", "a  ", "über", "x\t", "🐝"):
            ids = self.ids("--tokens", 20, "--seed", 3, prompt=self.prompt_ids(prompt))
            text = self.generate("--tokens", 20, "--seed", 3, prompt=prompt)
            self.assertEqual(text, self.decoded(self.prompt_ids(prompt) + ids))

    def test_a_prompt_that_is_not_utf_8_is_named(self):
        result = self.skep("generate", "run/model", "--prompt", b"a\xff", code=2)
        self.assertIn("--prompt: byte 1 is not UTF-8", result.stderr.decode())

    def test_prompts_that_are_rejected(self):
        for arguments, words in (
                (("--ids", "--prompt", ""), "--prompt: has no token to continue; write numbers"),
                (("--ids", "--prompt", "[]"), "--prompt: has no token to continue; write numbers"),
                (("--ids", "--prompt", "[1,,2]"), '--prompt: "[1,,2]" is not a list of token ids'),
                (("--ids", "--prompt", "1]"), "is not a list of token ids; with --ids, write"),
                (("--ids", "--prompt", "[1"), "is not a list of token ids"),
                (("--ids", "--prompt", "1,"), "is not a list of token ids"),
                (("--ids", "--prompt", "1,-2"), "is not a list of token ids"),
                (("--ids", "--prompt", f"1,{VOCAB}"),
                 f"--prompt: id {VOCAB} is not in the vocabulary, whose largest id is {VOCAB - 1}"),
                (("--ids", "--prompt", "4294967297"), "id 4294967297 is not in the vocabulary"),
                (("--prompt", "a", "--tokens", "9" * 25),
                 f"--tokens: {'9' * 25} is too large; use at most "),
                (("--prompt", "a", "--seed", "9" * 25), f"--seed: {'9' * 25} is too large; use at"),
                (("--prompt", "a", "generate.context=1"),
                 "generate.context: is 1; a context holds a token of the prompt and a new one; ")):
            result = self.skep("generate", "run/model", *arguments, code=2)
            self.assertIn(words, result.stderr.decode())
            self.assertEqual(result.stdout, b"")

    def test_output_that_cannot_be_written_is_a_failure(self):
        for arguments in ((), ("--ids",)):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([SKEP, "generate", "run/model", "--prompt", "1",
                                         *arguments], cwd=self.path, stdout=full,
                                        stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(b"skep: standard output: cannot be written completely: No space left on "
                          b"device; ", result.stderr)

    def test_output_is_written_in_whole_characters(self):
        process = subprocess.Popen([SKEP, "generate", "run/model", "--prompt", PROMPT, "--tokens",
                                    "100", "--temperature", "2", "--seed", "4"], cwd=self.path,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        pieces = []
        while True:
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                break
            pieces.append(piece.decode())  # fails in the middle of a character
        process.stdout.close()
        self.assertEqual(process.wait(), 0)
        self.assertGreater(len(pieces), 1)
        self.assertTrue(any(ord(letter) > 127 for letter in "".join(pieces)))

    def test_generation_ends_before_the_stop_text(self):
        whole = self.generate("--tokens", 60, "--seed", 5)
        behind = whole[len(PROMPT):-1]
        for begin, end in ((9, 10), (5, 12), (30, 41), (0, 3)):
            stop = behind[begin:end]
            text = self.generate("--tokens", 60, "--seed", 5, "--stop", stop)
            self.assertEqual(text, PROMPT + behind[:behind.index(stop)] + "\n", repr(stop))
        stops = [behind[30:41], behind[5:12], behind[9:12], "never"]
        text = self.generate("--tokens", 60, "--seed", 5, *[word for stop in stops
                                                          for word in ("--stop", stop)])
        self.assertEqual(text, PROMPT + behind[:min(behind.index(stop) for stop in stops[:2])]
                         + "\n")
        result = self.skep("generate", "run/model", "--prompt", "a", *["--stop", "x"] * 17, code=2)
        self.assertIn("--stop: is given more than 16 times", result.stderr.decode())
        unlike = behind[20:24] + "never"
        self.assertEqual(self.generate("--tokens", 60, "--seed", 5, "--stop", unlike), whole)
        for stop, words in (("", "1 to 256"), ("x" * 257, "1 to 256")):
            result = self.skep("generate", "run/model", "--prompt", "a", "--stop", stop, code=2)
            self.assertIn(f"--stop: has {len(stop)} bytes; a stop text has {words}",
                          result.stderr.decode())

    def logits(self):
        """Of the token behind the prompt."""
        ids = self.prompt_ids()
        batch = {"input_ids": ("I32", [1, len(ids)], struct.pack(f"<{len(ids)}i", *ids))}
        (self.path / "batch.safetensors").write_bytes(safetensors(batch))
        self.skep("dump", "run/model", "batch.safetensors", "-o", "out.safetensors")
        data = tensors_of(self.path / "out.safetensors")["logits"][2]
        return struct.unpack(f"<{VOCAB}f", data[-4 * VOCAB:])

    def test_only_the_likeliest_tokens_are_sampled(self):
        logits = self.logits()
        order = sorted(range(VOCAB), key=lambda i: -logits[i])
        weights = [math.exp((logits[i] - logits[order[0]]) / 1.5) for i in order]
        for name, value in (("--top-k", 1), ("--top-k", 3), ("--top-p", 0.3), ("--top-p", 1e-9)):
            if name == "--top-k":
                allowed = order[:value]
            else:
                allowed, mass = [], 0
                for token, weight in zip(order, weights):
                    allowed.append(token)
                    mass += weight / sum(weights)
                    if mass >= value:
                        break
            found = set()
            for seed in range(24):
                found.update(self.ids("--tokens", 1, "--temperature", 1.5, "--seed", seed, name,
                                      value))
            self.assertLessEqual(found, set(allowed), (name, value))
            self.assertGreater(len(found), min(len(allowed) // 3, 5), (name, value))
        for name, value in (("--top-p", 0), ("--top-p", 1.5), ("--top-k", -1)):
            self.generate(name, value, code=2)

    def test_a_run_may_say_that_tokens_are_bytes(self):
        text = self.skep("generate", "run/model", "--prompt", "1", "--tokens", "2",
                         "data.format=bytes", code=2).stderr.decode()
        self.assertIn("its tokens are not bytes", text)  # it has more than 256

    @unittest.skipIf(not COUNTER, "no counter was built")
    def test_nothing_is_allocated_while_text_is_generated(self):
        report = self.path / "report"
        self.generate("--tokens", 60, "--top-k", 50, "--top-p", 0.9, "--stop", "never",
                      env={**os.environ, "LD_PRELOAD": COUNTER, "COUNT_ALLOC_REPORT": str(report)})
        lines = report.read_text().splitlines()
        _, count, _, writes = lines[0].split()[:4]
        self.assertGreater(int(writes), 10, "the seal was not seen")
        self.assertEqual(int(count), 0, "\n".join(lines[1:]))


if __name__ == "__main__":
    main()
