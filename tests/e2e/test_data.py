"""`skep data`: token files against ids of the Python package tokenizers (tests/support/
small_tokenizer), in every form of input, with any number of threads, and after interruptions."""
import fcntl
import gzip
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys

from small_run import LONG, SKEP, TIMEOUT_S, main, wait_until
from token_files import (DOCUMENTS, END, EXPECTED, ORIGIN, SMALL, DataTest, divided, documents,
                         read_shard)


class Ids(DataTest):
    def test_documents_have_the_ids_of_the_reference(self):
        names = sorted(DOCUMENTS)
        paths = [self.write(f"{name}.txt", DOCUMENTS[name]) for name in names]
        self.data(*paths, "-o", "out")
        self.assert_documents(self.ids(), names)
        self.data(*paths, "-o", "literal", "--literal")
        self.assert_documents(self.ids(folder="literal"), names, "literal")

    def test_json_lines_folders_and_compressed_files_have_the_same_ids(self):
        names = sorted(name for name in DOCUMENTS if name != "broken")
        texts = [DOCUMENTS[name].decode() for name in names]
        self.write_lines("a.jsonl", texts)
        self.write_lines("b.jsonl", texts, ensure_ascii=False)
        self.write("c.jsonl.gz", gzip.compress((self.path / "a.jsonl").read_bytes()))
        for name in names:
            self.write(f"folder/{name}.txt", DOCUMENTS[name])
        self.write("folder/.hidden/a.txt", b"hidden")
        self.write("folder/image.png", b"\x89PNG")
        for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz", "folder"):
            with self.subTest(name):
                report = self.data(name, "-o", "out").stdout.decode()
                self.assert_documents(self.ids(), names)
                self.assertEqual("image.png" in report, name == "folder")
                shutil.rmtree(self.path / "out")

    def test_standard_input_is_text_or_json_lines_and_may_be_compressed(self):
        text = DOCUMENTS["long"]
        for number, data in enumerate((text, gzip.compress(text), gzip.compress(text[:1000]) +
                                       gzip.compress(text[1000:]))):
            self.data("-", "-o", f"out{number}", input=data)
            self.assert_documents(self.ids(folder=f"out{number}"), ["long"])
        lines = json.dumps({"body": text.decode()}).encode()
        self.data("-", "-o", "lines", "--field", "body", input=lines)
        self.assert_documents(self.ids(folder="lines"), ["long"])

    def test_zstandard_in_several_frames(self):
        if not shutil.which("zstd"):
            self.skipTest("the program zstd is not installed")
        parts = []
        for part in (DOCUMENTS["long"][:100001], DOCUMENTS["long"][100001:]):
            parts.append(subprocess.run(["zstd", "-q", "-c"], input=part, capture_output=True,
                                        check=True).stdout)
        self.write("long.txt.zst", b"".join(parts))
        self.data("long.txt.zst", "-o", "out")
        self.assert_documents(self.ids(), ["long"])
        self.write("cut.txt.zst", b"".join(parts)[:-9])
        shutil.rmtree(self.path / "out")
        self.refused("cut.txt.zst", "-o", "out", words=["cut.txt.zst", "compressed data"])
        skipped = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 4) + b"abcd"  # as pzstd begins a file
        self.write("skipped.txt.zst", skipped + parts[0] + skipped + parts[1])
        self.data("skipped.txt.zst", "-o", "out")
        self.assert_documents(self.ids(), ["long"])
        shutil.rmtree(self.path / "out")
        # a frame of one raw byte whose header asks for 2 GiB
        self.write("wide.txt.zst", bytes.fromhex("28b52ffd00a809000061"))
        self.refused("wide.txt.zst", "-o", "out", words=[
            "wide.txt.zst: needs more than 128 MiB of memory to decompress; compress the file"])

    def test_any_number_of_threads_writes_the_same_files(self):
        paths = [self.write(f"{name}.txt", data) for name, data in DOCUMENTS.items()]
        self.write_lines("a.jsonl", [data.decode(errors="replace") for data in DOCUMENTS.values()])
        for threads in (1, 2, 4):
            self.data(*paths, "a.jsonl", "-o", f"t{threads}", "--threads", threads,
                      "--validation", "10%", "--shard-tokens", 50000)
        self.assertGreater(len(self.files("t1")), 6)
        self.assertEqual(self.files("t1"), self.files("t2"))
        self.assertEqual(self.files("t1"), self.files("t4"))

    def test_lines_become_arrays_of_ids_and_arrays_become_lines(self):
        names = [name for name in DOCUMENTS if name.startswith("short")
                 and b"\n" not in DOCUMENTS[name]]
        self.write("lines.txt", b"\n".join(DOCUMENTS[name] for name in names))
        for option, kind in ((), "plain"), (("--special",), "special"):
            lines = self.data("--ids", "lines.txt", *option).stdout.decode().splitlines()
            self.assertEqual([json.loads(line) for line in lines],
                             [EXPECTED[name][kind] for name in names])
            self.write("ids.txt", "\n".join(lines).encode())
            text = self.data("--decode", "ids.txt", "--special").stdout
            start = b"<|begin|>" if option else b""
            self.assertEqual(text, b"".join(start + DOCUMENTS[name] + b"\n" for name in names))
        without = self.data("--decode", "ids.txt").stdout
        skipped = [DOCUMENTS[name].replace(b"<|endoftext|>", b"").replace(b"<|begin|>", b"")
                   for name in names]
        self.assertEqual(without, b"".join(text + b"\n" for text in skipped))
        piped = self.data("--ids", "-", input=DOCUMENTS["short-00"]).stdout.decode()
        self.assertEqual(json.loads(piped), EXPECTED["short-00"]["plain"])
        forms = "[52, 53]\n52 53 \n52,53\n [ 52,53 ]\t\n[]\n\n"
        decoded = self.data("--decode", "-", input=forms.encode()).stdout.decode()
        self.assertEqual(decoded.count("\n"), 6)
        self.assertEqual(len(set(decoded.split("\n")[:4])), 1)
        for text in ("[5", "5]", "[5,]", "5,", ",5", "[a]", "[5] 6", "[-1]", "[5,,6]",
                     "[5 6]", "[] 5", "[5]]"):
            self.write("bad.txt", f"[2]\n{text}\n".encode())
            errors = self.data("--decode", "bad.txt", code=2).stderr.decode()
            self.assertIn("bad.txt:2: is not a list of token ids; write ids as in", errors)
        for number in ("412", "4294967297", "99999999999999999999"):
            self.write("unknown.txt", f"[2]\n[5, {number}, 99999]\n".encode())
            errors = self.data("--decode", "unknown.txt", code=2).stderr.decode()
            self.assertIn(f"unknown.txt:2: id {number} is not in the vocabulary, whose largest id "
                          "is 411; ", errors)

    def test_a_line_of_ids_is_decoded_as_a_whole(self):
        """Nothing of a line that is cut, and no mark at the start of the file."""
        whole = self.data("--decode", "-", input=b"[52, 53]\n[54, 55]\n").stdout
        for text in (b"\xef\xbb\xbf[52, 53]\n[54, 55]\n", b"[52, 53]\n[54, 55]"):
            self.assertEqual(self.data("--decode", "-", input=text).stdout, whole)
        cut = self.data("--decode", "-", input=b"[52, 53]\n[54, 5", code=2)
        self.assertEqual(cut.stdout, whole.split(b"\n")[0] + b"\n")
        self.assertIn(b"standard input:2: is not a list of token ids", cut.stderr)

    def test_a_byte_order_mark_is_no_part_of_json_lines(self):
        mark = b"\xef\xbb\xbf"
        line = mark + json.dumps({"text": DOCUMENTS["long"].decode()}).encode()
        for name, data in (("a.jsonl", line), ("a.jsonl.gz", gzip.compress(line))):
            self.write(name, data)
            self.data(name, "-o", "out")
            self.assert_documents(self.ids(), ["long"])
            shutil.rmtree(self.path / "out")
        self.write("only.jsonl", mark)
        self.refused("only.jsonl", "-o", "out", words=["no text to train on"])
        self.write("twice.jsonl", mark + line)
        self.refused("twice.jsonl", "-o", "out", words=["twice.jsonl:1:1: not valid JSON"])
        self.write("bad.jsonl", mark + b'{"text": "\xff"}')
        self.refused("bad.jsonl", "-o", "out", "--strict", words=["byte 13 is not UTF-8"])


