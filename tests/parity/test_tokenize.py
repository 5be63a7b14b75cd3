#!/usr/bin/env python3
"""Token shards are byte for byte what llm.c reads."""

import array
import importlib.util
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "tokenize.py"
DOUBLE = pathlib.Path(__file__).parents[1] / "support" / "tokenizer_double"
SPECIFICATION = importlib.util.spec_from_file_location("token_shards", TOOL)
tokenize = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(tokenize)


def read_shard(path):
    data = path.read_bytes()
    header = struct.unpack_from("<256i", data)
    return header, data[1024:]


class TokenizeTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_uint16_shard_has_header_and_little_endian_tokens(self):
        path = self.folder / "a.bin"
        tokenize.write_shard(path, array.array("H", [1, 258, 65535]))
        header, body = read_shard(path)
        self.assertEqual(header, (20240520, 1, 3) + (0,) * 253)
        self.assertEqual(body, b"\x01\x00\x02\x01\xff\xff")

    def test_uint32_shard_has_its_own_magic(self):
        path = self.folder / "a.bin"
        tokenize.write_shard(path, array.array("I", [65536]))
        header, body = read_shard(path)
        self.assertEqual(header[:3], (20240801, 7, 1))
        self.assertEqual(body, b"\x00\x00\x01\x00")

    def test_shards_join_to_the_whole(self):
        tokens = array.array("H", range(10))
        paths = tokenize.write_shards(self.folder / "p", "train", tokens, 4)
        self.assertEqual([path.name for path in paths],
                         ["p_train_000000.bin", "p_train_000001.bin", "p_train_000002.bin"])
        self.assertEqual([read_shard(path)[0][2] for path in paths], [4, 4, 2])
        self.assertEqual(b"".join(read_shard(path)[1] for path in paths), tokens.tobytes())

    def test_every_document_is_preceded_by_the_separator_token(self):
        encoded = tokenize.encode_all(["ab", "c"], str.encode, 50256, 2)
        self.assertEqual(encoded.tolist(), [50256, 97, 98, 50256, 99])
        self.assertEqual(tokenize.encode_all(["ab", "c"], str.encode, None, 4).tolist(),
                         [97, 98, 99])

    def test_text_is_cut_at_the_separator(self):
        path = self.folder / "t.txt"
        path.write_text("one\n%\ntwo\n%\n\n")
        self.assertEqual(list(tokenize.documents_of(path, "\n%\n", "text")), ["one", "two"])
        self.assertEqual(len(list(tokenize.documents_of(path, None, "text"))), 1)

    def test_jsonl_gives_one_document_a_line(self):
        path = self.folder / "t.jsonl"
        path.write_text('{"body": "x\\n"}\n{"body": "y"}\n')
        self.assertEqual(list(tokenize.documents_of(path, None, "body")), ["x\n", "y"])
        for text, reason in (('{"body": "x"}', "1: no field 'text'; name it with --field"),
                             ('{"text": "x"}\n{"text": ', "2: not JSON: "),
                             ('["text"]', "1: no field 'text'"),
                             ('{"text": 3}', "1: the field 'text' is not a text")):
            path.write_text(text)
            with self.assertRaisesRegex(SystemExit, f"tokenize.py: .*/t.jsonl:{reason}"):
                list(tokenize.documents_of(path, None, "text"))

    def test_text_that_is_not_utf_8_is_named(self):
        path = self.folder / "t.txt"
        path.write_bytes(b"caf\xe9")
        with self.assertRaisesRegex(SystemExit, "t.txt: byte 3 is not UTF-8"):
            list(tokenize.documents_of(path, None, "text"))


class CommandTest(unittest.TestCase):
    """The script as a user starts it, with a tokenizer of bytes in place of transformers."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "model").mkdir()
        (self.folder / "model" / "tokenizer.json").write_text("{}")
        (self.folder / "t.txt").write_text("It is")

    def run_tool(self, *arguments, double=DOUBLE, stdin=""):
        environment = {**os.environ, "PYTHONPATH": str(double), "HF_HUB_OFFLINE": "1"}
        return subprocess.run([sys.executable, "-S", TOOL, *arguments], cwd=self.folder, text=True,
                              input=stdin, capture_output=True, env=environment, check=False)

    def test_a_text_becomes_shards(self):
        result = self.run_tool("--tokenizer", "model", "-o", "out/t", "t.txt")
        self.assertEqual(result.returncode, 0, result.stderr)
        _, body = read_shard(self.folder / "out" / "t_train_000000.bin")
        self.assertEqual(struct.unpack("<6H", body), (256, *b"It is"))
        self.assertEqual(result.stderr, "tokenize.py: loading transformers\n"
                                        "tokenize.py: tokenising t.txt\n")

    def test_a_prompt_becomes_ids_and_ids_become_text(self):
        ids = self.run_tool("--tokenizer", "model", "--encode", "It is").stdout
        self.assertEqual(ids, "256,73,116,32,105,115\n")
        for given in (["73,116,"], ["[73, 116]"], ["-"]):
            result = self.run_tool("--tokenizer", "model", "--decode", *given, stdin="73 116 \n")
            self.assertEqual((result.stdout, result.returncode), ("It\n", 0), given)
        result = self.run_tool("--tokenizer", "model", "--decode", "73,999,116")
        self.assertEqual(result.stdout, "It\n")
        self.assertIn("left out 1 ids", result.stderr)

    def test_what_is_wrong_is_said_in_one_line(self):
        (self.folder / "empty").mkdir()
        (self.folder / "bad.jsonl").write_text("no\n")
        good = ("--tokenizer", "model", "-o", "o")
        rows = [((*good, "none.txt"), "none.txt: no such file"),
                ((*good, "bad.jsonl"), "bad.jsonl:1: not JSON"),
                (("--tokenizer", "mode", "--encode", "x"), "mode: no such folder"),
                (("--tokenizer", "./org/name", "--encode", "x"), "./org/name: no such folder"),
                (("--tokenizer", "empty", "--encode", "x"),
                 "empty: cannot load the tokenizer: Can't load tokenizer for 'empty'."),
                (("--tokenizer", "model", "-o", "t.txt/o", "t.txt"), "t.txt: File exists")]
        for arguments, words in rows:
            with self.subTest(words):
                result = self.run_tool(*arguments)
                self.assertEqual(result.returncode, 1)
                self.assertNotIn("Traceback", result.stderr)
                self.assertIn(f"tokenize.py: {words}", result.stderr.splitlines()[-1])

    def test_without_transformers_it_says_how_to_get_it(self):
        result = self.run_tool("--tokenizer", "model", "--encode", "x", double="/nonexistent")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.splitlines()[-1],
                         "tokenize.py: needs the Python package transformers: python3 -m venv v; "
                         "v/bin/pip install transformers; then run this with v/bin/python")

    def test_nothing_to_do_is_a_usage_error(self):
        for arguments in ([], ["t.txt"], ["-o", "o"]):
            result = self.run_tool("--tokenizer", "model", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn("give -o PREFIX and text files", result.stderr)


if __name__ == "__main__":
    unittest.main()
