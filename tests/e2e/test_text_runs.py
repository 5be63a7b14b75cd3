"""Runs on text and on the files of `skep data`: training, evaluation, plans, ranks, swarms."""
import gzip
import hashlib
import json
import math
import os
import re
import struct
import subprocess

from small_run import LLAMA, SKEP, TIMEOUT_S, main, nested
from token_files import DOCUMENTS, END, HEADER_WORDS, ORIGIN, DataTest, documents


class ModelTest(DataTest):
    """A test with a model, its tokens and a run file."""

    def setUp(self):
        super().setUp()
        (self.path / "model" / "config.json").write_text(json.dumps(
            {**LLAMA, "vocab_size": 512}))
        self.write("train.txt", documents.long_text(7, 8000).encode())
        self.data("train.txt", "-o", "tokens", "--validation", "20%")
        self.write_run(data__train="tokens/train_*.bin", data__validation="tokens/validation_*")

    def write_run(self, **settings):
        settings = {key.replace("__", "."): value for key, value in settings.items()}
        (self.path / "run.yaml").write_text(nested(
            {"model": "model", "init": "random", "steps": 3, "batch.sequence": 32,
             "batch.tokens": 256, **settings}))

    def skep(self, *arguments, code=0):
        result = subprocess.run([SKEP, *arguments], cwd=self.path, capture_output=True, text=True,
                                timeout=TIMEOUT_S, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result


class Used(ModelTest):
    """What other commands do with the files and with the tokenizer."""

    def test_evaluation_prints_bits_per_byte(self):
        tokens = (self.path / "tokens" / "validation_000000.bin").read_bytes()
        header = struct.unpack_from(f"<{HEADER_WORDS}I", tokens)
        self.skep("train", "run.yaml")
        found = json.loads(self.skep("eval", "run.yaml", "--json").stdout)
        bits = found["loss"] / math.log(2) * header[2] / header[ORIGIN + 8]
        self.assertAlmostEqual(found["bits_per_byte"], bits, places=6)
        text = self.skep("eval", "run.yaml").stdout
        self.assertIn(f", {bits:.4f} bits per byte over ", text)

    def test_documents_are_divided_at_the_token_that_the_files_name(self):
        """As with the token in data.documents, and unlike with no token."""
        losses = []
        self.skep("train", "run.yaml")
        self.write_lines("a.jsonl", [f"{word} and {word} " * 3 for word in documents.WORDS * 20])
        self.data("a.jsonl", "-o", "lines")
        for documents_key in (-1, END, -2):
            result = self.skep("eval", "run/model", "--data", "lines/train_000000.bin", "--json",
                               f"data.documents={documents_key}", "batch.sequence=32")
            losses.append((json.loads(result.stdout)["loss"], json.loads(result.stdout)["tokens"]))
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def test_a_tokenizer_with_too_many_ids_is_named_before_tokenising(self):
        config = json.dumps({**LLAMA, "vocab_size": 300})
        (self.path / "model" / "config.json").write_text(config)
        words = ("model/config.json: vocab_size is 300, but tokenizer.json has 412 ids; a text "
                 "with a larger id cannot be trained")
        self.assertIn(words, self.data("train.txt", "-o", "other").stderr.decode())
        self.write_run(data__train="train.txt")
        errors = self.skep("train", "run.yaml", code=2).stderr
        self.assertLess(errors.find(words), errors.find("tokenising"))
        self.assertIn(words, errors)

    def test_a_cache_that_cannot_be_written_has_a_remedy(self):
        self.write_run(data__train="train.txt")
        result = subprocess.run([SKEP, "train", "run.yaml"], cwd=self.path, capture_output=True,
                                text=True, timeout=TIMEOUT_S, check=False,
                                env={**os.environ, "XDG_CACHE_HOME": "/proc/none"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("; set XDG_CACHE_HOME to a folder that can be written\n", result.stderr)

    def test_tokens_of_another_tokenizer_are_rejected(self):
        self.skep("train", "run.yaml")
        path = self.path / "model" / "tokenizer.json"
        hashes = [hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()[:12]]
        path.write_bytes(path.read_bytes() + b"\n")
        hashes.append(hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()[:12])
        for command in ("train", "eval"):
            errors = self.skep(command, "run.yaml", code=2).stderr
            for word in ("tokens/", f"its tokens were made with tokenizer {hashes[0]}; the model "
                         f"model has {hashes[1]}", "make the tokens with `skep data --model`"):
                self.assertIn(word, errors)
        self.data("train.txt", "-o", "others")
        self.write_run(data__train="[tokens/train_000000.bin, others/train_000000.bin]")
        errors = self.skep("eval", "run.yaml", "--data", "others/train_000000.bin").stderr
        errors = self.skep("train", "run.yaml", code=2).stderr
        self.assertIn("make all files with one tokenizer", errors)

    def test_the_tokenizer_is_described(self):
        text = self.skep("inspect", "model").stdout
        self.assertIn("\n  tokenizer of 412 ids, no chat template\n", text)
        found = json.loads(self.skep("inspect", "model", "--json").stdout)
        self.assertEqual(found["tokenizer"], {"usable": True, "ids": 412, "chat_template": False})
        config = self.path / "model" / "tokenizer_config.json"
        fields = {**json.loads(config.read_text()), "chat_template": "{{ x }}"}
        config.write_text(json.dumps(fields))
        self.assertIn("with a chat template", self.skep("inspect", "model").stdout)
        (self.path / "model" / "tokenizer.json").write_text("{}")
        found = json.loads(self.skep("inspect", "model", "--json").stdout)["tokenizer"]
        self.assertFalse(found["usable"])
        self.assertIn("tokenizer.json", found["problem"])


class Text(ModelTest):
    """Text and JSON lines as data.train: tokenised once, into the cache."""

    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache"),
                            "XDG_STATE_HOME": str(self.path / "state"),
                            "XDG_CONFIG_HOME": str(self.path / "config")}
        self.write("valid.txt", documents.long_text(9, 3000).encode())
        self.write_run(data__train="train.txt", data__validation="valid.txt")

    def skep(self, *arguments, code=0):
        result = subprocess.run([SKEP, *map(str, arguments)], cwd=self.path, capture_output=True,
                                text=True, timeout=TIMEOUT_S, check=False, env=self.environment)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def cached(self):
        return sorted((self.path / "cache" / "skep" / "tokens").glob("*/train_*.bin"))

    def test_text_is_tokenised_once(self):
        first = self.skep("train", "run.yaml").stderr
        self.assertIn("tokenising train.txt into ", first)
        self.assertIn("tokenising valid.txt into ", first)
        self.assertIn(" passes over the data", first)
        sizes = re.findall(r"the cache (\S+) has (\S+) KiB; any folder in it may be removed", first)
        cache = self.path / "cache" / "skep" / "tokens"
        self.assertEqual([path for path, _ in sizes], [str(cache)] * 2)
        files = [path for path in cache.rglob("*") if path.is_file()]
        whole = sum(path.stat().st_size for path in files)
        self.assertAlmostEqual(float(sizes[1][1]), whole / 1024, delta=0.5)
        files = {path: path.stat().st_mtime_ns for path in self.cached()}
        self.assertEqual(len(files), 2)
        self.data("train.txt", "-o", "same")
        self.assertIn((self.path / "same" / "train_000000.bin").read_bytes(),
                      [path.read_bytes() for path in files])
        again = self.skep("train", "run.yaml", "--fresh").stderr
        self.assertIn("using the tokens of train.txt in ", again)
        self.assertNotIn("tokenising", again)
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.cached()}, files)
        self.assertIn("bits per byte", self.skep("eval", "run.yaml", "--data", "valid.txt").stdout)
        self.assertEqual(len(self.cached()), 2)
        os.utime(self.path / "valid.txt", (1, 1))
        self.skep("eval", "run.yaml", "--data", "valid.txt")
        self.assertEqual(len(self.cached()), 3)

    def test_json_lines_folders_and_compressed_text(self):
        self.write("folder/a.txt", DOCUMENTS["medium-5"] * 3)
        self.write("b.txt.gz", gzip.compress(DOCUMENTS["medium-4"] * 3))
        self.write_lines("c.jsonl", [DOCUMENTS["medium-3"].decode()] * 3)
        for name in ("folder", "b.txt.gz", "c.jsonl", "[b.txt.gz, c.jsonl, folder]"):
            self.write_run(data__train=name)
            self.assertIn("tokenising ", self.skep("train", "run.yaml", "--fresh").stderr)

    def test_text_that_is_too_short_is_named(self):
        self.write("short.txt", b"too short")
        self.write_run(data__train="short.txt")
        errors = self.skep("train", "run.yaml", code=2).stderr
        self.assertIn("short.txt: has ", errors)
        self.assertIn("; use more text, or reduce batch.sequence", errors)

    def test_ranks_share_the_cache(self):
        result = self.skep("train", "run.yaml", "--ranks", 2).stderr
        self.assertEqual(result.count("tokenising train.txt into "), 1)
        self.assertEqual(len(self.cached()), 2)

    def test_members_of_a_swarm_make_the_same_tokens(self):
        """Each from the text, with a cache of its own; another text is another file."""
        self.write_run(data__train="train.txt", swarm__name="heather", swarm__inner_steps=1)
        tracker = subprocess.Popen(
            [SKEP, "track", "run.yaml", "--listen", "tcp://127.0.0.1:0", "--state", "tracker"],
            cwd=self.path, env=self.environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        self.addCleanup(tracker.stdout.close)
        self.addCleanup(tracker.wait)
        self.addCleanup(tracker.kill)
        join = tracker.stdout.readline().strip()
        self.assertEqual(len(self.cached()), 1)
        self.environment["XDG_CACHE_HOME"] = str(self.path / "other")
        same = (self.path / "train.txt").read_bytes()
        for name, data, code in (("same.txt", same, 0), ("shorter.txt", same[:-200], 2)):
            self.write(name, data)
            report = self.skep("join", join, "model=model", f"data.train={name}", "--check",
                               "--listen", "none", code=code)
            line = next(line for line in report.stdout.splitlines() if line.startswith("data"))
            self.assertEqual("does not match file 1 of the swarm's data.train" in line, code == 2,
                             line)
        self.assertEqual(len(list((self.path / "other").rglob("train_*.bin"))), 2)

    def test_a_plan_needs_no_tokens(self):
        text = self.skep("plan", "run.yaml").stdout
        self.assertNotIn("CANNOT TRAIN", text)
        self.assertEqual(self.cached(), [])

    def test_a_list_of_text_and_tokens_is_rejected(self):
        self.write_run(data__train="[train.txt, tokens/train_000000.bin]")
        self.assertIn("a list is of text or of tokens",
                      self.skep("train", "run.yaml", code=2).stderr)

    def test_bytes_are_not_tokenised(self):
        self.skep("train", "run.yaml", "data.format=bytes")
        self.assertEqual(self.cached(), [])


if __name__ == "__main__":
    main()