class Files(DataTest):
    def test_headers_name_the_origin_of_the_tokens(self):
        self.write_lines("a.jsonl", [DOCUMENTS[f"medium-{i}"].decode() for i in range(6)] * 3)
        report = json.loads(self.data("a.jsonl", "-o", "out", "--json", "--shard-tokens",
                                      4000).stdout)
        digest = hashlib.blake2b((SMALL / "tokenizer.json").read_bytes(), digest_size=32).digest()
        tokens = documents_ended = text_bytes = 0
        paths = sorted((self.path / "out").glob("train_*.bin"))
        for path in paths:
            header, ids = read_shard(path)
            self.assertEqual(header[ORIGIN], int.from_bytes(b"SKEP", "little"))
            self.assertEqual(header[ORIGIN + 1:ORIGIN + 6], (1, 1, END, 0, 0))
            self.assertEqual(struct.pack("<8I", *header[80:88]), digest)
            self.assertEqual(len(ids), 4000 if path != paths[-1] else len(ids))
            tokens += len(ids)
            documents_ended += header[ORIGIN + 6]
            text_bytes += header[ORIGIN + 8]
        self.assertGreater(len(paths), 3)
        whole = sum(len(DOCUMENTS[f"medium-{i}"]) for i in range(6)) * 3
        self.assertEqual((documents_ended, text_bytes), (18, whole))
        part = {"files": len(paths), "tokens": tokens, "documents": 18, "text_bytes": whole}
        self.assertEqual(report["train"], part)
        summary = json.loads((self.path / "out" / "data.json").read_text())
        self.assertEqual(summary["train"], part)
        self.assertEqual(summary["tokenizer"], digest.hex())

    def test_a_share_of_the_lines_is_kept_for_validation(self):
        texts = [f"document number {i}" for i in range(400)]
        self.write_lines("a.jsonl", texts)
        self.data("a.jsonl", "-o", "all")
        self.data("a.jsonl", "-o", "out", "--validation", "5%")
        whole = divided(self.ids(folder="all"))
        train, kept = divided(self.ids()), divided(self.ids("validation"))
        self.assertEqual((len(train), len(kept)), (380, 20))
        self.assertEqual(sorted(train + kept), sorted(whole))
        indices = [whole.index(document) for document in kept]
        self.assertEqual([index // 20 for index in indices], list(range(20)))
        self.assertGreater(len({index % 20 for index in indices}), 5)  # not every twentieth

    def test_sections_of_a_book_are_kept_for_validation(self):
        lines = [documents.long_text(i, 12) for i in range(12000)]
        text = "".join(line.replace("\n", " ").replace("<|", "<") + "\n" for line in lines)
        self.write("book.txt", text.encode())
        report = json.loads(self.data("book.txt", "-o", "out", "--validation", "5%",
                                      "--json").stdout)
        bytes_kept = report["validation"]["text_bytes"]
        self.assertEqual(report["train"]["text_bytes"] + bytes_kept, len(text.encode()))
        self.assertAlmostEqual(bytes_kept / len(text.encode()), 0.05, delta=0.02)
        for part in ("train", "validation"):
            found = divided(self.ids(part))
            self.assertEqual(len(found), report[part]["documents"])
            self.write("ids.txt", "\n".join(map(str, found)).encode())
            decoded = self.data("--decode", "ids.txt").stdout.decode()
            position = -1
            for section in decoded.split("\n\n"):  # each ends with its last line's end
                position = text.find(section.strip("\n"), position + 1)
                self.assertGreaterEqual(position, 0)

    def test_broken_text_is_counted_located_or_rejected(self):
        self.write("good.txt", "gut für".encode())
        self.write("bad.txt", b"0123456\xff\xfe89")
        report = self.data("good.txt", "bad.txt", "-o", "out").stdout.decode()
        self.assertIn("replaced    2 ill-formed UTF-8 sequences by U+FFFD; the first in bad.txt at "
                      "byte 7", report)
        shutil.rmtree(self.path / "out")
        self.refused("good.txt", "bad.txt", "-o", "out", "--strict",
                     words=["bad.txt: byte 7 is not UTF-8; "])
        self.write("lone.jsonl", b'{"text": "a\\ud83d"}')
        self.refused("lone.jsonl", "-o", "out", "--strict", words=[
            "lone.jsonl:1:", "half of a surrogate pair is not a character; correct the escape, or "
            "leave out --strict\n"])
        self.assertEqual(list(self.path.glob("out*")), [])


class Refused(DataTest):
    def test_inputs(self):
        self.write("a.txt", b"text")
        rows = [(["nosuch.txt"], ["nosuch.txt: cannot open"]),
                (["a.parquet"], ["a.parquet", "Parquet", "docs/DATA.md"]),
                (["a.json"], ["one object a line"]),
                (["a.tar.gz"], ["an archive"]),
                (["nothing"], ["nothing: the folder contains no text files"]),
                (["a.txt", "-", "-"], ["standard input is passed twice"]),
                (["lines.jsonl"], ["lines.jsonl:2:1: the object has no field \"text\"", "--field"]),
                (["invalid.jsonl"], ["invalid.jsonl:3:10: not valid JSON"]),
                (["number.jsonl"], ["number.jsonl:1:10: the field \"text\" is not a string"]),
                (["cut.txt.gz"], ["cut.txt.gz: compressed data end too early"]),
                (["damaged.txt.gz"], ["damaged.txt.gz: compressed data are damaged"]),
                (["empty.txt"], ["no text to train on"]),
                (["a.txt", "--validation", "1%"],
                 ["--validation: the text has 1 section of 16 KiB, too few to keep 1 %; ",
                  "use text of at least "]),
                (["good.jsonl", "--validation", "1%"],
                 ["--validation: the input has 1 document, too few to keep 1 %; "]),
                (["twice.jsonl"], ["twice.jsonl:2:15: not valid JSON: the field of the text"]),
                (["nan.jsonl"], ["nan.jsonl:1:7: not valid JSON: NaN and Infinity are not"]),
                (["nested.txt.gz"],
                 ["nested.txt.gz: is compressed twice", "; decompress it once"]),
                (["a.txt", "--validation", "0.05"], ["is not from 0.001% to 50%"]),
                (["a.txt", "--document-token", "nosuch"], ["the tokenizer has no token"])]
        for name in ("a.parquet", "a.json", "a.tar.gz", "empty.txt", "nothing/a.png"):
            self.write(name, b"")
        self.write("lines.jsonl", b'{"text": "a"}\n{"txt": "b"}\n')
        self.write("invalid.jsonl", b'{"text": "a"}\n\n{"text": b"}\n')
        self.write("number.jsonl", b'{"text": 5}\n')
        self.write("good.jsonl", b'{"text": "a"}\n')
        self.write("twice.jsonl", b'{"text": "a"}\n{"text": "a", "text": "b"}\n')
        self.write("nan.jsonl", b'{"n": NaN, "text": "a"}\n')
        self.write("nested.txt.gz", gzip.compress(gzip.compress(b"text")))
        packed = gzip.compress(documents.long_text(1, 50000).encode())
        self.write("cut.txt.gz", packed[:-100])
        self.write("damaged.txt.gz", packed[:5000] + b"\0" * 100 + packed[5100:])
        for arguments, words in rows:
            with self.subTest(arguments):
                self.refused(*arguments, "-o", "out", words=words)
                self.assertFalse((self.path / "out.new").exists())

    def test_usage(self):
        self.write("a.txt", b"text")
        for arguments, word in (([], "the input is missing"), (["a.txt"], "add -o DIR"),
                                (["a.txt", "--ids", "a.txt"], "leave out IN and -o"),
                                (["--ids", "a.txt", "--decode", "a.txt"], "pass only one of them")):
            self.refused(*arguments, words=[word])

    def test_a_folder_cannot_be_in_a_file(self):
        self.write("a.txt", b"text")
        for folder in ("a.txt/out", "a.txt/b/out"):
            self.refused("a.txt", "-o", folder, words=["a.txt: is a file, so", "; choose a "])

    def test_a_folder_that_has_files_is_left_alone(self):
        self.write("a.txt", b"text")
        self.write("full/mine.txt", b"mine")
        (self.path / "empty").mkdir()
        self.data("a.txt", "-o", "full", code=2)
        self.assertEqual(self.files("full"), {"mine.txt": b"mine"})
        self.data("a.txt", "-o", "empty/")
        self.assertEqual(set(self.files("empty")), {"train_000000.bin", "data.json"})
        self.data("a.txt", "-o", "empty", code=2)

    def test_a_full_disk_is_reported_and_the_same_call_continues(self):
        self.write("long.txt", DOCUMENTS["long"])
        self.refused("long.txt", "-o", "out", code=3, prefix=["prlimit", "--fsize=100000"],
                     words=["out.new/train_000000.bin: cannot write: File too large"])
        self.data("long.txt", "-o", "out")
        self.assert_documents(self.ids(), ["long"])


class Interrupted(DataTest):
    """A call that is stopped or killed, and the same call again."""

    def start(self, *arguments, **options):
        process = subprocess.Popen([SKEP, "data", *map(str, arguments), "--model", "model"],
                                   cwd=self.path, stderr=subprocess.PIPE, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def fed(self, text, *options):
        """A call that has written tokens, and waits for more text on a pipe."""
        process = self.start("-", "-o", "out", "--threads", 1, *options, stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        process.stdin.write(text)
        process.stdin.flush()
        return process

    def unfinished_bytes(self):
        return sum(path.stat().st_size for path in (self.path / "out.new").glob("*.bin"))

    def test_a_stopped_call_continues_and_a_killed_one_too(self):
        text = b" ".join([DOCUMENTS["long"]] * 12)
        options = ("--shard-tokens", 500000, "--validation", "5%")
        self.data("-", "-o", "whole", *options, input=text)
        half = len(text) // 2
        for number in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
            process = self.fed(text[:half], *options)
            self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 500000))
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=TIMEOUT_S),
                             -number if number == signal.SIGKILL else 0)
            self.assertFalse((self.path / "out").exists())
            half += 300000
        progress = json.loads((self.path / "out.new" / "progress.json").read_text())
        self.assertGreater(progress["train"]["total"]["tokens"], 0)
        errors = self.data("-", "-o", "out", *options, input=text).stderr.decode()
        self.assertIn("continuing an interrupted call", errors)
        self.assertEqual(self.files(), self.files("whole"))

    def test_a_stop_takes_effect_between_two_files(self):
        """Of one group of batches, which would take minutes."""
        text = self.write("long.txt", b" ".join([DOCUMENTS["long"]] * 4))
        process = self.start(text, "-o", "out", "--shard-tokens", 1)
        self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 50000))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=8), 1)  # no group was complete
        self.assertFalse((self.path / "out").exists())

    def test_a_call_that_has_saved_nothing_ends_with_a_failure(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.fed(b"")
            self.assertTrue(wait_until((self.path / "out.new" / "lock").exists))
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=8), 1)
            self.assertIn("skep: out: stopped before any progress was saved; run the command "
                          "again, which starts over", process.stderr.read().decode())
            self.assertEqual(list(self.path.glob("out*")), [])

    def test_a_call_stopped_between_two_files_continues_behind_the_last_batch(self):
        text = b" ".join([DOCUMENTS["long"]] * 6)
        options = ("--shard-tokens", 5000)
        self.data("-", "-o", "whole", *options, input=text)
        process = self.fed(text, *options)
        self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 400000))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)
        errors = self.data("-", "-o", "out", *options, input=text).stderr.decode()
        self.assertIn("continuing an interrupted", errors)
        self.assertEqual(self.files(), self.files("whole"))

    def test_changed_text_starts_over(self):
        old = b" ".join([DOCUMENTS["long"]] * 8)
        new = b"changed " + old[8:]
        path = self.path / "book.txt"
        os.mkfifo(path)  # not a regular file
        self.data("book.txt", "-o", "out", code=2)
        path.unlink()
        process = self.fed(old)
        self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 100000))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), 0)
        self.assertTrue((self.path / "out.new" / "progress.json").exists())
        errors = self.refused("-", "-o", "out", input=new,
                              words=["standard input: differs from the text of the interrupted"])
        self.assertIn("run the command again", errors)
        self.data("-", "-o", "out", input=new)
        self.data("-", "-o", "whole", input=new)
        self.assertEqual(self.files(), self.files("whole"))

    def test_other_options_start_over(self):
        text = b" ".join([DOCUMENTS["long"]] * 8)
        process = self.fed(text)
        self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 100000))
        process.send_signal(signal.SIGINT)
        process.wait(timeout=TIMEOUT_S)
        errors = self.data("-", "-o", "out", "--literal", input=text).stderr.decode()
        self.assertNotIn("continuing", errors)
        self.data("-", "-o", "whole", "--literal", input=text)
        self.assertEqual(self.files(), self.files("whole"))

    def test_a_folder_has_one_writer(self):
        process = self.fed(b" ".join([DOCUMENTS["long"]] * 8))
        self.assertTrue(wait_until(lambda: self.unfinished_bytes() > 100000))
        self.write("a.txt", b"text")
        self.refused("a.txt", "-o", "out", words=["another process is writing this folder",
                                                  str(process.pid)])

    def test_a_writer_that_has_not_written_its_number_yet_is_named_without_it(self):
        self.write("a.txt", b"text")
        (self.path / "out.new").mkdir()
        with open(self.path / "out.new" / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused("a.txt", "-o", "out", words=["is writing this folder; wait for that"])


class Memory(DataTest):
    def peak_kib(self, name, *options):
        program = ("import resource, subprocess, sys\n"
                   "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        result = subprocess.run([sys.executable, "-c", program, SKEP, "data", name, "--model",
                                 "model", "-o", f"of-{name}", "--threads", "2", *options],
                                cwd=self.path, capture_output=True, text=True, check=True)
        shutil.rmtree(self.path / f"of-{name}")
        return int(result.stdout)

    def test_memory_does_not_depend_on_the_size_of_the_input(self):
        factor = 6 if not LONG else 20
        small = (documents.long_text(8, 100000) + "\n").encode()  # 0.6 MB
        times = 16 if not LONG else 170  # more than is read at a time
        with open(self.path / "small.txt", "wb") as out:
            out.write(small * times)
        with open(self.path / "large.txt", "wb") as out:
            for _ in range(factor):
                out.write(small * times)
        for options in ((), ("--validation", "1%")):
            grown = self.peak_kib("large.txt", *options) - self.peak_kib("small.txt", *options)
            self.assertLess(grown, 16 << 10)


if __name__ == "__main__":
    main()
