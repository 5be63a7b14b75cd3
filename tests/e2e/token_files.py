"""Token files for tests: texts with the ids of the Python package tokenizers
(tests/support/small_tokenizer), and `skep data` in a folder of its own."""
import hashlib
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from small_run import SKEP, TIMEOUT_S, RunTest

SMALL = pathlib.Path(__file__).parents[1] / "support" / "small_tokenizer"
sys.path.insert(0, str(SMALL))
import documents  # noqa: E402

DOCUMENTS = documents.documents()
EXPECTED = json.loads((SMALL / "expected.json").read_text())
END, BEGIN = 0, 1  # ids of <|endoftext|> and <|begin|>
HEADER_WORDS = 256
ORIGIN = 64


def read_shard(path):
    """The words of the header, and the tokens."""
    data = path.read_bytes()
    header = struct.unpack_from(f"<{HEADER_WORDS}I", data)
    assert header[:2] == (20240520, 1), header[:2]
    return header, list(struct.unpack_from(f"<{header[2]}H", data, 4 * HEADER_WORDS))


def divided(ids):
    """The documents of a list of ids: each ends with the document token."""
    found, begin = [], 0
    while begin < len(ids):
        # <|endoftext|> may be in a text: a document begins with <|begin|> after it
        end = begin
        while True:
            end = ids.index(END, end) + 1
            if end == len(ids) or ids[end] == BEGIN and ids[end - 1] == END:
                break
        found.append(ids[begin:end])
        begin = end
    return found


def matches(ids, wanted):
    if isinstance(wanted, list):
        return ids == wanted
    packed = struct.pack(f"<{len(ids)}H", *ids)
    return len(ids) == wanted["count"] and hashlib.sha256(packed).hexdigest() == wanted["sha256"]


class DataTest(RunTest):
    def setUp(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="skep-data-"))
        self.addCleanup(shutil.rmtree, self.path)
        (self.path / "model").mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SMALL / name, self.path / "model")

    def data(self, *arguments, code=0, prefix=(), **options):
        options = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
        result = subprocess.run([*prefix, SKEP, "data", *map(str, arguments), "--model", "model"],
                                cwd=self.path, capture_output=True, timeout=TIMEOUT_S, check=False,
                                **options)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result

    def refused(self, *arguments, words, code=2, **options):
        errors = self.data(*arguments, code=code, **options).stderr.decode()
        for word in words:
            self.assertIn(word, errors)
        self.assertFalse((self.path / "out").exists())
        return errors

    def files(self, folder="out"):
        return {path.name: path.read_bytes() for path in (self.path / folder).iterdir()}

    def ids(self, part="train", folder="out"):
        found = []
        for path in sorted((self.path / folder).glob(f"{part}_*.bin")):
            found += read_shard(path)[1]
        return found

    def write(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    def write_lines(self, name, texts, field="text", **options):
        lines = [json.dumps({"id": i, field: text, "more": [{"text": None}]}, **options)
                 for i, text in enumerate(texts)]
        return self.write(name, "\n".join(lines).encode())

    def assert_documents(self, ids, names, kind="special"):
        """The ids are those of these documents, each with the document token behind it."""
        begin = 0
        for name in names:
            wanted = EXPECTED[name][kind]
            count = len(wanted) if isinstance(wanted, list) else wanted["count"]
            self.assertTrue(matches(ids[begin:begin + count], wanted), name)
            self.assertEqual(ids[begin + count], END, name)
            begin += count + 1
        self.assertEqual(begin, len(ids))
