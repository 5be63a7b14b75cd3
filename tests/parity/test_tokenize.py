#!/usr/bin/env python3
"""Token shards are byte for byte what llm.c reads."""

import array
import importlib.util
import pathlib
import struct
import tempfile
import unittest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "tokenize.py"
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
        with self.assertRaisesRegex(SystemExit, "t.jsonl:1: no field 'text'"):
            list(tokenize.documents_of(path, None, "text"))


if __name__ == "__main__":
    unittest.main()
